//! Clusters with a topology on the embedded plane. The test plays the providers; workers have no machines unless it says so.

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
use capstan_api::core::Cluster;
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::Reconciler as _;
use capstan_core::topology::TopologyReconciler;
use capstan_core::{Core, controllers};
use capstan_testkit::{eventually, install_crds};
use common::NAMESPACE;
use common::forgetful::forgetful;
use common::provider::GROUP_VERSION;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

const PATIENCE: Duration = Duration::from_secs(60);
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const DEPLOYMENT_NAME: &str = "topology.cluster.x-k8s.io/deployment-name";
const POOL_NAME: &str = "topology.cluster.x-k8s.io/pool-name";
/// Kinds that the topology makes.
const MADE: [(&str, &str); 11] = [
    (CORE, "Cluster"),
    (CORE, "ClusterClass"),
    (CORE, "MachineDeployment"),
    (CORE, "MachinePool"),
    (CORE, "MachineHealthCheck"),
    (GROUP_VERSION, "TestCluster"),
    (GROUP_VERSION, "TestControlPlane"),
    (GROUP_VERSION, "TestConfigTemplate"),
    (GROUP_VERSION, "TestMachineTemplate"),
    (GROUP_VERSION, "TestConfig"),
    (GROUP_VERSION, "TestMachinePool"),
];

