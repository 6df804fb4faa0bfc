//! Reads the content of the archive. Read errors are recorded in it, and never stop it.

use anyhow::{Context as _, Result, anyhow};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, ListParams, LogParams};
use kube::core::ApiResource;
use kube::discovery::{Scope, verbs};
use kube::{Client, Resource};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use super::archive::Archive;
use super::secrets;
use crate::terminal::{Look, harmless};
use crate::{describe, pages, why};

/// No request takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of each container's log: the end.
const LOG_LINES: i64 = 5000;
const LOG_BYTES: i64 = 1024 * 1024;
/// Label of the Pods of controllers, set by clusterctl and by `capstan init`.
const PROVIDER: &str = "cluster.x-k8s.io/provider";
const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";

pub(super) struct Gather {
    client: Client,
    /// `None` for all.
    namespace: Option<String>,
    /// Where to look if not everything may be listed.
    own_namespace: String,
    archive: Archive,
    /// With objects of Cluster API's or Capstan's kinds.
    namespaces: BTreeSet<String>,
    clusters: Vec<(String, String)>,
}

impl Gather {
    pub(super) fn new(client: Client, namespace: Option<String>, own: String, archive: Archive) -> Self {
        let (namespaces, clusters) = (BTreeSet::new(), vec![]);
        Self { client, namespace, own_namespace: own, archive, namespaces, clusters }
    }

    /// Gathers the whole content.
    pub(super) async fn run(mut self) -> Result<Archive> {
        self.kinds().await?;
        self.clusters().await?;
        self.secrets().await?;
        self.leases().await?;
        self.events().await?;
        self.definitions().await?;
        self.pods().await?;
        Ok(self.archive)
    }

    /// All objects of Cluster API's and Capstan's groups.
    async fn kinds(&mut self) -> Result<()> {
        print_reading("API groups");
        let client = self.client.clone();
        let groups = match timely(async { client.list_api_groups().await }).await {
            Ok(groups) => groups.groups,
            Err(error) => {
                self.archive.not_read("API groups", &error.to_string());
                return Ok(());
            }
        };
        for name in groups.into_iter().map(|group| group.name).filter(|name| is_ours(name)) {
            let found = timely(async { kube::discovery::group(&client, &name).await }).await;
            let group = match found {
                Ok(group) => group,
                Err(error) => {
                    self.archive.not_read(&format!("API group {name}"), &error.to_string());
                    continue;
                }
            };
            for (resource, capabilities) in group.recommended_resources() {
                if capabilities.supports_operation(verbs::LIST) {
                    self.kind(&resource, capabilities.scope == Scope::Namespaced).await?;
                }
            }
        }
        Ok(())
    }

