//! The condition and the events that tell how far a machine is with its enrolment. Pure.

use capstan_api::bootstrap::{AGENT_ENROLLED, CapstanConfig, enrolment_reasons as reasons};
use capstan_api::conditions::{NewCondition, get};
use capstan_controller::events::Tone;

use super::decide::Standing;

/// Reason of an event: the machine has a certificate of its own.
const ENROLLED: &str = "Enrolled";
/// Reason of an event: the machine's request for a certificate was refused.
const REFUSED: &str = "EnrolmentRefused";

/// `AgentEnrolled` of its CapstanConfig.
pub(crate) fn condition(standing: &Standing) -> NewCondition {
    NewCondition::new(AGENT_ENROLLED, standing.is_enrolled, standing.reason).message(&standing.message)
}

/// An event: how it is meant, its reason, and what it says.
pub(crate) type News<'a> = (Tone, &'static str, &'a str);

/// What has happened to a machine whose CapstanConfig said something else until now. A machine that asks for one thing
/// after the other that it may not have is told of once.
pub(crate) fn news<'a>(before: &CapstanConfig, standing: &'a Standing) -> Option<News<'a>> {
    if get(before, AGENT_ENROLLED).is_some_and(|said| said.reason == standing.reason) {
        return None;
    }
    match standing.reason {
        reasons::ENROLLED => Some((Tone::Normal, ENROLLED, &standing.message)),
        reasons::REQUEST_REFUSED => Some((Tone::Warning, REFUSED, &standing.message)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::conditions::set;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn an_enrolment_and_a_refusal_are_told_once() {
        let config =
            json!({"apiVersion": "x/v1", "kind": "CapstanConfig", "metadata": {"name": "web-0"}, "spec": {}});
        let mut config: CapstanConfig = serde_json::from_value(config).expect("a CapstanConfig");
        let standing = |reason, message: &str| Standing {
            is_enrolled: reason == reasons::ENROLLED,
            reason,
            message: message.to_owned(),
        };
        for (standing, expected) in [
            (standing(reasons::WAITING_FOR_MACHINE, "waits"), None),
            (
                standing(reasons::REQUEST_REFUSED, "no"),
                Some((Tone::Warning, "EnrolmentRefused", "no".to_owned())),
            ),
            (standing(reasons::REQUEST_REFUSED, "no, for another reason"), None),
            (
                standing(reasons::ENROLLED, "until May"),
                Some((Tone::Normal, "Enrolled", "until May".to_owned())),
            ),
            (standing(reasons::ENROLLED, "until June"), None),
        ] {
            let found = news(&config, &standing);
            assert_eq!(found.map(|(tone, reason, text)| (tone, reason, text.to_owned())), expected);
            set(&mut config, condition(&standing), Timestamp::UNIX_EPOCH);
        }
    }
}
