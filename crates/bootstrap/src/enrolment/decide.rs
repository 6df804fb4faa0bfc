//! What is to be done next for a machine that enrols, or has enrolled. Pure.

pub(super) mod certificate;
pub(crate) mod objects;
pub(super) mod request;

use capstan_api::agent::MachineReport;
use capstan_api::wait::{Cause, Wait, causes};
use capstan_plan::Digest;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt as _;
use serde_json::Value;
use std::time::Duration;

use crate::names::{ANSWERED, ANSWERED_AT, Names, PARTED};
use crate::this_plane::ThisPlane;
use certificate::Certificate;
use objects::{ROLE_BINDING, ResourceKind, Verdict, Wanted, verdict};
use request::Request;

/// Who signs certificates of clients of an API server.
pub(crate) const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// How long a token lives, if the plane does not think otherwise. A machine that has not enrolled by then never will.
pub(crate) const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// A machine that asks again and again is answered no more often than this.
const BETWEEN_ANSWERS: SignedDuration = SignedDuration::from_secs(30);
/// How long to wait for something that goes without anybody being told.
const SOON: Duration = Duration::from_secs(1);

/// What certificates of machines may be used for.
pub(crate) fn usages() -> Vec<String> {
    ["client auth", "digital signature"].map(str::to_owned).to_vec()
}

/// What was found.
pub(crate) struct Observed<'a> {
    pub(crate) names: &'a Names,
    /// The plane all this is on.
    pub(crate) this_plane: &'a ThisPlane,
    /// Whether the machine is being told to follow to this plane.
    pub(crate) follows: bool,
    /// The CapstanConfig, as a reference to an owner.
    pub(crate) owner: &'a Value,
    /// What has the names of [`objects::wanted`], in that order.
    pub(crate) found: &'a [Option<Value>],
    /// What has the name of the Secret that the token hangs on.
    pub(crate) enrolment: Option<&'a Value>,
    pub(crate) report: Option<&'a MachineReport>,
    /// What has the name that [`csr_name`] gives.
    pub(crate) csr: Option<&'a CertificateSigningRequest>,
    /// Since when the machine has its infrastructure: since then it could have enrolled.
    pub(crate) started: Option<Timestamp>,
    /// Whether the bootstrap data is there.
    pub(crate) is_started_with: bool,
}

/// The one thing to do next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EnrolmentStep {
    /// Nothing.
    Rest,
    /// Create, repair or delete objects.
    Objects(Vec<Change>),
    /// Remove the certificate of another plane from the report, so that the agent does not take it for the response
    /// to its request. The recorded key stays.
    Part {
        /// Digest of the request that was answered.
        answered: Option<String>,
    },
    /// Record the first key that was requested for as the machine's key, unless the report has changed.
    Record(Digest),
    /// Create a CertificateSigningRequest.
    Ask(Request),
    /// Approve the CertificateSigningRequest.
    Approve(String),
    /// Write the certificate into the report.
    Answer {
        /// Digest of the request it answers.
        request: Digest,
        /// The certificate.
        certificate: String,
    },
    /// Delete the CertificateSigningRequest.
    Forget(String),
}

/// A change to one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Create the object.
    Create(Wanted),
    /// Patch the object.
    Repair(ResourceKind, String, Value),
    /// Delete the object with this UID.
    Remove(ResourceKind, String, String),
}

impl Change {
    /// Whether it is about what binds somebody to a role.
    pub(crate) fn is_binding(&self) -> bool {
        match self {
            Self::Create(wanted) => wanted.kind == ROLE_BINDING,
            Self::Repair(kind, ..) | Self::Remove(kind, ..) => *kind == ROLE_BINDING,
        }
    }
}

/// How far a machine is with its enrolment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The machine has its own certificate, described for users.
    Enrolled(String),
    /// The machine has no valid certificate.
    Waits(Wait),
}

/// What to do, what to say, and when to look again if nothing happens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) step: EnrolmentStep,
    pub(crate) standing: Standing,
    pub(crate) again: Option<Duration>,
    /// Why nothing can be made for this machine, if so.
    pub(crate) blocked: Option<Wait>,
}

impl Decision {
    /// Nothing to do but to say how it stands.
    fn waits(cause: &Cause, message: impl Into<String>) -> Self {
        Self::rest(Standing::Waits(Wait::new(cause, message)))
    }

