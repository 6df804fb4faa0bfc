//! Who looks after the machines' health: core's own health check and MachineSet, asked what they would do, on what the
//! manager's process knows of the workload cluster at that moment. And what must hold whatever they say.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use capstan_api::core::{Cluster, Machine, MachineHealthCheckChecks, MachineSet};
use capstan_controller::Knowledge;
use capstan_controller::remote::Ambiguous;
use capstan_core::machinehealthcheck::health::{self, Health};
use capstan_core::machinehealthcheck::node::{self, NodeIndex};
use capstan_core::machineset::remediation;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::life::Life;
use crate::seen::Seen;
use crate::world::{Workload, is_leaving, is_server};

/// For so long a health check may not have noticed that a machine is well: it looks once in a turn.
const NOT_NOTICED: SignedDuration = SignedDuration::from_secs(90);

/// The health check of one life.
#[derive(Default)]
pub(crate) struct Ward {
    /// Whether there is one.
    pub(crate) is_open: bool,
    /// Whether the user allows machines to be replaced.
    pub(crate) may_replace: bool,
    /// Whether its template leaves the remedy to us: nobody else asks the owners.
    pub(crate) is_external: bool,
    /// Whether agents give signs of life.
    pub(crate) has_leases: bool,
    /// Whether each Node is Ready, in truth, and since when.
    ready: BTreeMap<String, (bool, Timestamp)>,
    /// When each machine was first seen.
    known: BTreeMap<String, Timestamp>,
}

impl Ward {
    fn look(&mut self, workload: &Workload, now: Timestamp) {
        let readiness = workload.readiness();
        self.ready.retain(|name, _| readiness.contains_key(name));
        for (name, ready) in readiness {
            let seen = self.ready.entry(name).or_insert((ready, now));
            if seen.0 != ready {
                *seen = (ready, now);
            }
        }
    }

    /// Whether the Node has been Ready for longer than a health check needs to notice.
    pub(crate) fn is_surely_well(&self, name: &str, now: Timestamp) -> bool {
        self.ready.get(name).is_some_and(|(ready, since)| *ready && now.duration_since(*since) > NOT_NOTICED)
    }

    /// Whether the Node is not Ready.
    pub(crate) fn is_ill(&self, name: &str) -> bool {
        self.ready.get(name).is_some_and(|(ready, _)| !ready)
    }

    /// What the manager did to machines must be what their Nodes call for.
    pub(crate) fn check(
        &self,
        before: &Seen,
        after: &Seen,
        workload: &Workload,
        now: Timestamp,
    ) -> Result<()> {
        for name in after.healing_since(before) {
            ensure!(!self.is_surely_well(&name, now), "{name} is healed, and its Node is Ready");
        }
        let readiness = workload.readiness();
        let is_ready = |name: &String| readiness.get(name).copied();
        for name in after.let_through_since(before) {
            if is_ready(&name) != Some(true) {
                continue;
            }
            let others = after.staying_servers().filter(|other| *other != name);
            for other in others {
                ensure!(
                    is_ready(&other) != Some(false),
                    "{name} may restart while the Node of {other} is not Ready"
                );
            }
        }
        Ok(())
    }
}

/// The Nodes that the manager's process knows.
struct Index(BTreeMap<String, Arc<Node>>);

impl NodeIndex for Index {
    fn by_name(&self, name: &str) -> Option<Arc<Node>> {
        self.0.get(name).cloned()
    }

    fn by_provider_id(&self, provider_id: &str) -> std::result::Result<Option<Arc<Node>>, Ambiguous> {
        Ok(self.0.get(provider_id.trim_start_matches("host:///")).cloned())
    }
}

impl Life {
    /// Agents give signs of life, and the health check looks at all machines.
    pub(crate) async fn watch_over(&mut self) -> Result<()> {
        let now = self.now();
        self.ward.look(&self.world.workload, now);
        let machines = self.world.machines().await?;
        if self.ward.has_leases {
            let is_heard =
                |name: &String| !self.world.lost.contains(name) && !self.world.unheard.contains(name);
            for name in machines.iter().map(kube::ResourceExt::name_any).filter(is_heard) {
                self.sign_of_life(&name, now).await?;
            }
        }
        if !self.ward.is_open {
            return Ok(());
        }
        let owner = self.world.control_plane().await?;
        let has_begun = owner.annotations().contains_key("capstan.dev/initialized");
        let nodes = has_begun.then(|| self.known_nodes());
        let (cluster, checks) = (cluster(has_begun), checks());
        let mut workers = Vec::new();
        for machine in machines.into_iter().filter(|machine| !is_leaving(machine)) {
            let name = machine.name_any();
            let since = *self.ward.known.entry(name.clone()).or_insert(now);
            let provisioned = provisioned(&machine, since);
            let seen = node::find(nodes.as_ref(), &provisioned);
            let mut health = health::check(&cluster, &provisioned, &seen.of(&provisioned), &checks, now);
            // As core does, past all caches.
            if let (Health::Unhealthy { reason, .. }, Some(node)) = (&health, node::name(&provisioned))
                && node::is_about_node(reason)
            {
                let read = node::read(self.node_now(node));
                health = health::check(&cluster, &provisioned, &read.of(&provisioned), &checks, now);
            }
            let conditions = conditions(&machine, &health, self.ward.is_external, now);
            if !is_server(&machine) {
                workers.push(with(&machine, &conditions));
            }
            if !conditions.is_empty() {
                let states: Vec<String> =
                    conditions.iter().map(|c| format!("{}={}", c["type"], c["status"])).collect();
                self.record(format!("health of {name}: {}", states.join(" ")));
                self.world.add_conditions(&name, conditions, json!({})).await?;
            }
        }
        // What a MachineSet would do about the workers.
        let decided = remediation::decide(&machine_set(self.ward.may_replace), None, &workers)?;
        for name in decided.now {
            ensure!(
                self.ward.may_replace,
                "worker {name} would be replaced, and the policy does not allow it"
            );
            ensure!(!self.ward.is_surely_well(&name, now), "worker {name} would be replaced, and it is well");
        }
        Ok(())
    }

