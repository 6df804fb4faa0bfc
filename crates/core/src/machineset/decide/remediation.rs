//! Which unhealthy Machines are replaced now, and what the others wait for. Pure.

use capstan_api::conditions::{ConditionStatus, NewCondition, get};
use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use capstan_api::keep::{self, ReplacePolicy};
use capstan_api::meta::{annotations, labels};
use capstan_api::runtime::annotations::REPLACE_POLICY;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use std::cmp::Reverse;

use super::super::names::remediation;
use super::machine::{has_recovered, is_annotated, is_deleting, is_to_be_remediated};
use crate::machinedeployment::limits::{BadAmount, Rounding, scaled};
use crate::machinedeployment::names::REVISION;
use crate::names::machine::types;

/// What is done about unhealthy Machines, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remediation {
    /// Recovered Machines, whose condition is removed.
    pub recovered: Vec<String>,
    /// Machines that wait, with the condition that says why.
    pub waiting: Vec<(String, NewCondition)>,
    /// Machines to replace now, unless a preflight check fails.
    pub now: Vec<String>,
}

/// Classifies the Machines of a MachineSet. `owner` is its MachineDeployment, if any.
pub fn decide(
    set: &MachineSet,
    owner: Option<&MachineDeployment>,
    machines: &[Machine],
) -> Result<Remediation, BadAmount> {
    let alive = || machines.iter().filter(|machine| !is_deleting(machine));
    let recovered =
        alive().filter(|machine| has_recovered(machine)).map(kube::ResourceExt::name_any).collect();
    let mut sick: Vec<&Machine> = alive().filter(|machine| is_to_be_remediated(machine)).collect();
    let mut decision = Remediation { recovered, ..Remediation::default() };
    if sick.is_empty() {
        return Ok(decision);
    }
    let mut kept = Vec::new();
    sick.retain(|machine| {
        let wait = waits_for_policy(set, owner, machine);
        kept.extend(wait.map(|condition| (machine.name_any(), condition)));
        kept.last().is_none_or(|(name, _)| *name != machine.name_any())
    });
    decision.waiting = kept;
    let is_part_of_deployment = set.labels().contains_key(labels::DEPLOYMENT_NAME);
    if is_part_of_deployment && !owner.is_some_and(|owner| is_current(set, owner)) {
        let why = "Machine won't be remediated because it is pending removal due to rollout";
        let pending = condition(remediation::CANNOT_BE_REMEDIATED, why);
        decision.waiting.extend(sick.iter().map(|machine| (machine.name_any(), pending.clone())));
        return Ok(decision);
    }

    let asked = owner.and_then(|owner| owner.spec.remediation.as_ref()?.max_in_flight.clone());
    // Kept machines are replaced one at a time unless the user allows more.
    let one = keep::is_kept(&set.spec.template.spec).then_some(IntOrString::Int(1));
    let Some(max_in_flight) = asked.or(one) else {
        sort(&mut sick);
        decision.now = sick.iter().map(|machine| machine.name_any()).collect();
        return Ok(decision);
    };
    let replicas = owner.map_or(set.spec.replicas, |owner| owner.spec.replicas).unwrap_or(1);
    let most = scaled(&max_in_flight, replicas, Rounding::Up)?;
    let most = usize::try_from(most).unwrap_or(0);
    let in_flight = machines.iter().filter(|machine| is_being_remediated(machine)).count();
    sort(&mut sick);
    let later = sick.split_off(most.saturating_sub(in_flight).min(sick.len()));
    let why = format!(
        "Waiting because there are already too many remediations in progress \
         (spec.strategy.remediation.maxInFlight is {})",
        text(&max_in_flight)
    );
    let deferred = condition(remediation::DEFERRED, why);
    decision.waiting.extend(later.iter().map(|machine| (machine.name_any(), deferred.clone())));
    decision.now = sick.iter().map(|machine| machine.name_any()).collect();
    Ok(decision)
}

/// What a kept machine waits for before it may be replaced; nothing if it may, or if it is not kept.
fn waits_for_policy(
    set: &MachineSet,
    owner: Option<&MachineDeployment>,
    machine: &Machine,
) -> Option<NewCondition> {
    if !keep::is_kept(&machine.spec) {
        return None;
    }
    let cannot = |why: String| Some(condition(remediation::CANNOT_BE_REMEDIATED, why));
    if keep::is_held(machine) {
        return cannot(format!("Machine is kept out of remediation by its annotation {}", keep::HOLD));
    }
    let objects = [Some(&machine.metadata), Some(&set.metadata), owner.map(|owner| &owner.metadata)];
    let infrastructure = &machine.spec.infrastructure_ref;
    match ReplacePolicy::first(objects.into_iter().flatten()) {
        Err(misspelt) => cannot(format!("Machine is kept: {misspelt}")),
        Ok(ReplacePolicy::Never) => cannot(format!(
            "Machine is kept: its replacement would reset {} {}. Set the annotation {REPLACE_POLICY} of {} to \
             WhenNeeded to allow it, or delete the Machine",
            infrastructure.kind,
            infrastructure.name,
            owner.map_or_else(
                || format!("MachineSet {}", set.name_any()),
                |owner| format!("MachineDeployment {}", owner.name_any())
            ),
        )),
        Ok(ReplacePolicy::WhenNeeded) if !keep::is_healed(&machine.spec) => None,
        Ok(ReplacePolicy::WhenNeeded) => match get(machine, keep::HEALED_IN_PLACE) {
            Some(healed)
                if healed.status == ConditionStatus::False && healed.reason == keep::healing::EXHAUSTED =>
            {
                None
            }
            Some(healed) => Some(condition(
                remediation::DEFERRED,
                format!("Machine is healed in place before it is replaced: {}", healed.message),
            )),
            None => Some(condition(
                remediation::DEFERRED,
                "Machine is healed in place before it is replaced: its control plane has not begun yet",
            )),
        },
    }
}

