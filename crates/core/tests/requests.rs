//! What core asks the API server for although it watches everything: on the embedded plane, with every request noted. A
//! live read comes before something is created or deleted, and nowhere else.

#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod common {
    #![allow(dead_code, reason = "every suite uses a part of it")]

    pub(crate) const NAMESPACE: &str = "default";

    #[path = "../common/provider.rs"]
    pub(crate) mod provider;
}

use anyhow::{Context as _, Result, ensure};
use capstan_api::conditions::get;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::runtime::ExtensionConfig;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_core::{Core, cluster, machine, machinedeployment, machineset};
use capstan_testkit::{eventually, install_crds};
use common::NAMESPACE;
use common::provider::{GROUP_VERSION, object, reference};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::{Method, Request, Response, Uri};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const OLD: &str = "v1.35.0";
const NEW: &str = "v1.36.1";

/// The way of core to the API server.
#[derive(Clone, Default)]
struct Wire {
    requests: Arc<Mutex<Vec<(Method, Uri)>>>,
    /// The plural of a kind whose watch brings nothing after the first list.
    deaf: Option<&'static str>,
    /// So many responses to writes of Machines are lost.
    lost: Arc<AtomicUsize>,
}

impl Wire {
    fn client(&self, inner: &Client) -> Client {
        let (wire, inner) = (self.clone(), inner.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (wire, inner) = (wire.clone(), inner.clone());
            async move { wire.pass(&inner, request).await }
        });
        Client::new(service, NAMESPACE)
    }

    async fn pass(&self, client: &Client, request: Request<Body>) -> Result<Response<Body>, tower::BoxError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        self.requests.lock().expect("nobody panics").push((method.clone(), uri.clone()));
        if is_watch(&uri) && self.deaf.is_some_and(|plural| uri.path().ends_with(plural)) {
            std::future::pending::<()>().await;
        }
        let response = client.send(request).await?;
        let is_machine = method == Method::PATCH && uri.path().contains("/machines/");
        let take = |left: usize| left.checked_sub(1);
        if is_machine && self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            return Err("the connection was reset".into());
        }
        Ok(response)
    }
}

fn is_watch(uri: &Uri) -> bool {
    uri.query().unwrap_or_default().split('&').any(|word| word == "watch=true")
}

/// Requests since the last look. Caches list a kind in all namespaces, so that theirs are not among those in one.
struct Noted(Vec<(Method, Uri)>);

impl Noted {
    fn lists(&self, plural: &str) -> usize {
        let end = format!("/namespaces/{NAMESPACE}/{plural}");
        self.count(|method, uri| method == Method::GET && uri.path().ends_with(&end) && !is_watch(uri))
    }

    fn lists_everywhere(&self, plural: &str) -> usize {
        let end = format!("/{plural}");
        self.count(|method, uri| method == Method::GET && uri.path().ends_with(&end) && !is_watch(uri))
    }

    fn deletions(&self, plural: &str) -> usize {
        let middle = format!("/{plural}/");
        self.count(|method, uri| method == Method::DELETE && uri.path().contains(&middle))
    }

    fn count(&self, counts: impl Fn(&Method, &Uri) -> bool) -> usize {
        self.0.iter().filter(|(method, uri)| counts(method, uri)).count()
    }
}

type Stopped = Shared<BoxFuture<'static, ()>>;

/// The embedded plane with a Cluster and templates, and some of core's controllers.
struct Stage {
    client: Client,
    core: Core,
    wire: Wire,
    stop: oneshot::Sender<()>,
    running: JoinSet<()>,
    server: Arc<ApiServer>,
}