    fn known_nodes(&self) -> Knowledge<Index> {
        if !self.world.workload.is_known() {
            return Knowledge::unknown("the Nodes have not been listed");
        }
        if self.world.workload.lists_nothing() {
            return Knowledge::Known(Index(BTreeMap::new()));
        }
        let all = self.ward.ready.iter();
        let all = all.map(|(name, (ready, since))| (name.clone(), Arc::new(node(name, *ready, *since))));
        Knowledge::Known(Index(all.collect()))
    }

    /// The Node as the API server has it.
    fn node_now(&self, name: &str) -> Knowledge<Option<Node>> {
        match self.world.workload.is_known() {
            false => Knowledge::unknown("the workload cluster does not answer"),
            true => {
                Knowledge::Known(self.ward.ready.get(name).map(|(ready, since)| node(name, *ready, *since)))
            }
        }
    }

    async fn sign_of_life(&self, machine: &str, now: Timestamp) -> Result<()> {
        let name = format!("{machine}-agent");
        let renewed =
            json!({"spec": {"renewTime": format!("{}.000000Z", now.to_string().trim_end_matches('Z'))}});
        let api = self.world.api::<Lease>();
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(&renewed)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let mut lease = renewed;
                lease["metadata"] = json!({"name": name, "labels": {"cluster.x-k8s.io/cluster-name": "c"}});
                api.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
            }
            patched => _ = patched?,
        }
        Ok(())
    }
}

fn node(name: &str, is_ready: bool, since: Timestamp) -> Node {
    let status = if is_ready { "True" } else { "Unknown" };
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"providerID": format!("host:///{name}")},
        "status": {"conditions": [{"type": "Ready", "status": status, "reason": "Kubelet",
            "lastTransitionTime": since.to_string()}]},
    }))
    .unwrap()
}

fn cluster(has_begun: bool) -> Cluster {
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let begun = if has_begun { "True" } else { "False" };
    let conditions = [condition("InfrastructureReady", "True"), condition("ControlPlaneInitialized", begun)];
    serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {}, "status": {"conditions": conditions},
    }))
    .unwrap()
}

/// As templates have them.
fn checks() -> MachineHealthCheckChecks {
    serde_json::from_value(json!({
        "nodeStartupTimeoutSeconds": 600,
        "unhealthyNodeConditions": [
            {"type": "Ready", "status": "Unknown", "timeoutSeconds": 60},
            {"type": "Ready", "status": "False", "timeoutSeconds": 60},
        ],
    }))
    .unwrap()
}

/// The Machine with what its infrastructure would say: objects of this plane are all years old.
fn provisioned(machine: &Machine, since: Timestamp) -> Machine {
    let ready = json!({"type": "InfrastructureReady", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": since.to_string()});
    let mut machine = machine.clone();
    machine.status.get_or_insert_default().conditions.push(serde_json::from_value(ready).unwrap());
    machine
}

/// What the health check writes: its own finding, and once a request to the owner, which it never takes back.
fn conditions(machine: &Machine, health: &Health, is_external: bool, now: Timestamp) -> Vec<Value> {
    let status = |type_: &str| {
        let all = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        all.iter().find(|condition| condition.type_ == type_).map(|condition| condition.status.to_string())
    };
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": now.to_string()})
    };
    let mut list = Vec::new();
    let (says, reason) = match health {
        Health::Waiting(_) => return list,
        Health::Healthy => ("True", "HealthCheckSucceeded"),
        Health::Unhealthy { reason, .. } => ("False", *reason),
    };
    if status("HealthCheckSucceeded").as_deref() != Some(says) {
        list.push(condition("HealthCheckSucceeded", says, reason));
    }
    let asked = if is_external { "ExternallyRemediated" } else { "OwnerRemediated" };
    if says == "False" && status(asked).as_deref() != Some("False") {
        list.push(condition(asked, "False", "WaitingForRemediation"));
    }
    list
}

/// The Machine with these conditions.
fn with(machine: &Machine, conditions: &[Value]) -> Machine {
    let mut machine = machine.clone();
    let all = &mut machine.status.get_or_insert_default().conditions;
    all.retain(|old| conditions.iter().all(|new| new["type"] != old.type_.as_str()));
    all.extend(conditions.iter().map(|new| serde_json::from_value(new.clone()).unwrap()));
    machine
}

fn machine_set(may_replace: bool) -> MachineSet {
    let policy = if may_replace { "WhenNeeded" } else { "Never" };
    let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "n"});
    serde_json::from_value(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": "ms", "annotations": {"capstan.dev/replace-policy": policy}},
        "spec": {"clusterName": "c", "replicas": 3, "selector": {}, "template": {"spec": {
            "clusterName": "c",
            "bootstrap": {"configRef": reference("bootstrap.cluster.x-k8s.io", "CapstanConfigTemplate")},
            "infrastructureRef": reference("infrastructure.cluster.x-k8s.io", "HostMachineTemplate"),
        }}},
    }))
    .unwrap()
}