/// The embedded plane with a class `class`, and all of core.
struct Stage {
    server: Arc<ApiServer>,
    client: Client,
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
        let (stop, running) = run(&way(&client));
        let stage = Self { server, client, stop, running };
        for (kind, spec) in [
            ("TestClusterTemplate", json!({"region": "here"})),
            ("TestControlPlaneTemplate", json!({"arguments": ["a"]})),
            ("TestMachineTemplate", json!({"size": "small"})),
            ("TestConfigTemplate", json!({"files": [{"path": "/a", "owner": "root"}]})),
            ("TestMachinePoolTemplate", json!({"size": "small"})),
        ] {
            stage.template(kind, "base", &spec).await?;
        }
        stage.create(class("class", |_| {})).await?;
        Ok(stage)
    }

    /// The process dies, and another one starts.
    async fn restart(&mut self) -> Result<()> {
        self.running.shutdown().await;
        (self.stop, self.running) = run(&self.client);
        Ok(())
    }

    async fn template(&self, kind: &str, name: &str, spec: &Value) -> Result<()> {
        self.create(json!({
            "apiVersion": GROUP_VERSION, "kind": kind, "metadata": {"name": name},
            "spec": {"template": {"spec": spec}},
        }))
        .await
    }

    async fn create(&self, object: Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().context("a text").map(str::to_owned);
        let api = self.api(&text("apiVersion")?, &text("kind")?);
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.context("cannot create")?;
        Ok(())
    }

    fn api(&self, group_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let resource = match kind {
            "ClusterClass" => ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk(group, version, kind),
                "clusterclasses",
            ),
            kind => ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)),
        };
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    fn clusters(&self) -> Api<DynamicObject> {
        self.api(CORE, "Cluster")
    }

    async fn merge(&self, api: &Api<DynamicObject>, name: &str, patch: Value) -> Result<()> {
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.context("cannot patch")?;
        Ok(())
    }

    /// Changes the Cluster as a user would.
    async fn change(&self, change: impl Fn(&mut Value)) -> Result<()> {
        eventually(PATIENCE, "the Cluster to be changed", async || {
            let cluster = self.clusters().get("demo").await?;
            let mut changed = serde_json::to_value(&cluster)?;
            change(&mut changed);
            let changed: DynamicObject = serde_json::from_value(changed)?;
            self.clusters().replace("demo", &PostParams::default(), &changed).await?;
            Ok(())
        })
        .await
    }

    /// Waits for the condition `TopologyReconciled` of the current generation.
    async fn until_condition(&self, status: &str, reason: &str, message: &str) -> Result<DynamicObject> {
        let what = format!("TopologyReconciled {status} {reason}");
        eventually(PATIENCE, &what, async || {
            let cluster = self.clusters().get("demo").await?;
            let conditions = cluster.data["status"]["conditions"].as_array();
            let found = conditions.into_iter().flatten().find(|one| one["type"] == "TopologyReconciled");
            let found = found.context("no condition")?.clone();
            let text = |field: &str| found[field].as_str().unwrap_or_default();
            ensure!(
                (text("status"), text("reason")) == (status, reason) && text("message").contains(message),
                "{found}"
            );
            ensure!(found["observedGeneration"] == json!(cluster.metadata.generation), "{found}");
            Ok(cluster)
        })
        .await
    }

    async fn until_reconciled(&self) -> Result<DynamicObject> {
        self.until_condition("True", "ReconcileSucceeded", "").await
    }

    /// Objects of a kind that carry the label of the topology.
    async fn owned(&self, group_version: &str, kind: &str) -> Result<Vec<DynamicObject>> {
        let of_topology = ListParams::default().labels("topology.cluster.x-k8s.io/owned=");
        let mut found = self.api(group_version, kind).list(&of_topology).await?.items;
        found.retain(|object| object.metadata.deletion_timestamp.is_none());
        Ok(found)
    }

    async fn one(&self, group_version: &str, kind: &str) -> Result<DynamicObject> {
        let mut found = self.owned(group_version, kind).await?;
        ensure!(found.len() == 1, "{} of kind {kind}", found.len());
        Ok(found.remove(0))
    }

    /// A MachineDeployment by its name in the topology.
    async fn deployment(&self, name: &str) -> Result<DynamicObject> {
        let found = self.owned(CORE, "MachineDeployment").await?;
        let found =
            found.into_iter().find(|one| one.labels().get(DEPLOYMENT_NAME).is_some_and(|it| it == name));
        found.context("no such MachineDeployment")
    }

    async fn until_deployment(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<DynamicObject> {
        eventually(PATIENCE, what, async || {
            let found = self.deployment(name).await?;
            let value = serde_json::to_value(&found)?;
            ensure!(holds(&value), "{value}");
            Ok(found)
        })
        .await
    }

    /// The control plane provider has brought the control plane to this version.
    async fn upgrade_control_plane(&self, version: &str) -> Result<()> {
        let name = self.one(GROUP_VERSION, "TestControlPlane").await?.name_any();
        let status = json!({"status": {"version": version, "versions": [{"version": version}]}});
        let api = self.api(GROUP_VERSION, "TestControlPlane");
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    /// The resource versions of all objects, apart from those of core that change by themselves.
    async fn versions(&self) -> Result<BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        for (group_version, kind) in MADE {
            for object in self.api(group_version, kind).list(&ListParams::default()).await?.items {
                let key = format!("{kind} {}", object.name_any());
                all.insert(key, object.resource_version().unwrap_or_default());
            }
        }
        Ok(all)
    }

    /// Waits until nothing is written any more.
    async fn at_rest(&self) -> Result<BTreeMap<String, String>> {
        let mut before = self.versions().await?;
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let now = self.versions().await?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
        anyhow::bail!("objects are written again and again")
    }

    async fn events(&self, reason: &str) -> Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let all = events.list(&ListParams::default()).await?.items;
        let found = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        Ok(found.filter_map(|event| event.message).collect())
    }

    async fn end(mut self) {
        drop(self.stop);
        self.running.shutdown().await;
        self.server.shutdown().await;
    }
}

fn run(client: &Client) -> (oneshot::Sender<()>, JoinSet<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped: BoxFuture<'static, ()> = stopped.map(|_| ()).boxed();
    let stopped: Shared<BoxFuture<'static, ()>> = stopped.shared();
    let mut running = JoinSet::new();
    for controller in controllers(&Core::new(client.clone()), &stopped) {
        running.spawn(controller);
    }
    (stop, running)
}

fn template(kind: &str, name: &str) -> Value {
    json!({"templateRef": {"apiVersion": GROUP_VERSION, "kind": kind, "name": name}})
}

