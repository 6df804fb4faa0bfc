//! What users read.

use capstan_api::conditions::{get, is_true};
use jiff::Timestamp;
use serde_json::json;

use super::fixtures::{claimed, host, machine};
use crate::driver::{BootstrapFailure, BootstrapState, DriverError, ResetState};
use crate::hostmachine::release::{Release, decide};
use crate::hostmachine::tell;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

#[test]
fn a_failed_bootstrap_shows_code_step_and_last_lines() {
    let mut told = machine();
    let failure = BootstrapFailure {
        step: "runcmd 2: /opt/capstan/capstan-agent enroll".to_owned(),
        exit_code: Some(7),
        last_lines: (0..30).map(|number| format!("line {number} {}", "x".repeat(400))).collect(),
    };
    tell::started(&mut told, &host("h"), &Ok(BootstrapState::Failed(failure)), NOW);
    let condition = get(&told, "BootstrapExecuted").expect("the condition");
    let message = &condition.message;
    assert_eq!(condition.reason, "BootstrapFailed");
    assert!(
        message.contains("exit code 7") && message.contains("runcmd 2: /opt/capstan/capstan-agent enroll")
    );
    assert!(message.contains("line 29") && !message.contains("line 19 "), "{message}");
    assert!(message.lines().count() == 11 && message.len() < 4000);
    let ready = get(&told, "Ready").expect("the condition");
    assert!(ready.message.contains("exit code 7"), "{}", ready.message);
}

#[test]
fn a_machine_that_runs_is_ready() {
    let mut told = machine();
    tell::waiting(&mut told, "NoHostAvailable", "none", NOW);
    assert!(!is_true(&told, "Ready"));
    tell::started(&mut told, &host("h"), &Ok(BootstrapState::Running), NOW);
    assert!(is_true(&told, "HostClaimed") && !is_true(&told, "Ready"));
    tell::started(&mut told, &host("h"), &Ok(BootstrapState::Done), NOW);
    assert!(is_true(&told, "Ready"));
    tell::provisioned(&mut told, None);
    assert!(tell::is_provisioned(&told));
}

#[test]
fn a_host_comes_back_clean_or_not_at_all() {
    let host = claimed(host("h"), "id");
    let write = |state| match decide(&host, &state, NOW) {
        Release::Write(spec) => spec,
        other => panic!("{other:?}"),
    };
    assert_eq!(write(Ok(ResetState::Clean)), json!({"claim": null}));
    let dirty = write(Ok(ResetState::Dirty { left: vec!["/etc/rancher".to_owned()] }));
    assert_eq!(dirty["claim"], json!(null));
    assert_eq!(dirty["quarantine"]["reason"], "LeftDirty");
    assert!(dirty["quarantine"]["message"].as_str().is_some_and(|text| text.contains("/etc/rancher")));
    for state in [Ok(ResetState::Running), Err(DriverError::Unreachable("no answer".to_owned()))] {
        assert!(matches!(decide(&host, &state, NOW), Release::Wait(..)));
    }
}
