//! MachinePools on the embedded plane, which also plays the workload cluster. The test plays the providers.

#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod common {
    #![allow(dead_code, reason = "every suite uses a part of it")]

    pub(crate) const NAMESPACE: &str = "default";

    #[path = "../common/provider.rs"]
    pub(crate) mod provider;

    #[path = "../common/forgetful.rs"]
    pub(crate) mod forgetful;
}

use anyhow::{Context as _, Result, ensure};
use capstan_api::conditions::{get, is_true};
use capstan_api::core::{Machine, MachinePool, MachinePoolPhase};
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::Reconciler as _;
use capstan_core::machinepool::MachinePoolReconciler;
use capstan_core::{Core, controllers};
use capstan_testkit::{eventually, install_crds};
use common::NAMESPACE;
use common::forgetful::forgetful;
use common::provider::{GROUP_VERSION, object, reference};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tower::Service as _;

const PATIENCE: Duration = Duration::from_secs(60);
const CORE: &str = "cluster.x-k8s.io/v1beta2";

/// The embedded plane with a Cluster that is provisioned, and all of core.
struct Stage {
    server: Arc<ApiServer>,
    client: Client,
    core: Core,
    stop: oneshot::Sender<()>,
    running: JoinSet<()>,
}

impl Stage {
    async fn start() -> Result<Self> {
        Self::start_on(Client::clone).await
    }

    /// Starts with the way of core to the API server.
    async fn start_on(way: impl FnOnce(&Client) -> Client) -> Result<Self> {
        let server = ApiServer::open(Options::new(Storage::Memory)).await?;
        let client = Client::new(server.service(User::admin()), NAMESPACE);
        install_crds(&client, &capstan_api::crd::core_provider()).await?;
        common::provider::install(&client).await?;
        let mut running = JoinSet::new();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        running.spawn(serve(listener, Arc::clone(&server)));

        let core = Core::new(way(&client));
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped: BoxFuture<'static, ()> = stopped.map(|_| ()).boxed();
        let stopped: Shared<BoxFuture<'static, ()>> = stopped.shared();
        for controller in controllers(&core, &stopped) {
            running.spawn(controller);
        }
        let stage = Self { server, client, core, stop, running };
        stage.provision(&format!("http://{address}")).await?;
        Ok(stage)
    }

