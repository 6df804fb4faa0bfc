//! `capstan demo`: the main job, on simulated hosts, from nothing to nothing.

#![allow(clippy::print_stdout, reason = "a demo talks")]

mod screen;

use anyhow::{Context, Result, bail, ensure};
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, ClusterReplicasStatus, Machine, MachineDeployment};
use capstan_api::infrastructure::{Host, HostPool, HostState};
use capstan_artifacts::Software;
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

use crate::args::DemoArgs;
use crate::controllers::{self, Selection, Surroundings};
use crate::extensions::Extensions;
use crate::stop;
use crate::up::Plane;
use crate::{describe, install, log};
use screen::Screen;

const NAMESPACE: &str = "default";
const CLUSTER: &str = "demo";
const BEFORE: &str = "v1.36.0+k3s1";
const AFTER: &str = "v1.36.1+k3s1";
const TEMPLATE: &str = crate::generate::BUILT_IN;
/// No phase takes longer than this, unless something is wrong.
const DEADLINE: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub(crate) async fn run(args: &DemoArgs) -> Result<()> {
    if std::env::var_os("RUST_LOG").is_some() {
        log::to_stderr();
    }
    let interrupted = stop::on_signal()?;
    let folder = tempfile::Builder::new().prefix("capstan-demo-").tempdir().context("no temporary folder")?;
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let stop = stop::when(async { _ = finished.await });

    let plane = Plane::start(folder.path(), ([127, 0, 0, 1], 0).into(), None).await?;
    let kubeconfig = folder.path().join("admin.kubeconfig");
    plane.write_kubeconfig(&kubeconfig)?;
    install::crds(&plane.client).await?;
    let around = Surroundings {
        client: plane.client.clone(),
        plane: plane.seen_by_machines(),
        // Simulated machines have their agent already.
        software: Software::default(),
        folder: folder.path().to_owned(),
        extensions: Extensions::default(),
    };
    let running = controllers::start(&Selection::all(), &around, &stop).await?;
    println!(
        "Management plane up: https://{} (API server, store and controllers in this process)",
        plane.address
    );

    let show = Show { client: plane.client.clone(), phases: Vec::new() };
    let outcome = tokio::select! {
        outcome = show.run(folder.path(), args.keep) => outcome,
        () = interrupted.clone() => Err(anyhow::anyhow!("interrupted; everything is being removed")),
    };
    if args.keep && outcome.is_ok() {
        println!("\nIt stays up until Ctrl-C. In another terminal:");
        println!("  export KUBECONFIG={}", kubeconfig.display());
        println!("  capstan describe cluster {CLUSTER}");
        interrupted.await;
    }
    // Nobody listening any more means that they have stopped already.
    _ = finish.send(());
    running.ended().await;
    plane.shutdown().await;
    outcome
}