/// The condition of a Machine whose Node cannot be read, or is not as unhealthy as the health check found.
pub fn unconfirmed(why: &str) -> NewCondition {
    condition(remediation::DEFERRED, format!("Machine is not replaced: {why}"))
}

/// The condition of a Machine whose replacement waits for preflight checks.
pub fn held_up(failures: &[String]) -> NewCondition {
    let lines: Vec<String> = failures.iter().map(|failure| format!("* {failure}")).collect();
    condition(remediation::DEFERRED, lines.join("\n"))
}

/// The condition of a Machine that is being replaced.
pub fn replaced() -> NewCondition {
    condition(remediation::MACHINE_DELETING, "Machine is deleting")
}

fn condition(reason: &str, message: impl Into<String>) -> NewCondition {
    NewCondition::new(types::OWNER_REMEDIATED, ConditionStatus::False, reason).message(message)
}

/// Whether the MachineSet is the one that the MachineDeployment rolls out.
pub(crate) fn is_current(set: &MachineSet, owner: &MachineDeployment) -> bool {
    owner.annotations().get(REVISION) == set.annotations().get(REVISION)
}

/// Those that the user has named first, then the youngest: it may not carry any work yet.
fn sort(machines: &mut [&Machine]) {
    machines.sort_by_key(|machine| {
        let named = is_annotated(machine, annotations::REMEDIATE_MACHINE);
        (!named, Reverse(machine.metadata.creation_timestamp.clone()), machine.name_any())
    });
}

fn is_being_remediated(machine: &Machine) -> bool {
    is_deleting(machine)
        && get(machine, types::OWNER_REMEDIATED).is_some_and(|condition| {
            condition.status == ConditionStatus::False && condition.reason == remediation::MACHINE_DELETING
        })
}

