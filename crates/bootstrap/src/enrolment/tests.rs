//! Enrolment from beginning to end on a model of the objects, and everything that may go wrong on the way.

use capstan_api::agent::{MachineReport, MachineReportStatus};
use capstan_api::bootstrap::enrolment_reasons::ENROLLED;
use capstan_api::conditions::ConditionStatus;
use capstan_api::wait::causes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use std::time::Duration;

use super::decide::certificate::tests::certificate;
use super::decide::objects::{self, REPORT, SECRET};
use super::decide::{Change, SIGNER, csr_name, usages};
use super::{Decision, EnrolmentStep, GROUP, Observed, condition, decide, is_enrolled};
use crate::names::{ANSWERED, ANSWERED_AT, Names, PARTED};
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

/// The objects of one machine, and the time.
struct World {
    now: i64,
    found: Vec<Option<Value>>,
    enrolment: Option<Value>,
    report_status: Option<MachineReportStatus>,
    csr: Option<CertificateSigningRequest>,
    started: Option<Timestamp>,
    is_started_with: bool,
    this_plane: ThisPlane,
    follows: bool,
    key: KeyPair,
}

impl World {
    fn new() -> Self {
        Self {
            now: NOW,
            found: vec![None; objects::wanted(&names(), &owner()).len()],
            enrolment: None,
            report_status: None,
            csr: None,
            started: None,
            is_started_with: true,
            this_plane: this_plane(),
            follows: false,
            key: KeyPair::generate().unwrap(),
        }
    }

    /// Nothing is left to do but to wait for the machine.
    fn ready() -> Self {
        let mut world = Self::new();
        world.settle();
        assert_eq!(world.reason(), causes::WAITING_FOR_AGENT.reason);
        world
    }

    /// The machine has enrolled.
    fn enrolled() -> Self {
        let mut world = Self::ready();
        world.ask();
        world.settle();
        world.says_hello();
        world.settle();
        assert_eq!(world.reason(), ENROLLED);
        world
    }

    fn report(&self) -> Option<MachineReport> {
        let place = objects::wanted(&names(), &owner()).iter().position(|object| object.kind == REPORT)?;
        let mut report: MachineReport = serde_json::from_value(self.found[place].clone()?).unwrap();
        report.status.clone_from(&self.report_status);
        Some(report)
    }