    /// A Cluster whose providers have done their work.
    async fn provision(&self, address: &str) -> Result<()> {
        for kind in ["TestCluster", "TestControlPlane"] {
            self.create(object(kind, "demo")).await?;
        }
        self.create(json!({
            "apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "demo"},
            "spec": {
                "infrastructureRef": reference("TestCluster", "demo"),
                "controlPlaneRef": reference("TestControlPlane", "demo"),
            },
        }))
        .await?;
        let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": "h.example", "port": 6443}}});
        merge(&self.played("TestCluster"), "demo", &endpoint).await?;
        merge_status(&self.played("TestCluster"), "demo", &json!({"initialization": {"provisioned": true}}))
            .await?;
        let initialized = json!({"initialization": {"controlPlaneInitialized": true}});
        merge_status(&self.played("TestControlPlane"), "demo", &initialized).await?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": "demo-kubeconfig", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
            "type": "cluster.x-k8s.io/secret",
            "stringData": {"value": kubeconfig.to_string()},
        }))?;
        Api::namespaced(self.client.clone(), NAMESPACE).create(&PostParams::default(), &secret).await?;
        Ok(())
    }

    async fn create(&self, object: Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().context("a text").map(str::to_owned);
        let api = untyped(&self.client, &text("apiVersion")?, &text("kind")?);
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.context("cannot create")?;
        Ok(())
    }

    fn played(&self, kind: &str) -> Api<DynamicObject> {
        untyped(&self.client, GROUP_VERSION, kind)
    }

    fn pools(&self) -> Api<MachinePool> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// A Node that is ready.
    async fn join(&self, name: &str) -> Result<()> {
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                "providerID": format!("test://{name}"),
                "taints": [{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}],
            },
        }))?;
        self.nodes().create(&PostParams::default(), &node).await?;
        let status = json!({"status": {
            "conditions": [condition("Ready", "True"), condition("MemoryPressure", "False"),
                condition("DiskPressure", "False"), condition("PIDPressure", "False")],
            "nodeInfo": {"kubeletVersion": "v1.36.1+k3s1", "architecture": "", "bootID": "",
                "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "machineID": "",
                "operatingSystem": "", "osImage": "", "systemUUID": ""},
        }});
        self.nodes().patch_status(name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    /// The pool `p`, with what its providers have made of it.
    async fn create_pool(&self, replicas: i32) -> Result<()> {
        self.create(object("TestConfig", "p")).await?;
        self.create(object("TestMachinePool", "p")).await?;
        self.create(json!({
            "apiVersion": CORE, "kind": "MachinePool", "metadata": {"name": "p"},
            "spec": {"clusterName": "demo", "replicas": replicas, "template": {
                "metadata": {"labels": {"turn": "1"}},
                "spec": {
                    "clusterName": "demo",
                    "bootstrap": {"configRef": reference("TestConfig", "p")},
                    "infrastructureRef": reference("TestMachinePool", "p"),
                },
            }},
        }))
        .await?;
        let created = json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "p-data"});
        merge_status(&self.played("TestConfig"), "p", &created).await
    }

    /// The provider of the pool has these machines now.
    async fn provide(&self, names: &[&str], kind: Option<&str>) -> Result<()> {
        let infrastructure = self.played("TestMachinePool");
        let ids: Vec<String> = names.iter().map(|name| format!("test://{name}")).collect();
        merge(&infrastructure, "p", &json!({"spec": {"providerIDList": ids}})).await?;
        let mut status = json!({"initialization": {"provisioned": true}, "replicas": names.len()});
        if let Some(kind) = kind {
            status["infrastructureMachineKind"] = json!(kind);
        }
        merge_status(&infrastructure, "p", &status).await
    }

    /// The provider of the pool has made an infrastructure machine.
    async fn make_instance(&self, name: &str) -> Result<()> {
        let mut instance = object("TestMachine", name);
        instance["metadata"]["labels"] =
            json!({"cluster.x-k8s.io/pool-name": "p", "cluster.x-k8s.io/cluster-name": "demo"});
        instance["spec"] = json!({"providerID": format!("test://{name}")});
        self.create(instance).await?;
        let provisioned = json!({"initialization": {"provisioned": true}});
        merge_status(&self.played("TestMachine"), name, &provisioned).await
    }

    async fn until_pool(
        &self,
        what: &str,
        holds: impl Fn(&MachinePool) -> Result<()>,
    ) -> Result<MachinePool> {
        eventually(PATIENCE, what, async || {
            let pool = self.pools().get("p").await?;
            holds(&pool).with_context(|| format!("{}", json!(pool)))?;
            Ok(pool)
        })
        .await
    }

    async fn until_machine(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Machine) -> Result<()>,
    ) -> Result<Machine> {
        eventually(PATIENCE, what, async || {
            let machine = self.machines().get(name).await?;
            holds(&machine).with_context(|| format!("{}", json!(machine)))?;
            Ok(machine)
        })
        .await
    }

    /// Waits until the deletion of an object is asked for, and lets go of it, as its provider would.
    async fn release(&self, kind: &str, name: &str) -> Result<()> {
        let api = self.played(kind);
        eventually(PATIENCE, &format!("{kind} {name} to be deleted"), async || {
            ensure!(api.get(name).await?.metadata.deletion_timestamp.is_some(), "it is not");
            Ok(())
        })
        .await?;
        merge(&api, name, &json!({"metadata": {"finalizers": null}})).await
    }

    async fn is_going(&self, kind: &str, name: &str) -> Result<bool> {
        Ok(self.played(kind).get(name).await?.metadata.deletion_timestamp.is_some())
    }

    async fn until_node_gone(&self, name: &str) -> Result<()> {
        eventually(PATIENCE, &format!("Node {name} to be gone"), async || {
            ensure!(self.nodes().get_opt(name).await?.is_none(), "it is there");
            Ok(())
        })
        .await
    }

    async fn until_pool_gone(&self) -> Result<()> {
        eventually(PATIENCE, "the pool to be gone", async || {
            let pool = self.pools().get_opt("p").await?;
            ensure!(pool.is_none(), "it is there: {}", json!(pool));
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

/// The embedded plane without TLS: every request is that of its administrator.
async fn serve(listener: TcpListener, server: Arc<ApiServer>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let service = server.service(User::admin());
        let service =
            hyper::service::service_fn(move |request: Request<Incoming>| service.clone().call(request));
        connections.spawn(async move {
            _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn untyped(client: &Client, group_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

async fn merge(api: &Api<DynamicObject>, name: &str, patch: &Value) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.context("cannot patch")?;
    Ok(())
}

async fn merge_status(api: &Api<DynamicObject>, name: &str, status: &Value) -> Result<()> {
    let patch = json!({ "status": status });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.context("cannot patch")?;
    Ok(())
}

fn node_names(pool: &MachinePool) -> Vec<String> {
    let refs = pool.status.clone().unwrap_or_default().node_refs;
    refs.into_iter().filter_map(|reference| reference.name).collect()
}

fn is_in(pool: &MachinePool, phase: MachinePoolPhase) -> Result<()> {
    let found = pool.status.as_ref().and_then(|status| status.phase);
    ensure!(found == Some(phase), "{found:?}");
    Ok(())
}

fn owners(object: &DynamicObject) -> Vec<String> {
    object.owner_references().iter().map(|owner| format!("{}/{}", owner.kind, owner.name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_follows_its_provider_and_its_nodes() -> Result<()> {
    let stage = Stage::start().await?;
    stage.create_pool(2).await?;
    stage
        .until_pool("bootstrap data", |pool| {
            let name = pool.spec.template.spec.bootstrap.data_secret_name.as_deref();
            ensure!(name == Some("p-data"), "{name:?}");
            is_in(pool, MachinePoolPhase::Provisioning)
        })
        .await?;
    for kind in ["TestConfig", "TestMachinePool"] {
        let claimed = eventually(PATIENCE, "an owner", async || {
            let object = stage.played(kind).get("p").await?;
            ensure!(owners(&object) == ["MachinePool/p"], "{:?}", object.metadata);
            Ok(object)
        })
        .await?;
        assert_eq!(claimed.labels()["cluster.x-k8s.io/cluster-name"], "demo");
    }

    // Nodes of the pool, and one of another machine.
    stage.join("n2").await?;
    stage.join("elsewhere").await?;
    stage.provide(&["n1", "n2"], None).await?;
    stage
        .until_pool("the first Node", |pool| {
            ensure!(node_names(pool) == ["n2"], "{:?}", node_names(pool));
            ensure!(pool.status.as_ref().and_then(|status| status.replicas) == Some(2), "not counted");
            is_in(pool, MachinePoolPhase::ScalingUp)
        })
        .await?;
    stage.join("n1").await?;
    let pool = stage
        .until_pool("both Nodes", |pool| {
            ensure!(node_names(pool) == ["n1", "n2"], "{:?}", node_names(pool));
            ensure!(is_true(pool, "Available"), "not available");
            let versions = json!(pool.status.clone().unwrap_or_default().versions);
            ensure!(versions == json!([{"version": "v1.36.1+k3s1", "replicas": 2}]), "{versions}");
            is_in(pool, MachinePoolPhase::Running)
        })
        .await?;
    assert_eq!(pool.owner_references().iter().map(|owner| &*owner.kind).collect::<Vec<_>>(), ["Cluster"]);
    assert_eq!(pool.labels()["cluster.x-k8s.io/cluster-name"], "demo");
    assert!(stage.machines().list(&ListParams::default()).await?.items.is_empty());
    eventually(PATIENCE, "the Nodes to be written", async || {
        for name in ["n1", "n2"] {
            let node = stage.nodes().get(name).await?;
            let of = node.annotations().get("cluster.x-k8s.io/owner-name");
            ensure!(of.is_some_and(|of| of == "p"), "{:?}", node.metadata);
            ensure!(node.spec.and_then(|spec| spec.taints).unwrap_or_default().is_empty(), "a taint");
        }
        Ok(())
    })
    .await?;
    assert!(stage.nodes().get("elsewhere").await?.annotations().is_empty());

    // The Cluster counts the pool.
    let clusters = untyped(&stage.client, CORE, "Cluster");
    eventually(PATIENCE, "the Cluster to count the pool", async || {
        let workers = clusters.get("demo").await?.data["status"]["workers"].clone();
        ensure!(workers["replicas"] == 2 && workers["desiredReplicas"] == 2, "{workers}");
        Ok(())
    })
    .await?;

    // Paused: a change of the provider is not taken over before the pause ends.
    let pools = untyped(&stage.client, CORE, "MachinePool");
    let paused = |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    merge(&pools, "p", &paused(json!("true"))).await?;
    stage
        .until_pool("the pause", |pool| {
            ensure!(is_true(pool, "Paused"), "{:?}", get(pool, "Paused"));
            Ok(())
        })
        .await?;
    let scale = Patch::Merge(json!({"spec": {"replicas": 1}}));
    let scaled = stage.pools().patch_scale("p", &PatchParams::default(), &scale).await?;
    assert_eq!(scaled.status.map(|status| status.replicas), Some(2));
    merge(&pools, "p", &paused(Value::Null)).await?;
    stage
        .until_pool("fewer machines to be wanted", |pool| is_in(pool, MachinePoolPhase::ScalingDown))
        .await?;
    stage.provide(&["n1"], None).await?;
    stage.until_node_gone("n2").await?;
    stage
        .until_pool("one Node", |pool| {
            ensure!(node_names(pool) == ["n1"], "{:?}", node_names(pool));
            is_in(pool, MachinePoolPhase::Running)
        })
        .await?;

    stage.pools().delete("p", &DeleteParams::default()).await?;
    stage
        .until_pool("the deletion", |pool| {
            let message = get(pool, "Deleting").map(|condition| condition.message.clone());
            let expected = "Waiting for TestConfig and TestMachinePool to be deleted";
            ensure!(message.as_deref() == Some(expected), "{message:?}");
            is_in(pool, MachinePoolPhase::Deleting)
        })
        .await?;
    stage.release("TestConfig", "p").await?;
    stage.nodes().get("n1").await.context("the machines are there, so are the Nodes")?;
    stage.release("TestMachinePool", "p").await?;
    stage.until_pool_gone().await?;
    stage.until_node_gone("n1").await?;
    stage.nodes().get("elsewhere").await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_stand_for_the_infrastructure_machines_of_a_pool() -> Result<()> {
    let stage = Stage::start().await?;
    stage.create_pool(1).await?;
    stage.make_instance("a").await?;
    stage.provide(&["a"], Some("TestMachine")).await?;
    let machine = stage
        .until_machine("a", "a Machine", |machine| {
            ensure!(machine.spec.provider_id.as_deref() == Some("test://a"), "no provider ID");
            ensure!(is_true(machine, "UpToDate"), "{:?}", get(machine, "UpToDate"));
            Ok(())
        })
        .await?;
    let owner = machine.owner_references().first().context("an owner")?;
    assert_eq!(
        (owner.kind.as_str(), owner.name.as_str(), owner.controller),
        ("MachinePool", "p", Some(true))
    );
    assert_eq!(machine.labels()["cluster.x-k8s.io/pool-name"], "p");
    assert_eq!(machine.labels()["turn"], "1");
    assert_eq!(owners(&stage.played("TestMachine").get("a").await?), ["Machine/a"]);

    stage.join("a").await?;
    stage
        .until_machine("a", "the version of its Node", |machine| {
            ensure!(machine.spec.version.as_deref() == Some("v1.36.1+k3s1"), "{:?}", machine.spec.version);
            Ok(())
        })
        .await?;
    stage
        .until_pool("the Machine to be counted", |pool| {
            let status = pool.status.clone().unwrap_or_default();
            let counted = (status.ready_replicas, status.available_replicas, status.up_to_date_replicas);
            ensure!(counted == (Some(1), Some(1), Some(1)), "{counted:?}");
            ensure!(is_true(pool, "MachinesReady") && is_true(pool, "Available"), "not ready");
            is_in(pool, MachinePoolPhase::Running)
        })
        .await?;
    let node = stage.nodes().get("a").await?;
    assert_eq!(node.annotations()["cluster.x-k8s.io/owner-kind"], "MachinePool");
    assert_eq!(node.annotations()["cluster.x-k8s.io/machine"], "a");

    // Labels of the template are handed down, and an infrastructure machine alone is enough for a Machine.
    let pools = untyped(&stage.client, CORE, "MachinePool");
    merge(&pools, "p", &json!({"spec": {"template": {"metadata": {"labels": {"turn": "2"}}}}})).await?;
    stage
        .until_machine("a", "the label", |machine| {
            ensure!(machine.labels().get("turn").is_some_and(|turn| turn == "2"), "not yet");
            Ok(())
        })
        .await?;
    stage.make_instance("b").await?;
    stage.until_machine("b", "another Machine", |_| Ok(())).await?;
    let events: Api<Event> = Api::namespaced(stage.client.clone(), NAMESPACE);
    eventually(PATIENCE, "an event", async || {
        let events = events.list(&ListParams::default()).await?;
        let mut messages = events.iter().filter_map(|event| event.message.as_deref());
        ensure!(messages.any(|message| message == "created Machine b"), "none");
        Ok(())
    })
    .await?;

    // A Machine that is deleted takes its infrastructure machine along; the Node goes with it, not with the list.
    stage.machines().delete("b", &DeleteParams::default()).await?;
    stage.release("TestMachine", "b").await?;
    eventually(PATIENCE, "Machine b to be gone", async || {
        ensure!(stage.machines().get_opt("b").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;

    // A Machine of another owner is not taken.
    let alone = json!({
        "apiVersion": CORE, "kind": "Machine", "metadata": {"name": "c"},
        "spec": {"clusterName": "demo", "version": "v1.35.0", "bootstrap": {"dataSecretName": "own"},
            "infrastructureRef": reference("TestMachine", "c")},
    });
    stage.create(alone).await?;
    stage.make_instance("c").await?;
    let reconciler = MachinePoolReconciler::new(stage.core.clone());
    let problem = eventually(PATIENCE, "the foreign Machine to be seen", async || {
        let pool = Arc::new(stage.pools().get("p").await?);
        let problem =
            Box::pin(reconciler.reconcile(pool)).await.err().context("nothing is wrong")?.to_string();
        ensure!(problem.contains("is not of MachinePool p"), "{problem}");
        Ok(problem)
    })
    .await?;
    assert!(problem.starts_with("Machine default/c: "), "{problem}");
    let machine = stage.machines().get("c").await?;
    assert!(!machine.labels().contains_key("cluster.x-k8s.io/pool-name"));
    assert_eq!(machine.spec.version.as_deref(), Some("v1.35.0"));
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_after_its_pools() -> Result<()> {
    let stage = Stage::start().await?;
    stage.create_pool(1).await?;
    stage.provide(&["a"], None).await?;
    stage.join("a").await?;
    stage
        .until_pool("the Node", |pool| {
            ensure!(node_names(pool) == ["a"], "none");
            Ok(())
        })
        .await?;
    let clusters = untyped(&stage.client, CORE, "Cluster");
    clusters.delete("demo", &DeleteParams::default()).await?;
    stage.release("TestConfig", "p").await?;
    assert!(!stage.is_going("TestControlPlane", "demo").await?, "the pool is there");
    stage.release("TestMachinePool", "p").await?;
    stage.until_pool_gone().await?;
    stage.release("TestControlPlane", "demo").await?;
    stage.release("TestCluster", "demo").await?;
    eventually(PATIENCE, "the Cluster to be gone", async || {
        ensure!(clusters.get_opt("demo").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;
    stage.end().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_step_needs_the_response_to_the_one_before() -> Result<()> {
    let stage = Stage::start_on(forgetful).await?;
    stage.create_pool(2).await?;
    for name in ["a", "b"] {
        stage.make_instance(name).await?;
        stage.join(name).await?;
    }
    stage.provide(&["a", "b"], Some("TestMachine")).await?;
    stage
        .until_pool("both Machines to be counted", |pool| {
            let status = pool.status.clone().unwrap_or_default();
            ensure!(status.available_replicas == Some(2), "{:?}", status.available_replicas);
            ensure!(node_names(pool) == ["a", "b"], "{:?}", node_names(pool));
            is_in(pool, MachinePoolPhase::Running)
        })
        .await?;
    let mut names: Vec<String> = stage
        .machines()
        .list(&ListParams::default())
        .await?
        .iter()
        .map(kube::ResourceExt::name_any)
        .collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);

    stage.pools().delete("p", &DeleteParams::default()).await?;
    stage.release("TestMachinePool", "p").await?;
    stage.release("TestConfig", "p").await?;
    stage.until_pool_gone().await?;
    for name in ["a", "b"] {
        stage.release("TestMachine", name).await?;
    }
    eventually(PATIENCE, "the Machines to be gone", async || {
        let machines = stage.machines().list(&ListParams::default()).await?.items;
        ensure!(machines.is_empty(), "{}", json!(machines));
        Ok(())
    })
    .await?;
    stage.end().await;
    Ok(())
}
