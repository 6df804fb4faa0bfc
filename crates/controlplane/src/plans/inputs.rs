//! Computes the inputs of a plan from objects.

use capstan_api::bootstrap::HostTaint;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Machine, MachineTaint};
use capstan_distro::{
    Endpoint, Heal, InputError, Inputs, MergedConfig, Network, Rendered, Role, SecretFiles, Snapshot,
    is_of_version, render,
};
use capstan_plan::{AgentProgram, Capabilities, Capability, Revision};
use capstan_planner::MachineFacts;
use capstan_planner::budget::Budgets;
use capstan_planner::plans::{self, Setup};
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

use super::software::{Chosen, Shelf};
use crate::certificates::Keys;
use crate::marks::Marks;

/// Labels in this domain are set by the kubelet from the first registration of the Node. Others are propagated by core,
/// because a kubelet must not set them.
const NODE_DOMAIN: &str = "node.cluster.x-k8s.io";

/// Default number of snapshots to keep.
const SNAPSHOTS: u32 = 5;

/// Inputs that the plans of all machines of a cluster share.
pub(crate) struct Materials<'a> {
    pub(crate) owner: &'a CapstanControlPlane,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) network: &'a Network,
    pub(crate) keys: &'a Keys,
    pub(crate) shelf: Shelf<'a>,
    pub(crate) budgets: &'a Budgets,
    pub(crate) now: Timestamp,
}

/// One machine, with its own inputs.
pub(crate) struct Subject<'a> {
    pub(crate) machine: &'a Machine,
    /// Its configuration, merged with that of its Host.
    pub(crate) config: &'a MergedConfig,
    pub(crate) facts: &'a MachineFacts,
    pub(crate) role: Role,
    pub(crate) others_serve: bool,
    pub(crate) files: &'a SecretFiles,
    pub(crate) software: &'a Chosen,
    pub(crate) agent: Option<&'a AgentProgram>,
}

/// Renders a revision of the plan of a machine that currently runs `ran`.
pub(crate) fn rendered(
    materials: &Materials<'_>,
    subject: &Subject<'_>,
    ran: Option<&Setup>,
    revision: Revision,
) -> Result<Rendered, InputError> {
    let Subject { machine, config, facts, role, others_serve, files, software, agent } = subject;
    let marks = Marks::of(machine, config);
    let mut labels = marks.at_registration();
    labels.extend(node_labels(machine));
    let of_machine = machine.spec.taints.iter().map(taint);
    let taints: Vec<String> = of_machine.chain(marks.taints.iter().map(host_taint)).collect();
    let version = facts.version.as_deref().unwrap_or_default();
    let former = ran.filter(|ran| ran.version != version);
    let programs = facts.plan.iter().flat_map(|plan| &plan.programs);
    let after = restart_after(materials.owner, facts, materials.now)
        .or_else(|| plans::restart_after(materials.budgets.restart_after(facts)?, facts, materials.now));
    // As long as nothing is known of the agent, a plan that needs something of it is not written. No plan waits for probes
    // or periodic commands.
    let unknown = || Capabilities::all().without(Capability::Targets).without(Capability::Periodic);
    let capabilities = facts.capabilities.clone().unwrap_or_else(unknown);
    render(&Inputs {
        role: *role,
        others_serve: *others_serve,
        version,
        node_name: facts.node_name(),
        provider_id: facts.provider_id.as_deref().unwrap_or_default(),
        endpoint: materials.endpoint,
        network: materials.network,
        token: materials.keys.tokens.shown_by(*role),
        agent_token: materials.keys.tokens.of_workers(*role),
        ca: Some(&materials.keys.certificates.ca.certificate),
        certificates: role.is_server().then_some(&materials.keys.certificates),
        labels: &labels,
        taints: &taints,
        capabilities: &capabilities,
        agent: *agent,
        config: &config.config,
        maintenance: &facts.maintenance,
        secrets: files,
        restart_after: after.as_deref(),
        heal: Heal {
            restart: facts.healing.tokens.restart.as_deref(),
            reapply: facts.healing.tokens.reapply.as_deref(),
            reboot: facts.healing.tokens.reboot.as_deref(),
        },
        software: &software.program,
        images: software.images.as_ref(),
        former: former
            .and_then(|ran| programs.into_iter().find(|program| is_of_version(program, &ran.version))),
        snapshot: former.and_then(|ran| snapshot(materials.owner, ran, revision)),
    })
}

/// `spec.rollout.after`, if it has passed, for machines that existed before.
pub(crate) fn restart_after(
    owner: &CapstanControlPlane,
    facts: &MachineFacts,
    now: Timestamp,
) -> Option<String> {
    let after = owner.spec.rollout.as_ref()?.after.as_ref()?.0;
    plans::restart_after(after, facts, now).filter(|_| facts.control_plane)
}

fn snapshot(owner: &CapstanControlPlane, ran: &Setup, revision: Revision) -> Option<Snapshot> {
    let wanted = owner.spec.etcd.as_ref().and_then(|etcd| etcd.snapshots.as_ref());
    if wanted.and_then(|wanted| wanted.before_upgrade) == Some(false) {
        return None;
    }
    let retention = wanted.and_then(|wanted| u32::try_from(wanted.retention?).ok()).unwrap_or(SNAPSHOTS);
    // Only what runs can be asked for one, and an unfinished plan may have stopped it or never have started it.
    Some(Snapshot { revision: revision.get(), retention, may_be_down: ran.is_uncertain() })
}

fn node_labels(machine: &Machine) -> BTreeMap<String, String> {
    let at_once = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        domain == NODE_DOMAIN || domain.strip_suffix(NODE_DOMAIN).is_some_and(|prefix| prefix.ends_with('.'))
    };
    machine
        .labels()
        .iter()
        .filter(|(key, _)| at_once(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn taint(taint: &MachineTaint) -> String {
    let value = taint.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
    format!("{}{value}:{:?}", taint.key, taint.effect)
}

fn host_taint(taint: &HostTaint) -> String {
    let value = taint.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
    format!("{}{value}:{:?}", taint.key, taint.effect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_register_with_what_they_may_say_themselves() {
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "a", "labels": {
                "node.cluster.x-k8s.io/pool": "x", "a.node.cluster.x-k8s.io/b": "y",
                "node-role.kubernetes.io/worker": "", "team": "z", "evilnode.cluster.x-k8s.io/c": "",
            }},
            "spec": {
                "clusterName": "c", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"},
                "taints": [
                    {"key": "k", "value": "v", "effect": "NoSchedule", "propagation": "Always"},
                    {"key": "e", "effect": "NoExecute", "propagation": "OnInitialization"},
                ],
            },
        }))
        .expect("a Machine");
        let labels: Vec<_> = node_labels(&machine).into_keys().collect();
        assert_eq!(labels, ["a.node.cluster.x-k8s.io/b", "node.cluster.x-k8s.io/pool"]);
        let taints: Vec<_> = machine.spec.taints.iter().map(taint).collect();
        assert_eq!(taints, ["k=v:NoSchedule", "e:NoExecute"]);
    }
}
