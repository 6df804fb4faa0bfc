//! What reaches existing Machines at once, and whether each is up to date.

use capstan_api::conditions::{ConditionStatus, NewCondition, reasons, set};
use capstan_api::core::Machine;
use capstan_controller::error::Result;
use capstan_controller::patch::Patcher;

use super::build::propagate;
use crate::facts::{MachineFacts, Progress};
use crate::names::UP_TO_DATE;
use crate::scope::Scope;

/// Brings labels, annotations, gates, taints and deletion settings to a Machine, and says whether it is up to date.
/// Gives what the Machine is then.
pub(crate) async fn sync(scope: &Scope<'_>, machine: &Machine, facts: &MachineFacts) -> Result<Machine> {
    let mut synced = machine.clone();
    if !facts.deleting {
        propagate(scope.owner, &scope.cluster_name(), &mut synced);
    }
    set(&mut synced, up_to_date(facts), scope.now);
    Patcher::new(scope.api(), machine).finish(&synced, &[UP_TO_DATE]).await?;
    Ok(synced)
}

/// Whether a machine is what its control plane asks for.
pub(crate) fn up_to_date(facts: &MachineFacts) -> NewCondition {
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
    match lines.is_empty() {
        true => NewCondition::new(UP_TO_DATE, ConditionStatus::True, reasons::UP_TO_DATE),
        false => NewCondition::new(UP_TO_DATE, ConditionStatus::False, reasons::NOT_UP_TO_DATE)
            .message(lines.join("\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_distro::{Change, Cost};

    #[test]
    fn a_machine_says_why_it_is_not_up_to_date() {
        let up = MachineFacts::server("a").up();
        assert_eq!(up_to_date(&up).status, ConditionStatus::True);
        let change = Change::new("spec.version", Cost::Restart, "another version");
        for (facts, expected) in [
            (up.clone().with(|m| m.changes = vec![change]), "* spec.version: another version"),
            (up.clone().with(|m| m.plan = None), "* The machine has no plan yet"),
            (up.clone().says(Progress::InFlight), "* The machine is to carry out revision 1 of its plan"),
            (
                up.says(Progress::Failed("no disk".to_owned())),
                "* The machine has given up revision 1 of its plan: no disk",
            ),
        ] {
            let condition = up_to_date(&facts);
            assert_eq!((condition.status, condition.message.as_str()), (ConditionStatus::False, expected));
        }
    }
}