/// A class with one class of MachineDeployments, one of MachinePools, and a variable.
fn class(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut control_plane = template("TestControlPlaneTemplate", "base");
    control_plane["machineInfrastructure"] = template("TestMachineTemplate", "base");
    let mut object = json!({
        "apiVersion": CORE, "kind": "ClusterClass", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "infrastructure": template("TestClusterTemplate", "base"),
            "controlPlane": control_plane,
            "workers": {
                "machineDeployments": [{
                    "class": "worker",
                    "bootstrap": template("TestConfigTemplate", "base"),
                    "infrastructure": template("TestMachineTemplate", "base"),
                    "healthCheck": {"checks": {"unhealthyNodeConditions": [
                        {"type": "Ready", "status": "False", "timeoutSeconds": 300}]}},
                }],
                "machinePools": [{
                    "class": "pool",
                    "bootstrap": template("TestConfigTemplate", "base"),
                    "infrastructure": template("TestMachinePoolTemplate", "base"),
                }],
            },
            "variables": [{"name": "size", "required": false, "schema": {"openAPIV3Schema":
                {"type": "string", "default": "medium", "enum": ["small", "medium", "large"]}}}],
            "patches": [{"name": "size", "definitions": [{
                "selector": {"apiVersion": GROUP_VERSION, "kind": "TestMachineTemplate",
                    "matchResources": {"machineDeploymentClass": {"names": ["worker"]}}},
                "jsonPatches": [{"op": "replace", "path": "/spec/template/spec/size",
                    "valueFrom": {"variable": "size"}}],
            }]}],
        },
    });
    change(&mut object);
    object
}

/// A Cluster of the class with one MachineDeployment without machines.
fn cluster(change: impl FnOnce(&mut Value)) -> Value {
    let mut object = json!({
        "apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "demo", "namespace": NAMESPACE},
        "spec": {"topology": {
            "classRef": {"name": "class"}, "version": "v1.34.0",
            "controlPlane": {"replicas": 1},
            "workers": {"machineDeployments": [{"class": "worker", "name": "a", "replicas": 0}]},
        }},
    });
    change(&mut object);
    object
}

fn workers(object: &mut Value) -> &mut Value {
    &mut object["spec"]["topology"]["workers"]
}

#[tokio::test]
async fn a_cluster_is_made_from_its_class_and_then_left_alone() -> Result<()> {
    let mut stage = Stage::start().await?;
    stage
        .create(cluster(|object| {
            workers(object)["machinePools"] = json!([{"class": "pool", "name": "p", "replicas": 2}]);
        }))
        .await?;
    let made = stage.until_reconciled().await?;
    let infrastructure = stage.one(GROUP_VERSION, "TestCluster").await?;
    let control_plane = stage.one(GROUP_VERSION, "TestControlPlane").await?;
    ensure!(made.data["spec"]["infrastructureRef"]["name"] == json!(infrastructure.name_any()));
    ensure!(made.data["spec"]["controlPlaneRef"]["name"] == json!(control_plane.name_any()));
    ensure!(infrastructure.data["spec"]["region"] == "here");
    ensure!(
        control_plane.data["spec"]["version"] == "v1.34.0" && control_plane.data["spec"]["replicas"] == 1
    );
    let deployment = stage.deployment("a").await?;
    let refs = &deployment.data["spec"]["template"]["spec"];
    let machines = stage.api(GROUP_VERSION, "TestMachineTemplate");
    let machines = machines.get(refs["infrastructureRef"]["name"].as_str().context("a name")?).await?;
    ensure!(machines.data["spec"]["template"]["spec"]["size"] == "medium", "the default of the variable");
    let check = stage.api(CORE, "MachineHealthCheck").get(&deployment.name_any()).await?;
    ensure!(check.labels().contains_key("topology.cluster.x-k8s.io/owned"));
    let pools = stage.owned(CORE, "MachinePool").await?;
    ensure!(
        pools.len() == 1 && pools[0].labels()[POOL_NAME] == "p" && pools[0].data["spec"]["replicas"] == 2
    );
    let class = stage.api(CORE, "ClusterClass").get("class").await?;
    let base = stage.api(GROUP_VERSION, "TestMachineTemplate").get("base").await?;
    ensure!(base.owner_references()[0].uid == class.uid().context("a UID")?);
    let events = stage.events("TopologyCreate").await?;
    ensure!(
        events.iter().any(|message| message.contains("Created TestControlPlane \"default/demo-")),
        "{events:?}"
    );

    let before = stage.at_rest().await?;
    stage.restart().await?;
    // Each object is looked at when the controllers start. A label of another shows that they have.
    stage.merge(&stage.clusters(), "demo", json!({"metadata": {"labels": {"seen": "1"}}})).await?;
    eventually(PATIENCE, "another reconcile", async || {
        let classes = stage.api(CORE, "ClusterClass").get("class").await?;
        ensure!(classes.data["status"]["observedGeneration"] == json!(classes.metadata.generation));
        Ok(())
    })
    .await?;
    let mut after = stage.at_rest().await?;
    after.remove("Cluster demo");
    let mut before = before;
    before.remove("Cluster demo");
    assert_eq!(after, before, "nothing is written at rest, nor after a restart");
    stage.end().await;
    Ok(())
}

