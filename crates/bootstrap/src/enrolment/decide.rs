//! The next step for a machine that enrols or has enrolled. Pure.

pub(crate) mod objects;
pub(super) mod request;

use capstan_api::agent::{MachineCredential, MachineReport};
use capstan_api::wait::{Cause, Wait, causes};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use serde_json::Value;
use std::time::Duration;

use crate::names::{ANSWERED, ANSWERED_AT, Names};
use crate::this_plane::ThisPlane;
use objects::{ROLE_BINDING, ResourceKind, SERVICE_ACCOUNT, Verdict, Wanted, verdict};
use request::Request;

/// The requested life of an enrolment token; a management plane may issue another one. A machine cannot enrol after it.
pub(crate) const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// Shortest time between two responses to the requests of one machine.
const BETWEEN_ANSWERS: SignedDuration = SignedDuration::from_secs(30);
/// Requeue for a deletion that triggers no event.
const SOON: Duration = Duration::from_secs(1);

/// What was observed.
pub(crate) struct Observed<'a> {
    pub(crate) names: &'a Names,
    /// The management plane of this process.
    pub(crate) this_plane: &'a ThisPlane,
    /// Whether the hand-over to this plane is in the bootstrap Secret.
    pub(crate) follows: bool,
    /// The CapstanConfig, as a reference to an owner.
    pub(crate) owner: &'a Value,
    /// The interval of its agent's heartbeats.
    pub(crate) interval: Duration,
    /// The objects with the names of [`objects::wanted`], in the same order.
    pub(crate) found: &'a [Option<Value>],
    /// The object with the name of the ServiceAccount of the enrolment token.
    pub(crate) enrolment: Option<&'a Value>,
    pub(crate) report: Option<&'a MachineReport>,
    /// When the infrastructure of the machine was provisioned: from then on the machine could have enrolled.
    pub(crate) started: Option<Timestamp>,
    /// Whether the bootstrap data exists.
    pub(crate) is_started_with: bool,
}

impl Observed<'_> {
    /// UID of the ServiceAccount of the machine; `None` if it is unknown.
    fn account(&self) -> Option<&str> {
        let name = self.names.account();
        let mut wanted = objects::wanted(self.names, self.owner, self.interval).into_iter().zip(self.found);
        let (_, found) = wanted.find(|(wanted, _)| wanted.kind == SERVICE_ACCOUNT && wanted.name == name)?;
        found.as_ref()?.pointer("/metadata/uid")?.as_str()
    }
}

/// The next step of an enrolment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EnrolmentStep {
    /// Nothing.
    Rest,
    /// Create, repair or delete objects.
    Objects(Vec<Change>),
    /// Remove an unusable credential from the report, so that the agent does not take it for the response to its
    /// request. The recorded key stays.
    Part,
    /// Write a credential for the ServiceAccount with this UID into the report, unless the report has changed. The key of the
    /// first request is recorded as the machine's key by the same write.
    Answer {
        /// The request that is answered.
        request: Request,
        /// UID of the ServiceAccount.
        account: String,
    },
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
    /// Whether it changes a RoleBinding.
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
    /// The machine has its own credential, described for users.
    Enrolled(String),
    /// The machine has no valid credential.
    Waits(Wait),
}

/// The next step, the standing of the machine, and when to reconcile again without an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) step: EnrolmentStep,
    pub(crate) standing: Standing,
    pub(crate) again: Option<Duration>,
    /// The wait that blocks the bootstrap data, if any.
    pub(crate) blocked: Option<Wait>,
}

impl Decision {
    /// No step, and a wait.
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

    fn doing(step: EnrolmentStep) -> Self {
        Self {
            step,
            ..Self::waits(&causes::WAITING_FOR_CREDENTIAL, "The machine's request is being answered")
        }
    }

    fn refused(why: impl std::fmt::Display) -> Self {
        Self::waits(
            &causes::REQUEST_REFUSED,
            format!("The machine's request for a credential is refused: {why}"),
        )
    }
}

/// Whether the machine has a credential for this plane, so that its enrolment token is no longer needed.
pub(crate) fn is_enrolled(report: &MachineReport, this_plane: &ThisPlane) -> bool {
    let spec = &report.spec;
    spec.enrolled_key.is_some()
        && spec.credential.is_some()
        && spec.enrolled_with.as_ref() == Some(&this_plane.record())
}

/// Whether the machine had a credential and has none now. Its agent has started, so it must receive a new enrolment
/// token.
pub(crate) fn must_enrol_again(report: &MachineReport) -> bool {
    report.spec.enrolled_key.is_some() && report.spec.credential.is_none()
}

