//! A condition of a provider's object, as a condition of the object that refers to it. Pure.

use capstan_api::conditions::{ConditionStatus, Mirror, NewCondition, reasons, types};
use jiff::Timestamp;
use kube::api::DynamicObject;

use super::{Reading, conditions_of};
use crate::names::CHECK_LOGS;

/// How a condition of a provider's object becomes a condition of the object that refers to it.
pub(crate) struct Mirrored<'a> {
    /// Condition type on our object.
    pub(crate) target: &'a str,
    /// Condition type on the provider's object.
    pub(crate) source: &'a str,
    /// Kind of the provider's object.
    pub(crate) kind: &'a str,
    /// The flag of the contract that the provider has set. It replaces a condition that is missing.
    pub(crate) done: bool,
    /// The field in which the provider says so.
    pub(crate) done_field: &'a str,
    /// Reasons for done and not done.
    pub(crate) fallback: (&'a str, &'a str),
    /// Whether our object is being deleted.
    pub(crate) deleting: bool,
    /// Kind of Capstan's object, if it is an error that the provider's object is deleted.
    pub(crate) survivor: Option<&'a str>,
}

impl Mirrored<'_> {
    /// The condition for what was read.
    pub(crate) fn condition(&self, reading: &Reading, now: Timestamp) -> NewCondition {
        let new = |status, reason: &str, message: String| {
            NewCondition::new(self.target, status, reason).message(message)
        };
        match reading {
            Reading::Found(object) => self.mirror(object, now),
            Reading::Unreadable | Reading::Unreferenced => {
                new(ConditionStatus::Unknown, reasons::INTERNAL_ERROR, CHECK_LOGS.to_owned())
            }
            Reading::Missing => {
                let (reason, message) = self.missing();
                new(ConditionStatus::False, reason, message)
            }
        }
    }

    fn mirror(&self, object: &DynamicObject, now: Timestamp) -> NewCondition {
        let reported = match conditions_of(object, now) {
            Ok(reported) => reported,
            Err(problem) => {
                let unknown = ConditionStatus::Unknown;
                return NewCondition::new(self.target, unknown, reasons::INVALID_CONDITION_REPORTED)
                    .message(problem);
            }
        };
        let (good, bad) = self.fallback;
        let message = match self.done {
            true => String::new(),
            false => format!("{} {} is false", self.kind, self.done_field),
        };
        let mut condition = Mirror::of(self.source)
            .to(self.target)
            .fallback(self.done, if self.done { good } else { bad }, message)
            .mirror(&reported);
        // A condition of the v1beta1 shape: True needed no reason there.
        if condition.reason == reasons::NO_REASON_REPORTED && condition.status == ConditionStatus::True {
            good.clone_into(&mut condition.reason);
        }
        condition
    }

    fn missing(&self) -> (&'static str, String) {
        let kind = self.kind;
        match (self.done, self.deleting, self.survivor) {
            (true, true, _) => (reasons::OBJECT_DELETED, format!("{kind} has been deleted")),
            (true, false, Some(survivor)) => (
                reasons::OBJECT_DELETED,
                format!("{kind} has been deleted while the {survivor} still exists"),
            ),
            _ => (reasons::OBJECT_DOES_NOT_EXIST, format!("{kind} does not exist")),
        }
    }
}

/// The mirror of `Ready` for an infrastructure object.
pub(crate) fn infrastructure_ready<'a>(
    kind: &'a str,
    done: bool,
    deleting: bool,
    survivor: &'a str,
) -> Mirrored<'a> {
    Mirrored {
        target: types::INFRASTRUCTURE_READY,
        source: types::READY,
        kind,
        done,
        done_field: "status.initialization.provisioned",
        fallback: (reasons::READY, reasons::NOT_READY),
        deleting,
        survivor: Some(survivor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(data: Value) -> DynamicObject {
        serde_json::from_value(data).expect("an object")
    }

    #[test]
    fn a_condition_is_mirrored_or_made_up() {
        let ready = json!({"type": "Ready", "status": "False", "reason": "Booting", "message": "soon",
            "lastTransitionTime": "2025-01-01T00:00:00Z"});
        let plain_true =
            json!({"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"});
        let nonsense = json!({"type": "Ready", "status": "Maybe"});
        for (conditions, done, status, reason, message) in [
            (json!([ready]), true, "False", "Booting", "soon"),
            (json!([plain_true]), false, "True", "Ready", ""),
            (json!([]), false, "False", "NotReady", "Host status.initialization.provisioned is false"),
            (json!([]), true, "True", "Ready", ""),
            (
                json!([nonsense]),
                true,
                "Unknown",
                "InvalidConditionReported",
                "failed to convert status.conditions from Host to []metav1.Condition: \
                 status for the Ready condition must be one of True, False, Unknown",
            ),
        ] {
            let host = object(json!({"apiVersion": "a/v1", "kind": "Host", "metadata": {"name": "h"},
                "status": {"conditions": conditions}}));
            let mirrored = infrastructure_ready("Host", done, false, "cluster");
            let condition = mirrored.condition(&Reading::Found(Box::new(host)), Timestamp::UNIX_EPOCH);
            assert_eq!(condition.type_, "InfrastructureReady");
            assert_eq!(
                (condition.status.to_string().as_str(), &*condition.reason, &*condition.message),
                (status, reason, message)
            );
        }
    }

    #[test]
    fn a_missing_object_is_distinguished_by_what_was_there() {
        for (done, deleting, reason, message) in [
            (false, false, "ObjectDoesNotExist", "Host does not exist"),
            (false, true, "ObjectDoesNotExist", "Host does not exist"),
            (true, true, "ObjectDeleted", "Host has been deleted"),
            (true, false, "ObjectDeleted", "Host has been deleted while the Machine still exists"),
        ] {
            let mirrored = infrastructure_ready("Host", done, deleting, "Machine");
            let condition = mirrored.condition(&Reading::Missing, Timestamp::UNIX_EPOCH);
            assert_eq!((&*condition.reason, &*condition.message), (reason, message));
            assert_eq!(condition.status, ConditionStatus::False);
        }
        let bootstrap = Mirrored { survivor: None, ..infrastructure_ready("Config", true, false, "") };
        let condition = bootstrap.condition(&Reading::Missing, Timestamp::UNIX_EPOCH);
        assert_eq!(condition.reason, "ObjectDoesNotExist");
    }
}