#[tokio::test]
async fn templates_are_replaced_by_content_and_labels_are_not_content() -> Result<()> {
    let stage = Stage::start().await?;
    stage.create(cluster(|_| {})).await?;
    stage.until_reconciled().await?;
    stage.at_rest().await?;
    let before = stage.deployment("a").await?;
    let refs = |object: &DynamicObject| {
        let spec = &object.data["spec"]["template"]["spec"];
        (spec["bootstrap"]["configRef"]["name"].clone(), spec["infrastructureRef"]["name"].clone())
    };

    stage
        .change(|object| {
            let deployment = &mut workers(object)["machineDeployments"][0];
            deployment["metadata"] = json!({"labels": {"team": "shop"}});
            deployment["replicas"] = json!(3);
        })
        .await?;
    let labelled = stage
        .until_deployment("a", "the label and the replicas", |object| {
            object["metadata"]["labels"]["team"] == "shop"
                && object["spec"]["template"]["metadata"]["labels"]["team"] == "shop"
                && object["spec"]["replicas"] == 3
        })
        .await?;
    assert_eq!(refs(&labelled), refs(&before), "a label replaces no template");

    stage
        .change(|object| {
            workers(object)["machineDeployments"][0]["replicas"] = json!(0);
            object["spec"]["topology"]["variables"] = json!([{"name": "size", "value": "large"}]);
        })
        .await?;
    let old = refs(&before);
    let changed = stage
        .until_deployment("a", "another template", |object| {
            object["spec"]["template"]["spec"]["infrastructureRef"]["name"] != old.1
        })
        .await?;
    assert_eq!(refs(&changed).0, old.0, "the other template is kept");
    let name = refs(&changed).1;
    let machines = stage.api(GROUP_VERSION, "TestMachineTemplate");
    let machines = machines.get(name.as_str().context("a name")?).await?;
    ensure!(machines.data["spec"]["template"]["spec"]["size"] == "large");

    // A field of an item of an atomic list: only a dry run shows that it is gone.
    stage.template("TestConfigTemplate", "other", &json!({"files": [{"path": "/a"}]})).await?;
    let classes = stage.api(CORE, "ClusterClass");
    let mut class = serde_json::to_value(classes.get("class").await?)?;
    class["spec"]["workers"]["machineDeployments"][0]["bootstrap"]["templateRef"]["name"] = json!("other");
    classes.replace("class", &PostParams::default(), &serde_json::from_value(class)?).await?;
    let changed = stage
        .until_deployment("a", "another bootstrap template", |object| {
            object["spec"]["template"]["spec"]["bootstrap"]["configRef"]["name"] != old.0
        })
        .await?;
    let configs = stage.api(GROUP_VERSION, "TestConfigTemplate");
    let config = configs.get(refs(&changed).0.as_str().context("a name")?).await?;
    assert_eq!(config.data["spec"]["template"]["spec"]["files"], json!([{"path": "/a"}]));
    // The MachineSets with the old templates have gone, and so have these.
    eventually(PATIENCE, "the old templates to be deleted", async || {
        let left = stage.owned(GROUP_VERSION, "TestConfigTemplate").await?.len();
        ensure!(left == 1, "{left} are left");
        Ok(())
    })
    .await?;
    stage.at_rest().await?;
    stage.end().await;
    Ok(())
}