    async fn kind(&mut self, resource: &ApiResource, is_namespaced: bool) -> Result<()> {
        let objects = self.list(resource, is_namespaced, ListParams::default()).await;
        for object in &objects {
            let (namespace, name) =
                (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
            if resource.kind == "Cluster" && resource.group == "cluster.x-k8s.io" {
                self.clusters.push((namespace.clone(), name));
            }
            if !namespace.is_empty() {
                self.namespaces.insert(namespace);
            }
        }
        if objects.is_empty() {
            return Ok(());
        }
        self.archive.objects(&format!("objects/{}.{}.json", resource.plural, resource.group), &objects)
    }

    /// What people would look at first.
    async fn clusters(&mut self) -> Result<()> {
        let now = Timestamp::now();
        for (namespace, name) in std::mem::take(&mut self.clusters) {
            print_reading(&format!("describe and why of Cluster {namespace}/{name}"));
            let read = describe::read(self.client.clone(), &namespace, &name);
            match tokio::time::timeout(PATIENCE, read).await.map_err(|_| late()).and_then(|found| found) {
                Err(error) => {
                    self.archive
                        .not_read(&format!("tree of Cluster {namespace}/{name}"), &format!("{error:#}"));
                }
                Ok(snapshot) => {
                    let look = Look { wide: true, ..Look::default() };
                    let folder = format!("clusters/{namespace}/{name}");
                    self.archive
                        .text(&format!("{folder}/describe.txt"), &describe::render(&snapshot, now, look))?;
                    self.archive.text(&format!("{folder}/why.txt"), &why::of_cluster(&snapshot, now))?;
                }
            }
        }
        Ok(())
    }

    /// Secrets by name, type, keys and sizes; plans by their steps.
    async fn secrets(&mut self) -> Result<()> {
        let all = self.list(&resource::<Secret>(), true, ListParams::default()).await;
        let all: Vec<Value> = all.into_iter().filter(|secret| self.is_near(secret)).collect();
        let plans: Vec<Value> = all.iter().filter_map(secrets::plan).collect();
        let summaries: Vec<Value> = all.iter().map(secrets::summary).collect();
        self.archive.objects("secrets.json", &summaries)?;
        self.archive.objects("plans.json", &plans)
    }

    async fn leases(&mut self) -> Result<()> {
        let leases = self.list(&resource::<Lease>(), true, ListParams::default()).await;
        let leases: Vec<Value> = leases.into_iter().filter(|lease| self.is_near(lease)).collect();
        self.archive.objects("leases.json", &leases)
    }

    async fn events(&mut self) -> Result<()> {
        let events = self.list(&resource::<Event>(), true, ListParams::default()).await;
        let is_about_ours = |event: &Value| {
            let group = text(&event["involvedObject"]["apiVersion"]);
            is_ours(group.split('/').next().unwrap_or_default())
        };
        let is_kept = |event: &Value| is_about_ours(event) || self.is_near(event);
        let events: Vec<Value> = events.into_iter().filter(is_kept).collect();
        self.archive.objects("events.json", &events)
    }

    /// Which versions are served and stored; their schemas are known from the version of the program.
    async fn definitions(&mut self) -> Result<()> {
        let all = self.list(&resource::<CustomResourceDefinition>(), false, ListParams::default()).await;
        let ours = all.iter().filter(|crd| is_ours(crd["spec"]["group"].as_str().unwrap_or_default()));
        let summaries = ours.map(|crd| {
            let versions = crd["spec"]["versions"].as_array().into_iter().flatten().map(|version| {
                json!({"name": version["name"], "served": version["served"], "storage": version["storage"]})
            });
            json!({
                "name": crd["metadata"]["name"],
                "labels": crd["metadata"]["labels"],
                "versions": versions.collect::<Vec<_>>(),
                "storedVersions": crd["status"]["storedVersions"],
                "conditions": crd["status"]["conditions"],
            })
        });
        self.archive.objects("crds.json", &summaries.collect::<Vec<_>>())
    }

    /// Controllers that run as Pods, with the end of what their containers have logged.
    async fn pods(&mut self) -> Result<()> {
        let pods = self.list(&resource::<Pod>(), true, ListParams::default().labels(PROVIDER)).await;
        self.archive.objects("pods.json", &pods)?;
        for pod in &pods {
            let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
            let api: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
            for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
                let container = text(&container["name"]);
                for previous in [false, true] {
                    let params = LogParams {
                        container: Some(container.clone()),
                        tail_lines: Some(LOG_LINES),
                        limit_bytes: Some(LOG_BYTES),
                        timestamps: true,
                        previous,
                        ..LogParams::default()
                    };
                    let file = format!(
                        "logs/{namespace}/{name}/{container}{}.log",
                        if previous { ".previous" } else { "" }
                    );
                    print_reading(&file);
                    match timely(async { api.logs(&name, &params).await }).await {
                        Ok(log) => self.archive.text(&file, &log)?,
                        // Usually there is no former container.
                        Err(_) if previous => {}
                        Err(error) => self.archive.not_read(&file, &error.to_string()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether an object belongs to a cluster, or is where clusters are.
    fn is_near(&self, object: &Value) -> bool {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.namespaces.contains(namespace) || object["metadata"]["labels"].get(CLUSTER_NAME).is_some()
    }

    /// All that may be read: in all namespaces, else in that of the context. Nothing, and a note, where neither is allowed.
    async fn list(&mut self, resource: &ApiResource, is_namespaced: bool, params: ListParams) -> Vec<Value> {
        let kind = match resource.group.as_str() {
            "" => resource.plural.clone(),
            group => format!("{}.{group}", resource.plural),
        };
        print_reading(&kind);
        let client = self.client.clone();
        let within =
            |namespace: &str| Api::<DynamicObject>::namespaced_with(client.clone(), namespace, resource);
        let (api, place) = match (&self.namespace, is_namespaced) {
            (Some(namespace), true) => (within(namespace), format!(" in namespace {namespace}")),
            _ => (Api::all_with(client.clone(), resource), String::new()),
        };
        let error = match timely(pages::list(&api, resource, params.clone())).await {
            Ok(objects) => return objects,
            Err(error) => error,
        };
        let is_forbidden = error.is_forbidden && is_namespaced && self.namespace.is_none();
        if !is_forbidden {
            self.archive.not_read(&format!("{kind}{place}"), &error.to_string());
            return vec![];
        }
        let own = self.own_namespace.clone();
        let only = format!("only namespace {own} was read");
        self.archive.not_read(&format!("{kind} in all namespaces"), &format!("{error}; {only}"));
        match timely(pages::list(&within(&own), resource, params)).await {
            Ok(objects) => objects,
            Err(error) => {
                self.archive.not_read(&format!("{kind} in namespace {own}"), &error.to_string());
                vec![]
            }
        }
    }
}

/// Why something could not be read.
struct Unread {
    why: String,
    is_forbidden: bool,
}

impl Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

async fn timely<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Unread> {
    match tokio::time::timeout(PATIENCE, request).await {
        Err(_) => Err(Unread { why: late().to_string(), is_forbidden: false }),
        Ok(Err(error)) => {
            let is_forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
            Err(Unread { why: format!("{:#}", anyhow!(error)), is_forbidden })
        }
        Ok(Ok(found)) => Ok(found),
    }
}

fn late() -> anyhow::Error {
    anyhow!("the server did not answer within {} s", PATIENCE.as_secs())
}

/// The version of the server. Without it, nothing can be gathered.
pub(super) async fn server_version(client: &Client) -> Result<Value> {
    let asked = timely(async { client.apiserver_version().await }).await;
    match asked {
        Ok(version) => serde_json::to_value(version).context("cannot write the version of the server"),
        Err(error) if error.is_forbidden => Ok(json!({"error": error.to_string()})),
        Err(error) => Err(anyhow!("{error}").context("cannot reach the management plane")),
    }
}

fn is_ours(group: &str) -> bool {
    let is = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    is("cluster.x-k8s.io") || is("capstan.dev")
}

fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn print_reading(what: &str) {
    eprintln!("reading {}", harmless(what));
}
