//! Conditions of untyped objects, such as those of providers.
//!
//! Providers report conditions in the current format, in `status.v1beta2.conditions` next to those in the v1beta1
//! format, or only in the v1beta1 format. All are read as the current format: the severity of a v1beta1 condition is
//! dropped, and a missing reason is replaced by a default.
//!
//! The text of an error is written to a condition with the reason `InvalidConditionReported`, so it is the same as in
//! Cluster API.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Map, Value};
use thiserror::Error;

use super::{Condition, ConditionStatus, Conditioned, Owner, reasons};
use crate::meta::labels;

/// The parts of an untyped object that the condition rules use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    kind: String,
    name: String,
    generation: Option<i64>,
    is_control_plane_machine: bool,
    conditions: Vec<Condition>,
}

/// The conditions of an untyped object are invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed to convert {path} from {kind} to []metav1.Condition: {problem}")]
pub struct InvalidConditions {
    /// Path of the conditions, such as `status.conditions`.
    pub path: &'static str,
    /// The kind of the object.
    pub kind: String,
    /// The problem. Its text is part of this error's text.
    pub problem: InvalidCondition,
}

/// Problems of a condition of an untyped object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidCondition {
    /// The condition has no type.
    #[error("type must be set for all conditions")]
    NoType,
    /// The condition has no status.
    #[error("status must be set for the {0} condition")]
    NoStatus(String),
    /// The status of the condition is not `True`, `False` or `Unknown`.
    #[error("status for the {0} condition must be one of True, False, Unknown")]
    BadStatus(String),
    /// The transition time is not a valid time.
    #[error("failed to unmarshal lastTransitionTime value: {value}: {problem}")]
    BadTime {
        /// The value.
        value: String,
        /// The error of the parser.
        problem: String,
    },
    /// A field has the wrong JSON type.
    #[error("{field} must be {expected}")]
    BadField {
        /// Name of the field.
        field: &'static str,
        /// Expected type, such as "a string".
        expected: &'static str,
    },
}

impl External {
    /// Reads the conditions of an object.
    ///
    /// A condition without a transition time gets the time `now`. An object without a list of conditions has none.
    /// Entries of the list that are not objects are skipped.
    pub fn read(object: &Value, now: Timestamp) -> Result<Self, InvalidConditions> {
        let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = text("/kind");
        let has_label =
            object.pointer("/metadata/labels").and_then(|labels| labels.get(labels::CONTROL_PLANE)).is_some();
        Ok(Self {
            name: text("/metadata/name"),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64),
            is_control_plane_machine: has_label && kind == "Machine",
            conditions: read_conditions(object, &kind, now)?,
            kind,
        })
    }
}

impl Conditioned for External {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }

    fn generation(&self) -> Option<i64> {
        self.generation
    }

    fn owner(&self) -> Owner<'_> {
        Owner {
            kind: self.kind.as_str().into(),
            name: &self.name,
            is_control_plane_machine: self.is_control_plane_machine,
        }
    }
}

fn read_conditions(object: &Value, kind: &str, now: Timestamp) -> Result<Vec<Condition>, InvalidConditions> {
    // Where both exist, the old place has conditions of the old shape.
    let places = [
        ("status.v1beta2.conditions", "/status/v1beta2/conditions"),
        ("status.conditions", "/status/conditions"),
    ];
    let list =
        places.into_iter().find_map(|(path, pointer)| Some((path, object.pointer(pointer)?.as_array()?)));
    let Some((path, list)) = list else {
        return Ok(Vec::new());
    };
    list.iter()
        .filter_map(Value::as_object)
        .map(|fields| read_condition(fields, now))
        .collect::<Result<_, _>>()
        .map_err(|problem| InvalidConditions { path, kind: kind.to_owned(), problem })
}

fn read_condition(fields: &Map<String, Value>, now: Timestamp) -> Result<Condition, InvalidCondition> {
    let type_ = text(fields, "type")?;
    let status = text(fields, "status")?;
    let observed_generation = generation(fields)?;
    let last_transition_time = time(fields)?.unwrap_or(now);
    let reason = text(fields, "reason")?;
    let message = text(fields, "message")?;

    if type_.is_empty() {
        return Err(InvalidCondition::NoType);
    }
    let status = match status {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        "Unknown" => ConditionStatus::Unknown,
        "" => return Err(InvalidCondition::NoStatus(type_.to_owned())),
        _ => return Err(InvalidCondition::BadStatus(type_.to_owned())),
    };
    Ok(Condition {
        type_: type_.to_owned(),
        status,
        observed_generation,
        last_transition_time: Time(last_transition_time),
        reason: if reason.is_empty() { reasons::NO_REASON_REPORTED } else { reason }.to_owned(),
        message: message.to_owned(),
    })
}

/// The value of a string field; empty if it is null or missing.
fn text<'a>(fields: &'a Map<String, Value>, field: &'static str) -> Result<&'a str, InvalidCondition> {
    match fields.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(value) => value.as_str().ok_or(InvalidCondition::BadField { field, expected: "a string" }),
    }
}

fn generation(fields: &Map<String, Value>) -> Result<Option<i64>, InvalidCondition> {
    let field = "observedGeneration";
    match fields.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64() {
            Some(generation) => Ok(Some(generation).filter(|generation| *generation != 0)),
            None => Err(InvalidCondition::BadField { field, expected: "an integer" }),
        },
    }
}

fn time(fields: &Map<String, Value>) -> Result<Option<Timestamp>, InvalidCondition> {
    match text(fields, "lastTransitionTime")? {
        // The word null in quotes is what some old clients send.
        "" | "null" => Ok(None),
        value => value.parse().map(Some).map_err(|error: jiff::Error| InvalidCondition::BadTime {
            value: value.to_owned(),
            problem: error.to_string(),
        }),
    }
}