    fn change_report(&mut self, change: impl FnOnce(&mut Value)) {
        let place =
            objects::wanted(&names(), &owner()).iter().position(|object| object.kind == REPORT).unwrap();
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
            found: &self.found,
            enrolment: self.enrolment.as_ref(),
            report: report.as_ref(),
            csr: self.csr.as_ref(),
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

    /// The machine asks, with its own key.
    fn ask(&mut self) {
        let text = request(&self.key);
        self.ask_with(text);
    }

    /// The machine writes to its report with its certificate.
    fn says_hello(&mut self) {
        self.report_status.get_or_insert_default().agent_version = Some("1".to_owned());
    }

    fn ask_with(&mut self, text: String) {
        self.report_status.get_or_insert_default().certificate_request = Some(text);
    }

    /// Does what a step says, as the API server would.
    fn take(&mut self, step: &EnrolmentStep) {
        match step {
            EnrolmentStep::Rest => {}
            EnrolmentStep::Objects(changes) => changes.iter().for_each(|change| self.change(change)),
            EnrolmentStep::Record(key) => self.change_report(|report| {
                report["spec"]["enrolledKey"] = json!(key.to_string());
                report["spec"].as_object_mut().unwrap().remove("certificate");
            }),
            EnrolmentStep::Ask(request) => {
                assert!(self.csr.is_none(), "a name can be taken once");
                let mut made = csr(&csr_name(&names()), request.pem.as_bytes());
                made.metadata.creation_timestamp = Some(Time(at(self.now)));
                self.csr = Some(made);
            }
            EnrolmentStep::Approve(_) => {
                self.set_csr(json!({"conditions": [{"type": "Approved", "status": "True"}]}));
                let text = certificate(&names().user(), &self.key, self.now, self.now + 90 * DAY);
                let csr = self.csr.as_mut().unwrap();
                csr.status.as_mut().unwrap().certificate = Some(ByteString(text.into_bytes()));
            }
            EnrolmentStep::Answer { request, certificate } => {
                let now = at(self.now).to_string();
                let this_plane = self.this_plane.record();
                self.change_report(|report| {
                    report["spec"]["certificate"] = json!(certificate);
                    report["spec"]["enrolledWith"] = json!(this_plane);
                    report["metadata"]["annotations"].as_object_mut().unwrap().remove(PARTED);
                    report["metadata"]["annotations"][ANSWERED] = json!(request.to_string());
                    report["metadata"]["annotations"][ANSWERED_AT] = json!(now);
                });
            }
            EnrolmentStep::Forget(_) => self.csr = None,
            EnrolmentStep::Part { answered } => self.change_report(|report| {
                let spec = report["spec"].as_object_mut().unwrap();
                spec.remove("certificate");
                spec.remove("enrolledWith");
                report["metadata"]["annotations"][PARTED] = json!(answered);
            }),
        }
    }

    fn change(&mut self, change: &Change) {
        let all = objects::wanted(&names(), &owner());
        let place =
            |name: &str, kind| all.iter().position(|object| object.kind == kind && object.name == name);
        let (slot, object) = match change {
            Change::Create(wanted) => {
                let mut object = wanted.object.clone();
                object["metadata"]["uid"] = json!(format!("uid of {}", wanted.name));
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

    fn set_csr(&mut self, status: Value) {
        self.csr.as_mut().unwrap().status = serde_json::from_value(status).unwrap();
    }

    /// Takes one step after the other, until there is none, and says which they were. The process may die after each
    /// of them: what comes next is decided on nothing but the objects.
    fn settle(&mut self) -> Vec<&'static str> {
        let mut taken = Vec::new();
        for _ in 0..20 {
            let step = self.decide().step;
            taken.push(match &step {
                EnrolmentStep::Rest => return taken,
                EnrolmentStep::Objects(_) => "objects",
                EnrolmentStep::Record(_) => "record",
                EnrolmentStep::Ask(_) => "ask",
                EnrolmentStep::Approve(_) => "approve",
                EnrolmentStep::Answer { .. } => "answer",
                EnrolmentStep::Forget(_) => "forget",
                EnrolmentStep::Part { .. } => "part",
            });
            self.take(&step);
        }
        panic!("it never ends: {taken:?}");
    }
}

fn owner() -> Value {
    json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig", "name": "web-0", "uid": "1"})
}

fn csr(name: &str, request: &[u8]) -> CertificateSigningRequest {
    let spec = json!({"request": ByteString(request.to_vec()), "signerName": SIGNER, "usages": usages()});
    serde_json::from_value(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name}, "spec": spec,
    }))
    .unwrap()
}

fn request(key: &KeyPair) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, names().user());
    params.distinguished_name.push(DnType::OrganizationName, GROUP);
    params.serialize_request(key).unwrap().pem().unwrap()
}

#[test]
fn a_machine_enrols_and_its_token_dies() {
    let mut world = World::new();
    assert_eq!(world.settle(), ["objects"]);
    assert!(world.enrolment.is_some() && world.found.iter().all(Option::is_some));
    assert_eq!(world.reason(), causes::WAITING_FOR_AGENT.reason);
    world.ask();
    assert_eq!(world.settle(), ["record", "ask", "approve", "answer", "forget"]);
    assert!(world.enrolment.is_some(), "with its token the machine must still read the answer");
    world.says_hello();
    assert_eq!(world.settle(), ["objects"]);
    let decision = world.decide();
    let condition_seen = condition(&decision.standing);
    assert_eq!((condition_seen.status, condition_seen.reason.as_str()), (ConditionStatus::True, ENROLLED));
    assert!(is_enrolled(&world.report().unwrap(), &this_plane()));
    assert!(world.enrolment.is_none() && world.csr.is_none());
    // Two thirds of ninety days.
    assert_eq!(decision.again, Some(Duration::from_secs(60 * DAY.unsigned_abs())));
}

#[test]
fn the_same_key_is_answered_again() {
    let mut world = World::enrolled();
    let first = world.report().unwrap().spec.certificate;
    world.now += 60 * DAY;
    world.ask();
    assert_eq!(world.settle(), ["ask", "approve", "answer", "forget"]);
    assert_ne!(world.report().unwrap().spec.certificate, first);
    assert!(world.enrolment.is_none(), "no token for a machine that has a certificate");
    // A request that still stands when the certificate gets old counts again.
    world.now += 61 * DAY;
    assert_eq!(world.settle(), ["ask", "approve", "answer", "forget"]);
    // And one that is written again and again does not.
    world.ask();
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(world.decide().again, Some(Duration::from_secs(30)));
    assert_eq!(world.reason(), ENROLLED);
    world.now += 30;
    assert_eq!(world.settle(), ["ask", "approve", "answer", "forget"]);
}

