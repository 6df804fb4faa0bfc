//! The rest of the world, played by the test: core, bootstrap and infrastructure providers, and every machine's agent.
//!
//! Each [`World::tick`] does what they would have done by now, and checks what must hold at any moment: plans are
//! signed for their machine, revisions grow, at most one machine ever begins the cluster, nobody joins before it has,
//! never is more than one server on its way to another state, nobody leaves with a member of etcd on it, and etcd always
//! has its majority.

#![allow(dead_code, reason = "each suite uses its part")]

mod agent;
mod check;
mod cluster;
mod mood;
mod moved;
mod scene;

pub(crate) use cluster::Workload;
pub(crate) use mood::Mood;
pub(crate) use scene::{Scene, config_of, is_leaving, is_server, version_of, wiped};

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{HostMachine, HostMachineTemplate};
use capstan_artifacts::{Arch, ArtifactRef, Catalog, Software, Source};
use capstan_controller::owners;
use capstan_controlplane::Tools;
use capstan_plan::{Digest, PublicKey, VerifiedPlan};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) const V1: &str = "v1.36.0+k3s1";
pub(crate) const V2: &str = "v1.36.1+k3s1";

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// The machine that was told to begin the cluster.
    begins: Option<String>,
    /// Machines that have carried out a plan.
    applied: BTreeSet<String>,
    /// The last plan that each agent has seen: revision and digest, by the UID of its Machine. Names may come again.
    revisions: BTreeMap<String, (u64, String)>,
    plans: scene::Plans,
    /// What agents are about.
    errands: BTreeMap<String, agent::Errand>,
    /// The workload cluster, as far as it is played.
    pub(crate) workload: Workload,
    /// Machines whose host is gone for now.
    pub(crate) lost: BTreeSet<String>,
    /// Machines whose host was ever gone, or whose agent was not heard.
    pub(crate) ever_lost: BTreeSet<String>,
    /// Paths that users have named to be wiped when a host is released.
    pub(crate) named: BTreeSet<String>,
    /// Machines that run, and whose agent does not reach the manager.
    pub(crate) unheard: BTreeSet<String>,
    /// The cluster began before workers had a token of their own.
    pub(crate) began_without_agent_token: bool,
    /// Workers that were told a token of their own.
    pub(crate) separate: BTreeSet<String>,
    /// The key that each agent trusts, with the UID of its Machine, by name. Names may come again.
    trusted: BTreeMap<String, (String, PublicKey)>,
    /// Machines whose agents are of before keys were replaced.
    pub(crate) old_agents: BTreeSet<String>,
    /// How the others behave.
    pub(crate) mood: Mood,
    pub(crate) now: Timestamp,
}

