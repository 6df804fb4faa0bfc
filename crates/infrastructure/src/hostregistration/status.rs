//! Conditions of a HostRegistration. Pure.

use capstan_api::conditions::{NewCondition, set, types};
use capstan_api::infrastructure::{APPROVED, HostRegistration, approved_reasons};
use capstan_api::wait::Wait;
use jiff::Timestamp;

/// Conditions that this controller owns.
pub(super) const OWNED: [&str; 2] = [APPROVED, types::PAUSED];

/// A Host uses the registration.
pub(super) fn approve(registration: &mut HostRegistration, now: Timestamp) {
    set(registration, NewCondition::new(APPROVED, true, approved_reasons::APPROVED), now);
}

/// The registration waits.
pub(super) fn wait(registration: &mut HostRegistration, wait: &Wait, now: Timestamp) {
    set(registration, wait.condition(APPROVED), now);
}