impl Stage {
    async fn start(
        wire: Wire,
        run: impl FnOnce(&Core, &Stopped) -> Vec<BoxFuture<'static, ()>>,
    ) -> Result<Self> {
        let server = ApiServer::open(Options::new(Storage::Memory)).await?;
        let client = Client::new(server.service(User::admin()), NAMESPACE);
        install_crds(&client, &capstan_api::crd::core_provider()).await?;
        common::provider::install(&client).await?;
        let core = Core::new(wire.client(&client));
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped: BoxFuture<'static, ()> = stopped.map(|_| ()).boxed();
        let stopped = stopped.shared();
        let mut running = JoinSet::new();
        for controller in run(&core, &stopped) {
            running.spawn(controller);
        }
        let stage = Self { client, core, wire, stop, running, server };
        stage
            .create(json!({
                "apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "demo", "namespace": NAMESPACE},
                "spec": {"infrastructureRef": reference("TestCluster", "demo")},
            }))
            .await?;
        for kind in ["TestMachineTemplate", "TestConfigTemplate"] {
            stage
                .create(json!({
                    "apiVersion": GROUP_VERSION, "kind": kind, "metadata": {"name": "t", "namespace": NAMESPACE},
                    "spec": {"template": {"spec": {"size": "large"}}},
                }))
                .await?;
        }
        Ok(stage)
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn played(&self, kind: &str) -> Api<DynamicObject> {
        untyped(&self.client, GROUP_VERSION, kind)
    }

    async fn create(&self, object: Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().context("a text").map(str::to_owned);
        let api = untyped(&self.client, &text("apiVersion")?, &text("kind")?);
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.context("cannot create")?;
        Ok(())
    }

    /// The requests of core since the last call.
    fn noted(&self) -> Noted {
        Noted(std::mem::take(&mut *self.wire.requests.lock().expect("nobody panics")))
    }

    async fn machines(&self) -> Result<Vec<Machine>> {
        Ok(self.api::<Machine>().list(&ListParams::default()).await?.items)
    }

    async fn until_machines(&self, what: &str, holds: impl Fn(&[Machine]) -> bool) -> Result<Vec<Machine>> {
        eventually(PATIENCE, what, async || {
            let machines = self.machines().await?;
            ensure!(
                holds(&machines),
                "{:?}",
                machines.iter().map(|m| m.metadata.clone()).collect::<Vec<_>>()
            );
            Ok(machines)
        })
        .await
    }

    /// Makes Machines the owners of what was cloned for them, as their controller would.
    async fn take_over(&self) -> Result<()> {
        for machine in self.machines().await? {
            let (name, uid) = (machine.name_any(), machine.uid());
            let owners = json!([{"apiVersion": CORE, "kind": "Machine", "name": name, "uid": uid}]);
            let patch = json!({"metadata": {"ownerReferences": owners}});
            for kind in ["TestMachine", "TestConfig"] {
                self.played(kind).patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
        }
        Ok(())
    }

    /// Waits until the MachineSet `ms` counts so many Machines.
    async fn until_counted(&self, replicas: i32) -> Result<()> {
        eventually(PATIENCE, &format!("{replicas} Machines to be counted"), async || {
            let status = self.api::<MachineSet>().get("ms").await?.status.unwrap_or_default();
            ensure!(status.replicas == Some(replicas), "{:?}", status.replicas);
            Ok(())
        })
        .await
    }

    /// Changes a label that is handed down to Machines, and waits until that is done: a reconcile that neither creates
    /// nor deletes.
    async fn change_template(&self, number: usize) -> Result<()> {
        let label = json!({"spec": {"template": {"metadata": {"labels": {"turn": number.to_string()}}}}});
        let changed =
            self.api::<MachineSet>().patch("ms", &PatchParams::default(), &Patch::Merge(&label)).await?;
        eventually(PATIENCE, "the label to be handed down", async || {
            let set = self.api::<MachineSet>().get("ms").await?;
            let observed = set.status.unwrap_or_default().observed_generation;
            ensure!(observed >= changed.metadata.generation, "{observed:?}");
            let turned = |machine: &Machine| machine.labels().get("turn") == Some(&number.to_string());
            let alive = |machine: &Machine| machine.metadata.deletion_timestamp.is_none();
            ensure!(
                self.machines().await?.iter().all(|machine| turned(machine) || !alive(machine)),
                "not all"
            );
            Ok(())
        })
        .await
    }

    /// Removes the finalizers of an object.
    async fn release(&self, api: &Api<DynamicObject>, name: &str) -> Result<()> {
        eventually(PATIENCE, &format!("{name} to be deleted"), async || {
            ensure!(api.get(name).await?.metadata.deletion_timestamp.is_some(), "it is not");
            Ok(())
        })
        .await?;
        let patch = json!({"metadata": {"finalizers": null}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    async fn until_gone<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        eventually(PATIENCE, &format!("{name} to be gone"), async || {
            ensure!(self.api::<K>().get_opt(name).await?.is_none(), "it is there");
            Ok(())
        })
        .await
    }

    async fn end(mut self) {
        drop(self.stop);
        self.running.shutdown().await;
        self.server.shutdown().await;
    }
}

fn untyped(client: &Client, group_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

fn template() -> Value {
    json!({"metadata": {"labels": {"pool": "a"}}, "spec": {
        "clusterName": "demo", "version": OLD,
        "bootstrap": {"configRef": reference("TestConfigTemplate", "t")},
        "infrastructureRef": reference("TestMachineTemplate", "t"),
    }})
}

fn workers(kind: &str, name: &str, replicas: i32) -> Value {
    json!({
        "apiVersion": CORE, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"clusterName": "demo", "replicas": replicas, "selector": {}, "template": template()},
    })
}

fn only_sets(core: &Core, stopped: &Stopped) -> Vec<BoxFuture<'static, ()>> {
    vec![machineset::run(core.clone(), stopped.clone()).boxed()]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_lists_machines_once_before_it_makes_or_deletes_some() -> Result<()> {
    let stage = Stage::start(Wire::default(), only_sets).await?;
    stage.create(workers("MachineSet", "ms", 3)).await?;
    stage.until_counted(3).await?;
    stage.take_over().await?;
    for number in 1..=2 {
        stage.change_template(number).await?;
    }
    assert_eq!(stage.machines().await?.len(), 3);
    assert_eq!(stage.noted().lists("machines"), 1, "from none to three");

    let sets = stage.api::<MachineSet>();
    let fewer = json!({"spec": {"replicas": 2}});
    sets.patch("ms", &PatchParams::default(), &Patch::Merge(&fewer)).await?;
    let is_going = |machine: &&Machine| machine.metadata.deletion_timestamp.is_some();
    let all = stage
        .until_machines("one to be deleted", |machines| machines.iter().filter(is_going).count() == 1)
        .await?;
    // While it goes, nothing is to be done.
    for number in 3..=5 {
        stage.change_template(number).await?;
    }
    let going = all.iter().find(is_going).context("one is going")?.name_any();
    stage.release(&untyped(&stage.client, CORE, "Machine"), &going).await?;
    stage.until_counted(2).await?;
    let noted = stage.noted();
    assert_eq!((noted.lists("machines"), noted.deletions("machines")), (1, 1), "from three to two");

    sets.delete("ms", &DeleteParams::default()).await?;
    let left =
        stage.until_machines("all to be deleted", |machines| machines.iter().all(|m| is_going(&m))).await?;
    for (machine, counted) in left.iter().zip([Some(1), None]) {
        stage.release(&untyped(&stage.client, CORE, "Machine"), &machine.name_any()).await?;
        match counted {
            Some(counted) => stage.until_counted(counted).await?,
            None => stage.until_gone::<MachineSet>("ms").await?,
        }
    }
    let noted = stage.noted();
    // Before the first is deleted, and before the MachineSet goes.
    assert_eq!((noted.lists("machines"), noted.deletions("machines")), (2, 2), "the end");
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_creation_was_not_answered_is_neither_made_again_nor_stripped() -> Result<()> {
    // The cache is told of nothing but what was answered.
    let wire = Wire { deaf: Some("/machines"), ..Wire::default() };
    wire.lost.store(1, Ordering::SeqCst);
    let stage = Stage::start(wire, only_sets).await?;
    stage.create(workers("MachineSet", "ms", 3)).await?;
    stage.until_counted(3).await?;
    assert_eq!(stage.wire.lost.load(Ordering::SeqCst), 0, "nothing was lost");
    let machines = stage.machines().await?;
    assert_eq!(machines.len(), 3);
    for kind in ["TestMachine", "TestConfig"] {
        let mut clones: Vec<String> = stage
            .played(kind)
            .list(&ListParams::default())
            .await?
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect();
        clones.sort();
        assert_eq!(clones, machines.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), "{kind}");
    }
    stage.end().await;
    Ok(())
}

/// A MachineDeployment with two Machines that are available.
async fn deployed(wire: Wire) -> Result<Stage> {
    let stage = Stage::start(wire, |core, stopped| {
        vec![
            machineset::run(core.clone(), stopped.clone()).boxed(),
            machinedeployment::run(core.clone(), stopped.clone()).boxed(),
        ]
    })
    .await?;
    stage.core.caches.of_cluster_scoped::<ExtensionConfig>().all().await?;
    stage.create(workers("MachineDeployment", "md", 2)).await?;
    let machines = stage.until_machines("two Machines", |machines| machines.len() == 2).await?;
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "Played", "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z"})
    };
    let conditions = ["Ready", "Available", "UpToDate"].map(condition);
    for machine in machines {
        let status = json!({"status": {"nodeRef": {"name": machine.name_any()}, "conditions": conditions}});
        let api = stage.api::<Machine>();
        api.patch_status(&machine.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await?;
    }
    eventually(PATIENCE, "two available Machines", async || {
        let status = stage.api::<MachineDeployment>().get("md").await?.status.unwrap_or_default();
        ensure!(status.available_replicas == Some(2), "{:?}", status.available_replicas);
        Ok(())
    })
    .await?;
    Ok(stage)
}

async fn change(stage: &Stage, patch: &Value) -> Result<()> {
    let deployments = stage.api::<MachineDeployment>();
    let changed = deployments.patch("md", &PatchParams::default(), &Patch::Merge(patch)).await?;
    eventually(PATIENCE, "the change to be seen", async || {
        let observed = deployments.get("md").await?.status.unwrap_or_default().observed_generation;
        ensure!(observed >= changed.metadata.generation, "{observed:?}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn extensions_are_asked_for_once_before_machines_are_replaced() -> Result<()> {
    let stage = deployed(Wire::default()).await?;
    stage.noted();
    // The new Machine never becomes available: the rollout stays where it is.
    change(&stage, &json!({"spec": {"template": {"spec": {"version": NEW}}}})).await?;
    stage.until_machines("a new Machine", |machines| machines.len() == 3).await?;
    for number in 1..=5 {
        let turn = json!({"turn": number.to_string()});
        change(&stage, &json!({"spec": {"template": {"metadata": {"labels": turn}}}})).await?;
    }
    assert_eq!(stage.noted().lists_everywhere("extensionconfigs"), 1);
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_the_cache_does_not_know_yet_holds_a_rollout() -> Result<()> {
    let stage = deployed(Wire { deaf: Some("/extensionconfigs"), ..Wire::default() }).await?;
    let config: ExtensionConfig = serde_json::from_value(json!({
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": "late"},
        "spec": {"clientConfig": {"url": "https://127.0.0.1:1"}},
    }))?;
    Api::all(stage.client.clone()).create(&PostParams::default(), &config).await?;
    let deployments = stage.api::<MachineDeployment>();
    let next = json!({"spec": {"template": {"spec": {"version": NEW}}}});
    deployments.patch("md", &PatchParams::default(), &Patch::Merge(&next)).await?;
    eventually(PATIENCE, "the rollout to be held", async || {
        let deployment = deployments.get("md").await?;
        let condition = get(&deployment, "RollingOut").context("nothing is told")?;
        ensure!(
            condition.reason == "RolloutHeld" && condition.message.contains("ExtensionConfig late"),
            "{} {}",
            condition.reason,
            condition.message
        );
        Ok(())
    })
    .await?;
    let known = stage.core.caches.of_cluster_scoped::<ExtensionConfig>().all().await?;
    assert!(known.is_empty(), "the cache knows it");
    let sets = stage.api::<MachineSet>().list(&ListParams::default()).await?.items;
    assert_eq!(sets.len(), 1, "a MachineSet was made");
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_goes_without_a_list_of_machines() -> Result<()> {
    let run = |core: &Core, stopped: &Stopped| vec![machine::run(core.clone(), stopped.clone()).boxed()];
    let stage = Stage::start(Wire::default(), run).await?;
    for kind in ["TestMachine", "TestConfig"] {
        stage.create(object(kind, "m")).await?;
    }
    stage
        .create(json!({
            "apiVersion": CORE, "kind": "Machine", "metadata": {"name": "m", "namespace": NAMESPACE},
            "spec": {"clusterName": "demo", "bootstrap": {"configRef": reference("TestConfig", "m")},
                "infrastructureRef": reference("TestMachine", "m")},
        }))
        .await?;
    eventually(PATIENCE, "its objects to be owned", async || {
        for kind in ["TestMachine", "TestConfig"] {
            ensure!(!stage.played(kind).get("m").await?.owner_references().is_empty(), "{kind} is not");
        }
        Ok(())
    })
    .await?;
    stage.noted();
    stage.api::<Machine>().delete("m", &DeleteParams::default()).await?;
    for kind in ["TestMachine", "TestConfig"] {
        stage.release(&stage.played(kind), "m").await?;
    }
    stage.until_gone::<Machine>("m").await?;
    assert_eq!(stage.noted().lists("machines"), 0);
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_lists_what_is_left_only_before_something_goes() -> Result<()> {
    let run = |core: &Core, stopped: &Stopped| vec![cluster::run(core.clone(), stopped.clone()).boxed()];
    let stage = Stage::start(Wire::default(), run).await?;
    stage.create(object("TestCluster", "demo")).await?;
    let clusters = stage.api::<Cluster>();
    let demo = eventually(PATIENCE, "the finalizer", async || {
        let demo = clusters.get("demo").await?;
        ensure!(!demo.finalizers().is_empty(), "there is none");
        Ok(demo)
    })
    .await?;
    let labels = json!({"cluster.x-k8s.io/cluster-name": "demo"});
    let mut deployment = workers("MachineDeployment", "md", 1);
    deployment["metadata"] = json!({"name": "md", "namespace": NAMESPACE, "labels": labels, "finalizers": ["t/t"],
        "ownerReferences": [{"apiVersion": CORE, "kind": "Cluster", "name": "demo", "uid": demo.uid()}]});
    stage.create(deployment).await?;
    let worker = |name: &str| {
        json!({
            "apiVersion": CORE, "kind": "Machine",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "finalizers": ["t/t"]},
            "spec": {"clusterName": "demo", "bootstrap": {"dataSecretName": "s"},
                "infrastructureRef": reference("TestMachine", name)},
        })
    };
    for name in ["w1", "w2"] {
        stage.create(worker(name)).await?;
    }
    let says = async |words: &str| {
        eventually(PATIENCE, words, async || {
            let demo = clusters.get("demo").await?;
            let told = get(&demo, "Deleting").map(|told| told.message.clone()).unwrap_or_default();
            ensure!(told == words, "{told}");
            Ok(())
        })
        .await
    };
    stage.noted();
    clusters.delete("demo", &DeleteParams::default()).await?;
    says("* MachineDeployments: md\n* Worker Machines: w1, w2").await?;
    let machines = untyped(&stage.client, CORE, "Machine");
    for (name, left) in [("w1", "\n* Worker Machines: w2"), ("w2", "")] {
        machines.delete(name, &DeleteParams::default()).await?;
        stage.release(&machines, name).await?;
        says(&format!("* MachineDeployments: md{left}")).await?;
    }
    assert_eq!(stage.noted().lists("machines"), 1, "before the MachineDeployment is deleted");
    stage.release(&untyped(&stage.client, CORE, "MachineDeployment"), "md").await?;
    stage.release(&stage.played("TestCluster"), "demo").await?;
    stage.until_gone::<Cluster>("demo").await?;
    assert_eq!(
        stage.noted().lists("machines"),
        2,
        "before the infrastructure is deleted, and before the Cluster goes"
    );
    stage.end().await;
    Ok(())
}
