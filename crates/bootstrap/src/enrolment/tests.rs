//! Enrolment from beginning to end on a model of the objects, and everything that may go wrong on the way.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::agent::{CredentialRequest, MachineReport, MachineReportStatus};
use capstan_api::bootstrap::enrolment_reasons::ENROLLED;
use capstan_api::conditions::ConditionStatus;
use capstan_api::wait::causes;
use capstan_plan::heartbeat;
use jiff::{SignedDuration, Timestamp};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};
use std::time::Duration;

use super::decide::Change;
use super::decide::objects::{self, REPORT, SERVICE_ACCOUNT, Wanted};
use super::{Decision, EnrolmentStep, Observed, condition, decide, is_enrolled, must_enrol_again};
use crate::names::{ANSWERED, ANSWERED_AT, Names};
use crate::this_plane::ThisPlane;

const NOW: i64 = 1_000_000_000;
const DAY: i64 = 24 * 3600;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn this_plane() -> ThisPlane {
    ThisPlane::new("plane-a", "https://a", b"CA")
}

fn names() -> Names {
    Names {
        namespace: "default".to_owned(),
        cluster: "c".to_owned(),
        config: "web-0".to_owned(),
        machine: "web-0".to_owned(),
        machine_id: "id-0".to_owned(),
    }
}

/// The objects that a machine needs.
fn wanted_objects() -> Vec<Wanted> {
    objects::wanted(&names(), &owner(), heartbeat::DEFAULT)
}

/// The objects of one machine, and the time.
struct World {
    now: i64,
    found: Vec<Option<Value>>,
    enrolment: Option<Value>,
    report_status: Option<MachineReportStatus>,
    started: Option<Timestamp>,
    is_started_with: bool,
    this_plane: ThisPlane,
    follows: bool,
    key: KeyPair,
    /// Requests that the machine has written.
    requests: usize,
    /// Objects that were created.
    created: usize,
}

impl World {
    fn new() -> Self {
        Self {
            now: NOW,
            found: vec![None; wanted_objects().len()],
            enrolment: None,
            report_status: None,
            started: None,
            is_started_with: true,
            this_plane: this_plane(),
            follows: false,
            key: KeyPair::generate().unwrap(),
            requests: 0,
            created: 0,
        }
    }

    /// Nothing is left to do but to wait for the machine.
    fn ready() -> Self {
        let mut world = Self::new();
        world.take_all_steps();
        assert_eq!(world.reason(), causes::WAITING_FOR_AGENT.reason);
        world
    }

    /// The machine has enrolled.
    fn enrolled() -> Self {
        let mut world = Self::ready();
        world.ask();
        world.take_all_steps();
        world.says_hello();
        world.take_all_steps();
        assert_eq!(world.reason(), ENROLLED);
        world
    }

    fn report(&self) -> Option<MachineReport> {
        let place = wanted_objects().iter().position(|object| object.kind == REPORT)?;
        let mut report: MachineReport = serde_json::from_value(self.found[place].clone()?).unwrap();
        report.status.clone_from(&self.report_status);
        Some(report)
    }

    fn change_report(&mut self, change: impl FnOnce(&mut Value)) {
        let place = wanted_objects().iter().position(|object| object.kind == REPORT).unwrap();
        change(self.found[place].as_mut().unwrap());
    }

    fn decide(&self) -> Decision {
        self.decide_on(self.report())
    }

    #[expect(clippy::needless_pass_by_value, reason = "each report is looked at once")]
    fn decide_on(&self, report: Option<MachineReport>) -> Decision {
        let (names, owner) = (names(), owner());
        let observed = Observed {
            names: &names,
            this_plane: &self.this_plane,
            follows: self.follows,
            owner: &owner,
            interval: heartbeat::DEFAULT,
            found: &self.found,
            enrolment: self.enrolment.as_ref(),
            report: report.as_ref(),
            started: self.started,
            is_started_with: self.is_started_with,
        };
        decide(&observed, at(self.now))
    }

    fn reason(&self) -> String {
        condition(&self.decide().standing).reason
    }

    fn message(&self) -> String {
        condition(&self.decide().standing).message
    }

    /// The machine asks, with its own key, for another credential than before.
    fn ask(&mut self) {
        self.requests += 1;
        let request = request(&self.key, &self.requests.to_string());
        self.ask_with(request);
    }

    /// The machine writes to its report with its credential.
    fn says_hello(&mut self) {
        self.report_status.get_or_insert_default().agent_version = Some("1".to_owned());
    }

    fn ask_with(&mut self, request: CredentialRequest) {
        self.report_status.get_or_insert_default().credential_request = Some(request);
    }

