//! A real API server with the controllers of MachineDeployments, MachineSets and MachineHealthChecks on it. The test
//! plays everybody else: the Cluster, the providers, and the controller of Machines ([`Player`]).

use anyhow::{Context as _, Result, ensure};
use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use capstan_api::runtime::ExtensionConfig;
use capstan_core::{Core, extensionconfig, machinedeployment, machinehealthcheck, machineset};
use capstan_testkit::{RealPlane, eventually, install_crds};
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::extension::{self, Mood};
use crate::player::Player;

pub(crate) const NAMESPACE: &str = "rollout";
pub(crate) const CORE: &str = "cluster.x-k8s.io/v1beta2";
pub(crate) const GROUP: &str = "test.cluster.x-k8s.io";
pub(crate) const OLD: &str = "v1.35.0";
pub(crate) const NEW: &str = "v1.36.1";
const PATIENCE: Duration = Duration::from_secs(90);

pub(crate) struct Stage {
    pub(crate) plane: RealPlane,
    pub(crate) client: Client,
    pub(crate) player: Player,
    _stop: oneshot::Sender<()>,
    running: JoinSet<()>,
}

impl Stage {
    /// Starts a plane with a Cluster and templates, and the controllers.
    pub(crate) async fn start() -> Result<Self> {
        let plane = RealPlane::start().await?;
        let client = plane.client();
        install_crds(&client, &capstan_api::crd::core_provider()).await?;
        let kinds = ["TestMachine", "TestMachineTemplate", "TestConfig", "TestConfigTemplate", "TestCluster"];
        install_crds(&client, &kinds.map(crd)).await?;
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;

        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = stopped.map(|_| ()).shared();
        let core = Core::new(client.clone());
        let mut running = JoinSet::new();
        running.spawn(machineset::run(core.clone(), stopped.clone()));
        running.spawn(machinedeployment::run(core.clone(), stopped.clone()));
        running.spawn(extensionconfig::run(core.clone(), stopped.clone()));
        running.spawn(machinehealthcheck::run(core, stopped));
        let player = Player::start(&client, &mut running);
        let stage = Self { plane, client, player, _stop: stop, running };
        stage.create(cluster()).await?;
        let ready = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2020-01-01T00:00:00Z"})
        };
        let conditions = json!([ready("InfrastructureReady"), ready("ControlPlaneInitialized")]);
        let patch = json!({"status": {"conditions": conditions}});
        let clusters = stage.untyped(CORE, "Cluster");
        clusters.patch_status("demo", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        for kind in ["TestMachineTemplate", "TestConfigTemplate"] {
            stage.create(template(kind)).await?;
        }
        Ok(stage)
    }

    /// Registers a runtime extension, and waits until it has been asked what it serves.
    pub(crate) async fn register(&mut self, name: &str, mood: Mood) -> Result<()> {
        let (url, bundle) = extension::serve(mood, &mut self.running).await?;
        extension::register(&self.client, name, &url, &bundle).await?;
        let configs: Api<ExtensionConfig> = Api::all(self.client.clone());
        eventually(PATIENCE, "the extension to be discovered", async || {
            let config = configs.get(name).await?;
            ensure!(capstan_api::conditions::is_true(&config, "Discovered"), "{:?}", config.status);
            Ok(())
        })
        .await
    }