#[tokio::test]
async fn an_upgrade_goes_through_the_control_plane_first() -> Result<()> {
    let stage = Stage::start().await?;
    stage
        .create(cluster(|object| {
            workers(object)["machineDeployments"] = json!([
                {"class": "worker", "name": "a", "replicas": 0},
                {"class": "worker", "name": "b", "replicas": 0,
                    "metadata": {"annotations": {"topology.cluster.x-k8s.io/defer-upgrade": ""}}},
            ]);
        }))
        .await?;
    stage.until_reconciled().await?;
    stage.upgrade_control_plane("v1.34.0").await?;
    stage.at_rest().await?;
    let version = |object: &DynamicObject| object.data["spec"]["template"]["spec"]["version"].clone();

    stage.change(|object| object["spec"]["topology"]["version"] = json!("v1.35.0")).await?;
    stage
        .until_condition(
            "False",
            "ClusterUpgrading",
            "Cluster is upgrading to v1.35.0\n  * TestControlPlane upgrading to version v1.35.0",
        )
        .await?;
    ensure!(stage.one(GROUP_VERSION, "TestControlPlane").await?.data["spec"]["version"] == "v1.35.0");
    ensure!(version(&stage.deployment("a").await?) == "v1.34.0", "workers wait");
    let change = "with version change from v1.34.0 to v1.35.0";
    eventually(PATIENCE, "an event about the upgrade", async || {
        let events = stage.events("TopologyUpdate").await?;
        ensure!(events.iter().any(|message| message.contains(change)), "{events:?}");
        Ok(())
    })
    .await?;
    let upgrading = stage.clusters().get("demo").await?;
    ensure!(
        upgrading.annotations().get("topology.internal.cluster.x-k8s.io/upgrade-step").map(String::as_str)
            == Some("v1.35.0")
    );

    stage.upgrade_control_plane("v1.35.0").await?;
    stage
        .until_deployment("a", "the first workers to follow", |object| {
            object["spec"]["template"]["spec"]["version"] == "v1.35.0"
        })
        .await?;
    stage.until_condition("False", "MachineDeploymentsUpgradeDeferred", "").await?;
    ensure!(version(&stage.deployment("b").await?) == "v1.34.0", "it is deferred");
    stage
        .change(|object| workers(object)["machineDeployments"][1]["metadata"] = json!({"labels": {"x": "y"}}))
        .await?;
    stage
        .until_deployment("b", "the others to follow", |object| {
            object["spec"]["template"]["spec"]["version"] == "v1.35.0"
        })
        .await?;
    let done = stage.until_reconciled().await?;
    ensure!(!done.annotations().contains_key("topology.internal.cluster.x-k8s.io/upgrade-step"));
    stage.end().await;
    Ok(())
}

/// The Cluster in the memory of a controller may be a moment old.
#[tokio::test]
async fn workers_that_an_old_topology_does_not_know_are_not_deleted() -> Result<()> {
    let stage = Stage::start().await?;
    let one = |name: &str| json!({"class": "worker", "name": name, "replicas": 0});
    stage
        .create(cluster(|object| workers(object)["machineDeployments"] = json!([one("a"), one("b")])))
        .await?;
    let cluster = stage.until_reconciled().await?;
    let before = stage.deployment("b").await?;
    // As it was before the second one was added.
    let mut old = serde_json::to_value(&cluster)?;
    workers(&mut old)["machineDeployments"] = json!([one("a")]);
    old["metadata"]["generation"] = json!(cluster.metadata.generation.context("a generation")? - 1);
    let old: Cluster = serde_json::from_value(old)?;

    let reconciler = TopologyReconciler::new(Core::new(stage.client.clone()));
    let reconciled = Box::pin(reconciler.reconcile(Arc::new(old))).await;
    let error = reconciled.err().context("workers of a newer topology were taken for deleted ones")?;
    ensure!(matches!(error, capstan_controller::Error::Conflict { .. }), "{error:?}");
    let after = stage.deployment("b").await?;
    ensure!(after.uid() == before.uid() && after.metadata.deletion_timestamp.is_none(), "{after:?}");
    Ok(())
}

