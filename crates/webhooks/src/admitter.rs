//! Admission of one write: reads the facts that the decision needs, and asks for the decision.

use capstan_admission::{
    Fact, Facts, Key, Kind, Needs, Operation, Rejection, Workers, Write, default, is_reconciled,
    needs_of_default, needs_of_validate, validate,
};
use capstan_api::core::Cluster;
use capstan_api::meta::labels;
use capstan_controller::error::chain;
use capstan_controller::external::resource_of;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// The label of everything that a topology owns.
const OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// How long a new Cluster waits for its ClusterClass, which users create together with it.
const PATIENCE: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(200);

/// Admits writes, with facts from a management plane.
#[derive(Clone)]
pub struct Admitter {
    client: Client,
}

impl Admitter {
    /// Reads facts with this client.
    pub const fn new(client: Client) -> Self {
        Self { client }
    }

    /// The object with its defaults, if that changes it, and warnings.
    ///
    /// # Errors
    /// If the write is rejected.
    pub async fn default(&self, write: &Write<'_>) -> Result<(Option<Value>, Vec<String>), Rejection> {
        let mut needs = needs_of_default(write);
        let class = match needs.class.take() {
            Some(class) if write.operation == Operation::Create => self.awaited_class(&class).await,
            Some(class) => self.object(Kind::ClusterClass, &class).await,
            None => Fact::default(),
        };
        default(write, &Facts { class, ..self.facts(&needs).await })
    }

    /// Warnings about a write.
    ///
    /// # Errors
    /// If the write is rejected.
    pub async fn validate(&self, write: &Write<'_>) -> Result<Vec<String>, Rejection> {
        validate(write, &self.facts(&needs_of_validate(write)).await)
    }

    async fn facts(&self, needs: &Needs) -> Facts {
        let mut facts = Facts::default();
        if let Some(class) = &needs.class {
            facts.class = self.object(Kind::ClusterClass, class).await;
        }
        if let Some(class) = &needs.old_class {
            facts.old_class = self.object(Kind::ClusterClass, class).await;
        }
        if let Some(class) = &needs.clusters_of {
            facts.clusters = self.clusters_of(class).await;
        }
        if let Some(reference) = &needs.control_plane {
            facts.control_plane = match resource_of(&self.client, &reference.group, &reference.kind).await {
                Ok(resource) => self.object_of(&resource, &reference.key).await,
                Err(error) => Fact::Unknown(chain(&error)),
            };
        }
        if let Some(cluster) = &needs.workers_of {
            facts.workers = self.workers_of(cluster).await;
        }
        if let Some(claim) = &needs.claim {
            facts.claim = self.object_of(&resource(IPAM, "IPAddressClaim"), claim).await;
        }
        facts
    }

    /// A ClusterClass that is reconciled, if that comes true soon.
    async fn awaited_class(&self, class: &Key) -> Fact<Value> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.object(Kind::ClusterClass, class).await;
            let is_good = found.known().is_some_and(is_reconciled);
            if is_good || matches!(found, Fact::Unknown(_)) || Instant::now() + INTERVAL > deadline {
                return found;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn object(&self, kind: Kind, key: &Key) -> Fact<Value> {
        self.object_of(&resource(kind.group(), kind.name()), key).await
    }

    async fn object_of(&self, resource: &ApiResource, key: &Key) -> Fact<Value> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, resource);
        match api.get_opt(&key.name).await {
            Ok(Some(object)) => Fact::Known(json!(object)),
            Ok(None) => Fact::Absent,
            Err(error) => Fact::Unknown(chain(&error)),
        }
    }

    async fn clusters_of(&self, class: &Key) -> Fact<Vec<Value>> {
        let api: Api<Cluster> = Api::all(self.client.clone());
        let clusters = match api.list(&ListParams::default()).await {
            Ok(clusters) => clusters.items,
            Err(error) => return Fact::Unknown(chain(&error)),
        };
        let uses = |cluster: &Cluster| {
            let namespace = cluster.metadata.namespace.as_deref();
            let reference = cluster.spec.topology.as_ref().map(|topology| &topology.class_ref);
            reference.is_some_and(|reference| {
                let of = reference.namespace.as_deref().or(namespace);
                reference.name == class.name && of == Some(class.namespace.as_str())
            })
        };
        Fact::Known(clusters.iter().filter(|cluster| uses(cluster)).map(|cluster| json!(cluster)).collect())
    }

    async fn workers_of(&self, cluster: &Key) -> Fact<Workers> {
        let of_cluster = format!("{}={}", labels::CLUSTER_NAME, cluster.name);
        let owned = format!("{of_cluster},{OWNED}=");
        let list = async |kind: Kind, selector: &str| {
            let api = Api::<DynamicObject>::namespaced_with(
                self.client.clone(),
                &cluster.namespace,
                &resource(kind.group(), kind.name()),
            );
            let listed = api.list(&ListParams::default().labels(selector)).await;
            listed.map(|listed| listed.items.iter().map(|object| json!(object)).collect::<Vec<Value>>())
        };
        let all = async {
            Ok::<_, kube::Error>(Workers {
                deployments: list(Kind::MachineDeployment, &owned).await?,
                pools: list(Kind::MachinePool, &owned).await?,
                machines: list(Kind::Machine, &of_cluster).await?,
            })
        };
        all.await.map_or_else(|error| Fact::Unknown(chain(&error)), Fact::Known)
    }
}

const IPAM: &str = "ipam.cluster.x-k8s.io";

fn resource(group: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, capstan_admission::kind::VERSION, kind))
}
