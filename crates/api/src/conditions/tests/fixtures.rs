//! Objects and conditions in one line each.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::conditions::{Condition, ConditionStatus, Conditioned, Owner};

pub(super) const T: ConditionStatus = ConditionStatus::True;
pub(super) const F: ConditionStatus = ConditionStatus::False;
pub(super) const U: ConditionStatus = ConditionStatus::Unknown;

/// A time, in seconds after an arbitrary start.
pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// A condition since `at(0)`, whose reason is made from its type.
pub(super) fn condition(type_: &str, status: ConditionStatus, message: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status,
        observed_generation: None,
        last_transition_time: Time(at(0)),
        reason: format!("Reason-{type_}"),
        message: message.to_owned(),
    }
}

impl Condition {
    pub(super) fn since(mut self, second: i64) -> Self {
        self.last_transition_time = Time(at(second));
        self
    }

    pub(super) fn because(mut self, reason: &str) -> Self {
        self.reason = reason.to_owned();
        self
    }

    pub(super) fn of_generation(mut self, generation: i64) -> Self {
        self.observed_generation = Some(generation);
        self
    }
}

/// An object of any kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Thing {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) generation: Option<i64>,
    pub(super) is_control_plane_machine: bool,
    pub(super) conditions: Vec<Condition>,
}

impl Thing {
    pub(super) fn new(kind: &'static str, name: impl Into<String>, conditions: Vec<Condition>) -> Self {
        Self { kind, name: name.into(), generation: None, is_control_plane_machine: false, conditions }
    }

    pub(super) fn control_plane(mut self) -> Self {
        self.is_control_plane_machine = true;
        self
    }

    pub(super) fn types(&self) -> Vec<&str> {
        self.conditions.iter().map(|condition| condition.type_.as_str()).collect()
    }
}

impl Conditioned for Thing {
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
            kind: self.kind.into(),
            name: &self.name,
            is_control_plane_machine: self.is_control_plane_machine,
        }
    }
}
