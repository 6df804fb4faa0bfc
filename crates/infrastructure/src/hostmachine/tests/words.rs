//! What users read.

use capstan_api::conditions::{NewCondition, get, is_true, set};
use capstan_api::infrastructure::HostMachine;
use capstan_api::wait::{Wait, causes};
use capstan_controller::Next;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use std::time::Duration;

use super::fixtures::{claimed, host, machine, shared};
use crate::driver::{BootstrapFailure, BootstrapState, DriverError, ResetState};
use crate::hostmachine::decide::release::{self, Release, decide};
use crate::hostmachine::decide::{after_follow, after_start};
use crate::hostmachine::status;
use crate::hostmachine::triggers::host_facts;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

#[test]
fn a_failed_bootstrap_shows_code_step_and_last_lines() {
    let mut updated = machine();
    let failure = BootstrapFailure {
        step: "runcmd 2: /opt/capstan/capstan-agent enroll".to_owned(),
        exit_code: Some(7),
        last_lines: (0..30).map(|number| format!("line {number} {}", "x".repeat(400))).collect(),
    };
    status::started(&mut updated, &host("h"), &Ok(BootstrapState::Failed(failure)), NOW);
    let condition = get(&updated, "BootstrapExecuted").expect("the condition");
    let message = &condition.message;
    assert_eq!(condition.reason, "BootstrapFailed");
    assert!(
        message.contains("exit code 7") && message.contains("runcmd 2: /opt/capstan/capstan-agent enroll")
    );
    assert!(message.contains("line 29") && !message.contains("line 19 "), "{message}");
    assert!(message.lines().count() == 11 && message.len() < 4000);
    let ready = get(&updated, "Ready").expect("the condition");
    assert!(ready.message.contains("exit code 7"), "{}", ready.message);
}

#[test]
fn a_machine_that_runs_is_ready() {
    let mut updated = machine();
    status::waiting(&mut updated, &Wait::new(&causes::NO_HOST_AVAILABLE, "none"), NOW);
    assert!(!is_true(&updated, "Ready"));
    status::started(&mut updated, &host("h"), &Ok(BootstrapState::Running), NOW);
    assert!(is_true(&updated, "HostClaimed") && !is_true(&updated, "Ready"));
    status::started(&mut updated, &host("h"), &Ok(BootstrapState::Done), NOW);
    assert!(is_true(&updated, "Ready"));
    status::provisioned(&mut updated);
    assert!(status::is_provisioned(&updated));
}

#[test]
fn addresses_follow_the_host_and_are_never_forgotten() {
    let at = |addresses: &[&str]| {
        let mut host = host("h");
        let address = |address: &&str| json!({"type": "InternalIP", "address": address});
        let list: Vec<_> = addresses.iter().map(address).collect();
        host.status = serde_json::from_value(json!({"addresses": list})).expect("a status");
        host
    };
    let found = |machine: &HostMachine| -> Vec<String> {
        let status = machine.status.clone().unwrap_or_default();
        status.addresses.into_iter().map(|address| address.address).collect()
    };
    let mut updated = machine();
    status::provisioned(&mut updated);
    status::addresses(&mut updated, &at(&["10.0.0.1"]));
    assert_eq!(found(&updated), ["10.0.0.1"]);
    assert!(
        host_facts(&at(&["10.0.0.1"])) != host_facts(&at(&["10.0.0.2"])),
        "a new address wakes the machine"
    );
    status::addresses(&mut updated, &at(&["10.0.0.2", "fd00::2"]));
    assert_eq!(found(&updated), ["10.0.0.2", "fd00::2"]);
    for unknown in [at(&[]), host("h")] {
        status::addresses(&mut updated, &unknown);
        assert_eq!(found(&updated), ["10.0.0.2", "fd00::2"]);
    }
}