struct Show {
    client: Client,
    phases: Vec<(&'static str, Duration)>,
}

impl Show {
    async fn run(mut self, folder: &Path, keep: bool) -> Result<()> {
        self.phase("hosts available", Self::make_hosts).await?;
        self.phase("cluster available", Self::make_cluster).await?;
        self.print_tree().await?;

        let workload = self.workload_client(folder).await?;
        let nodes: Api<Node> = Api::all(workload.clone());
        print_nodes(&nodes).await?;
        let before = (self.machine_uids().await?, node_uids(&nodes).await?);
        println!("\nChanging the version in place: {BEFORE} to {AFTER}");
        self.change_version().await?;
        let started = Instant::now();
        until("every node to run the new version", async || {
            let list = nodes.list(&ListParams::default()).await?;
            let old = list.iter().filter(|node| kubelet(node) != AFTER).count();
            Ok(if old == 0 { Look::Done } else { Look::NotYet(format!("{old} nodes run the old version")) })
        })
        .await?;
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
        println!("\nMaking a pool of seven simulated hosts");
        let pools: Api<HostPool> = Api::namespaced(self.client.clone(), NAMESPACE);
        let pool = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool",
            "metadata": {"name": "simulated"},
            "spec": {"replicas": 7, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 10}},
        });
        pools.patch("simulated", &apply(), &Patch::Apply(pool)).await.context("cannot make the pool")?;
        self.until_hosts_are_available(7).await
    }

    async fn make_cluster(&self) -> Result<()> {
        println!("\nApplying the cluster template: 3 control plane machines, 3 workers, {BEFORE}");
        let value = |name: &str| {
            let value = match name {
                "CLUSTER_NAME" => CLUSTER,
                "NAMESPACE" => NAMESPACE,
                "KUBERNETES_VERSION" => BEFORE,
                "CONTROL_PLANE_MACHINE_COUNT" | "WORKER_MACHINE_COUNT" => "3",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let manifests = Template::parse(TEMPLATE)?.render(value)?;
        for document in manifests.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(document).context("the template is not YAML")?;
            self.apply(&object).await?;
        }
        let clusters: Api<Cluster> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut screen = Screen::of_stdout();
        until("the cluster to be available", async || {
            let cluster = clusters.get(CLUSTER).await?;
            let snapshot = describe::read(self.client.clone(), NAMESPACE, CLUSTER).await?;
            screen.show(&snapshot);
            let available = capstan_api::conditions::get(&cluster, "Available");
            Ok(match available {
                Some(condition) if condition.status == capstan_api::conditions::ConditionStatus::True => {
                    // A control plane is available before the last of its machines is there.
                    match ready_machines(&cluster) {
                        (3, 3) => Look::Done,
                        (servers, workers) => Look::NotYet(format!(
                            "{servers} of 3 servers and {workers} of 3 workers are ready"
                        )),
                    }
                }
                Some(condition) => Look::NotYet(condition.message.clone()),
                None => Look::NotYet("nobody has said anything yet".to_owned()),
            })
        })
        .await
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
        let control_planes: Api<CapstanControlPlane> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = json!({"spec": {"version": AFTER}});
        let name = format!("{CLUSTER}-control-plane");
        control_planes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        let deployments: Api<MachineDeployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = json!({"spec": {"template": {"spec": {"version": AFTER}}}});
        let name = format!("{CLUSTER}-workers");
        deployments.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn delete_cluster(&self) -> Result<()> {
        println!("\nDeleting the cluster");
        let clusters: Api<Cluster> = Api::namespaced(self.client.clone(), NAMESPACE);
        clusters.delete(CLUSTER, &kube::api::DeleteParams::default()).await?;
        until("the cluster to be gone", async || {
            Ok(match clusters.get_opt(CLUSTER).await? {
                None => Look::Done,
                Some(_) => Look::NotYet("it is still there".to_owned()),
            })
        })
        .await?;
        self.until_hosts_are_available(7).await
    }

    async fn until_hosts_are_available(&self, wanted: usize) -> Result<()> {
        let hosts: Api<Host> = Api::namespaced(self.client.clone(), NAMESPACE);
        until("the hosts to be available", async || {
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

    async fn workload_client(&self, folder: &Path) -> Result<Client> {
        let kubeconfig = crate::kubeconfig::read(&self.client, NAMESPACE, CLUSTER).await?;
        let path = folder.join("workload.kubeconfig");
        std::fs::write(&path, kubeconfig).with_context(|| format!("cannot write {}", path.display()))?;
        println!("\nThe workload cluster, through its kubeconfig ({}):", path.display());
        crate::client::connect(Some(&path)).await
    }

    async fn machine_uids(&self) -> Result<BTreeMap<String, Option<String>>> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), NAMESPACE);
        let list = machines.list(&ListParams::default()).await?;
        Ok(list.iter().map(|machine| (machine.name_any(), machine.uid())).collect())
    }

    async fn print_tree(&self) -> Result<()> {
        let snapshot = describe::read(self.client.clone(), NAMESPACE, CLUSTER).await?;
        print!("\n{}", describe::render(&snapshot, Timestamp::now()));
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

/// As `kubectl get nodes` prints them.
async fn print_nodes(nodes: &Api<Node>) -> Result<()> {
    println!("  {:<34} {:<9} VERSION", "NAME", "STATUS");
    for node in nodes.list(&ListParams::default()).await? {
        let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
        let is_ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
        let status = if is_ready { "Ready" } else { "NotReady" };
        println!("  {:<34} {status:<9} {}", node.name_any(), kubelet(&node));
    }
    Ok(())
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

/// Looks until it is done, and says what it last saw when it takes too long.
async fn until(what: &str, mut look: impl AsyncFnMut() -> Result<Look>) -> Result<()> {
    let started = Instant::now();
    loop {
        match look().await? {
            Look::Done => return Ok(()),
            Look::NotYet(seen) if started.elapsed() > DEADLINE => {
                bail!("waited {} s for {what}: {seen}", DEADLINE.as_secs())
            }
            Look::NotYet(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}
