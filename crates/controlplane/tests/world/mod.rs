//! The rest of the world, played by the test: core, bootstrap and infrastructure providers, and every machine's agent.
//!
//! Each [`World::tick`] does what they would have done by now, and checks what must hold at any moment: plans are
//! signed for their machine, revisions grow, at most one machine ever begins the cluster, nobody joins before it has,
//! never is more than one server on its way to another state, nobody leaves with a member of etcd on it, and etcd always
//! has its majority.

#![allow(dead_code, clippy::unwrap_used, reason = "each suite uses its part")]

mod cluster;

pub(crate) use cluster::Workload;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use capstan_api::agent::MachineReport;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::HostMachine;
use capstan_artifacts::{ArtifactRef, Software, Source};
use capstan_controller::owners;
use capstan_controlplane::Tools;
use capstan_plan::{
    Action, Digest, MachineIdentity, OpenGates, PublicKey, SecretData, SignedGates, SignedPlan, VerifiedPlan,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
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
    /// Machines that were ever told to begin a cluster.
    inits: BTreeSet<String>,
    /// Machines that have carried out a plan.
    applied: BTreeSet<String>,
    revisions: BTreeMap<String, u64>,
    /// The workload cluster, as far as it is played.
    pub(crate) workload: Workload,
}

impl World {
    /// A namespace with a Cluster whose infrastructure stands, and a control plane of one replica.
    pub(crate) async fn new(client: Client, namespace: &str) -> Self {
        let world = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            inits: BTreeSet::new(),
            applied: BTreeSet::new(),
            revisions: BTreeMap::new(),
            workload: Workload::default(),
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
        let status = json!({"status": {
            "initialization": {"infrastructureProvisioned": true},
            "failureDomains": [
                {"name": "rack-1", "controlPlane": true}, {"name": "rack-2", "controlPlane": true},
                {"name": "rack-3", "controlPlane": true}, {"name": "attic", "controlPlane": false}],
        }});
        world.patch_status::<Cluster>("c", &status).await.unwrap();
        world
            .make::<capstan_api::infrastructure::HostMachineTemplate>(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostMachineTemplate",
                "metadata": {"name": "hosts"}, "spec": {"template": {"spec": {}}},
            }))
            .await;
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
        for machine in &scene.machines {
            if machine.metadata.deletion_timestamp.is_some() {
                self.let_go(machine).await?;
                continue;
            }
            self.provide(&scene, machine).await?;
            self.obey(&scene, machine).await?;
        }
        Ok(())
    }

    /// The part of core when a Machine is deleted: it waits for hooks, and then the host is gone.
    async fn let_go(&self, machine: &Machine) -> Result<()> {
        let name = machine.name_any();
        if machine.annotations().keys().any(|key| key.starts_with("pre-terminate.delete.hook.")) {
            let waits = json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            return self.add_conditions(&name, vec![waits], json!({})).await;
        }
        let server = machine.labels().contains_key("cluster.x-k8s.io/control-plane");
        let ends = self.api::<CapstanControlPlane>().get_opt("cp").await?;
        let ends = ends.is_none_or(|object| object.metadata.deletion_timestamp.is_some());
        ensure!(
            !server || ends || !self.workload.is_member(&name),
            "{name} goes and is still a member of etcd"
        );
        self.workload.gone(&name);
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
    async fn add_conditions(&self, name: &str, conditions: Vec<Value>, more: Value) -> Result<()> {
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

    async fn scene(&self) -> Result<Scene> {
        let all = ListParams::default();
        // Secrets before reports, and both before what they are about: what is newer can only be further.
        let control_plane = self.api::<CapstanControlPlane>().get_opt("cp").await?;
        let secrets = self.api::<Secret>().list(&all).await?.items;
        let reports = self.api::<MachineReport>().list(&all).await?.items;
        let configs = self.api::<CapstanConfig>().list(&all).await?.items;
        let machines = self.machines().await?;
        Ok(Scene {
            record: control_plane
                .and_then(|object| object.annotations().get("capstan.dev/init-machine").cloned()),
            secrets: secrets.into_iter().map(|secret| (secret.name_any(), secret)).collect(),
            reports: reports.into_iter().map(|report| (report.name_any(), report)).collect(),
            configs: configs.into_iter().map(|config| (config.name_any(), config)).collect(),
            machines,
        })
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

    /// The part of the agent, and of core, which finds the Node.
    async fn obey(&mut self, scene: &Scene, machine: &Machine) -> Result<()> {
        let name = machine.name_any();
        let Some(plan) = scene.plan(&name)? else { return Ok(()) };
        let Some(report) = scene.reports.get(&name) else { return Ok(()) };
        ensure!(report.spec.machine_id == format!("id-{name}"), "the report of {name} is of another life");
        if is_applied(report, &plan) && self.applied.contains(&name) {
            return Ok(());
        }
        let (digest, revision) = (plan.id().digest().to_string(), plan.id().revision().get());
        let known = self.revisions.insert(name.clone(), revision).unwrap_or_default();
        ensure!(revision > known, "{name}: revision {revision} after {known}");
        let told = json!({"digest": digest, "revision": revision});
        if !scene.is_open(&name, &plan)? {
            let gate = plan.plan().steps.iter().position(|step| step.name.as_str() == "drained").unwrap();
            let step = json!({"name": "drained", "index": gate + 1, "total": plan.plan().steps.len()});
            let status = json!({"status": {"plan": told, "phase": "Waiting", "step": step}});
            // It asks again: the gate was closed, and this revision is still to come.
            self.revisions.insert(name.clone(), known);
            return self.patch_status::<MachineReport>(&name, &status).await;
        }
        let server = machine.labels().contains_key("cluster.x-k8s.io/control-plane");
        if server {
            self.workload.restarted(&name)?;
        }
        let status = json!({"status": {"plan": told, "phase": "Applied", "applied": told, "step": null}});
        self.patch_status::<MachineReport>(&name, &status).await?;
        self.applied.insert(name.clone());
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let node = json!({
            "nodeRef": {"name": name},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": version_of(&plan), "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64"},
        });
        self.add_conditions(&name, vec![condition("Ready"), condition("Available")], node).await
    }

    /// What must hold at any moment.
    fn check(&mut self, scene: &Scene) -> Result<()> {
        let mut busy = Vec::new();
        for machine in &scene.machines {
            let name = machine.name_any();
            let Some(plan) = scene.plan(&name)? else { continue };
            let config = config_of(&plan);
            let server = machine.labels().contains_key("cluster.x-k8s.io/control-plane");
            if config["cluster-init"] == json!(true) {
                self.inits.insert(name.clone());
                ensure!(self.inits.len() == 1, "{:?} were all told to begin the cluster", self.inits);
                // Gone with the control plane when that is at its end.
                let record = scene.record.clone().unwrap_or_else(|| format!("{name}/id-{name}"));
                ensure!(record == format!("{name}/id-{name}"), "{name} begins, but {record} is written down");
            } else {
                ensure!(config["server"] == "https://10.0.0.10:6443", "{config}");
                let begun =
                    self.inits.iter().all(|name| self.applied.contains(name)) && !self.inits.is_empty();
                ensure!(begun, "{name} joins before the cluster has begun");
            }
            if server && !scene.reports.get(&name).is_some_and(|report| is_applied(report, &plan)) {
                busy.push(name);
            }
        }
        ensure!(busy.len() <= 1, "{busy:?} are changed at the same time");
        self.workload.check()?;
        Ok(())
    }

    /// The plan of a machine, as its agent would take it.
    pub(crate) async fn plan(&self, machine: &str) -> Result<Option<VerifiedPlan>> {
        self.scene().await?.plan(machine)
    }

    /// Status and reason of a condition of the control plane.
    pub(crate) async fn condition(&self, type_: &str) -> Result<(String, String, String)> {
        let status = self.control_plane().await?.status.unwrap_or_default();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == type_);
        Ok(found.map(|c| (c.status.to_string(), c.reason, c.message)).unwrap_or_default())
    }

    /// Whether so many machines are ready, up to date, and of this version.
    pub(crate) async fn stands(&self, replicas: i32, version: &str) -> Result<()> {
        let control_plane = self.control_plane().await?;
        let status = control_plane.status.unwrap_or_default();
        let counts =
            [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
        ensure!(counts == [Some(replicas); 4], "{counts:?}: {}", json!(status.conditions));
        let versions: Vec<_> = status.versions.iter().map(|v| (v.version.as_str(), v.replicas)).collect();
        ensure!(versions == [(version, Some(replicas))], "{versions:?}");
        let initialized = status.initialization.and_then(|status| status.control_plane_initialized);
        ensure!(initialized == Some(true), "not initialized");
        let expected = [("Available", "True"), ("Initialized", "True"), ("CertificatesAvailable", "True")];
        let quiet =
            ["RollingOut", "ScalingUp", "ScalingDown", "Deleting", "Paused"].map(|type_| (type_, "False"));
        for (type_, wanted) in expected.into_iter().chain(quiet) {
            let found = status.conditions.iter().find(|condition| condition.type_ == type_);
            let found = found.map(|condition| condition.status.to_string()).unwrap_or_default();
            ensure!(found == wanted, "{type_}: {found}");
        }
        Ok(())
    }
}

/// Everything there is, at one moment.
struct Scene {
    machines: Vec<Machine>,
    configs: BTreeMap<String, CapstanConfig>,
    reports: BTreeMap<String, MachineReport>,
    secrets: BTreeMap<String, Secret>,
    record: Option<String>,
}

impl Scene {
    /// Whether the gate of a machine's plan is open, as its agent would see it.
    fn is_open(&self, machine: &str, plan: &VerifiedPlan) -> Result<bool> {
        let data = data(&self.secrets[&format!("{machine}-plan")]);
        let Some(signed) = SignedGates::from_secret_data(&data)? else { return Ok(false) };
        let gates = OpenGates::verify(&signed, &[self.key()?].into_iter().collect(), plan.id())?;
        Ok(gates.is_open(plan.id(), &"drained".parse()?))
    }

    fn key(&self) -> Result<PublicKey> {
        let key = self.secrets.get("c-plan-key").and_then(|key| key.data.as_ref()).unwrap();
        Ok(PublicKey::from_bytes(&key["public"].0)?)
    }

    fn plan(&self, machine: &str) -> Result<Option<VerifiedPlan>> {
        let Some(secret) = self.secrets.get(&format!("{machine}-plan")) else { return Ok(None) };
        let public = self.key()?;
        let signed = SignedPlan::from_secret_data(&data(secret))?;
        let ours = MachineIdentity { name: machine.parse()?, machine_id: format!("id-{machine}").parse()? };
        Ok(Some(signed.verify(&[public].into_iter().collect(), &ours)?))
    }
}

fn data(secret: &Secret) -> SecretData {
    secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

fn is_applied(report: &MachineReport, plan: &VerifiedPlan) -> bool {
    let applied = report.status.as_ref().and_then(|status| status.applied.as_ref());
    applied.is_some_and(|applied| plan.id().is_named_by(&applied.digest, applied.revision))
}

/// `config.yaml` in a plan.
pub(crate) fn config_of(plan: &VerifiedPlan) -> Value {
    let file = plan.plan().steps.iter().find_map(|step| match &step.action {
        Action::File(file) if file.path.as_str() == "/etc/rancher/k3s/config.yaml" => Some(file),
        _ => None,
    });
    serde_json::from_slice(file.unwrap().content.as_bytes()).unwrap()
}

/// The version that a plan installs, which is the last that it puts there.
pub(crate) fn version_of(plan: &VerifiedPlan) -> String {
    let mut artifacts = plan.plan().steps.iter().filter_map(|step| match &step.action {
        Action::Artifact(artifact) => Some(artifact),
        _ => None,
    });
    artifacts.next_back().unwrap().path.parts().nth(3).unwrap().to_owned()
}

/// What a manager is given beside the API.
pub(crate) fn tools(workload: &Workload) -> Tools {
    let source = Source { url: "https://plane.example/k3s".to_owned(), ca: None };
    Tools {
        software: Software::default(),
        spare: Some(ArtifactRef { sha256: Digest::of(b"k3s"), size: 3, sources: vec![source] }),
        etcd: Arc::new(workload.clone()),
    }
}