#[test]
fn a_host_comes_back_clean_or_not_at_all() {
    let host = claimed(host("h"), "id");
    let write = |state| match decide(&host, &state, None, NOW) {
        Release::Write(spec) => spec,
        other => panic!("{other:?}"),
    };
    assert_eq!(write(Ok(ResetState::Clean)), json!({"claim": null}));
    let dirty = write(Ok(ResetState::Dirty { left: vec!["/etc/rancher".to_owned()] }));
    assert_eq!(dirty["claim"], json!(null));
    assert_eq!(dirty["quarantine"]["reason"], "LeftDirty");
    assert!(dirty["quarantine"]["message"].as_str().is_some_and(|text| text.contains("/etc/rancher")));
    for state in [Ok(ResetState::Running), Err(DriverError::Unreachable("no answer".to_owned()))] {
        assert!(matches!(decide(&host, &state, None, NOW), Release::Wait(_)));
    }
}

#[test]
fn a_host_that_cannot_be_reset_stays_claimed_whatever_the_error_is() {
    let host = claimed(host("h"), "id");
    let since = Time(NOW);
    for error in [
        DriverError::Unreachable("no answer".to_owned()),
        DriverError::NotSupported("no driver".to_owned()),
        DriverError::Misconfigured { cause: &causes::HOST_KEY_MISMATCH, message: "another key".to_owned() },
    ] {
        let Release::Wait(wait) = decide(&host, &Err(error.clone()), Some(&since), NOW) else {
            panic!("{error} releases the host")
        };
        let message = wait.message;
        assert_eq!(wait.reason, "HostUnreachable");
        assert!(
            message.contains(&error.to_string()) && message.contains("since 1970-01-01T00:00:00Z"),
            "{message}"
        );
        assert!(message.contains("capstan host abandon h"), "{message}");
    }
}

#[test]
fn only_hosts_with_the_claim_of_the_machine_are_reset() {
    let mut leaving = machine();
    leaving.spec.host_name = Some("h".to_owned());
    let hosts = shared([claimed(host("h"), "other"), claimed(host("i"), "id"), host("j")]);
    assert!(release::claimed(&leaving, &hosts).is_empty(), "it never had a claim");
    leaving.spec.claim_id = Some("id".to_owned());
    assert_eq!(release::claimed(&leaving, &hosts), [hosts[1].as_ref()]);
}

#[test]
fn a_host_is_looked_at_again_by_what_it_does() {
    let after = |state| after_start(&state);
    let seconds = |seconds| Next::After(Duration::from_secs(seconds));
    assert_eq!(after(Ok(BootstrapState::Done)), Next::Changed);
    assert_eq!(after(Ok(BootstrapState::Failed(BootstrapFailure::default()))), Next::Changed);
    assert_eq!(after(Ok(BootstrapState::Running)), seconds(2));
    assert_eq!(after(Err(DriverError::Unreachable("no answer".to_owned()))), seconds(10));
}

#[test]
fn whether_an_agent_must_follow_is_looked_at_less_and_less_often() {
    let mut started = machine();
    set(&mut started, NewCondition::new("BootstrapExecuted", true, "Bootstrapped"), NOW);
    let hours = |hours: u64| Duration::from_secs(3600 * hours);
    let later = NOW + SignedDuration::from_hours(2);
    let after =
        |was_handed_over, running, now| after_follow(&started, was_handed_over, running, now).as_secs();
    assert_eq!(after(true, hours(9), later), 10, "it is told again until it has enrolled");
    assert_eq!(after(false, hours(9), NOW), 5, "it was started just now");
    assert_eq!(after(false, hours(0), later), 5, "this process was started just now");
    assert_eq!(after(false, Duration::from_secs(70), later), 70);
    assert_eq!(after(false, hours(9), later), 900);
}

#[test]
fn a_host_given_back_into_quarantine_is_a_warning() {
    let (of_host, of_machine) = status::given_back(&machine(), &host("h"), None);
    assert_eq!((of_host.map(|news| news.reason), of_machine.reason), (Some("Released"), "HostReleased"));
    let (of_host, of_machine) = status::given_back(&machine(), &host("h"), Some("left: /etc/rancher"));
    assert_eq!((of_host, of_machine.reason), (None, "ResetFailed"));
    assert!(of_machine.message.contains("/etc/rancher") && of_machine.message.contains("Host h"));
}
