//! Computes the facts of all machines of a cluster from its objects.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Machine;
use capstan_controller::plans::report;
use capstan_controller::{Knowledge, owners};
use capstan_distro::cost::{Setup, field};
use capstan_distro::{Change, Cost, HostFacts, Subject, classify, classify_on};
use capstan_plan::{Report, TrustedKeys};
use capstan_planner::annotations::MAINTENANCE_WINDOWS;
use capstan_planner::facts::{self, AgentFacts, MachineFacts, NodesByName};
use capstan_planner::windows::{Maintenance, Schedule};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::hosts::provider_id;
use super::{Machines, machine};
use crate::machines::template_name;
use crate::names::{INFRASTRUCTURE_TEMPLATE, plan_secret};
use crate::plans::plan_facts;

impl Machines {
    /// Whether the Machine belongs to the control plane.
    pub(crate) fn is_of(machine: &Machine, owner: &CapstanControlPlane) -> bool {
        owners::is_controlled_by(&machine.metadata, owner)
    }

    /// The facts for decisions. Without `keys` a forged plan cannot be detected.
    pub(crate) fn facts(
        &self,
        owner: &CapstanControlPlane,
        plans: &BTreeMap<String, Arc<Secret>>,
        keys: Option<&TrustedKeys>,
        nodes: &Knowledge<NodesByName>,
    ) -> Vec<MachineFacts> {
        let windows = cluster_windows(owner);
        let nodes = believable(nodes, self.machines.values().map(Arc::as_ref));
        let one = |machine: &Arc<Machine>| {
            let name = machine.name_any();
            let config = self.configs.get(&name).map(Arc::as_ref);
            let mut facts = machine::of(machine, config);
            facts.control_plane = Self::is_of(machine, owner);
            facts.maintenance = Maintenance {
                cluster: own_windows(machine).unwrap_or_else(|| windows.clone()),
                host: host_windows(machine, self.hosts.get(&name)),
            };
            if let Some(config) = config.filter(|_| facts.control_plane) {
                facts.changes = changes(owner, machine, config, self.hosts.get(&name));
            }
            let reported = facts.id.as_ref().and_then(|id| report(self.reports.get(&name)?, &name, id));
            facts.reported_revision = reported.as_ref().and_then(facts::reported_revision);
            let about = reported.as_ref().and_then(|reported| reported.facts.as_ref());
            facts.architecture = about.and_then(|about| about.architecture.clone());
            facts.os_image = about.and_then(|about| about.os_image.clone());
            facts.capabilities = reported.as_ref().and_then(Report::capabilities);
            facts.agent = reported.as_ref().and_then(agent);
            facts.agent_version = reported.as_ref().and_then(|reported| reported.agent_version.clone());
            facts.node = nodes.clone().map(|nodes| nodes.get(&name).cloned().unwrap_or_default());
            facts.silent_since = self.silent.get(&name).copied();
            if let (Some(secret), Some(id)) = (plans.get(&plan_secret(&name)), &facts.id) {
                facts.plan = plan_facts(secret, &name, id, keys).map(|mut plan| {
                    plan.progress = facts::progress(plan.id, reported.as_ref());
                    plan
                });
            }
            facts
        };
        self.machines.values().map(one).collect()
    }
}

fn agent(report: &Report) -> Option<AgentFacts> {
    let program = report.agent_program.as_ref()?;
    let rejected = program.rejected.as_ref().map(|rejected| rejected.sha256);
    Some(AgentFacts { sha256: program.sha256, on_trial: program.on_trial, rejected })
}

/// When a machine may be drained and restarted, given its control plane, if that is one of Capstan, and its Host, if that is known.
pub(crate) fn maintenance(
    owner: Option<&CapstanControlPlane>,
    machine: &Machine,
    host: Option<&HostFacts>,
) -> Maintenance {
    Maintenance {
        cluster: own_windows(machine).unwrap_or_else(|| owner.and_then(cluster_windows)),
        host: host.and_then(known_windows),
    }
}

fn cluster_windows(owner: &CapstanControlPlane) -> Option<Schedule> {
    let windows = owner.spec.rollout.iter().flat_map(|rollout| &rollout.windows);
    Schedule::read("spec.rollout.windows", windows.map(String::as_str))
}

/// The windows in the annotation of a Machine, which replace those of its cluster.
fn own_windows(machine: &Machine) -> Option<Option<Schedule>> {
    let windows = machine.annotations().get(MAINTENANCE_WINDOWS)?;
    let texts = windows.split(';').map(str::trim).filter(|window| !window.is_empty());
    Some(Schedule::read(format!("annotation {MAINTENANCE_WINDOWS}"), texts))
}

/// The windows of the Host of a machine. A Host that is not known may have some.
fn host_windows(machine: &Machine, host: Option<&Knowledge<HostFacts>>) -> Option<Schedule> {
    match host? {
        Knowledge::Known(host) => known_windows(host),
        Knowledge::Unknown(why) => {
            let host = provider_id(machine).map(|id| id.host).unwrap_or_default();
            Some(Schedule::unknown(host_field(host), why.clone()))
        }
    }
}

fn known_windows(host: &HostFacts) -> Option<Schedule> {
    Schedule::read(host_field(&host.name), host.windows.iter().map(String::as_str))
}

fn host_field(host: &str) -> String {
    format!("Host {host} spec.windows")
}

