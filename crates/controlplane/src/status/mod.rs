//! The status of a control plane, computed once at the end of a reconcile. Pure.

mod agents;

use capstan_api::conditions::{
    Aggregate, ConditionStatus, MergeStrategy, NewCondition, Reasons, delete, has, is_true, reasons, set,
    types,
};
use capstan_api::controlplane::{CapstanControlPlane, reasons as own};
use capstan_api::core::Machine;
use capstan_api::meta::{StatusVersion, labels};
use capstan_api::wait::{Cause, causes};
use capstan_controller::names::label_value;
use capstan_distro::Version;
use capstan_planner::ending::Ending;
use capstan_planner::etcd::quorum;
use capstan_planner::machines::MachineStep;
use capstan_planner::plans::{AgentUpgrades, Outcome};
use capstan_planner::{EtcdView, MachineFacts};
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

use crate::certificates::Replacement;
use crate::names::UP_TO_DATE;
use crate::scope::replicas;
use agents::AGENTS_UPGRADED;

/// Condition: the API server has been reached.
pub(crate) const INITIALIZED: &str = "Initialized";
/// Condition: the certificates and keys of the cluster exist.
pub(crate) const CERTIFICATES_AVAILABLE: &str = "CertificatesAvailable";

/// Condition: every member of etcd is healthy.
pub(crate) const ETCD_HEALTHY: &str = "EtcdClusterHealthy";

/// Condition: the requested plan key signs plans, and every machine trusts it. Absent until a user requests it.
pub(crate) const PLAN_KEY_REPLACED: &str = "PlanKeyReplaced";

/// Condition types that this controller owns.
pub(crate) const OWNED: [&str; 12] = [
    types::AVAILABLE,
    INITIALIZED,
    CERTIFICATES_AVAILABLE,
    ETCD_HEALTHY,
    PLAN_KEY_REPLACED,
    AGENTS_UPGRADED,
    types::MACHINES_READY,
    types::MACHINES_UP_TO_DATE,
    types::ROLLING_OUT,
    types::SCALING_UP,
    types::SCALING_DOWN,
    types::DELETING,
];

/// What the phases of a reconcile have observed.
pub(crate) struct Seen<'a> {
    pub(crate) cluster: &'a str,
    pub(crate) initialized: bool,
    pub(crate) api_responds: bool,
    /// Why certificates are missing; `None` if they exist.
    pub(crate) certificates: Option<String>,
    /// Machines of the control plane after the writes of this reconcile.
    pub(crate) machines: Vec<Machine>,
    /// The same, as facts.
    pub(crate) facts: Vec<MachineFacts>,
    pub(crate) step: MachineStep,
    pub(crate) plans: BTreeMap<String, Outcome>,
    pub(crate) etcd: EtcdView,
    /// Machines that are being deleted and must stay for now, with the reason.
    pub(crate) held: BTreeMap<String, String>,
    pub(crate) deleting: Option<NewCondition>,
    /// The progress of a plan key replacement, if the user has requested one.
    pub(crate) plan_key: Option<Replacement>,
    /// How far the roll-out of agents has come; `None` if this reconcile did not get so far.
    pub(crate) agents: Option<AgentUpgrades>,
    pub(crate) now: Timestamp,
}