    fn rest(standing: Standing) -> Self {
        Self { step: EnrolmentStep::Rest, standing, again: None, blocked: None }
    }

    /// Before the machine has an identity there is nothing to enrol.
    pub(crate) fn too_early() -> Self {
        Self::waits(&causes::WAITING_FOR_BOOTSTRAP_DATA, "Waiting for the bootstrap data to be made")
    }

    /// Whether the objects of the machine were looked at and found to be as they should be. A machine that must part from
    /// another plane has not had them looked at yet.
    pub(crate) fn has_verified_objects(&self) -> bool {
        self.blocked.is_none() && !matches!(self.step, EnrolmentStep::Objects(_) | EnrolmentStep::Part { .. })
    }

    fn doing(step: EnrolmentStep) -> Self {
        Self {
            step,
            ..Self::waits(&causes::WAITING_FOR_CERTIFICATE, "The machine's request is being answered")
        }
    }

    fn refused(why: impl std::fmt::Display) -> Self {
        Self::waits(
            &causes::REQUEST_REFUSED,
            format!("The machine's request for a certificate is refused: {why}"),
        )
    }
}

/// Whether the machine has a credential for this plane, so that its token is no longer needed.
pub(crate) fn is_enrolled(report: &MachineReport, this_plane: &ThisPlane) -> bool {
    let spec = &report.spec;
    spec.enrolled_key.is_some()
        && spec.certificate.is_some()
        && spec.enrolled_with.as_ref() == Some(&this_plane.record())
}

/// Whether it has one for another plane, or for where this one was before.
fn is_enrolled_elsewhere(report: &MachineReport, this_plane: &ThisPlane) -> bool {
    report.spec.certificate.is_some() && report.spec.enrolled_with.as_ref() != Some(&this_plane.record())
}

/// Whether the machine has shown that it has its certificate: it reports, or asks for nothing any more. Until then its
/// token must let it read the answer.
fn is_delivered(report: &MachineReport) -> bool {
    let status = report.status.as_ref();
    status.is_none_or(|status| status.agent_version.is_some() || status.certificate_request.is_none())
}

/// The name of a machine's CertificateSigningRequest. A machine has one at a time, however many requests it writes.
pub(crate) fn csr_name(names: &Names) -> String {
    let digest = Digest::of(names.user().as_bytes()).to_string();
    format!("capstan-machine-{}", &digest[..40])
}

pub(crate) fn decide(observed: &Observed<'_>, now: Timestamp) -> Decision {
    // Before there is a token to ask with.
    if let Some(report) = observed.report.filter(|report| is_enrolled_elsewhere(report, observed.this_plane))
    {
        let step = EnrolmentStep::Part { answered: report.annotations().get(ANSWERED).cloned() };
        return Decision { step, ..follows(observed.names) };
    }
    if let Some(decision) = objects_first(observed) {
        return decision;
    }
    let Some(report) = observed.report else {
        return Decision { again: Some(SOON), ..Decision::waits(&causes::WAITING_FOR_BOOTSTRAP_DATA, "") };
    };
    let is_news = |text: &&str| {
        let parted = report.annotations().get(PARTED);
        let digest = request::check(text, &observed.names.user()).map(|request| request.digest.to_string());
        parted.is_none() || digest.ok().as_ref() != parted
    };
    let asked =
        report.status.as_ref().and_then(|status| status.certificate_request.as_deref()).filter(is_news);
    let certificate = current_certificate(report, observed.names);
    match asked {
        Some(text) => match request::check(text, &observed.names.user()) {
            Ok(request) => for_request(observed, report, &request, certificate.as_ref(), now),
            Err(refusal) => Decision::refused(refusal),
        },
        None if is_enrolled(report, observed.this_plane) => enrolled(certificate.as_ref()),
        None => waits_for_machine(observed, now),
    }
}

/// The certificate in the report, if it is of any use to this machine.
fn current_certificate(report: &MachineReport, names: &Names) -> Option<Certificate> {
    let certificate = Certificate::read(report.spec.certificate.as_ref()?.as_bytes())?;
    let key = report.spec.enrolled_key.as_ref()?;
    (certificate.user == names.user() && certificate.key.to_string() == *key).then_some(certificate)
}

