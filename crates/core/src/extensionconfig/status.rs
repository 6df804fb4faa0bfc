//! The status of an ExtensionConfig: whether its extension was discovered, and its handlers. Pure.

use capstan_api::conditions::{NewCondition, set, types};
use capstan_api::runtime::conditions::{DISCOVERED, NOT_DISCOVERED};
use capstan_api::runtime::{ExtensionConfig, ExtensionHandler};
use capstan_controller::pause;
use jiff::Timestamp;

use crate::runtime::CallError;

/// Condition types that belong to this controller.
pub(super) const OWNED: [&str; 2] = [types::PAUSED, DISCOVERED];

/// Writes the result of a discovery into the status. The handlers stay if the extension did not answer.
pub(super) fn update(
    config: &mut ExtensionConfig,
    discovered: &Result<Vec<ExtensionHandler>, CallError>,
    now: Timestamp,
) {
    set(config, condition(discovered.as_ref().err()), now);
    pause::lifted(config, now);
    if let Ok(handlers) = discovered {
        config.status.get_or_insert_default().handlers.clone_from(handlers);
    }
}

fn condition(problem: Option<&CallError>) -> NewCondition {
    match problem {
        None => NewCondition::new(DISCOVERED, true, DISCOVERED),
        Some(problem) => NewCondition::new(DISCOVERED, false, NOT_DISCOVERED)
            .message(format!("Error in discovery: {problem}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::conditions::ConditionStatus;

    #[test]
    fn why_it_was_not_discovered_is_reported() {
        assert_eq!(condition(None).status, ConditionStatus::True);
        let discovered = condition(Some(&CallError::Unreachable("cannot connect: refused".to_owned())));
        assert_eq!(
            (discovered.status, discovered.reason.as_str()),
            (ConditionStatus::False, "NotDiscovered")
        );
        assert_eq!(discovered.message, "Error in discovery: cannot connect: refused");
    }
}
