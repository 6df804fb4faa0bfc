//! The steps and the output of a demo, independent of the kind of hosts.

use anyhow::{Context, Result, bail, ensure};
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, ClusterReplicasStatus, Machine, MachineDeployment};
use capstan_api::infrastructure::{Host, HostState};
use capstan_template::Template;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::cast::Cast;
use super::screen::Screen;
use crate::{describe, terminal};

pub(super) const NAMESPACE: &str = "default";
pub(super) const CLUSTER: &str = "demo";
const TEMPLATE: &str = crate::generate::BUILT_IN;
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(super) struct Show {
    client: Client,
    cast: Cast,
    phases: Vec<(&'static str, Duration)>,
}

impl Show {
    pub(super) fn new(client: Client, cast: Cast) -> Self {
        Self { client, cast, phases: Vec::new() }
    }

    pub(super) async fn run(mut self, folder: &Path, keep: bool) -> Result<()> {
        self.phase("hosts available", Self::make_hosts).await?;
        self.phase("cluster available", Self::make_cluster).await?;
        self.print_tree().await?;

        let workload = self.workload_client(folder).await?;
        let nodes: Api<Node> = Api::all(workload.clone());
        print_nodes(&nodes).await?;
        let before = (self.machine_uids().await?, node_uids(&nodes).await?);
        if self.cast.settings.is_some() {
            self.phase("configuration changed in place", Self::change_configuration).await?;
        }
        let [old, new] = self.cast.versions.clone();
        println!("\nChanging the version in place: {old} to {new}");
        self.change_version().await?;
        let started = Instant::now();
        self.until("every node to run the new version", async || {
            let list = nodes.list(&ListParams::default()).await?;
            let old = list.iter().filter(|node| kubelet(node) != new || !is_ready(node)).count();
            Ok(if old == 0 {
                Look::Done
            } else {
                Look::NotYet(format!("{old} nodes do not run the new version yet"))
            })
        })
        .await?;
        self.until("every machine to be up to date", Self::up_to_date(&self.client)).await?;
        self.done("version changed in place", started);
        print_nodes(&nodes).await?;
        let after = (self.machine_uids().await?, node_uids(&nodes).await?);
        ensure!(before == after, "a Machine or a Node was replaced: {before:?} became {after:?}");
        println!("\nThe same {} Machines and {} Nodes as before, by UID:", after.0.len(), after.1.len());
        for (name, machine) in &after.0 {
            let uid = |uid: Option<&Option<String>>| uid.cloned().flatten().unwrap_or_default();
            println!("  {name:<34} Machine {}  Node {}", uid(Some(machine)), uid(after.1.get(name)));
        }
        if !keep {
            self.phase("cluster gone, hosts clean", Self::delete_cluster).await?;
            println!("Every host is clean and available again.");
        }
        println!("\nHow long it took:");
        for (name, took) in &self.phases {
            println!("  {name:<28} {:>6.1} s", took.as_secs_f64());
        }
        if !keep {
            println!("\nNext: `capstan demo --keep` to look around, or `capstan up` for a plane that lasts.");
        }
        Ok(())
    }

    async fn phase(&mut self, name: &'static str, work: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<()> {
        let started = Instant::now();
        work(self).await.with_context(|| format!("phase \"{name}\""))?;
        self.done(name, started);
        Ok(())
    }

    fn done(&mut self, name: &'static str, started: Instant) {
        println!("  {name}: {:.1} s", started.elapsed().as_secs_f64());
        self.phases.push((name, started.elapsed()));
    }

    async fn make_hosts(&self) -> Result<()> {
        println!("\nMaking a pool of {} {}", self.cast.hosts, self.cast.hosts_are);
        for object in &self.cast.pool {
            self.apply(object).await?;
        }
        self.until_hosts_are_available(self.cast.hosts).await
    }

    async fn make_cluster(&self) -> Result<()> {
        let Cast { servers, workers, versions: [version, _], .. } = &self.cast;
        println!(
            "\nApplying the cluster template: {servers} control plane machines, {workers} workers, {version}"
        );
        let value = |name: &str| match name {
            "CLUSTER_NAME" => Some(CLUSTER.to_owned()),
            "NAMESPACE" => Some(NAMESPACE.to_owned()),
            "KUBERNETES_VERSION" => Some(version.clone()),
            "CONTROL_PLANE_MACHINE_COUNT" => Some(servers.to_string()),
            "WORKER_MACHINE_COUNT" => Some(workers.to_string()),
            _ => None,
        };
        let endpoint = match self.cast.settings {
            Some(_) => Some(self.choose_server().await?),
            None => None,
        };
        let manifests = Template::parse(TEMPLATE)?.render(value)?;
        for document in manifests.split("\n---\n") {
            let mut object: Value = serde_saphyr::from_str(document).context("the template is not YAML")?;
            if let (Some(settings), Some(endpoint)) = (&self.cast.settings, &endpoint) {
                adapt(&mut object, settings, endpoint);
            }
            self.apply(&object).await?;
        }
        let clusters: Api<Cluster> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut screen = Screen::of_stdout();
        self.until("the cluster to be available", async || {
            let cluster = clusters.get(CLUSTER).await?;
            let snapshot = describe::read(self.client.clone(), NAMESPACE, CLUSTER).await?;
            screen.show(&snapshot);
            let available = capstan_api::conditions::get(&cluster, "Available");
            Ok(match available {
                Some(condition) if condition.status == capstan_api::conditions::ConditionStatus::True => {
                    // A control plane is available before the last of its machines is there.
                    match ready_machines(&cluster) {
                        ready if ready == (*servers, *workers) => Look::Done,
                        (ready_servers, ready_workers) => Look::NotYet(format!(
                            "{ready_servers} of {servers} servers and {ready_workers} of {workers} workers are ready"
                        )),
                    }
                }
                Some(condition) => Look::NotYet(condition.message.clone()),
                None => Look::NotYet("the Cluster has no condition Available yet".to_owned()),
            })
        })
        .await
    }

    /// Says which of the hosts will be the server, by a label, and where it will be reached.
    async fn choose_server(&self) -> Result<String> {
        let hosts: Api<Host> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut server = None;
        for host in hosts.list(&ListParams::default()).await? {
            let address = host.spec.ssh.as_ref().map(|ssh| ssh.address.clone());
            let role = if server.is_none() { "server" } else { "worker" };
            server = server.or(address);
            let label = json!({"metadata": {"labels": {"role": role}}});
            hosts.patch(&host.name_any(), &PatchParams::default(), &Patch::Merge(label)).await?;
        }
        server.context("no host has an address")
    }

    /// A setting that only a restart of Kubernetes brings into force, on every machine.
    async fn change_configuration(&self) -> Result<()> {
        println!("\nChanging the configuration in place: k3s logs more (debug: true)");
        let patch = json!({"spec": {"config": {"settings": {"debug": true}}}});
        self.change_control_plane(patch).await?;
        self.until("every machine to be up to date", Self::up_to_date(&self.client)).await
    }

    async fn change_control_plane(&self, patch: Value) -> Result<()> {
        let control_planes: Api<CapstanControlPlane> = Api::namespaced(self.client.clone(), NAMESPACE);
        let name = format!("{CLUSTER}-control-plane");
        let changed = control_planes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        self.until("the change to be seen", async || {
            let status = control_planes.get(&name).await?.status.unwrap_or_default();
            Ok(if status.observed_generation >= changed.metadata.generation {
                Look::Done
            } else {
                Look::NotYet("the control plane has not been looked at".to_owned())
            })
        })
        .await
    }

    /// Looks whether every Machine says that it is what it should be.
    fn up_to_date(client: &Client) -> impl AsyncFnMut() -> Result<Look> {
        let machines: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
        async move || {
            for machine in machines.list(&ListParams::default()).await? {
                for wanted in ["UpToDate", "Ready"] {
                    let condition = capstan_api::conditions::get(&machine, wanted);
                    if condition.is_none_or(|condition| {
                        condition.status != capstan_api::conditions::ConditionStatus::True
                    }) {
                        let why = condition.map(|condition| condition.message.clone()).unwrap_or_default();
                        return Ok(Look::NotYet(format!("{} is not {wanted}: {why}", machine.name_any())));
                    }
                }
            }
            Ok(Look::Done)
        }
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &kind);
        let name = text("/metadata/name");
        api.patch(name, &apply(), &Patch::Apply(object))
            .await
            .with_context(|| format!("cannot apply {} {name}", text("/kind")))?;
        Ok(())
    }

    async fn change_version(&self) -> Result<()> {
        let version = &self.cast.versions[1];
        self.change_control_plane(json!({"spec": {"version": version}})).await?;
        let deployments: Api<MachineDeployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = json!({"spec": {"template": {"spec": {"version": version}}}});
        let name = format!("{CLUSTER}-workers");
        deployments.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn delete_cluster(&self) -> Result<()> {
        println!("\nDeleting the cluster");
        let clusters: Api<Cluster> = Api::namespaced(self.client.clone(), NAMESPACE);
        clusters.delete(CLUSTER, &kube::api::DeleteParams::default()).await?;
        self.until("the cluster to be gone", async || {
            Ok(match clusters.get_opt(CLUSTER).await? {
                None => Look::Done,
                Some(_) => Look::NotYet("it is still there".to_owned()),
            })
        })
        .await?;
        self.until_hosts_are_available(self.cast.hosts).await
    }

    async fn until_hosts_are_available(&self, wanted: usize) -> Result<()> {
        let hosts: Api<Host> = Api::namespaced(self.client.clone(), NAMESPACE);
        self.until("the hosts to be available", async || {
            let list = hosts.list(&ListParams::default()).await?;
            let is_available = |host: &&Host| {
                host.status.as_ref().and_then(|status| status.state) == Some(HostState::Available)
            };
            let available = list.iter().filter(is_available).count();
            Ok(if available == wanted {
                Look::Done
            } else {
                Look::NotYet(format!("{available} of {wanted} are"))
            })
        })
        .await
    }

    /// Looks until it is done, and says what it last saw when it takes too long.
    async fn until(&self, what: &str, mut look: impl AsyncFnMut() -> Result<Look>) -> Result<()> {
        let (started, deadline) = (Instant::now(), self.cast.deadline);
        loop {
            // A cluster with one server is away for a moment while that is changed.
            match look().await.unwrap_or_else(|error| Look::NotYet(format!("{error:#}"))) {
                Look::Done => return Ok(()),
                Look::NotYet(seen) if started.elapsed() > deadline => {
                    bail!("waited {} s for {what}: {seen}", deadline.as_secs())
                }
                Look::NotYet(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }

    async fn workload_client(&self, folder: &Path) -> Result<Client> {
        let kubeconfig = crate::get::kubeconfig::read(&self.client, NAMESPACE, CLUSTER).await?;
        let path = folder.join("workload.kubeconfig");
        std::fs::write(&path, kubeconfig).with_context(|| format!("cannot write {}", path.display()))?;
        println!("\nThe workload cluster, through its kubeconfig ({}):", path.display());
        crate::client::connect(&path).await
    }

    async fn machine_uids(&self) -> Result<BTreeMap<String, Option<String>>> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), NAMESPACE);
        let list = machines.list(&ListParams::default()).await?;
        Ok(list.iter().map(|machine| (machine.name_any(), machine.uid())).collect())
    }

    async fn print_tree(&self) -> Result<()> {
        let snapshot = describe::read(self.client.clone(), NAMESPACE, CLUSTER).await?;
        print!("\n{}", describe::render(&snapshot, Timestamp::now(), terminal::Look::of_stdout(None, false)));
        Ok(())
    }
}

/// How many servers and workers are ready, as core counts them.
fn ready_machines(cluster: &Cluster) -> (i32, i32) {
    let status = cluster.status.as_ref();
    let ready = |counts: Option<&ClusterReplicasStatus>| counts.and_then(|c| c.ready_replicas).unwrap_or(0);
    (
        ready(status.and_then(|status| status.control_plane.as_ref())),
        ready(status.and_then(|status| status.workers.as_ref())),
    )
}

fn apply() -> PatchParams {
    PatchParams::apply("capstan-demo").force()
}

async fn node_uids(nodes: &Api<Node>) -> Result<BTreeMap<String, Option<String>>> {
    let list = nodes.list(&ListParams::default()).await?;
    Ok(list.iter().map(|node| (node.name_any(), node.uid())).collect())
}

/// Makes an object of the template fit for real machines: the only server is a certain host, and k3s is told more.
fn adapt(object: &mut Value, settings: &Value, server: &str) {
    let role = |object: &Value| match object["metadata"]["name"].as_str() {
        Some(name) if name.ends_with("-workers") => "worker",
        _ => "server",
    };
    match object["kind"].as_str() {
        Some("HostCluster") => {
            object["spec"]["controlPlaneEndpoint"] = json!({"host": server, "port": 6443});
        }
        Some("CapstanControlPlane") => object["spec"]["config"]["settings"] = settings.clone(),
        Some("HostMachineTemplate") => {
            let selector = json!({"matchLabels": {"role": role(object)}});
            object["spec"]["template"]["spec"]["hostSelector"] = selector;
        }
        _ => {}
    }
}

/// As `kubectl get nodes` prints them.
async fn print_nodes(nodes: &Api<Node>) -> Result<()> {
    println!("  {:<34} {:<9} VERSION", "NAME", "STATUS");
    for node in nodes.list(&ListParams::default()).await? {
        let status = if is_ready(&node) { "Ready" } else { "NotReady" };
        println!("  {:<34} {status:<9} {}", node.name_any(), kubelet(&node));
    }
    Ok(())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn kubelet(node: &Node) -> &str {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.map_or("?", |info| info.kubelet_version.as_str())
}

/// What a look at something found.
enum Look {
    Done,
    NotYet(String),
}
