//! Status and conditions of a CapstanConfig, computed from the decisions. Pure.

use capstan_api::bootstrap::{AGENT_ENROLLED, CapstanConfig, CapstanConfigStatus};
use capstan_api::conditions::{NewCondition, reasons, set, types};
use capstan_api::wait::{Wait, causes};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::decide::Decision;
use crate::enrolment;

/// Condition: the Secret with the bootstrap data exists.
const DATA_SECRET_AVAILABLE: &str = "DataSecretAvailable";

/// Conditions that this controller owns.
pub(super) const OWNED: [&str; 4] = [types::PAUSED, types::READY, DATA_SECRET_AVAILABLE, AGENT_ENROLLED];

/// Sets the conditions for bootstrap data and enrolment.
pub(super) fn set_conditions(
    config: &mut CapstanConfig,
    data: &Decision,
    enrolment: &enrolment::Decision,
    now: Timestamp,
) {
    let wait = match data {
        Decision::Done(_) => None,
        Decision::Wait(wait) => Some(wait.clone()),
        Decision::Identify | Decision::HandOut | Decision::Followed => {
            Some(Wait::new(&causes::WAITING_FOR_BOOTSTRAP_DATA, ""))
        }
    };
    for condition in conditions(wait.as_ref()).into_iter().chain([enrolment::condition(&enrolment.standing)])
    {
        set(config, condition, now);
    }
    let (generation, name) = (config.metadata.generation, config.name_any());
    let status: &mut CapstanConfigStatus = config.status.get_or_insert_default();
    status.observed_generation = generation;
    if matches!(data, Decision::Done(_)) {
        status.data_secret_name = Some(name);
        status.initialization.get_or_insert_default().data_secret_created = Some(true);
    }
}

/// Sets the condition for a missing right.
pub(super) fn forbidden(config: &mut CapstanConfig, why: String, now: Timestamp) {
    for condition in conditions(Some(&Wait::new(&causes::FORBIDDEN, why))) {
        set(config, condition, now);
    }
}

/// The conditions of the bootstrap data: the wait, or that the data exists.
fn conditions(wait: Option<&Wait>) -> [NewCondition; 2] {
    let condition = |type_: &str, good: &'static str| match wait {
        Some(wait) => wait.condition(type_),
        None => NewCondition::new(type_, true, good),
    };
    [condition(types::READY, reasons::READY), condition(DATA_SECRET_AVAILABLE, reasons::AVAILABLE)]
}
