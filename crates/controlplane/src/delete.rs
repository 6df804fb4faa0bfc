//! What a control plane says of its end.

use capstan_api::conditions::{ConditionStatus, NewCondition, reasons, types};
use capstan_planner::ending::Ending;

/// What the control plane says of its end.
pub(crate) fn condition(ending: &Ending) -> NewCondition {
    let deleting = |reason: &str| NewCondition::new(types::DELETING, ConditionStatus::True, reason);
    match ending {
        Ending::Workers(names) => deleting("WaitingForWorkersDeletion")
            .message(format!("Waiting for Machines that are not of the control plane: {}", shown(names))),
        Ending::Machines { left, .. } => {
            deleting("WaitingForMachineDeletion").message(format!("Waiting for Machines: {}", shown(left)))
        }
        Ending::Done => deleting(reasons::DELETION_COMPLETED),
    }
}

fn shown(names: &[String]) -> String {
    match names.split_at_checked(5) {
        Some((first, rest)) if !rest.is_empty() => format!("{}, ... ({} more)", first.join(", "), rest.len()),
        _ => names.join(", "),
    }
}
