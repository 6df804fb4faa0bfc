//! Tables for the state of a host.

use capstan_api::bootstrap::AGENT_CONNECTED;
use capstan_api::conditions::{Condition, NewCondition, get, is_true, set};
use capstan_api::core::{MachineAddress, MachineAddressType};
use capstan_api::infrastructure::{
    Host, HostClaim, HostFacts, HostMachine, HostMachineSpec, HostQuarantine, HostSpec, HostState,
    SimulatedHost,
};
use capstan_api::wait::causes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::time::Duration;

use super::decide::{self, HostStep};
use super::status::news;
use super::{Holder, Observed, is_reachable, write_status};
use crate::driver::{DriverError, Reached};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn host() -> Host {
    let simulated = Some(SimulatedHost::default());
    Host::new(
        "h",
        HostSpec {
            ssh: None,
            simulated,
            registration: None,
            failure_domain: None,
            unschedulable: None,
            claim: None,
            quarantine: None,
            config: None,
            windows: Vec::new(),
        },
    )
}

fn reached() -> Result<Reached, DriverError> {
    Ok(Reached { facts: HostFacts { cpus: Some(2), ..Default::default() }, ..Default::default() })
}

fn with_status(mut host: Host, found: &Result<Reached, DriverError>, holder: &Holder) -> (HostState, Host) {
    write_status(&mut host, &Observed { found: found.clone(), holder: holder.clone(), agent: None }, NOW);
    let state = host.status.as_ref().and_then(|status| status.state).expect("a state");
    (state, host)
}

#[test]
fn a_host_says_that_the_agent_on_it_is_silent() {
    let agent = |status: &str, reason: &str, message: &str| {
        let condition = serde_json::json!({"type": AGENT_CONNECTED, "status": status, "reason": reason,
            "message": message, "lastTransitionTime": "2026-11-15T03:00:00Z"});
        Some(serde_json::from_value::<Condition>(condition).expect("a condition"))
    };
    let silent = || agent("False", "AgentSilent", "since noon");
    let connected = || agent("True", "Connected", "");
    let mut host = host();
    for (case, agent, expected) in [
        ("no machine", None, None),
        ("never missed", connected(), None),
        ("silent", silent(), Some(("False", "AgentSilent", "since noon"))),
        ("back", connected(), Some(("True", "Connected", ""))),
        ("released", None, None),
    ] {
        write_status(&mut host, &Observed { found: reached(), holder: Holder::Present, agent }, NOW);
        let told = get(&host, AGENT_CONNECTED);
        let told = told.map(|it| (format!("{:?}", it.status), it.reason.clone(), it.message.clone()));
        let expected = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(told, expected, "{case}");
    }
}

#[test]
fn a_host_is_in_one_state() {
    let claim = || {
        Some(HostClaim { id: "i".into(), machine_name: "m".into(), cluster_name: "c".into(), since: None })
    };
    let quarantine =
        || Some(HostQuarantine { reason: "LeftDirty".into(), message: Some("/x".into()), since: None });
    let with = |change: &dyn Fn(&mut Host)| {
        let mut host = host();
        change(&mut host);
        host
    };
    let lost = Err(DriverError::Unreachable("no answer".into()));
    let full = Ok(Reached { problems: vec!["disk: full; make room".into()], ..Default::default() });
    let claimed = with(&|host| host.spec.claim = claim());
    for (host, found, holder, state, ready) in [
        (host(), reached(), Holder::Present, HostState::Available, true),
        (host(), lost.clone(), Holder::Present, HostState::Unreachable, false),
        (host(), full.clone(), Holder::Present, HostState::Unusable, false),
        (claimed.clone(), full, Holder::Present, HostState::Claimed, false),
        (
            with(&|host| host.spec.unschedulable = Some(true)),
            reached(),
            Holder::Present,
            HostState::Unschedulable,
            true,
        ),
        (claimed.clone(), reached(), Holder::Present, HostState::Claimed, true),
        (claimed.clone(), reached(), Holder::Leaving(None), HostState::Releasing, false),
        (claimed.clone(), lost.clone(), Holder::Leaving(None), HostState::Releasing, false),
        (claimed.clone(), lost, Holder::Present, HostState::Claimed, false),
        (claimed, reached(), Holder::Missing, HostState::Claimed, false),
        (
            with(&|host| host.spec.quarantine = quarantine()),
            reached(),
            Holder::Present,
            HostState::Quarantined,
            false,
        ),
    ] {
        let (found_state, host) = with_status(host, &found, &holder);
        assert_eq!(found_state, state);
        assert_eq!(is_true(&host, "Ready"), ready, "{state:?}");
    }
}

#[test]
fn what_a_host_said_stays_while_it_is_silent() {
    let (_, host) = with_status(host(), &reached(), &Holder::Present);
    let (_, host) = with_status(host, &Err(DriverError::NotSupported("not yet".into())), &Holder::Present);
    let facts = host.status.as_ref().and_then(|status| status.facts.as_ref());
    assert_eq!(facts.and_then(|facts| facts.cpus), Some(2));
    assert_eq!(get(&host, "Ready").map(|condition| condition.message.as_str()), Some("not yet"));
}