#[test]
fn the_first_key_wins_until_a_person_says_otherwise() {
    let mut world = World::enrolled();
    let (first, second) = (world.key, KeyPair::generate().unwrap());
    world.key = second;
    world.ask();
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(world.reason(), causes::REQUEST_REFUSED.reason);
    assert!(world.message().contains("another key") && world.message().contains("enrolledKey"));
    // Also before the first one has been answered.
    let mut early = World::ready();
    early.ask_with(request(&first));
    let step = early.decide().step;
    early.take(&step);
    early.ask();
    assert_eq!(early.reason(), causes::REQUEST_REFUSED.reason);

    world.change_report(|report| {
        report["spec"].as_object_mut().unwrap().remove("enrolledKey");
    });
    assert_eq!(world.settle(), ["objects", "record", "ask", "approve", "answer", "objects", "forget"]);
    assert_eq!(world.reason(), ENROLLED);
}

#[test]
fn what_a_machine_may_not_have_is_refused_with_the_reason() {
    let mut world = World::ready();
    world.ask_with("hello".to_owned());
    assert_eq!(world.settle(), [""; 0]);
    assert_eq!(world.reason(), causes::REQUEST_REFUSED.reason);
    assert!(
        world.message().ends_with("it is not one PEM block of a PKCS #10 request"),
        "{}",
        world.message()
    );
    assert!(world.enrolment.is_some(), "the token stays: the machine may still do it right");
}

#[test]
fn what_the_plane_makes_of_it_is_looked_at() {
    let asked = || {
        let mut world = World::ready();
        world.ask();
        for _ in 0..2 {
            let step = world.decide().step;
            world.take(&step);
        }
        assert!(matches!(world.decide().step, EnrolmentStep::Approve(_)));
        world
    };
    let mut world = asked();
    world.set_csr(json!({"conditions": [{"type": "Approved", "status": "True"}]}));
    assert_eq!(
        (world.decide().step, world.reason().as_str()),
        (EnrolmentStep::Rest, causes::WAITING_FOR_CERTIFICATE.reason)
    );

    for type_ in ["Denied", "Failed"] {
        let mut world = asked();
        world.set_csr(json!({"conditions": [{"type": type_, "status": "True", "message": "not\ntoday"}]}));
        assert_eq!(
            (world.decide().step, world.reason().as_str()),
            (EnrolmentStep::Rest, causes::REQUEST_REFUSED.reason)
        );
        assert!(
            world.message().contains("nottoday") && world.message().contains("delete it"),
            "{}",
            world.message()
        );
    }

    // A certificate for another key, or for another user.
    let other = KeyPair::generate().unwrap();
    for text in [
        certificate(&names().user(), &other, NOW, NOW + DAY),
        certificate("system:admin", &world.key, NOW, NOW + DAY),
        "hello".to_owned(),
    ] {
        let mut world = asked();
        world.set_csr(json!({"certificate": ByteString(text.into_bytes())}));
        assert_eq!(
            (world.decide().step, world.reason().as_str()),
            (EnrolmentStep::Rest, causes::REQUEST_REFUSED.reason)
        );
    }

    // Something else by that name: other bytes, another signer, more rights.
    for spoil in [
        |csr: &mut CertificateSigningRequest| csr.spec.request.0.push(b'\n'),
        |csr: &mut CertificateSigningRequest| csr.spec.signer_name = "example.com/other".to_owned(),
        |csr: &mut CertificateSigningRequest| csr.spec.usages = Some(vec!["cert sign".to_owned()]),
    ] {
        let mut world = asked();
        spoil(world.csr.as_mut().unwrap());
        world.now += 30;
        assert!(matches!(world.decide().step, EnrolmentStep::Forget(_)));
        world.settle();
        assert_eq!(world.reason(), ENROLLED);
    }
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
    world.settle();
    assert_eq!(world.reason(), ENROLLED);
}

