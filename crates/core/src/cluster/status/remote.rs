//! Whether the workload cluster answers.

use capstan_api::conditions::{ConditionStatus, NewCondition, has};
use capstan_api::core::Cluster;
use capstan_controller::remote::Health;
use jiff::{SignedDuration, Timestamp};

use crate::names::cluster::{reasons, types};
use capstan_controller::text::rfc3339;

/// Several probes may fail before the condition changes.
const GRACE: SignedDuration = SignedDuration::from_secs(50);

/// None while nothing new is known.
pub(super) fn probe(cluster: &Cluster, health: Health, now: Timestamp) -> Option<NewCondition> {
    let failed = |message: &str| {
        let status = ConditionStatus::False;
        NewCondition::new(types::REMOTE_CONNECTION_PROBE, status, reasons::PROBE_FAILED).message(message)
    };
    if health.is_unknown() {
        // After a restart of this process, what the last one found stays.
        let has_condition = has(cluster, types::REMOTE_CONNECTION_PROBE);
        return (!has_condition).then(|| failed("Remote connection not established yet"));
    }
    if health.answered_within(GRACE, now) {
        let status = ConditionStatus::True;
        return Some(NewCondition::new(types::REMOTE_CONNECTION_PROBE, status, reasons::PROBE_SUCCEEDED));
    }
    Some(match health.last_success {
        None => failed("Remote connection probe failed"),
        Some(time) => {
            failed(&format!("Remote connection probe failed, probe last succeeded at {}", rfc3339(time)))
        }
    })
}