fn enrolled(certificate: Option<&Certificate>) -> Decision {
    let Some(certificate) = certificate else {
        return Decision::waits(
            &causes::WAITING_FOR_CERTIFICATE,
            "MachineReport spec.certificate is not this machine's; waiting for the machine to ask for another one",
        );
    };
    let message = format!("Its certificate is valid until {}", certificate.end());
    Decision::rest(Standing::Enrolled(message))
}

fn follows(names: &Names) -> Decision {
    Decision::waits(
        &causes::WAITING_FOR_MACHINE_TO_FOLLOW,
        format!(
            "The agent of Machine {} obeys another management plane, or this one at another address; the infrastructure \
             provider tells it to follow",
            names.machine
        ),
    )
}

fn waits_for_machine(observed: &Observed<'_>, now: Timestamp) -> Decision {
    if observed.follows {
        return follows(observed.names);
    }
    let late = observed.started.filter(|started| now.duration_since(*started) > TOKEN_LIFE);
    match (observed.is_started_with, late) {
        (false, _) => {
            Decision::waits(&causes::WAITING_FOR_BOOTSTRAP_DATA, "Waiting for the bootstrap data to be made")
        }
        (true, Some(started)) => Decision::waits(
            &causes::TOKEN_EXPIRED,
            format!(
                "The machine has had its infrastructure since {started} and has not enrolled in the time its token lives; \
                 see what its bootstrap printed, then run it again with the data in Secret {}, or delete the Machine",
                observed.names.config
            ),
        ),
        (true, None) => {
            Decision::waits(&causes::WAITING_FOR_AGENT, "Waiting for the agent on the machine to enrol")
        }
    }
}

/// Nothing is to be decided on rights that are not there.
fn objects_first(observed: &Observed<'_>) -> Option<Decision> {
    let (names, owner) = (observed.names, observed.owner);
    let mut pairs: Vec<(Wanted, Option<&Value>)> =
        objects::wanted(names, owner).into_iter().zip(observed.found.iter().map(Option::as_ref)).collect();
    let mut changes = Vec::new();
    let enrolment = objects::enrolment(names, owner);
    if let Some(report) = observed.report.filter(|report| is_enrolled(report, observed.this_plane)) {
        // The token dies with it.
        if let Some(found) = observed.enrolment
            && is_delivered(report)
            && matches!(
                verdict(&enrolment, Some(found)),
                Verdict::Keep | Verdict::Repair(_) | Verdict::Remove
            )
        {
            changes.push(remove(&enrolment, found));
        }
    } else {
        pairs.push((enrolment, observed.enrolment));
    }
    let mut leaving = false;
    for (wanted, found) in pairs {
        match (verdict(&wanted, found), found) {
            (Verdict::Keep, _) => {}
            (Verdict::Create, _) => changes.push(Change::Create(wanted)),
            (Verdict::Repair(patch), _) => changes.push(Change::Repair(wanted.kind, wanted.name, patch)),
            (Verdict::Remove, Some(found)) => changes.push(remove(&wanted, found)),
            (Verdict::Remove | Verdict::Leaving, _) => leaving = true,
            (Verdict::InTheWay, _) => {
                let why = format!(
                    "{} {} is in the way: it does not belong to this machine; delete or rename it",
                    wanted.kind.kind, wanted.name
                );
                let wait = Wait::new(&causes::OBJECT_IN_THE_WAY, why);
                let standing = Standing::Waits(wait.clone());
                return Some(Decision { blocked: Some(wait), ..Decision::rest(standing) });
            }
        }
    }
    let waits =
        Decision::waits(&causes::WAITING_FOR_BOOTSTRAP_DATA, "Waiting for the machine's objects to be made");
    match (changes.is_empty(), leaving) {
        (false, _) => Some(Decision { step: EnrolmentStep::Objects(changes), ..waits }),
        (true, true) => {
            let why = "Waiting for objects of a former machine of this name to go";
            let blocked = Wait::new(&causes::WAITING_FOR_FORMER_MACHINE, why);
            Some(Decision { again: Some(SOON), blocked: Some(blocked), ..waits })
        }
        (true, false) => None,
    }
}

fn remove(wanted: &Wanted, found: &Value) -> Change {
    let uid = found.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    Change::Remove(wanted.kind, wanted.name.clone(), uid.to_owned())
}

