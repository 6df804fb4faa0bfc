//! Tables for registrations.

use capstan_api::conditions::{NewCondition, set};
use capstan_api::infrastructure::{APPROVED, Host, HostFacts, HostInstruction, HostRegistration};
use capstan_plan::host_join::{JoinKey, JoinRequest, registration_name};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::json;
use std::sync::Arc;

use super::decide::{Decision, Observed, RegistrationStep, decide};
use crate::host_token::{Approval, HostToken};

const KEY: JoinKey = JoinKey::new([1; 32]);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn token(uses: u32, approval: &str) -> HostToken {
    HostToken {
        name: "edge".to_owned(),
        key: KEY,
        expires: at(3_600),
        uses,
        labels: [("site".to_owned(), "a".to_owned())].into(),
        failure_domain: Some("a".to_owned()),
        approval: approval.parse().expect("a rule"),
    }
}

/// The registration of a machine with the key `key-<number>`, made with the join token at this second.
fn registration(number: u128, created: i64) -> HostRegistration {
    let (name, public_key) = (registration_name(number << 100), format!("key-{number}"));
    let request = JoinRequest { namespace: "yard", registration: &name, public_key: &public_key, nonce: "n" };
    let mut registration: HostRegistration = serde_json::from_value(json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostRegistration",
        "metadata": {"name": name, "namespace": "yard"},
        "spec": {"publicKey": public_key, "nonce": "n", "token": "edge", "proof": request.prove(&KEY),
            "facts": {"architecture": "amd64"}},
    }))
    .expect("a HostRegistration");
    registration.metadata.creation_timestamp = Some(Time(at(created)));
    registration
}

fn instruction() -> HostInstruction {
    HostInstruction { number: 1, sealed: "AA==".to_owned(), signature: "AA==".to_owned() }
}

fn host(name: &str, registration: &HostRegistration) -> Host {
    let mut host = super::host(name, registration, None);
    host.metadata.namespace = Some("yard".to_owned());
    host.metadata.uid = Some(format!("uid-of-{name}"));
    host
}

/// The decision about the first of these registrations.
fn judge(
    registrations: &[HostRegistration],
    token: Option<&HostToken>,
    hosts: &[Host],
    now: i64,
) -> Decision {
    let hosts: Vec<Arc<Host>> = hosts.iter().cloned().map(Arc::new).collect();
    let all: Vec<Arc<HostRegistration>> = registrations.iter().cloned().map(Arc::new).collect();
    let seen = Observed { registration: &registrations[0], token, hosts: &hosts, registrations: &all };
    decide(&seen, at(now))
}

