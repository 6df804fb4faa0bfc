//! The status of a CapstanConfig from the planner: its condition, and which plan the machine has. Pure.
//!
//! No decision uses it: the plan Secret is written before, and counts.

use capstan_api::bootstrap::CapstanConfigPlanStatus;
use capstan_api::conditions::{ConditionStatus, NewCondition};
use capstan_api::wait::{Wait, causes};
use capstan_controller::{identity, plans};
use capstan_planner::facts::MachineFacts;
use capstan_planner::plans::Outcome;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;

use crate::names::{PLAN_SETUP, PLANNED};

/// Whether the machine has a current plan, or why not.
pub(super) fn condition(outcome: &Outcome) -> NewCondition {
    match outcome {
        Outcome::Planned { revision, without } => {
            let without = without.iter().map(|without| format!(", {without}")).collect::<String>();
            let message = format!("Revision {revision}{without}");
            NewCondition::new(PLANNED, ConditionStatus::True, PLANNED).message(message)
        }
        Outcome::Unsupported(why) => Wait::new(&causes::AGENT_TOO_OLD, why.clone()).condition(PLANNED),
        Outcome::Waiting(why) => Wait::new(&causes::PLAN_WAITS, why.clone()).condition(PLANNED),
        Outcome::Refused { field, message } => {
            Wait::new(&causes::REFUSED, format!("{field}: {message}")).condition(PLANNED)
        }
        Outcome::Failed { again, .. } => {
            let failed = Wait::new(&causes::PLAN_FAILED, outcome.failed_words().unwrap_or_default());
            again.map_or(failed.clone(), |again| failed.until(again)).condition(PLANNED)
        }
    }
}

/// The plan of the machine. `written` is its setup, if this reconcile has written it to the Secret or found it there;
/// otherwise the setup is the one in the Secret that was `read`.
pub(super) fn plan(
    own: &MachineFacts,
    written: Option<&str>,
    read: Option<&Secret>,
) -> Option<CapstanConfigPlanStatus> {
    let (plan, id) = (own.plan.as_ref()?, own.id.as_deref()?);
    let setup = match written {
        Some(setup) => setup,
        // A plan of a former life of the machine is not its plan.
        None => read.filter(|read| identity::of(*read) == Some(id))?.annotations().get(PLAN_SETUP)?,
    };
    plans::status(plan.id, setup, id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_planner::facts::{PlanFacts, Progress};
    use serde_json::json;

    const ID: &str = "0123";

    fn planned(revision: u64) -> MachineFacts {
        let id = json!({"digest": "ab".repeat(32), "revision": revision});
        let plan = PlanFacts {
            id: serde_json::from_value(id).expect("an ID"),
            epoch: capstan_plan::Epoch::default(),
            inputs: String::new(),
            expires: jiff::Timestamp::UNIX_EPOCH,
            sound: true,
            is_open: false,
            cancelled: None,
            drain_since: None,
            record: capstan_planner::plans::Record::default(),
            programs: Vec::new(),
            agent: None,
            progress: Progress::InFlight,
        };
        MachineFacts { id: Some(ID.to_owned()), plan: Some(plan), ..MachineFacts::default() }
    }

    fn secret(annotations: &serde_json::Value) -> Secret {
        let metadata = json!({"name": "m-plan", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata})).expect("a Secret")
    }

    #[test]
    fn an_agent_that_does_not_understand_its_plan_is_told() {
        let planned = |without: Option<&str>| {
            let outcome = Outcome::Planned { revision: 7, without: without.map(str::to_owned) };
            condition(&outcome).message.to_string()
        };
        assert_eq!(planned(None), "Revision 7");
        assert_eq!(
            planned(Some("without spec.x: upgrade the agent")),
            "Revision 7, without spec.x: upgrade the agent"
        );
        let waits = condition(&Outcome::Unsupported("it lacks x".to_owned()));
        assert_eq!((waits.status, waits.reason.as_ref()), (ConditionStatus::False, "AgentTooOld"));
    }

    #[test]
    fn the_setup_of_a_plan_is_the_written_one_or_that_of_its_secret() {
        let (old, new) = ("0a".repeat(32), "0b".repeat(32));
        let ours = secret(&json!({PLAN_SETUP: old, identity::MACHINE_ID: ID}));
        let of_former_life = secret(&json!({PLAN_SETUP: old, identity::MACHINE_ID: "4567"}));
        let without_setup = secret(&json!({identity::MACHINE_ID: ID}));
        let edited = secret(&json!({PLAN_SETUP: "x", identity::MACHINE_ID: ID}));
        for (case, written, read, expected) in [
            ("written for the first time", Some(&new), None, Some(&new)),
            ("written again, or kept", Some(&new), Some(&ours), Some(&new)),
            ("waits with the plan that it has", None, Some(&ours), Some(&old)),
            ("waits with the plan of a former life", None, Some(&of_former_life), None),
            ("has a plan that does not say its setup", None, Some(&without_setup), None),
            ("has a plan that a user has edited", None, Some(&edited), None),
            ("the Secret is gone", None, None, None),
        ] {
            let told = plan(&planned(7), written.map(String::as_str), read);
            assert_eq!(told.as_ref().map(|told| &told.setup), expected, "{case}");
            if let Some(told) = told {
                assert_eq!(
                    (told.revision, told.digest, told.machine_id),
                    (7, "ab".repeat(32), ID.to_owned())
                );
            }
        }
        assert_eq!(plan(&MachineFacts::default(), None, Some(&ours)), None, "no plan that can be read");
    }
}