pub(crate) fn text(amount: &IntOrString) -> String {
    match amount {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinedeployment::fixtures::deployment;
    use crate::machineset::fixtures::{machine, machine_set};
    use serde_json::{Value, json};

    fn sick(name: &str, created: i64) -> Machine {
        machine(name)
            .created(created)
            .condition("HealthCheckSucceeded", false)
            .condition("OwnerRemediated", false)
            .done()
    }

    fn of_deployment(revision: &str) -> Value {
        json!({"metadata": {"labels": {labels::DEPLOYMENT_NAME: "md"}, "annotations": {REVISION: revision}}})
    }

    fn owner(max_in_flight: &Value) -> MachineDeployment {
        deployment(&json!({
            "metadata": {"annotations": {REVISION: "2"}},
            "spec": {"replicas": 4, "remediation": {"maxInFlight": max_in_flight}},
        }))
    }

    #[test]
    fn alone_everything_is_replaced_youngest_first() {
        let set = machine_set("ms", 3, &json!({}));
        let named = machine("named")
            .created(1)
            .annotated(annotations::REMEDIATE_MACHINE)
            .condition("HealthCheckSucceeded", false)
            .condition("OwnerRemediated", false)
            .done();
        let machines = [sick("old", 1), sick("young", 9), named, machine("fine").done()];
        let decision = decide(&set, None, &machines).expect("a test value");
        assert_eq!(decision.now, ["named", "young", "old"]);
        assert!(decision.waiting.is_empty() && decision.recovered.is_empty());
    }

    #[test]
    fn only_the_current_set_of_a_deployment_replaces() {
        let machines = [sick("a", 1)];
        for (revision, now) in [("2", true), ("1", false)] {
            let set = machine_set("ms", 3, &of_deployment(revision));
            let decision = decide(&set, Some(&owner(&json!("100%"))), &machines).expect("a test value");
            assert_eq!(decision.now.is_empty(), !now, "{revision}");
            let reasons: Vec<&str> =
                decision.waiting.iter().map(|(_, condition)| &*condition.reason).collect();
            assert_eq!(reasons, if now { vec![] } else { vec![remediation::CANNOT_BE_REMEDIATED] });
        }
    }

    #[test]
    fn no_more_at_a_time_than_allowed() {
        let in_flight = machine("gone")
            .deleting()
            .condition_since("OwnerRemediated", false, remediation::MACHINE_DELETING, 0)
            .done();
        for (max, with_in_flight, now, waiting) in [
            (json!(2), false, vec!["c", "b"], vec!["a"]),
            (json!("50%"), true, vec!["c"], vec!["b", "a"]),
            (json!(1), true, vec![], vec!["c", "b", "a"]),
            (json!(9), false, vec!["c", "b", "a"], vec![]),
        ] {
            let mut machines = vec![sick("a", 1), sick("b", 2), sick("c", 3)];
            machines.extend(with_in_flight.then(|| in_flight.clone()));
            let set = machine_set("ms", 3, &of_deployment("2"));
            let decision = decide(&set, Some(&owner(&max)), &machines).expect("a test value");
            let deferred: Vec<&str> = decision.waiting.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(
                (decision.now, deferred),
                (now.into_iter().map(str::to_owned).collect(), waiting),
                "{max}"
            );
        }
    }

    /// An unhealthy Machine on a Host.
    fn kept(name: &str, change: impl FnOnce(&mut Machine)) -> Machine {
        let sick = machine(name)
            .created(1)
            .condition("HealthCheckSucceeded", false)
            .condition("OwnerRemediated", false);
        let kept = sick.change(|machine| {
            machine.spec.bootstrap.config_ref = serde_json::from_value(json!({
                "kind": "CapstanConfig", "name": name, "apiGroup": "bootstrap.cluster.x-k8s.io"}))
            .expect("a reference");
            machine.spec.infrastructure_ref.kind = "HostMachine".to_owned();
        });
        kept.change(change).done()
    }

    /// A MachineSet that makes kept Machines.
    fn kept_set(annotations: &Value) -> MachineSet {
        machine_set(
            "ms",
            3,
            &json!({"metadata": {"annotations": annotations},
                "spec": {"template": {"spec": {"infrastructureRef": {"kind": "HostMachineTemplate"}}}}}),
        )
    }

    #[test]
    fn kept_machines_are_not_replaced_unless_the_policy_says_so() {
        let says = |policy: &str| json!({REPLACE_POLICY: policy});
        let healing = |reason: &'static str| {
            move |machine: &mut Machine| {
                let condition = NewCondition::new(keep::HEALED_IN_PLACE, ConditionStatus::False, reason);
                capstan_api::conditions::set(machine, condition, jiff::Timestamp::UNIX_EPOCH);
            }
        };
        for (annotations, machine, expected) in [
            (json!({}), kept("a", |_| {}), Some("replacement would reset HostMachine a")),
            (json!({}), kept("a", healing(keep::healing::EXHAUSTED)), Some("is kept")),
            (says("Never"), kept("a", healing(keep::healing::EXHAUSTED)), Some("is kept")),
            (says("Sometimes"), kept("a", healing(keep::healing::EXHAUSTED)), Some("must be Never or")),
            (says("WhenNeeded"), kept("a", |_| {}), Some("healed in place before it is replaced")),
            (says("WhenNeeded"), kept("a", healing(keep::healing::REBOOTING)), Some("healed in place")),
            (says("WhenNeeded"), kept("a", healing(keep::healing::EXHAUSTED)), None),
            (
                says("WhenNeeded"),
                kept("a", |machine| {
                    healing(keep::healing::EXHAUSTED)(machine);
                    machine.annotations_mut().insert(keep::HOLD.to_owned(), "mine".to_owned());
                }),
                Some("kept out of remediation"),
            ),
            (
                says("WhenNeeded"),
                kept("a", |machine| {
                    healing(keep::healing::EXHAUSTED)(machine);
                    machine.annotations_mut().insert(REPLACE_POLICY.to_owned(), "Never".to_owned());
                }),
                Some("is kept"),
            ),
            // Healing in place has failed.
            (says("WhenNeeded"), kept("a", |machine| machine.spec.bootstrap.config_ref = None), None),
        ] {
            let decision = decide(&kept_set(&annotations), None, &[machine]).expect("a test value");
            let message = decision.waiting.first().map(|(_, condition)| condition.message.clone());
            match expected {
                Some(expected) => {
                    assert!(decision.now.is_empty(), "{annotations} {expected}");
                    assert!(
                        message.as_ref().is_some_and(|message| message.contains(expected)),
                        "{message:?} {expected}"
                    );
                }
                None => assert_eq!((decision.now.as_slice(), message), (["a".to_owned()].as_slice(), None)),
            }
        }
    }

    #[test]
    fn kept_machines_are_replaced_one_at_a_time() {
        let plain = |name: &str| kept(name, |machine| machine.spec.bootstrap.config_ref = None);
        let machines = [plain("a"), plain("b")];
        let set = kept_set(&json!({REPLACE_POLICY: "WhenNeeded"}));
        let decision = decide(&set, None, &machines).expect("a test value");
        assert_eq!((decision.now.len(), decision.waiting.len()), (1, 1));
    }

    #[test]
    fn who_has_recovered_is_forgotten() {
        let well =
            machine("a").condition("HealthCheckSucceeded", true).condition("OwnerRemediated", false).done();
        let decision = decide(&machine_set("ms", 1, &json!({})), None, &[well]).expect("a test value");
        assert_eq!(decision.recovered, ["a"]);
        assert!(decision.now.is_empty());
    }
}
