//! The condition and the Event of an enrolment. Pure.

use capstan_api::bootstrap::{AGENT_ENROLLED, CapstanConfig, enrolment_reasons as reasons};
use capstan_api::conditions::{ConditionStatus, NewCondition, get};
use capstan_api::wait::causes;

use super::decide::Standing;

/// The condition `AgentEnrolled` of a CapstanConfig.
pub(crate) fn condition(standing: &Standing) -> NewCondition {
    match standing {
        Standing::Enrolled(message) => {
            NewCondition::new(AGENT_ENROLLED, true, reasons::ENROLLED).message(message)
        }
        Standing::Waits(wait) => wait.condition(AGENT_ENROLLED),
    }
}

/// The Event of a machine that has enrolled after its CapstanConfig reported a problem. A new machine that enrols as expected
/// has no Event: the condition reports it. A condition that becomes true is written at once, so there is one Event.
pub(crate) fn news<'a>(before: &CapstanConfig, standing: &'a Standing) -> Option<(&'static str, &'a str)> {
    match standing {
        Standing::Enrolled(message) if was_late(before) => Some((reasons::ENROLLED, message)),
        _ => None,
    }
}

/// Whether the enrolment waited for anything but the bootstrap data or the first contact of the agent.
fn was_late(config: &CapstanConfig) -> bool {
    let expected = [causes::WAITING_FOR_AGENT.reason, causes::WAITING_FOR_BOOTSTRAP_DATA.reason];
    get(config, AGENT_ENROLLED).is_some_and(|condition| {
        condition.status != ConditionStatus::True && !expected.contains(&condition.reason.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::conditions::set;
    use capstan_api::wait::{Cause, Wait};
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn an_enrolment_is_published_once() {
        let config =
            json!({"apiVersion": "x/v1", "kind": "CapstanConfig", "metadata": {"name": "web-0"}, "spec": {}});
        let mut config: CapstanConfig = serde_json::from_value(config).expect("a CapstanConfig");
        let enrolled = |message: &str| Standing::Enrolled(message.to_owned());
        let waits = |cause: &Cause, message: &str| Standing::Waits(Wait::new(cause, message));
        assert_eq!(news(&config, &enrolled("since long ago")), None, "its status was lost");
        for (standing, expected) in [
            (waits(&causes::WAITING_FOR_AGENT, "waits"), None),
            (enrolled("until April"), None),
            (waits(&causes::REQUEST_REFUSED, "no"), None),
            (enrolled("until May"), Some(("Enrolled", "until May"))),
            (enrolled("until June"), None),
        ] {
            assert_eq!(news(&config, &standing), expected);
            set(&mut config, condition(&standing), Timestamp::UNIX_EPOCH);
        }
    }
}