    /// Does what a step says, as the API server would.
    fn take(&mut self, step: &EnrolmentStep) {
        match step {
            EnrolmentStep::Rest => {}
            EnrolmentStep::Objects(changes) => changes.iter().for_each(|change| self.change(change)),
            EnrolmentStep::Answer { request, account } => {
                let (now, end) = (at(self.now).to_string(), at(self.now + 90 * DAY).to_string());
                let this_plane = self.this_plane.record();
                self.change_report(|report| {
                    report["spec"]["credential"] = json!({
                        "sealedToken": format!("to {}", request.digest), "account": account, "issuedAt": now,
                        "expiresAt": end,
                    });
                    report["spec"]["enrolledKey"] = json!(request.key.to_string());
                    report["spec"]["enrolledWith"] = json!(this_plane);
                    report["metadata"]["annotations"][ANSWERED] = json!(request.digest.to_string());
                    report["metadata"]["annotations"][ANSWERED_AT] = json!(now);
                });
            }
            EnrolmentStep::Part => self.change_report(|report| {
                let spec = report["spec"].as_object_mut().unwrap();
                spec.remove("credential");
                spec.remove("enrolledWith");
            }),
        }
    }

    fn change(&mut self, change: &Change) {
        let all = wanted_objects();
        let place =
            |name: &str, kind| all.iter().position(|object| object.kind == kind && object.name == name);
        let (slot, object) = match change {
            Change::Create(wanted) => {
                let mut object = wanted.object.clone();
                self.created += 1;
                object["metadata"]["uid"] = json!(format!("uid {} of {}", self.created, wanted.name));
                (place(&wanted.name, wanted.kind), Some(object))
            }
            Change::Remove(kind, name, _) => (place(name, *kind), None),
            Change::Repair(..) => panic!("nothing was changed by anybody else"),
        };
        match slot {
            Some(slot) => self.found[slot] = object,
            None => self.enrolment = object,
        }
    }

    /// Takes one step after the other, until there is none, and says which they were. The process may die after each
    /// of them: what comes next is decided on nothing but the objects.
    fn take_all_steps(&mut self) -> Vec<&'static str> {
        let mut taken = Vec::new();
        for _ in 0..20 {
            let step = self.decide().step;
            taken.push(match &step {
                EnrolmentStep::Rest => return taken,
                EnrolmentStep::Objects(_) => "objects",
                EnrolmentStep::Answer { .. } => "answer",
                EnrolmentStep::Part => "part",
            });
            self.take(&step);
        }
        panic!("it never ends: {taken:?}");
    }
}

fn owner() -> Value {
    json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig", "name": "web-0", "uid": "1"})
}

fn request(key: &KeyPair, nonce: &str) -> CredentialRequest {
    let public_key = BASE64_STANDARD.encode(key.subject_public_key_info());
    CredentialRequest { public_key, nonce: nonce.to_owned() }
}

#[test]
fn a_machine_enrols_and_its_token_dies() {
    let mut world = World::new();
    assert_eq!(world.take_all_steps(), ["objects"]);
    assert!(world.enrolment.is_some() && world.found.iter().all(Option::is_some));
    assert_eq!(world.reason(), causes::WAITING_FOR_AGENT.reason);
    world.ask();
    assert_eq!(world.take_all_steps(), ["answer"]);
    assert!(world.enrolment.is_some(), "with its token the machine must still read the answer");
    world.says_hello();
    assert_eq!(world.take_all_steps(), ["objects"]);
    let decision = world.decide();
    let condition_seen = condition(&decision.standing);
    assert_eq!((condition_seen.status, condition_seen.reason.as_str()), (ConditionStatus::True, ENROLLED));
    assert!(is_enrolled(&world.report().unwrap(), &this_plane()));
    assert!(world.enrolment.is_none());
    // Two thirds of ninety days.
    assert_eq!(decision.again, Some(Duration::from_secs(60 * DAY.unsigned_abs())));
}

#[test]
fn the_same_key_is_answered_again() {
    let mut world = World::enrolled();
    let first = world.report().unwrap().spec.credential;
    world.now += 60 * DAY;
    world.ask();
    assert_eq!(world.take_all_steps(), ["answer"]);
    assert_ne!(world.report().unwrap().spec.credential, first);
    assert!(world.enrolment.is_none(), "no enrolment token for a machine that has a credential");
    // A request that still stands when the credential gets old counts again.
    world.now += 61 * DAY;
    assert_eq!(world.take_all_steps(), ["answer"]);
    // And one that is written again and again does not.
    world.ask();
    assert_eq!(world.take_all_steps(), [""; 0]);
    assert_eq!(world.decide().again, Some(Duration::from_secs(30)));
    assert_eq!(world.reason(), ENROLLED);
    world.now += 30;
    assert_eq!(world.take_all_steps(), ["answer"]);
}