#[tokio::test]
async fn what_leaves_the_topology_is_deleted_and_a_cluster_can_change_its_class() -> Result<()> {
    let stage = Stage::start().await?;
    stage
        .create(cluster(|object| {
            workers(object)["machineDeployments"] = json!([
                {"class": "worker", "name": "a", "replicas": 0},
                {"class": "worker", "name": "b", "replicas": 0},
            ]);
        }))
        .await?;
    stage.until_reconciled().await?;
    let (kept, gone) = (stage.deployment("a").await?, stage.deployment("b").await?);
    stage
        .change(|object| {
            workers(object)["machineDeployments"] = json!([{"class": "worker", "name": "a", "replicas": 0}]);
        })
        .await?;
    eventually(PATIENCE, "the other MachineDeployment and its templates to be gone", async || {
        let deployments = stage.api(CORE, "MachineDeployment");
        ensure!(deployments.get_opt(&gone.name_any()).await?.is_none(), "the MachineDeployment is there");
        let left = stage.owned(GROUP_VERSION, "TestConfigTemplate").await?.len();
        ensure!(left == 1, "{left} bootstrap templates");
        let left = stage.owned(GROUP_VERSION, "TestMachineTemplate").await?.len();
        ensure!(left == 2, "{left} infrastructure templates");
        let checks = stage.owned(CORE, "MachineHealthCheck").await?.len();
        ensure!(checks == 1, "{checks} health checks");
        Ok(())
    })
    .await?;
    ensure!(stage.deployment("a").await?.uid() == kept.uid());

    stage.template("TestClusterTemplate", "elsewhere", &json!({"region": "there"})).await?;
    stage
        .create(class("second", |object| {
            object["spec"]["infrastructure"] = template("TestClusterTemplate", "elsewhere");
        }))
        .await?;
    let before = stage.one(GROUP_VERSION, "TestCluster").await?;
    stage.change(|object| object["spec"]["topology"]["classRef"]["name"] = json!("second")).await?;
    eventually(PATIENCE, "the infrastructure of the other class", async || {
        let now = stage.one(GROUP_VERSION, "TestCluster").await?;
        ensure!(now.data["spec"]["region"] == "there" && now.uid() == before.uid(), "{:?}", now.data);
        Ok(())
    })
    .await?;
    stage.until_reconciled().await?;

    stage.clusters().delete("demo", &DeleteParams::default()).await?;
    eventually(PATIENCE, "the Cluster and all that it had to be gone", async || {
        ensure!(stage.clusters().get_opt("demo").await?.is_none(), "the Cluster is there");
        for (group_version, kind) in MADE {
            let left = stage.api(group_version, kind).list(&ListParams::default()).await?.items;
            let of_topology =
                left.iter().filter(|one| one.labels().contains_key("topology.cluster.x-k8s.io/owned"));
            ensure!(of_topology.count() == 0, "{kind} is left");
        }
        Ok(())
    })
    .await?;
    stage.end().await;
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_said_and_nothing_is_done() -> Result<()> {
    let stage = Stage::start().await?;
    stage.create(cluster(|object| object["spec"]["topology"]["classRef"]["name"] = json!("later"))).await?;
    let message = "failed to retrieve ClusterClass default/later: it does not exist";
    stage.until_condition("False", "ReconcileFailed", message).await?;
    stage
        .change(|object| {
            object["spec"]["topology"]["classRef"]["name"] = json!("class");
            object["spec"]["topology"]["variables"] = json!([{"name": "size", "value": "huge"}]);
        })
        .await?;
    stage.until_condition("False", "ReconcileFailed", "spec.topology.variables[size].value").await?;
    stage
        .change(|object| {
            object["spec"]["topology"]["variables"] = json!([{"name": "size", "value": "small"}]);
            workers(object)["machineDeployments"][0]["class"] = json!("other");
        })
        .await?;
    stage.until_condition("False", "ReconcileFailed", "spec.topology.workers.machineDeployments").await?;
    for kind in ["TestCluster", "TestControlPlane", "TestMachineTemplate"] {
        ensure!(stage.owned(GROUP_VERSION, kind).await?.is_empty(), "{kind} was made");
    }
    stage.change(|object| workers(object)["machineDeployments"][0]["class"] = json!("worker")).await?;
    stage.until_reconciled().await?;
    stage.at_rest().await?;

    // A pause keeps everything as it is.
    stage.change(|object| object["spec"]["paused"] = json!(true)).await?;
    stage.until_condition("False", "Paused", "Cluster spec.paused is set to true").await?;
    stage.change(|object| workers(object)["machineDeployments"][0]["replicas"] = json!(1)).await?;
    stage.until_condition("False", "Paused", "").await?;
    ensure!(stage.deployment("a").await?.data["spec"]["replicas"] == 0);
    stage.change(|object| object["spec"]["paused"] = json!(false)).await?;
    stage
        .until_deployment("a", "the change after the pause", |object| object["spec"]["replicas"] == 1)
        .await?;

    // A template of the class that cannot be read is not an absent one.
    let templates = stage.api(GROUP_VERSION, "TestConfigTemplate");
    templates.delete("base", &DeleteParams::default()).await?;
    stage.change(|object| workers(object)["machineDeployments"][0]["replicas"] = json!(2)).await?;
    stage.until_condition("False", "ReconcileFailed", "there is no TestConfigTemplate base").await?;
    ensure!(stage.deployment("a").await?.data["spec"]["replicas"] == 1);
    stage
        .template("TestConfigTemplate", "base", &json!({"files": [{"path": "/a", "owner": "root"}]}))
        .await?;
    stage
        .until_deployment("a", "the change after the repair", |object| object["spec"]["replicas"] == 2)
        .await?;
    stage.end().await;
    Ok(())
}

#[tokio::test]
async fn responses_that_are_lost_make_nothing_twice() -> Result<()> {
    let stage = Stage::start_on(forgetful).await?;
    stage
        .create(cluster(|object| {
            workers(object)["machineDeployments"] = json!([
                {"class": "worker", "name": "a", "replicas": 0},
                {"class": "worker", "name": "b", "replicas": 0},
            ]);
            workers(object)["machinePools"] = json!([{"class": "pool", "name": "p", "replicas": 2}]);
        }))
        .await?;
    // Workers that were not created with it wait until the control plane has a version.
    eventually(PATIENCE, "the control plane to be created", async || {
        stage.upgrade_control_plane("v1.34.0").await
    })
    .await?;
    stage.until_reconciled().await?;
    for (group_version, kind, number) in [
        (GROUP_VERSION, "TestCluster", 1),
        (GROUP_VERSION, "TestControlPlane", 1),
        (CORE, "MachineDeployment", 2),
        (CORE, "MachinePool", 1),
        (CORE, "MachineHealthCheck", 2),
    ] {
        let found = stage.owned(group_version, kind).await?.len();
        ensure!(found == number, "{found} of kind {kind}");
    }
    for name in ["a", "b"] {
        let spec = &stage.deployment(name).await?.data["spec"]["template"]["spec"];
        let machines = stage.api(GROUP_VERSION, "TestMachineTemplate");
        machines.get(spec["infrastructureRef"]["name"].as_str().context("a name")?).await?;
        let configs = stage.api(GROUP_VERSION, "TestConfigTemplate");
        configs.get(spec["bootstrap"]["configRef"]["name"].as_str().context("a name")?).await?;
    }
    stage.end().await;
    Ok(())
}