/// Reason and message of the wait, or nothing.
fn wait(decision: &Decision) -> (String, String) {
    match &decision.step {
        RegistrationStep::Rest(wait) => (wait.reason.to_string(), wait.message.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_waits_for_a_person_unless_the_rule_approves_it() {
    let one = [registration(1, 10)];
    for (rule, is_approved) in [
        ("manual", false),
        ("always", true),
        ("architecture=amd64", true),
        ("architecture=arm64", false),
        ("cpus>=1", false),
    ] {
        let decision = judge(&one, Some(&token(1, rule)), &[], 20);
        match is_approved {
            false => assert_eq!(wait(&decision).0, "WaitingForApproval", "{rule}"),
            true => {
                let RegistrationStep::Create(host) = decision.step else { panic!("{rule}: {decision:?}") };
                let access = host.spec.registration.as_ref().expect("a registration");
                assert_eq!((access.name.clone(), access.public_key.as_str()), (one[0].name_any(), "key-1"));
                assert_eq!(host.labels()["site"], "a");
                assert_eq!(host.spec.failure_domain.as_deref(), Some("a"));
                assert!(host.name_any().starts_with("edge-"), "{}", host.name_any());
                let other = self::host(&host.name_any(), &registration(2, 10));
                let taken = judge(&one, Some(&token(1, rule)), &[other], 20);
                assert_eq!(wait(&taken).0, "NameTaken");
            }
        }
    }
}

#[test]
fn what_is_not_allowed_is_refused_with_the_reason_and_removed_later() {
    let good = || registration(1, 10);
    let with = |change: &dyn Fn(&mut HostRegistration)| {
        let mut changed = good();
        change(&mut changed);
        changed
    };
    let always = token(1, "always");
    let spent = vec![registration(2, 10), registration(1, 10)];
    for (case, registrations, token, says) in [
        ("an unknown token", vec![good()], None, "there is no join token edge"),
        (
            "the key of another machine",
            vec![with(&|it| it.spec.public_key = "key-2".to_owned())],
            Some(&always),
            "no proof",
        ),
        ("another token", vec![with(&|it| it.spec.proof = "0".repeat(64))], Some(&always), "no proof"),
        (
            "the proof of another registration",
            vec![with(&|it| it.metadata.name = Some(registration_name(9)))],
            Some(&always),
            "no proof",
        ),
        (
            "a name that could be guessed",
            vec![with(&|it| it.metadata.name = Some("web-0".to_owned()))],
            Some(&always),
            "not a random one",
        ),
        (
            "an instruction that its author has written",
            vec![with(&|it| it.spec.instruction = Some(instruction()))],
            Some(&always),
            "spec.instruction",
        ),
        ("an expired token", vec![registration(1, 3_601)], Some(&always), "expired at 1970-01-01T01:00:00Z"),
        ("a spent token", spent, Some(&always), "was for 1 machines"),
    ] {
        let created = registrations[0].creation_timestamp().expect("a time").0.as_second();
        let decision = judge(&registrations, token, &[], created + 5);
        let (reason, message) = wait(&decision);
        assert!(reason == "RegistrationRefused" && message.contains(says), "{case}: {message}");
        assert!(decision.again.is_some(), "{case}");
        let later = judge(&registrations, token, &[], created + 3_600);
        assert!(matches!(later.step, RegistrationStep::Delete(_)), "{case}: {later:?}");
    }
}

#[test]
fn the_first_machines_use_the_token_and_forgeries_do_not() {
    let mut forged = registration(3, 1);
    forged.spec.proof = "0".repeat(64);
    let two = token(2, "manual");
    for (case, registrations, is_accepted) in [
        ("the second one", vec![registration(2, 20), registration(1, 10)], true),
        ("the third one", vec![registration(3, 30), registration(2, 20), registration(1, 10)], false),
        ("one was denied, and deleted", vec![registration(3, 30), registration(1, 10)], true),
        (
            "a later one does not displace it",
            vec![registration(1, 10), registration(2, 20), registration(3, 30)],
            true,
        ),
        ("forgeries", vec![registration(2, 20), forged, registration(1, 10)], true),
    ] {
        let reason = wait(&judge(&registrations, Some(&two), &[], 40)).0;
        assert_eq!(reason == "WaitingForApproval", is_accepted, "{case}: {reason}");
    }
}

#[test]
fn a_name_of_the_same_second_gives_no_further_use() {
    let (always, first, second) = (token(1, "always"), registration(5, 10), registration(2, 10));
    let both = [second.clone(), first.clone()];
    // The name that comes first wins, once all registrations of the second are known.
    for now in [10, 11] {
        let decision = judge(std::slice::from_ref(&first), Some(&always), &[], now);
        assert_eq!(decision.step, RegistrationStep::Later);
        assert_eq!(decision.again.map(|wait| wait.as_secs()), u64::try_from(12 - now).ok());
    }
    assert!(matches!(judge(&both, Some(&always), &[], 12).step, RegistrationStep::Create(_)));
    assert_eq!(wait(&judge(&[first.clone(), second], Some(&always), &[], 12)).0, "RegistrationRefused");
    // Not if the other one was approved before.
    let (reason, message) = wait(&judge(&both, Some(&always), &[host("a", &first)], 12));
    assert!(reason == "RegistrationRefused" && message.contains("was for 1 machines"), "{message}");
}

#[test]
fn a_host_approves_the_registration_and_the_key_that_it_names() {
    let one = registration(1, 10);
    let approved =
        |registrations: &[HostRegistration], hosts: &[Host]| match judge(registrations, None, hosts, 20).step
        {
            RegistrationStep::Record(host) => Some(host.name_any()),
            _ => None,
        };
    // No token is needed: a person has decided.
    assert_eq!(approved(std::slice::from_ref(&one), &[host("a", &one)]).as_deref(), Some("a"));
    assert_eq!(approved(std::slice::from_ref(&one), &[host("a", &registration(2, 10))]), None);
    let mut other_key = host("a", &one);
    other_key.spec.registration.as_mut().expect("a registration").public_key = "key-2".to_owned();
    let (reason, message) = wait(&judge(std::slice::from_ref(&one), None, &[other_key], 20));
    assert!(reason == "RegistrationRefused" && message.contains("Host a names it with another"), "{message}");
    // Of two Hosts, one has the machine, and it stays that one.
    let hosts = [host("b", &one), host("a", &one)];
    assert_eq!(approved(std::slice::from_ref(&one), &hosts).as_deref(), Some("a"));
    let mut recorded = one.clone();
    recorded.spec.host = Some("b".to_owned());
    assert_eq!(approved(&[recorded], &hosts).as_deref(), Some("b"));
}

#[test]
fn what_a_machine_writes_about_itself_approves_nothing() {
    let mut bold = registration(1, 10);
    bold.spec.host = Some("web-0".to_owned());
    let other = host("web-0", &registration(2, 10));
    let decision = judge(&[bold], Some(&token(1, "manual")), &[other], 20);
    assert_eq!(wait(&decision).0, "WaitingForApproval");
}

#[test]
fn a_registration_goes_when_its_host_has_another_or_nobody_approves_it() {
    let mut former = registration(1, 10);
    let host = host("a", &registration(2, 20));
    former.metadata.owner_references = kube::Resource::owner_ref(&host, &()).map(|owner| vec![owner]);
    let gone = judge(&[former], None, &[host], 30);
    assert_eq!(gone.step, RegistrationStep::Delete("its Host has another registration"));

    let manual = token(1, "manual");
    let ends = manual.expires + SignedDuration::from_hours(24);
    let decision = judge(&[registration(1, 10)], Some(&manual), &[], 3_600);
    assert_eq!(decision.again.map(|wait| wait.as_secs()), Some(24 * 3_600));
    let late = judge(&[registration(1, 10)], Some(&manual), &[], ends.as_second());
    assert_eq!(late.step, RegistrationStep::Delete("it was not approved in time"));
}

#[test]
fn no_host_approves_a_name_that_could_be_that_of_another_account() {
    let mut one = registration(1, 10);
    // The account of the agent of machine `web-0` is `web-0.agent.machine.capstan.dev`.
    one.metadata.name = Some("web-0.agent".to_owned());
    let (reason, message) = wait(&judge(std::slice::from_ref(&one), None, &[host("a", &one)], 20));
    assert!(reason == "RegistrationRefused" && message.contains("not a random one"), "{message}");
}

#[test]
fn a_rule_gives_no_second_host_to_a_machine_that_registers_again() {
    let (first, mut again) = (registration(1, 10), registration(2, 20));
    let name = again.name_any();
    again.spec.public_key.clone_from(&first.spec.public_key);
    let request = JoinRequest {
        namespace: "yard",
        registration: &name,
        public_key: &again.spec.public_key,
        nonce: "n",
    };
    again.spec.proof = request.prove(&KEY);
    let always = token(2, "always");
    let both = [again, first];
    let (reason, message) = wait(&judge(&both, Some(&always), &[host("rack-1", &both[1])], 30));
    assert_eq!(reason, "WaitingForApproval");
    assert!(message.contains(&format!("capstan host approve {name} --host rack-1")), "{message}");
}

#[test]
fn only_so_many_refused_registrations_are_kept() {
    let token = token(1, "manual");
    let refused = |number: u128| {
        let mut refused = registration(number, 20);
        let spent = wait(&judge(&[registration(number, 20), registration(1, 10)], Some(&token), &[], 30));
        let condition = NewCondition::new(APPROVED, false, spent.0).message(spent.1);
        set(&mut refused, condition, at(30));
        refused
    };
    let mut all: Vec<HostRegistration> = (3..103).map(refused).collect();
    all.push(registration(1, 10));
    // One that is refused already keeps its hour.
    assert_eq!(wait(&judge(&all, Some(&token), &[], 40)).0, "RegistrationRefused");
    all.insert(0, registration(2, 30));
    let decision = judge(&all, Some(&token), &[], 40);
    assert!(matches!(decision.step, RegistrationStep::Delete(_)), "{decision:?}");
    all.remove(1);
    assert_eq!(wait(&judge(&all, Some(&token), &[], 40)).0, "RegistrationRefused");
}

#[test]
fn facts_are_not_needed() {
    let mut silent = registration(1, 10);
    silent.spec.facts = None;
    let decision = judge(std::slice::from_ref(&silent), Some(&token(1, "always")), &[], 20);
    assert!(matches!(decision.step, RegistrationStep::Create(_)));
    silent.spec.facts = Some(HostFacts::default());
    let rule = token(1, "architecture=*");
    assert_eq!(rule.approval, Approval::When(vec!["architecture=*".parse().expect("a test")]));
    assert_eq!(wait(&judge(&[silent], Some(&rule), &[], 20)).0, "WaitingForApproval");
}