/// An empty list of Nodes is unknown if Machines have Nodes: the API server may have lost them, or not have read them
/// yet.
fn believable<'a>(
    nodes: &'a Knowledge<NodesByName>,
    mut machines: impl Iterator<Item = &'a Machine>,
) -> Knowledge<&'a NodesByName> {
    let has_node =
        |machine: &Machine| machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    match nodes.is_known_and(BTreeMap::is_empty) && machines.any(has_node) {
        true => Knowledge::unknown("the workload cluster lists no Nodes, and Machines have had some"),
        false => nodes.as_ref(),
    }
}

/// The differences between a machine and its control plane, in the fields of the control plane.
fn changes(
    owner: &CapstanControlPlane,
    machine: &Machine,
    config: &CapstanConfig,
    host: Option<&Knowledge<HostFacts>>,
) -> Vec<Change> {
    let old = Setup { version: machine.spec.version.as_deref().unwrap_or_default(), config: &config.spec };
    let new = Setup { version: &owner.spec.version, config: &owner.spec.config };
    let mut changes = match host {
        // An invalid Host is no reason to refuse a change of all machines: its machine gets no plan.
        Some(Knowledge::Known(host)) => {
            classify_on((old, Some(host)), (new, Some(host))).unwrap_or_else(|_| classify(old, new))
        }
        Some(Knowledge::Unknown(_)) => classify(old, new),
        None => classify_on((old, None), (new, None)).unwrap_or_else(|_| classify(old, new)),
    };
    for change in changes.iter_mut().filter(|change| change.field != "spec.version") {
        if let Some(field) = change.field.strip_prefix("spec.") {
            change.field = format!("spec.config.{field}");
        }
    }
    let template = template_name(&owner.spec.machine_template.spec.infrastructure_ref);
    if config.annotations().get(INFRASTRUCTURE_TEMPLATE).is_some_and(|made_from| *made_from != template) {
        let path = "spec.machineTemplate.spec.infrastructureRef";
        let why = field(Subject::ControlPlane, path).map_or("", |field| field.why);
        changes.push(Change::new(path, Cost::Replace, why));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_planner::facts::NodeView;
    use serde_json::json;

    #[test]
    fn the_annotation_of_a_machine_replaces_the_windows_of_its_cluster() {
        let machine = |annotations: &serde_json::Value| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": "m", "annotations": annotations},
                "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {
                    "kind": "HostMachine", "name": "m", "apiGroup": "infrastructure.cluster.x-k8s.io"}},
            }))
            .expect("a Machine")
        };
        let own = |windows: &str| own_windows(&machine(&json!({MAINTENANCE_WINDOWS: windows})));
        let expected = Schedule::read(
            "annotation capstan.dev/maintenance-windows",
            ["daily 01:00-02:00", "Sun 03:00-04:00"],
        );
        assert_eq!(own("daily 01:00-02:00 ; Sun 03:00-04:00;"), Some(expected));
        assert_eq!(own(""), Some(None));
        let unreadable = own("sometimes").flatten().expect("windows");
        assert!(unreadable.windows().is_none());
        assert!(own_windows(&machine(&json!({}))).is_none());
    }

    #[test]
    fn windows_of_a_host_that_is_not_known_are_closed() {
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m"},
            "spec": {"clusterName": "c", "bootstrap": {}, "providerID": "capstan://n/h/1", "infrastructureRef": {
                "kind": "HostMachine", "name": "m", "apiGroup": "infrastructure.cluster.x-k8s.io"}},
        }))
        .expect("a Machine");
        let of = |host: Knowledge<HostFacts>| host_windows(&machine, Some(&host));
        let field = "Host h spec.windows";
        let known = |windows: &[&str]| HostFacts {
            name: "h".to_owned(),
            windows: windows.iter().map(|window| (*window).to_owned()).collect(),
            ..HostFacts::default()
        };
        assert_eq!(of(Knowledge::Known(known(&[]))), None);
        let window = "Sat 01:00-02:00";
        assert_eq!(of(Knowledge::Known(known(&[window]))), Schedule::read(field, [window]));
        assert_eq!(of(Knowledge::unknown("no answer")), Some(Schedule::unknown(field, "no answer")));
        assert_eq!(host_windows(&machine, None), None, "it is on no Host of Capstan");
    }

    #[test]
    fn a_list_without_any_node_is_no_news_of_machines_that_were_nodes() {
        let machine = |status: &serde_json::Value| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m"},
                "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {
                    "kind": "HostMachine", "name": "m", "apiGroup": "infrastructure.cluster.x-k8s.io"}},
                "status": status,
            }))
            .expect("a Machine")
        };
        let (old, new) = (machine(&json!({"nodeRef": {"name": "m"}})), machine(&json!({})));
        let (none, some) = (NodesByName::new(), NodesByName::from([("x".to_owned(), NodeView::default())]));
        let is_believed = |nodes: &NodesByName, machines: &[&Machine]| {
            believable(&Knowledge::Known(nodes.clone()), machines.iter().copied()).is_known_and(|_| true)
        };
        assert!(!is_believed(&none, &[&new, &old]));
        assert!(is_believed(&none, &[&new]), "nobody has become a Node yet");
        assert!(is_believed(&some, &[&new, &old]));
        assert!(!believable(&Knowledge::default(), [&new].into_iter()).is_known_and(|_| true));
    }
}
