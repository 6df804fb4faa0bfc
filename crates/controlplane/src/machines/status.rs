//! What a Machine's conditions say of its healing, and whether it is up to date. Pure.

use capstan_api::conditions::{ConditionStatus, NewCondition, has, reasons};
use capstan_api::core::Machine;
use capstan_api::keep;
use capstan_api::wait::Wait;
use capstan_planner::facts::{MachineFacts, Progress};
use capstan_planner::healing::{Healing, Stage};
use capstan_planner::plans::Outcome;

use crate::healing::cause;
use crate::names::UP_TO_DATE;

/// What is told of healing. A machine that is well and was never ill says nothing; one that was told to be silent or ill
/// says that it is well.
pub(super) fn healed_in_place(machine: &Machine, healing: &Healing) -> Option<NewCondition> {
    let well = || (Stage::Healthy, String::new());
    let was_told = has(machine, keep::HEALED_IN_PLACE);
    let (stage, message) = healing.progress.clone().or_else(|| was_told.then(well))?;
    Some(match cause(stage) {
        Some(cause) => Wait::new(cause, message).condition(keep::HEALED_IN_PLACE),
        None => NewCondition::new(keep::HEALED_IN_PLACE, true, keep::healing::HEALTHY).message(message),
    })
}

/// Whether a machine is what its control plane asks for. Not known while the planner has not looked, or has to wait: a plan
/// that was carried out may not be the one that the machine should have by now.
pub(super) fn up_to_date(facts: &MachineFacts, planned: Option<&Outcome>) -> Option<NewCondition> {
    let mut lines: Vec<String> = facts.changes.iter().map(|change| format!("* {change}")).collect();
    match facts.plan.as_ref().map(|plan| (plan.id.revision(), &plan.progress)) {
        None => lines.push("* The machine has no plan yet".to_owned()),
        Some((_, Progress::Applied)) => {}
        Some((revision, Progress::AtGate)) => {
            lines.push(format!(
                "* The machine waits to be told to go on with revision {revision} of its plan"
            ));
        }
        Some((revision, Progress::InFlight)) => {
            lines.push(format!("* The machine is to carry out revision {revision} of its plan"));
        }
        Some((revision, Progress::Failed(why))) => {
            lines.push(format!("* The machine has given up revision {revision} of its plan: {why}"));
        }
    }
    match planned {
        Some(Outcome::Refused { field, message }) => lines.push(format!("* {field}: {message}")),
        Some(Outcome::Unsupported(why)) => lines.push(format!("* {why}")),
        _ => {}
    }
    match (lines.is_empty(), planned) {
        (true, Some(Outcome::Planned { .. })) => {
            Some(NewCondition::new(UP_TO_DATE, ConditionStatus::True, reasons::UP_TO_DATE))
        }
        (true, _) => None,
        (false, _) => {
            let condition = NewCondition::new(UP_TO_DATE, ConditionStatus::False, reasons::NOT_UP_TO_DATE);
            Some(condition.message(lines.join("\n")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_distro::{Change, Cost};

    #[test]
    fn a_machine_says_why_it_is_not_up_to_date() {
        let up = MachineFacts::server("a").up();
        let planned = Outcome::Planned { revision: 1, without: None };
        let condition = up_to_date(&up, Some(&planned)).expect("it is known");
        assert_eq!(condition.status, ConditionStatus::True);
        let change = Change::new("spec.version", Cost::Restart, "another version");
        let refused = Outcome::Refused { field: "spec.x".to_owned(), message: "not so".to_owned() };
        let unsupported = Outcome::Unsupported("upgrade the agent".to_owned());
        for (facts, planned, expected) in [
            (up.clone().with(|m| m.changes = vec![change]), None, "* spec.version: another version"),
            (up.clone().with(|m| m.plan = None), None, "* The machine has no plan yet"),
            (
                up.clone().says(Progress::InFlight),
                Some(&planned),
                "* The machine is to carry out revision 1 of its plan",
            ),
            (
                up.clone().says(Progress::Failed("no disk".to_owned())),
                None,
                "* The machine has given up revision 1 of its plan: no disk",
            ),
            (up.clone(), Some(&refused), "* spec.x: not so"),
            (up, Some(&unsupported), "* upgrade the agent"),
        ] {
            let condition = up_to_date(&facts, planned).expect("it is known");
            assert_eq!((condition.status, condition.message.as_str()), (ConditionStatus::False, expected));
        }
    }

    #[test]
    fn an_old_plan_that_was_carried_out_says_nothing() {
        let up = MachineFacts::server("a").up();
        assert!(up_to_date(&up, None).is_none());
        assert!(up_to_date(&up, Some(&Outcome::Waiting("its turn".to_owned()))).is_none());
    }
}