#[test]
fn the_first_key_wins_until_a_person_says_otherwise() {
    let mut world = World::enrolled();
    let (first, second) = (world.key, KeyPair::generate().unwrap());
    world.key = second;
    world.ask();
    assert_eq!(world.take_all_steps(), [""; 0]);
    assert_eq!(world.reason(), causes::REQUEST_REFUSED.reason);
    assert!(world.message().contains("another key") && world.message().contains("enrolledKey"));
    // Also before the first one has been answered.
    let mut early = World::ready();
    early.ask_with(request(&first, "1"));
    let step = early.decide().step;
    early.take(&step);
    early.ask();
    assert_eq!(early.reason(), causes::REQUEST_REFUSED.reason);

    world.change_report(|report| {
        report["spec"].as_object_mut().unwrap().remove("enrolledKey");
    });
    assert_eq!(world.take_all_steps(), ["objects", "answer", "objects"]);
    assert_eq!(world.reason(), ENROLLED);
}

#[test]
fn what_a_machine_may_not_have_is_refused_with_the_reason() {
    let mut world = World::ready();
    let hello = CredentialRequest { public_key: "hello".to_owned(), nonce: "1".to_owned() };
    world.ask_with(hello);
    assert_eq!(world.take_all_steps(), [""; 0]);
    assert_eq!(world.reason(), causes::REQUEST_REFUSED.reason);
    assert!(world.message().ends_with("publicKey is not a P-256 key in base64"), "{}", world.message());
    assert!(world.enrolment.is_some(), "the token stays: the machine may still do it right");
}