#[test]
fn what_is_in_the_way_is_named() {
    let mut world = World::ready();
    world.enrolment = Some(json!({"metadata": {"name": "web-0-enrolment", "uid": "x"}}));
    let decision = world.decide();
    assert_eq!(decision.step, EnrolmentStep::Rest);
    assert_eq!(condition(&decision.standing).reason, causes::OBJECT_IN_THE_WAY.reason);
    assert!(decision.blocked.unwrap().message.contains("Secret web-0-enrolment"));
    // Nobody else's Secret is deleted, either.
    let mut enrolled = World::enrolled();
    enrolled.enrolment = world.enrolment.clone();
    assert_eq!(enrolled.decide().step, EnrolmentStep::Rest);
}

#[test]
fn everything_is_made_anew_after_a_move() {
    // Reports and Secrets move, with their spec and without their status; roles, accounts and leases do not.
    let mut world = World::enrolled();
    world.report_status = None;
    for (wanted, found) in objects::wanted(&names(), &owner()).iter().zip(&mut world.found) {
        if wanted.kind != REPORT {
            *found = None;
        }
    }
    let key = world.report().unwrap().spec.enrolled_key;
    world.this_plane = ThisPlane::new("plane-b", "https://b", b"CB");
    assert_eq!(world.settle(), ["part", "objects"]);
    let report = world.report().unwrap();
    assert_eq!((report.spec.certificate, report.spec.enrolled_key), (None, key), "its key stays its key");
    assert!(world.found.iter().all(Option::is_some) && world.enrolment.is_some(), "it needs a token");
    world.follows = true;
    assert_eq!(world.reason(), causes::WAITING_FOR_MACHINE_TO_FOLLOW.reason);

    // It follows, and nobody else in its place.
    let own = std::mem::replace(&mut world.key, KeyPair::generate().unwrap());
    world.ask();
    assert_eq!(world.reason(), causes::REQUEST_REFUSED.reason);
    world.key = own;
    world.ask();
    assert_eq!(world.settle(), ["ask", "approve", "answer", "forget"]);
    world.says_hello();
    assert_eq!(world.settle(), ["objects"]);
    assert_eq!(world.reason(), ENROLLED);
    assert!(is_enrolled(&world.report().unwrap(), &world.this_plane) && world.enrolment.is_none());
}

#[test]
fn a_plane_at_another_address_does_not_answer_what_was_asked_before() {
    let mut world = World::enrolled();
    world.this_plane = ThisPlane::new("plane-a", "https://elsewhere", b"CA");
    assert_eq!(world.settle(), ["part", "objects"]);
    assert!(world.enrolment.is_some(), "the request of before is still there, and asks for nothing");
    // With the same key, and another request; what it said of itself before does not end its token.
    world.report_status = None;
    world.ask();
    assert_eq!(world.settle(), ["ask", "approve", "answer", "forget"]);
    assert!(world.enrolment.is_some());
    world.says_hello();
    assert_eq!(world.settle(), ["objects"]);
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
    assert!(changes.iter().any(|change| matches!(change, Change::Create(wanted) if wanted.kind == SECRET)));
}

#[test]
fn a_machine_has_one_request_at_a_time() {
    let elsewhere = Names { namespace: "other".to_owned(), ..names() };
    assert_ne!(csr_name(&names()), csr_name(&elsewhere));
    let mut world = World::ready();
    world.ask();
    // Record, and ask.
    for _ in 0..2 {
        let step = world.decide().step;
        world.take(&step);
    }
    // The machine signs again and again before it is answered.
    for _ in 0..5 {
        world.ask();
        let decision = world.decide();
        assert_eq!((decision.step, decision.again), (EnrolmentStep::Rest, Some(Duration::from_secs(30))));
    }
    world.now += 30;
    assert_eq!(world.settle(), ["forget", "ask", "approve", "answer", "forget"]);
    assert_eq!(world.reason(), ENROLLED);
    // A person's refusal is not evaded by another request.
    world.now += 60 * DAY;
    world.ask();
    let step = world.decide().step;
    world.take(&step);
    world.set_csr(json!({"conditions": [{"type": "Denied", "status": "True", "message": "no"}]}));
    world.now += 60;
    world.ask();
    assert_eq!(
        (world.decide().step, world.reason().as_str()),
        (EnrolmentStep::Rest, causes::REQUEST_REFUSED.reason)
    );
}