/// Computes the status.
pub(crate) fn compute(object: &mut CapstanControlPlane, seen: &Seen<'_>) {
    let wanted = replicas(object);
    let name = object.name_any();
    let generation = object.metadata.generation;
    let count = |type_: &str| number(seen.machines.iter().filter(|machine| is_true(*machine, type_)).count());
    let status = object.status.get_or_insert_default();
    status.replicas = Some(number(seen.machines.len()));
    status.ready_replicas = Some(count(types::READY));
    status.available_replicas = Some(count(types::AVAILABLE));
    status.up_to_date_replicas = Some(count(UP_TO_DATE));
    status.versions = versions(&seen.facts);
    status.selector = Some(format!(
        "{}={},{}=,{}={}",
        labels::CLUSTER_NAME,
        seen.cluster,
        labels::CONTROL_PLANE,
        labels::CONTROL_PLANE_NAME,
        label_value(&name)
    ));
    status.observed_generation = generation;
    if seen.initialized {
        status.initialization.get_or_insert_default().control_plane_initialized = Some(true);
    }
    for condition in conditions(seen, wanted) {
        set(object, condition, seen.now);
    }
    if let Some(upgrades) = &seen.agents {
        match agents::condition(upgrades, has(object, AGENTS_UPGRADED)) {
            Some(condition) => _ = set(object, condition, seen.now),
            None => _ = delete(object, AGENTS_UPGRADED),
        }
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Versions that the machines' Nodes run, oldest first.
fn versions(machines: &[MachineFacts]) -> Vec<StatusVersion> {
    let mut counts: BTreeMap<_, i32> = BTreeMap::new();
    for version in machines.iter().filter_map(|machine| machine.kubelet_version.as_ref()) {
        let order = Version::parse(version).map(|version| version.numbers());
        *counts.entry((order, version)).or_default() += 1;
    }
    let versions = counts.into_iter();
    versions
        .map(|((_, version), count)| StatusVersion { version: version.clone(), replicas: Some(count) })
        .collect()
}

fn conditions(seen: &Seen<'_>, wanted: usize) -> Vec<NewCondition> {
    let mut all = vec![
        match seen.initialized {
            true => NewCondition::new(INITIALIZED, ConditionStatus::True, own::INITIALIZED),
            false => NewCondition::new(INITIALIZED, ConditionStatus::False, own::NOT_INITIALIZED),
        },
        match &seen.certificates {
            None => NewCondition::new(CERTIFICATES_AVAILABLE, ConditionStatus::True, reasons::AVAILABLE),
            Some(why) => {
                NewCondition::new(CERTIFICATES_AVAILABLE, ConditionStatus::False, reasons::NOT_AVAILABLE)
                    .message(why.clone())
            }
        },
        available(seen),
        aggregate(seen, types::READY, types::MACHINES_READY, READY),
        aggregate(seen, UP_TO_DATE, types::MACHINES_UP_TO_DATE, CURRENT),
        rolling_out(seen),
    ];
    all.extend(etcd(seen));
    all.extend(seen.plan_key.as_ref().map(plan_key));
    all.extend(scaling(seen, wanted));
    all.push(seen.deleting.clone().unwrap_or_else(|| {
        NewCondition::new(types::DELETING, ConditionStatus::False, reasons::NOT_DELETING)
    }));
    all
}

fn plan_key(replacement: &Replacement) -> NewCondition {
    let waits = |cause: Cause, message: String| {
        NewCondition::new(PLAN_KEY_REPLACED, ConditionStatus::False, cause.reason).message(message)
    };
    match replacement {
        Replacement::Unable(machines) => waits(
            causes::AGENTS_CANNOT_FOLLOW,
            format!(
                "The agents of these machines cannot follow to another plan key: {}",
                machines.join(", ")
            ),
        ),
        Replacement::Underway => waits(
            causes::REPLACING_PLAN_KEY,
            "Another key is made and takes the place of the old one".to_owned(),
        ),
        Replacement::Behind(machines) => waits(
            causes::MACHINES_FOLLOW_TO_KEY,
            format!("Machines that do not trust the new plan key yet: {}", machines.join(", ")),
        ),
        Replacement::Done(key) => {
            NewCondition::new(PLAN_KEY_REPLACED, ConditionStatus::True, own::PLAN_KEY_REPLACED)
                .message(format!("All machines trust plan key {key}"))
        }
    }
}

fn available(seen: &Seen<'_>) -> NewCondition {
    let mut why = Vec::new();
    if seen.deleting.is_some() {
        why.push("* Control plane metadata.deletionTimestamp is set");
    }
    if !seen.initialized {
        why.push("* Control plane not yet initialized");
    }
    if seen.certificates.is_some() {
        why.push("* Control plane certificates are not available");
    }
    if seen.initialized && !seen.api_responds {
        why.push("* The API server does not answer");
    }
    if seen.initialized && !seen.facts.iter().any(|machine| machine.has_node && !machine.deleting) {
        why.push("* There are no control plane machines with a Node");
    }
    match why.is_empty() {
        true => NewCondition::new(types::AVAILABLE, ConditionStatus::True, reasons::AVAILABLE),
        false => NewCondition::new(types::AVAILABLE, ConditionStatus::False, reasons::NOT_AVAILABLE)
            .message(why.join("\n")),
    }
}

/// Only if etcd was read: for a single server the API server reports the same.
fn etcd(seen: &Seen<'_>) -> Option<NewCondition> {
    let not_asked = seen.facts.len() < 2;
    match &seen.etcd {
        EtcdView::Unknown(_) if not_asked => None,
        EtcdView::Unknown(why) => Some(
            NewCondition::new(ETCD_HEALTHY, ConditionStatus::Unknown, reasons::INSPECTION_FAILED)
                .message(why.clone()),
        ),
        EtcdView::Known(members) => Some(match quorum::may_add(members) {
            Ok(()) => NewCondition::new(ETCD_HEALTHY, ConditionStatus::True, own::ETCD_HEALTHY),
            Err(why) => NewCondition::new(ETCD_HEALTHY, ConditionStatus::False, own::ETCD_NOT_HEALTHY)
                .message(format!("* {why}")),
        }),
    }
}

const READY: [&str; 3] = [reasons::NOT_READY, reasons::READY_UNKNOWN, reasons::READY];
const CURRENT: [&str; 3] = [reasons::NOT_UP_TO_DATE, reasons::UP_TO_DATE_UNKNOWN, reasons::UP_TO_DATE];

fn aggregate(
    seen: &Seen<'_>,
    source: &str,
    target: &str,
    [issue, unknown, info]: [&'static str; 3],
) -> NewCondition {
    if seen.machines.is_empty() {
        return NewCondition::new(target, ConditionStatus::True, reasons::NO_REPLICAS);
    }
    let strategy = MergeStrategy::new().reasons(Reasons { issue, unknown, info });
    Aggregate::over(source).to(target).strategy(strategy).aggregate(&seen.machines).unwrap_or_else(|error| {
        NewCondition::new(target, ConditionStatus::Unknown, reasons::INTERNAL_ERROR)
            .message(error.to_string())
    })
}

fn rolling_out(seen: &Seen<'_>) -> NewCondition {
    let not_rolling = |reason: &str| NewCondition::new(types::ROLLING_OUT, ConditionStatus::False, reason);
    if let MachineStep::Refuse(changes) = &seen.step {
        let fields: Vec<String> = changes.iter().map(|change| format!("* {change}")).collect();
        return not_rolling("Refused").message(format!(
            "Nothing is changed, because this cannot be done in place:\n{}",
            fields.join("\n")
        ));
    }
    let own = |name: &&String| seen.facts.iter().any(|machine| machine.name == **name);
    let refused: Vec<String> = seen
        .plans
        .iter()
        .filter(|(name, _)| own(name))
        .filter_map(|(_, outcome)| match outcome {
            Outcome::Refused { field, message } => Some(format!("* {field}: {message}")),
            _ => None,
        })
        .collect();
    if !refused.is_empty() {
        return not_rolling("Refused").message(refused.join("\n"));
    }
    let changing: Vec<&MachineFacts> =
        seen.facts.iter().filter(|machine| !machine.changes.is_empty() || is_changing(machine)).collect();
    if changing.is_empty() {
        return not_rolling(reasons::NOT_ROLLING_OUT);
    }
    let mut message = format!("Rolling out {} not up-to-date replicas", changing.len());
    if let MachineStep::Wait(why) = &seen.step {
        message.push_str(&format!("\n* {why}"));
    }
    for machine in &changing {
        match seen.plans.get(&machine.name) {
            Some(outcome @ Outcome::Failed { .. }) => {
                let why = outcome.failure().unwrap_or_default();
                message.push_str(&format!("\n* Machine {}: {why}", machine.name));
            }
            Some(Outcome::Waiting(why) | Outcome::Unsupported(why)) => {
                message.push_str(&format!("\n* Machine {}: {why}", machine.name));
            }
            _ => {}
        }
    }
    NewCondition::new(types::ROLLING_OUT, ConditionStatus::True, reasons::ROLLING_OUT).message(message)
}

/// Whether a machine that was part of the cluster is changing.
fn is_changing(machine: &MachineFacts) -> bool {
    machine.has_node && !machine.deleting && machine.is_known_not_up()
}

fn scaling(seen: &Seen<'_>, wanted: usize) -> [NewCondition; 2] {
    let there = seen.facts.len();
    let wanted = if seen.deleting.is_some() { 0 } else { wanted };
    let what = format!("from {there} to {wanted} replicas");
    let mut why = match &seen.step {
        MachineStep::Wait(why) => format!("\n* {why}"),
        _ => String::new(),
    };
    for (machine, held) in &seen.held {
        why.push_str(&format!("\n* Machine {machine} cannot leave etcd: {held}"));
    }
    let no = |type_: &str, reason: &str| NewCondition::new(type_, ConditionStatus::False, reason);
    let yes = |type_: &str, reason: &str, verb: &str| {
        NewCondition::new(type_, ConditionStatus::True, reason).message(format!("Scaling {verb} {what}{why}"))
    };
    [
        match there < wanted {
            true => yes(types::SCALING_UP, reasons::SCALING_UP, "up"),
            false => no(types::SCALING_UP, reasons::NOT_SCALING_UP),
        },
        match there > wanted {
            true => yes(types::SCALING_DOWN, reasons::SCALING_DOWN, "down"),
            false => no(types::SCALING_DOWN, reasons::NOT_SCALING_DOWN),
        },
    ]
}

/// The conditions of a control plane that is being deleted.
pub(crate) fn deleting(ending: &Ending) -> NewCondition {
    let because = |reason: &str| NewCondition::new(types::DELETING, ConditionStatus::True, reason);
    match ending {
        Ending::Workers(names) => because("WaitingForWorkersDeletion")
            .message(format!("Waiting for Machines that are not of the control plane: {}", shown(names))),
        Ending::Machines { left, .. } => {
            because("WaitingForMachineDeletion").message(format!("Waiting for Machines: {}", shown(left)))
        }
        Ending::Done => because(reasons::DELETION_COMPLETED),
    }
}

fn shown(names: &[String]) -> String {
    match names.split_at_checked(5) {
        Some((first, rest)) if !rest.is_empty() => format!("{}, ... ({} more)", first.join(", "), rest.len()),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests;