    pub(crate) fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn sets(&self) -> Api<MachineSet> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn deployments(&self) -> Api<MachineDeployment> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) fn untyped(&self, group_version: &str, kind: &str) -> Api<DynamicObject> {
        untyped(&self.client, group_version, kind)
    }

    pub(crate) fn clones(&self, kind: &str) -> Api<DynamicObject> {
        self.untyped(&format!("{GROUP}/v1"), kind)
    }

    pub(crate) async fn create(&self, object: Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().context("a text").map(str::to_owned);
        let api = self.untyped(&text("apiVersion")?, &text("kind")?);
        let object: DynamicObject = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await.context("cannot create")?;
        Ok(())
    }

    /// Changes the MachineDeployment `md`.
    pub(crate) async fn change(&self, patch: &Value) -> Result<()> {
        self.deployments().patch("md", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Waits until the MachineDeployment `md` has exactly so many machines, all of this version, in one MachineSet.
    pub(crate) async fn until_rolled_out(&self, replicas: usize, version: &str) -> Result<Vec<Machine>> {
        eventually(PATIENCE, &format!("{replicas} machines of {version}"), async || {
            let deployment = self.deployments().get("md").await?;
            let status = deployment.status.unwrap_or_default();
            let counts = [status.replicas, status.available_replicas, status.up_to_date_replicas];
            let wanted = Some(i32::try_from(replicas)?);
            ensure!(counts.iter().all(|count| *count == wanted), "{counts:?}");
            ensure!(status.observed_generation == deployment.metadata.generation, "not looked at");
            let sets = self.sets().list(&ListParams::default()).await?.items;
            ensure!(sets.len() == 1, "{} MachineSets", sets.len());
            let machines = self.machines().list(&ListParams::default()).await?.items;
            ensure!(machines.len() == replicas, "{} machines", machines.len());
            ensure!(machines.iter().all(|m| m.spec.version.as_deref() == Some(version)), "not of {version}");
            Ok(machines)
        })
        .await
    }

    /// Checks that nobody writes while nothing changes.
    pub(crate) async fn nothing_is_written(&self) -> Result<()> {
        // What was begun may be finished.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let before = self.versions().await?;
        tokio::time::sleep(Duration::from_secs(4)).await;
        let after = self.versions().await?;
        ensure!(before == after, "somebody writes: {before:?} became {after:?}");
        Ok(())
    }

    async fn versions(&self) -> Result<Vec<(String, Option<String>)>> {
        let kinds = [
            (CORE.to_owned(), "MachineDeployment"),
            (CORE.to_owned(), "MachineSet"),
            (CORE.to_owned(), "Machine"),
            (format!("{GROUP}/v1"), "TestMachine"),
            (format!("{GROUP}/v1"), "TestConfig"),
            (format!("{GROUP}/v1"), "TestMachineTemplate"),
        ];
        let mut versions = vec![];
        for (group_version, kind) in kinds {
            for object in self.untyped(&group_version, kind).list(&ListParams::default()).await?.items {
                versions.push((format!("{kind}/{}", object.name_any()), object.resource_version()));
            }
        }
        Ok(versions)
    }

    /// Waits for something about the Machines.
    pub(crate) async fn until_machines(
        &self,
        what: &str,
        holds: impl Fn(&[Machine]) -> Result<()>,
    ) -> Result<Vec<Machine>> {
        eventually(PATIENCE, what, async || {
            let machines = self.machines().list(&ListParams::default()).await?.items;
            holds(&machines)?;
            Ok(machines)
        })
        .await
    }
}

pub(crate) fn untyped(client: &Client, group_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

pub(crate) fn names(machines: &[Machine]) -> Vec<String> {
    machines.iter().map(kube::ResourceExt::name_any).collect()
}

pub(crate) fn uids(machines: &[Machine]) -> std::collections::BTreeSet<String> {
    machines.iter().filter_map(kube::ResourceExt::uid).collect()
}

fn reference(kind: &str, name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": kind, "name": name})
}

fn cluster() -> Value {
    json!({
        "apiVersion": CORE, "kind": "Cluster", "metadata": {"name": "demo", "namespace": NAMESPACE},
        "spec": {"infrastructureRef": reference("TestCluster", "demo")},
    })
}

pub(crate) fn template(kind: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": "t", "namespace": NAMESPACE},
        "spec": {"template": {"metadata": {"labels": {"from": "template"}}, "spec": {"size": "large"}}},
    })
}

/// What Machines look like.
pub(crate) fn machine_template(version: &str) -> Value {
    json!({"metadata": {"labels": {"pool": "a"}}, "spec": {
        "clusterName": "demo", "version": version,
        "bootstrap": {"configRef": reference("TestConfigTemplate", "t")},
        "infrastructureRef": reference("TestMachineTemplate", "t"),
    }})
}

pub(crate) fn deployment(replicas: i32) -> Value {
    json!({
        "apiVersion": CORE, "kind": "MachineDeployment", "metadata": {"name": "md", "namespace": NAMESPACE},
        "spec": {"clusterName": "demo", "replicas": replicas, "selector": {}, "template": machine_template(OLD)},
    })
}

fn crd(kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{singular}s.{GROUP}"), "labels": {"cluster.x-k8s.io/v1beta2": "v1"}},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": kind, "plural": format!("{singular}s"), "singular": singular},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    })
}
