//! The condition of a ClusterResourceSet. Pure.

use capstan_api::addons::ClusterResourceSet;
use capstan_api::conditions::{NewCondition, reasons, set, types};
use capstan_controller::text::listed;
use jiff::Timestamp;

use super::decide::Progress;
use super::names::{RESOURCES_APPLIED, reasons as own};
use crate::names::CHECK_LOGS;

/// Condition types that belong to this controller.
pub(super) const OWNED: [&str; 2] = [types::PAUSED, RESOURCES_APPLIED];
/// Problems that the message names.
const PROBLEMS: usize = 5;
const NAMES: usize = 5;

/// Sets the condition. `succeeded` says whether everything could be read and written.
pub(super) fn update(updated: &mut ClusterResourceSet, progress: &Progress, succeeded: bool, now: Timestamp) {
    set(updated, condition(progress, succeeded), now);
}

fn condition(progress: &Progress, succeeded: bool) -> NewCondition {
    let not = |reason: &'static str| NewCondition::new(RESOURCES_APPLIED, false, reason);
    match progress {
        Progress { wrong_type, .. } if !wrong_type.is_empty() => {
            let message = format!("Secret type of resource {} is not supported", listed(wrong_type, NAMES));
            not(own::WRONG_SECRET_TYPE).message(message)
        }
        Progress { problems, .. } if !problems.is_empty() => {
            let shown = problems.iter().take(PROBLEMS).map(|problem| format!("\n* {problem}"));
            let more = match problems.len().saturating_sub(PROBLEMS) {
                0 => String::new(),
                more => format!("\n* {more} more"),
            };
            let shown: String = shown.collect();
            let message = format!("Failed to apply ClusterResourceSet resources to Cluster:{shown}{more}");
            not(own::NOT_APPLIED).message(message)
        }
        _ if !succeeded => not(reasons::INTERNAL_ERROR).message(CHECK_LOGS),
        _ => NewCondition::new(RESOURCES_APPLIED, true, own::APPLIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_kind_of_problem_is_the_reason() {
        let (nothing, one) = (Vec::new(), vec!["p".to_owned()]);
        let many: Vec<String> = (0..7).map(|number| format!("p{number}")).collect();
        let secrets = vec!["a".to_owned(), "b".to_owned()];
        for (wrong_type, problems, succeeded, reason, message) in [
            (&nothing, &nothing, true, "Applied", ""),
            (&nothing, &nothing, false, "InternalError", "Please check controller logs for errors"),
            (
                &nothing,
                &one,
                true,
                "NotApplied",
                "Failed to apply ClusterResourceSet resources to Cluster:\n* p",
            ),
            (
                &nothing,
                &many,
                false,
                "NotApplied",
                "Failed to apply ClusterResourceSet resources to Cluster:\n* p0\n* p1\n* p2\n* p3\n* p4\n* 2 more",
            ),
            (&secrets, &one, true, "WrongSecretType", "Secret type of resource a, b is not supported"),
        ] {
            let progress = Progress { wrong_type: wrong_type.clone(), problems: problems.clone() };
            let condition = condition(&progress, succeeded);
            assert_eq!((condition.reason.as_str(), condition.message.as_str()), (reason, message));
        }
    }
}