#[test]
fn a_credential_that_is_of_no_use_is_replaced_by_an_enrolment_with_the_same_key() {
    let account =
        wanted_objects().iter().position(|object| object.kind == SERVICE_ACCOUNT).expect("it has an account");
    let expired = |world: &mut World| world.now += 91 * DAY;
    let deleted = |world: &mut World| world.found[account] = None;
    let removed = |world: &mut World| {
        world.change_report(|report| {
            report["spec"].as_object_mut().unwrap().remove("credential");
        });
    };
    type Happening<'a> = &'a dyn Fn(&mut World);
    let cases: [(&str, Happening<'_>, &[&str]); 3] = [
        ("expired", &expired, &["part", "objects"]),
        ("account deleted", &deleted, &["objects", "part", "objects"]),
        ("removed by a person", &removed, &["objects"]),
    ];
    for (case, happens, steps) in cases {
        let mut world = World::enrolled();
        let key = world.report().unwrap().spec.enrolled_key;
        happens(&mut world);
        assert_eq!(world.take_all_steps(), steps, "{case}");
        let report = world.report().unwrap();
        assert_eq!((report.spec.credential.as_ref(), &report.spec.enrolled_key), (None, &key), "{case}");
        assert!(
            must_enrol_again(&report) && world.enrolment.is_some(),
            "{case}: it must be told, with a token"
        );
        world.follows = true;
        assert_eq!(world.reason(), causes::WAITING_FOR_MACHINE_TO_FOLLOW.reason, "{case}");
        world.report_status.as_mut().unwrap().agent_version = None;
        world.ask();
        assert_eq!(world.take_all_steps(), ["answer"], "{case}");
        world.says_hello();
        assert_eq!(world.take_all_steps(), ["objects"], "{case}");
        assert_eq!(world.reason(), ENROLLED, "{case}");
    }
}

#[test]
fn an_account_that_was_not_seen_is_not_taken_for_another_one() {
    let mut world = World::enrolled();
    for found in world.found.iter_mut().flatten() {
        found["metadata"].as_object_mut().unwrap().remove("uid");
    }
    assert_eq!((world.take_all_steps(), world.reason()), (Vec::new(), ENROLLED.to_owned()));
}

#[test]
fn each_wait_says_what_for() {
    let mut world = World::ready();
    world.is_started_with = false;
    assert_eq!(world.reason(), causes::WAITING_FOR_BOOTSTRAP_DATA.reason);
    world.is_started_with = true;
    world.started = at(NOW).checked_sub(SignedDuration::from_mins(59)).ok();
    assert_eq!(world.reason(), causes::WAITING_FOR_AGENT.reason);
    world.started = at(NOW).checked_sub(SignedDuration::from_mins(61)).ok();
    assert_eq!(world.reason(), causes::TOKEN_EXPIRED.reason);
    assert!(world.message().contains("Secret web-0"), "{}", world.message());
    // Late is better than never.
    world.ask();
    world.take_all_steps();
    assert_eq!(world.reason(), ENROLLED);
}

#[test]
fn what_is_in_the_way_is_named() {
    let mut world = World::ready();
    world.enrolment = Some(json!({"metadata": {"name": "web-0.enrol.machine.capstan.dev", "uid": "x"}}));
    let decision = world.decide();
    assert_eq!(decision.step, EnrolmentStep::Rest);
    assert_eq!(condition(&decision.standing).reason, causes::OBJECT_IN_THE_WAY.reason);
    assert!(decision.blocked.unwrap().message.contains("ServiceAccount web-0.enrol.machine.capstan.dev"));
    // No account of another owner is deleted, either.
    let mut enrolled = World::enrolled();
    enrolled.enrolment = world.enrolment.clone();
    assert_eq!(enrolled.decide().step, EnrolmentStep::Rest);
}

#[test]
fn everything_is_made_anew_after_a_move() {
    // Reports and Secrets move, with their spec and without their status; roles, accounts and leases do not.
    let mut world = World::enrolled();
    world.report_status = None;
    for (wanted, found) in wanted_objects().iter().zip(&mut world.found) {
        if wanted.kind != REPORT {
            *found = None;
        }
    }
    let key = world.report().unwrap().spec.enrolled_key;
    world.this_plane = ThisPlane::new("plane-b", "https://b", b"CB");
    assert_eq!(world.take_all_steps(), ["part", "objects"]);
    let report = world.report().unwrap();
    assert_eq!((report.spec.credential, report.spec.enrolled_key), (None, key), "its key stays its key");
    assert!(world.found.iter().all(Option::is_some) && world.enrolment.is_some(), "it needs a token");
    world.follows = true;
    assert_eq!(world.reason(), causes::WAITING_FOR_MACHINE_TO_FOLLOW.reason);

    // It follows, and nobody else in its place.
    let own = std::mem::replace(&mut world.key, KeyPair::generate().unwrap());
    world.ask();
    assert_eq!(world.reason(), causes::REQUEST_REFUSED.reason);
    world.key = own;
    world.ask();
    assert_eq!(world.take_all_steps(), ["answer"]);
    world.says_hello();
    assert_eq!(world.take_all_steps(), ["objects"]);
    assert_eq!(world.reason(), ENROLLED);
    assert!(is_enrolled(&world.report().unwrap(), &world.this_plane) && world.enrolment.is_none());
}

#[test]
fn a_plane_at_another_address_does_not_answer_what_was_asked_before() {
    let mut world = World::enrolled();
    world.this_plane = ThisPlane::new("plane-a", "https://elsewhere", b"CA");
    assert_eq!(world.take_all_steps(), ["part", "objects"]);
    assert!(world.enrolment.is_some(), "the request of before is still there, and asks for nothing");
    // With the same key, and another request; what it said of itself before does not end its token.
    world.report_status = None;
    world.ask();
    assert_eq!(world.take_all_steps(), ["answer"]);
    assert!(world.enrolment.is_some());
    world.says_hello();
    assert_eq!(world.take_all_steps(), ["objects"]);
    assert_eq!(world.reason(), ENROLLED);
}

#[test]
fn a_former_life_is_taken_away_first() {
    let mut world = World::enrolled();
    for found in world.found.iter_mut().flatten() {
        found["metadata"]["annotations"]["capstan.dev/machine-id"] = json!("id-9");
        if found.get("spec").is_some() {
            found["spec"]["machineID"] = json!("id-9");
        }
    }
    // The report is not this machine's, and is not looked at.
    let EnrolmentStep::Objects(changes) = world.decide_on(None).step else { panic!("nothing to do?") };
    let removed = changes.iter().filter(|change| matches!(change, Change::Remove(..))).count();
    assert_eq!(removed, world.found.len());
    // Nothing is known of this machine, so it needs a token.
    assert!(
        changes
            .iter()
            .any(|change| matches!(change, Change::Create(wanted) if wanted.kind == SERVICE_ACCOUNT))
    );
}

#[test]
fn a_machine_that_asks_without_end_is_answered_now_and_then() {
    let mut world = World::ready();
    let mut answers = 0;
    for _ in 0..90 {
        world.ask();
        answers += world.take_all_steps().len();
        world.now += 1;
    }
    assert_eq!(answers, 3, "one every 30 seconds");
}