#[test]
fn an_empty_list_of_addresses_is_not_known_to_be_none() {
    let address = MachineAddress { type_: MachineAddressType::InternalIP, address: "10.0.0.1".to_owned() };
    let at = |addresses: Vec<MachineAddress>| Ok(Reached { addresses, ..Reached::default() });
    let (_, host) = with_status(host(), &at(vec![address.clone()]), &Holder::Present);
    let (_, host) = with_status(host, &at(vec![]), &Holder::Present);
    assert_eq!(host.status.map(|status| status.addresses), Some(vec![address]));
}

#[test]
fn a_host_that_is_released_says_what_its_machine_waits_for() {
    let mut host = host();
    host.spec.claim =
        Some(HostClaim { id: "i".into(), machine_name: "m".into(), cluster_name: "c".into(), since: None });
    let lost = Err(DriverError::Unreachable("no answer".into()));
    let why = "cannot reset Host h, tried since then: no answer";
    let (state, host) = with_status(host, &lost, &Holder::Leaving(Some(why.into())));
    assert_eq!(state, HostState::Releasing);
    let ready = get(&host, "Ready").expect("the condition");
    assert_eq!(ready.reason, "Releasing");
    assert_eq!(ready.message, format!("HostMachine m, which has this host, is being deleted: {why}"));
    let (_, host) = with_status(host, &reached(), &Holder::Present);
    assert!(is_true(&host, "Ready"));
}

#[test]
fn a_host_that_is_deleted_says_who_has_it() {
    let mut host = host();
    host.metadata.deletion_timestamp = Some(Time(NOW));
    host.spec.claim =
        Some(HostClaim { id: "i".into(), machine_name: "m".into(), cluster_name: "c".into(), since: None });
    let (_, host) = with_status(host, &reached(), &Holder::Present);
    let deleting = get(&host, "Deleting").expect("the condition");
    assert!(deleting.message.contains("HostMachine m of Cluster c"), "{}", deleting.message);
}

#[test]
fn a_real_host_must_have_answered_before_it_counts() {
    let mut host = host();
    assert!(is_reachable(&host), "simulated");
    host.spec.simulated = None;
    assert!(!is_reachable(&host), "nobody knows");
    let (state, host) = with_status(host, &reached(), &Holder::Present);
    assert!(is_reachable(&host) && state == HostState::Available);
    let wrong = DriverError::Misconfigured {
        cause: &causes::HOST_KEY_MISMATCH,
        message: "spec.ssh.hostKeys: no".into(),
    };
    let (state, host) = with_status(host, &Err(wrong), &Holder::Present);
    assert!(!is_reachable(&host) && state == HostState::Unreachable);
    let ready = get(&host, "Ready").expect("the condition");
    assert_eq!((ready.reason.as_str(), ready.message.as_str()), ("HostKeyMismatch", "spec.ssh.hostKeys: no"));
}

fn claim() -> HostClaim {
    HostClaim { id: "i".into(), machine_name: "m".into(), cluster_name: "c".into(), since: None }
}

#[test]
fn a_host_that_is_deleted_goes_only_without_a_claim() {
    let mut host = host();
    assert_eq!(decide::decide(&host), HostStep::Look);
    host.metadata.deletion_timestamp = Some(Time(NOW));
    assert_eq!(decide::decide(&host), HostStep::Release);
    host.spec.claim = Some(claim());
    assert_eq!(decide::decide(&host), HostStep::Look);
}

#[test]
fn a_host_that_is_silent_for_long_is_asked_less_often() {
    let mut host = host();
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    assert_eq!(decide::again(&host, true, NOW), minutes(5));
    assert_eq!(decide::again(&host, false, NOW), minutes(1) / 4, "it answers and cannot be used");
    set(&mut host, NewCondition::new("Reachable", false, "Unreachable"), NOW);
    assert_eq!(decide::again(&host, false, NOW), minutes(1) / 4);
    assert_eq!(decide::again(&host, false, NOW + SignedDuration::from_hours(5)), minutes(2));
}

#[test]
fn only_the_machine_with_the_same_claim_holds_a_host() {
    let mut host = host();
    let mut machine = HostMachine::new("m", HostMachineSpec::default());
    assert_eq!(Holder::of(&host, None), Holder::Present, "there is no claim");
    host.spec.claim = Some(claim());
    assert_eq!(Holder::of(&host, None), Holder::Missing);
    assert_eq!(Holder::of(&host, Some(&machine)), Holder::Missing, "a namesake");
    machine.spec.claim_id = Some("i".to_owned());
    assert_eq!(Holder::of(&host, Some(&machine)), Holder::Present);
    machine.metadata.deletion_timestamp = Some(Time(NOW));
    assert_eq!(Holder::of(&host, Some(&machine)), Holder::Leaving(None));
    set(&mut machine, NewCondition::new("Deleting", true, "ResettingHost").message("why"), NOW);
    assert_eq!(Holder::of(&host, Some(&machine)), Holder::Leaving(Some("why".to_owned())));
}

#[test]
fn a_host_that_responds_again_is_published_once() {
    let lost = |why: &str| Err(DriverError::Unreachable(why.to_owned()));
    let mut before = host();
    for (found, expected) in [
        (reached(), None),
        (lost("no answer"), None),
        (lost("refused"), None),
        (reached(), Some(("HostReachable", "The host answers again"))),
        (reached(), None),
    ] {
        let (_, after) = with_status(before.clone(), &found, &Holder::Present);
        let found = news(&before, &after);
        assert_eq!(found.as_ref().map(|news| (news.reason, news.message.as_str())), expected);
        before = after;
    }
}