/// Why the credential of a machine cannot be used, if so.
fn is_useless(
    report: &MachineReport,
    this_plane: &ThisPlane,
    account: Option<&str>,
    now: Timestamp,
) -> Option<&'static str> {
    let credential = report.spec.credential.as_ref()?;
    if report.spec.enrolled_with.as_ref() != Some(&this_plane.record()) {
        Some("obeys another management plane, or this one at another address")
    } else if account.is_some_and(|account| account != credential.account) {
        // What is not known to differ is taken to be the same.
        Some("has a credential of a ServiceAccount that was deleted")
    } else if credential.expires_at.0 <= now {
        Some("has a credential that expired before it could renew it")
    } else {
        None
    }
}

/// Whether the machine has received its credential: it reports, or its request is removed. Until then its enrolment
/// token must let it read the report.
fn is_delivered(report: &MachineReport) -> bool {
    let status = report.status.as_ref();
    status.is_none_or(|status| status.agent_version.is_some() || status.credential_request.is_none())
}

pub(crate) fn decide(observed: &Observed<'_>, now: Timestamp) -> Decision {
    let account = observed.account();
    // Before there is a token to ask with.
    if let Some(report) = observed.report
        && let Some(why) = is_useless(report, observed.this_plane, account, now)
    {
        return Decision { step: EnrolmentStep::Part, ..follows(observed.names, why) };
    }
    if let Some(decision) = objects_first(observed) {
        return decision;
    }
    let Some(report) = observed.report else {
        return Decision { again: Some(SOON), ..Decision::waits(&causes::WAITING_FOR_BOOTSTRAP_DATA, "") };
    };
    let asked = report.status.as_ref().and_then(|status| status.credential_request.as_ref());
    // Its credential was taken back since: the machine must write another request.
    let is_old = |request: &Request| report.spec.credential.is_none() && is_answered(report, request);
    match asked.map(request::check) {
        Some(Err(refusal)) => Decision::refused(refusal),
        Some(Ok(request)) if !is_old(&request) => for_request(report, request, account, now),
        _ => match &report.spec.credential {
            Some(credential) if is_enrolled(report, observed.this_plane) => enrolled(credential),
            _ => waits_for_machine(observed, now),
        },
    }
}

fn enrolled(credential: &MachineCredential) -> Decision {
    let message = format!("Its credential is valid until {}", credential.expires_at.0);
    Decision::rest(Standing::Enrolled(message))
}

fn follows(names: &Names, why: &str) -> Decision {
    let message = format!(
        "The agent of Machine {} {why}; Capstan's infrastructure provider tells it how to enrol again. With another provider, \
         run the data in Secret {} on the machine",
        names.machine, names.config
    );
    Decision::waits(&causes::WAITING_FOR_MACHINE_TO_FOLLOW, message)
}

fn waits_for_machine(observed: &Observed<'_>, now: Timestamp) -> Decision {
    if observed.follows {
        return follows(observed.names, "has no credential for this management plane at its current address");
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

/// The rights of the machine are corrected before anything else.
fn objects_first(observed: &Observed<'_>) -> Option<Decision> {
    let (names, owner) = (observed.names, observed.owner);
    let wanted = objects::wanted(names, owner, observed.interval).into_iter();
    let mut pairs: Vec<(Wanted, Option<&Value>)> =
        wanted.zip(observed.found.iter().map(Option::as_ref)).collect();
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

/// Decides about a request that was accepted.
fn for_request(report: &MachineReport, request: Request, account: Option<&str>, now: Timestamp) -> Decision {
    if report.spec.enrolled_key.as_ref().is_some_and(|key| *key != request.key.to_string()) {
        return Decision::refused(
            "it is for another key than the one the machine enrolled with; if that is what you want, take \
             enrolledKey out of the spec of its MachineReport",
        );
    }
    let is_answered = is_answered(report, &request);
    let answer = match account {
        Some(account) => Decision::doing(EnrolmentStep::Answer { request, account: account.to_owned() }),
        // It was created a moment ago.
        None => Decision { again: Some(SOON), ..Decision::doing(EnrolmentStep::Rest) },
    };
    let (Some(credential), Some(_)) = (&report.spec.credential, &report.spec.enrolled_key) else {
        return answer;
    };
    if is_answered && now < credential.renewal() {
        // The same request stands for the next credential, too, should the machine not write another one.
        let again = until(credential.renewal(), now);
        return Decision { again: Some(again), ..enrolled(credential) };
    }
    let answered: Option<Timestamp> =
        report.annotations().get(ANSWERED_AT).and_then(|time| time.parse().ok());
    let next = answered.and_then(|answered| answered.checked_add(BETWEEN_ANSWERS).ok());
    match next.filter(|next| now < *next) {
        Some(next) => Decision { again: Some(until(next, now)), ..enrolled(credential) },
        None => Decision { standing: enrolled(credential).standing, ..answer },
    }
}

/// Whether this is the last request that was answered.
fn is_answered(report: &MachineReport, request: &Request) -> bool {
    report.annotations().get(ANSWERED).is_some_and(|digest| *digest == request.digest.to_string())
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default().max(SOON)
}