/// The machine has asked for something that it may have.
fn for_request(
    observed: &Observed<'_>,
    report: &MachineReport,
    request: &Request,
    certificate: Option<&Certificate>,
    now: Timestamp,
) -> Decision {
    match report.spec.enrolled_key.as_deref() {
        None => return Decision::doing(EnrolmentStep::Record(request.key)),
        Some(key) if key != request.key.to_string() => {
            return Decision::refused(
                "it is for another key than the one the machine enrolled with; if that is what you want, take \
                 enrolledKey out of the spec of its MachineReport",
            );
        }
        Some(_) => {}
    }
    let annotations = report.annotations();
    let is_answered = annotations.get(ANSWERED).is_some_and(|digest| *digest == request.digest.to_string());
    if let Some(certificate) = certificate {
        if is_answered && now < certificate.renewal() {
            let step = match observed.csr {
                Some(csr) => EnrolmentStep::Forget(csr.name_any()),
                None => EnrolmentStep::Rest,
            };
            // The same request stands for the next certificate, too, should the machine not write another one.
            let again = until(certificate.renewal(), now);
            return Decision { step, again: Some(again), ..enrolled(Some(certificate)) };
        }
        let answered: Option<Timestamp> = annotations.get(ANSWERED_AT).and_then(|time| time.parse().ok());
        let next = answered.and_then(|answered| answered.checked_add(BETWEEN_ANSWERS).ok());
        if let Some(next) = next.filter(|next| now < *next) {
            return Decision { again: Some(until(next, now)), ..enrolled(Some(certificate)) };
        }
    }
    for_csr(observed, request, now)
}

/// The plane is asked, and what it says goes into the report.
fn for_csr(observed: &Observed<'_>, request: &Request, now: Timestamp) -> Decision {
    let Some(csr) = observed.csr else { return Decision::doing(EnrolmentStep::Ask(request.clone())) };
    let name = csr.name_any();
    let is_ours = csr.spec.signer_name == SIGNER && csr.spec.usages.as_ref() == Some(&usages());
    if !is_ours || csr.metadata.deletion_timestamp.is_some() {
        return Decision::doing(EnrolmentStep::Forget(name));
    }
    let status = csr.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let find = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    if let Some(no) = find("Denied").or_else(|| find("Failed")) {
        let why = no.message.as_deref().or(no.reason.as_deref()).unwrap_or("no reason is given");
        let why: String = why.chars().filter(|c| !c.is_control()).take(512).collect();
        return Decision::refused(format!(
            "CertificateSigningRequest {name} was {}: {why}; delete it to ask again",
            no.type_.to_lowercase()
        ));
    }
    if csr.spec.request.0 != request.pem.as_bytes() {
        return for_another_request(csr, now);
    }
    match status.and_then(|status| status.certificate.as_ref()) {
        Some(text) => match Certificate::read(&text.0) {
            Some(made) if made.key == request.key && made.user == observed.names.user() => {
                Decision::doing(EnrolmentStep::Answer { request: request.digest, certificate: made.pem })
            }
            _ => Decision::refused(format!(
                "the certificate in CertificateSigningRequest {name} is not for it"
            )),
        },
        None if find("Approved").is_some() => Decision::waits(
            &causes::WAITING_FOR_CERTIFICATE,
            format!("Waiting for CertificateSigningRequest {name} to be signed by {SIGNER}"),
        ),
        None => Decision::doing(EnrolmentStep::Approve(name)),
    }
}

/// The machine has written another request before the last one was answered. A stolen machine could do that without end, so
/// the last one is replaced only after a while.
fn for_another_request(csr: &CertificateSigningRequest, now: Timestamp) -> Decision {
    let asked = csr.metadata.creation_timestamp.as_ref().map(|created| created.0);
    match asked.and_then(|asked| asked.checked_add(BETWEEN_ANSWERS).ok()).filter(|next| now < *next) {
        Some(next) => Decision {
            again: Some(until(next, now)),
            ..Decision::waits(
                &causes::WAITING_FOR_CERTIFICATE,
                "The machine has written another request; it is answered after a while",
            )
        },
        None => Decision::doing(EnrolmentStep::Forget(csr.name_any())),
    }
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default().max(SOON)
}
