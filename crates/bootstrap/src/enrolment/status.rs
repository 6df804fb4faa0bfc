//! The condition and the events that tell how far a machine is with its enrolment. Pure.

use capstan_api::bootstrap::{AGENT_ENROLLED, CapstanConfig, enrolment_reasons as reasons};
use capstan_api::conditions::{NewCondition, get};
use capstan_api::wait::causes;
use capstan_controller::events::Tone;

use super::decide::Standing;

/// Reason of an event: the machine has a certificate of its own.
const ENROLLED: &str = "Enrolled";
/// Reason of an event: the machine's request for a certificate was refused.
const REFUSED: &str = "EnrolmentRefused";

/// `AgentEnrolled` of its CapstanConfig.
pub(crate) fn condition(standing: &Standing) -> NewCondition {
    match standing {
        Standing::Enrolled(message) => {
            NewCondition::new(AGENT_ENROLLED, true, reasons::ENROLLED).message(message)
        }
        Standing::Waits(wait) => wait.condition(AGENT_ENROLLED),
    }
}

/// An event: how it is meant, its reason, and what it says.
pub(crate) type News<'a> = (Tone, &'static str, &'a str);

/// What has happened to a machine whose CapstanConfig said something else until now. A machine that asks for one thing
/// after the other that it may not have is told of once.
pub(crate) fn news<'a>(before: &CapstanConfig, standing: &'a Standing) -> Option<News<'a>> {
    let said = get(before, AGENT_ENROLLED).map(|said| said.reason.as_str());
    match standing {
        Standing::Enrolled(message) if said != Some(reasons::ENROLLED) => {
            Some((Tone::Normal, ENROLLED, message))
        }
        Standing::Waits(wait)
            if wait.reason == causes::REQUEST_REFUSED.reason && said != Some(&*wait.reason) =>
        {
            Some((Tone::Warning, REFUSED, &wait.message))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::conditions::set;
    use capstan_api::wait::{Cause, Wait};
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn an_enrolment_and_a_refusal_are_told_once() {
        let config =
            json!({"apiVersion": "x/v1", "kind": "CapstanConfig", "metadata": {"name": "web-0"}, "spec": {}});
        let mut config: CapstanConfig = serde_json::from_value(config).expect("a CapstanConfig");
        let enrolled = |message: &str| Standing::Enrolled(message.to_owned());
        let waits = |cause: &Cause, message: &str| Standing::Waits(Wait::new(cause, message));
        for (standing, expected) in [
            (waits(&causes::WAITING_FOR_AGENT, "waits"), None),
            (
                waits(&causes::REQUEST_REFUSED, "no"),
                Some((Tone::Warning, "EnrolmentRefused", "no".to_owned())),
            ),
            (waits(&causes::REQUEST_REFUSED, "no, for another reason"), None),
            (enrolled("until May"), Some((Tone::Normal, "Enrolled", "until May".to_owned()))),
            (enrolled("until June"), None),
        ] {
            let found = news(&config, &standing);
            assert_eq!(found.map(|(tone, reason, text)| (tone, reason, text.to_owned())), expected);
            set(&mut config, condition(&standing), Timestamp::UNIX_EPOCH);
        }
    }
}