impl World {
    /// A namespace with a Cluster whose infrastructure stands, and a control plane of one replica.
    pub(crate) async fn new(client: Client, namespace: &str) -> Self {
        let world = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            begins: None,
            applied: BTreeSet::new(),
            revisions: BTreeMap::new(),
            errands: BTreeMap::new(),
            plans: scene::Plans::default(),
            workload: Workload::default(),
            lost: BTreeSet::new(),
            ever_lost: BTreeSet::new(),
            named: BTreeSet::new(),
            unheard: BTreeSet::new(),
            began_without_agent_token: false,
            separate: BTreeSet::new(),
            trusted: BTreeMap::new(),
            old_agents: BTreeSet::new(),
            mood: Mood::default(),
            now: Timestamp::now(),
        };
        let namespaces: Api<Namespace> = Api::all(client);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        let cluster: Cluster = world
            .make(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
                "spec": {
                    "controlPlaneEndpoint": {"host": "10.0.0.10", "port": 6443},
                    "controlPlaneRef": {
                        "kind": "CapstanControlPlane", "name": "cp", "apiGroup": "controlplane.cluster.x-k8s.io"},
                },
            }))
            .await;
        world.infrastructure_stands().await;
        for template in ["hosts", "others"] {
            world
                .make::<HostMachineTemplate>(json!({
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostMachineTemplate",
                    "metadata": {"name": template}, "spec": {"template": {"spec": {}}},
                }))
                .await;
            let free = json!({"status": {"claimableHosts": 9}});
            world.patch_status::<HostMachineTemplate>(template, &free).await.unwrap();
        }
        world
            .make::<CapstanControlPlane>(json!({
                "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
                "metadata": {
                    "name": "cp", "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                    "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c",
                        "uid": cluster.uid().unwrap()}],
                },
                "spec": {"replicas": 1, "version": V1, "machineTemplate": {"spec": {"infrastructureRef": {
                    "kind": "HostMachineTemplate", "name": "hosts",
                    "apiGroup": "infrastructure.cluster.x-k8s.io"}}}},
            }))
            .await;
        world
    }

    /// What core says of the Cluster.
    pub(crate) async fn infrastructure_stands(&self) {
        let status = json!({"status": {
            "initialization": {"infrastructureProvisioned": true},
            "failureDomains": [
                {"name": "rack-1", "controlPlane": true}, {"name": "rack-2", "controlPlane": true},
                {"name": "rack-3", "controlPlane": true}, {"name": "attic", "controlPlane": false}],
        }});
        self.patch_status::<Cluster>("c", &status).await.unwrap();
    }

    pub(crate) fn api<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn make<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Serialize
            + Clone
            + std::fmt::Debug,
    {
        self.api::<K>()
            .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap()
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: &Value) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    async fn patch_status<K>(&self, name: &str, patch: &Value) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        self.api::<K>().patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    pub(crate) async fn control_plane(&self) -> Result<CapstanControlPlane> {
        Ok(self.api::<CapstanControlPlane>().get("cp").await?)
    }

    pub(crate) async fn machines(&self) -> Result<Vec<Machine>> {
        Ok(self.api::<Machine>().list(&ListParams::default()).await?.items)
    }

    /// A worker as a MachineSet would make it.
    pub(crate) async fn add_worker(&self, name: &str) {
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
        self.make::<CapstanConfig>(json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig",
            "metadata": {"name": name, "labels": labels}, "spec": {},
        }))
        .await;
        self.make::<Machine>(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "clusterName": "c", "version": V1,
                "bootstrap": {"configRef": {
                    "kind": "CapstanConfig", "name": name, "apiGroup": "bootstrap.cluster.x-k8s.io"}},
                "infrastructureRef": {
                    "kind": "HostMachine", "name": name, "apiGroup": "infrastructure.cluster.x-k8s.io"},
            },
        }))
        .await;
    }

    /// Everybody else does what they would have done by now.
    pub(crate) async fn tick(&mut self) -> Result<()> {
        let scene = self.scene().await?;
        self.check(&scene)?;
        self.tick_from(&scene).await
    }

    /// The same, by somebody who has just looked.
    pub(crate) async fn tick_from(&mut self, scene: &Scene) -> Result<()> {
        for machine in &scene.machines {
            if !self.mood.acts() {
                continue;
            }
            if is_leaving(machine) {
                // Its agent knows nothing of that.
                let obeys = self.mood.is_calm() || self.mood.tosses();
                if obeys {
                    self.obey(scene, machine).await?;
                }
                if !obeys || self.mood.is_calm() {
                    self.let_go(machine).await?;
                }
                continue;
            }
            self.provide(scene, machine).await?;
            self.obey(scene, machine).await?;
        }
        Ok(())
    }

    /// The part of core when a Machine is deleted: it waits for hooks, and then the host is gone.
    async fn let_go(&mut self, machine: &Machine) -> Result<()> {
        let name = machine.name_any();
        if machine.annotations().keys().any(|key| key.starts_with("pre-terminate.delete.hook.")) {
            let waits = json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let since = machine.status.as_ref().and_then(|status| status.deletion.as_ref());
            let since = since.and_then(|deletion| deletion.wait_for_pre_terminate_hook_start_time.clone());
            let since = since.map_or(self.now, |time| time.0);
            let deletion = json!({"deletion": {"waitForPreTerminateHookStartTime": since.to_string()}});
            return self.add_conditions(&name, vec![waits], deletion).await;
        }
        let owner = self.api::<CapstanControlPlane>().get_opt("cp").await?;
        let begun = |owner: &CapstanControlPlane| {
            let noted = owner.annotations().contains_key("capstan.dev/initialized");
            noted && owner.metadata.deletion_timestamp.is_none()
        };
        ensure!(
            !is_server(machine) || !owner.as_ref().is_some_and(begun) || !self.workload.is_member(&name),
            "{name} goes and is still a member of etcd"
        );
        self.workload.gone(&name);
        self.lost.remove(&name);
        self.unheard.remove(&name);
        let gone = DeleteParams::default();
        for deleted in [
            self.api::<CapstanConfig>().delete(&name, &gone).await.map(|_| ()),
            self.api::<HostMachine>().delete(&name, &gone).await.map(|_| ()),
        ] {
            match deleted {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => deleted?,
            }
        }
        self.patch::<Machine>(&name, &json!({"metadata": {"finalizers": null}})).await
    }

    /// Sets conditions of a Machine, and more of its status.
    pub(crate) async fn add_conditions(&self, name: &str, conditions: Vec<Value>, more: Value) -> Result<()> {
        let Some(now) = self.api::<Machine>().get_opt(name).await? else { return Ok(()) };
        let others = now.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let mut all = conditions.clone();
        let is_new = |type_: &str| conditions.iter().any(|condition| condition["type"] == type_);
        all.extend(others.iter().filter(|c| !is_new(&c.type_)).map(|c| json!(c)));
        let mut status = more;
        status["conditions"] = json!(all);
        let patch = json!({"metadata": {"resourceVersion": now.resource_version()}, "status": status});
        self.patch_status::<Machine>(name, &patch).await
    }

    /// The part of bootstrap and infrastructure.
    async fn provide(&self, scene: &Scene, machine: &Machine) -> Result<()> {
        let name = machine.name_any();
        let Some(config) = scene.configs.get(&name) else { return Ok(()) };
        if !config.annotations().contains_key("capstan.dev/machine-id") {
            let identity =
                json!({"metadata": {"annotations": {"capstan.dev/machine-id": format!("id-{name}")}}});
            self.patch::<CapstanConfig>(&name, &identity).await?;
        }
        if !scene.reports.contains_key(&name) {
            let report: MachineReport = serde_json::from_value(json!({
                "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport",
                "metadata": {
                    "name": name, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                    "ownerReferences": [owners::plain(machine)],
                },
                "spec": {"machineName": name, "machineID": format!("id-{name}")},
            }))?;
            self.api::<MachineReport>().create(&PostParams::default(), &report).await?;
        }
        if machine.spec.provider_id.is_none() {
            let patch = json!({
                "metadata": {"finalizers": ["machine.cluster.x-k8s.io"]},
                "spec": {"providerID": format!("host:///{name}")},
            });
            self.patch::<Machine>(&name, &patch).await?;
        }
        Ok(())
    }

    /// The plan of a machine, as its agent would take it.
    pub(crate) async fn plan(&self, machine: &str) -> Result<Option<Arc<VerifiedPlan>>> {
        self.scene().await?.plan(machine)
    }

    /// Status and reason of a condition of the control plane.
    pub(crate) async fn condition(&self, type_: &str) -> Result<(String, String, String)> {
        let status = self.control_plane().await?.status.unwrap_or_default();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == type_);
        Ok(found.map(|c| (c.status.to_string(), c.reason, c.message)).unwrap_or_default())
    }
}

/// What a manager is given beside the API.
pub(crate) fn tools(workload: &Workload) -> Tools {
    let source = Source { url: "https://plane.example/k3s".to_owned(), ca: None };
    let artifact = ArtifactRef { sha256: Digest::of(b"k3s"), size: 3, sources: vec![source] };
    let versions = [V1, V2, "v1.36.2+k3s1", "v1.37.0+k3s1", "v1.39.0+k3s1"];
    let catalog = versions.into_iter().fold(Catalog::default(), |catalog, version| {
        catalog.with("k3s", version, Arch::Amd64, artifact.clone())
    });
    Tools { software: Software::fixed(catalog), spare: None, etcd: Arc::new(workload.clone()) }
}
