//! What becomes of a registration. Pure.
//!
//! Nothing that the machine writes approves it. A registration is approved by a Host that names it, together with its public
//! key. A person or the rule of the join token makes that Host.

use capstan_api::conditions::get;
use capstan_api::infrastructure::{APPROVED, Host, HostRegistration, HostSpec, RegistrationAccess};
use capstan_api::wait::{Wait, causes};
use capstan_plan::host_join::{JoinRequest, is_registration_name};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::host_token::HostToken;

/// A refused registration is kept for this time, so that the person and the machine can see why.
const REFUSED_FOR: SignedDuration = SignedDuration::from_hours(1);
/// So many refused registrations of a namespace are kept: the holder of a join token can make any number of them.
const MOST_REFUSED: usize = 100;
/// A registration can be approved for this time after its token has expired: the machine can look for its credential until then.
pub const APPROVAL_TIME: SignedDuration = SignedDuration::from_hours(24);
/// A rule approves a registration after this time. Creation times have no fraction, so another one of the same second may come
/// before it.
const SETTLING: SignedDuration = SignedDuration::from_secs(2);
/// Digits of the name of a registration in the name of its Host.
const DIGITS: usize = 10;

/// Why a registration is not accepted, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("its name is not a random one")]
    Name,
    #[error("it contains {0}, which only Capstan writes")]
    Field(&'static str),
    #[error("there is no join token {0}, or it is damaged")]
    NoToken(String),
    #[error("it has no proof that the machine has the join token {0}")]
    Proof(String),
    #[error("the join token {token} expired at {expires}, and the machine registered at {created}")]
    Expired { token: String, expires: Timestamp, created: Timestamp },
    #[error("the join token {token} was for {uses} machines, and as many have registered with it")]
    Spent { token: String, uses: u32 },
    #[error("Host {0} names it with another public key")]
    OtherKey(String),
}

/// What was observed.
pub(super) struct Observed<'a> {
    pub(super) registration: &'a HostRegistration,
    /// The join token that the registration names, if there is one.
    pub(super) token: Option<&'a HostToken>,
    /// All Hosts of the namespace.
    pub(super) hosts: &'a [Arc<Host>],
    /// All registrations of the namespace, this one included.
    pub(super) registrations: &'a [Arc<HostRegistration>],
}

/// The next step for a registration.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RegistrationStep {
    /// Record the Host that approves it.
    Record(Arc<Host>),
    /// Create the Host that approves it.
    Create(Box<Host>),
    /// Only say what it waits for.
    Rest(Wait),
    /// Nothing yet.
    Later,
    /// Delete it, and why.
    Delete(&'static str),
}

/// The next step, and when to look again without an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    pub(super) step: RegistrationStep,
    pub(super) again: Option<Duration>,
}

impl Decision {
    const fn of(step: RegistrationStep) -> Self {
        Self { step, again: None }
    }

    fn waits(wait: Wait) -> Self {
        Self::of(RegistrationStep::Rest(wait))
    }
}

pub(super) fn decide(seen: &Observed<'_>, now: Timestamp) -> Decision {
    let registration = seen.registration;
    let name = registration.name_any();
    // The account and the rights of the machine are named after the registration. With a name of another form, they could be
    // those of another machine. No Host approves that.
    if !is_registration_name(&name) {
        return refused(seen, &Refusal::Name, now);
    }
    let mut naming: Vec<&Arc<Host>> = seen.hosts.iter().filter(|host| names(host, &name)).collect();
    naming.sort_by_key(|host| host.name_any());
    // The recorded one stays: its machine may be claimed already.
    let recorded = registration.spec.host.as_ref();
    let host = naming.iter().find(|host| Some(&host.name_any()) == recorded).or_else(|| naming.first());
    if let Some(host) = host {
        return match has_key(host, registration) {
            true => Decision::of(RegistrationStep::Record(Arc::clone(host))),
            false => refused(seen, &Refusal::OtherKey(host.name_any()), now),
        };
    }
    // The Host was given another registration of the same machine, and this one has no purpose.
    let is_owner = |host: &&Arc<Host>| {
        let owners = registration.owner_references();
        owners.iter().any(|owner| host.uid().as_ref() == Some(&owner.uid))
    };
    if seen.hosts.iter().any(|host| is_owner(&host)) {
        return Decision::of(RegistrationStep::Delete("its Host has another registration"));
    }
    let token = match accept(seen) {
        Ok(token) => token,
        Err(refusal) => return refused(seen, &refusal, now),
    };
    // The machine has registered again. With a second Host, two clusters could claim it.
    let former =
        seen.hosts.iter().filter(|host| has_key(host, registration)).map(|host| host.name_any()).min();
    if former.is_none() && token.approval.approves(registration.spec.facts.as_ref()) {
        let settled = created(registration).checked_add(SETTLING).unwrap_or(Timestamp::MAX);
        if now < settled {
            return Decision { again: Some(until(settled, now)), ..Decision::of(RegistrationStep::Later) };
        }
        let host = new_host(registration, token);
        return match seen.hosts.iter().any(|other| other.name_any() == host.name_any()) {
            true => Decision::waits(Wait::new(
                &causes::NAME_TAKEN,
                format!("Host {} exists and does not name this registration", host.name_any()),
            )),
            false => Decision::of(RegistrationStep::Create(Box::new(host))),
        };
    }
    let ends = token.expires.checked_add(APPROVAL_TIME).unwrap_or(Timestamp::MAX);
    if ends <= now {
        return Decision::of(RegistrationStep::Delete("it was not approved in time"));
    }
    let message = match former {
        None => format!("Waiting for approval until {ends}: capstan host approve {name}"),
        Some(host) => format!(
            "Host {host} has the same machine. Waiting for approval until {ends}: capstan host approve {name} --host {host}"
        ),
    };
    let wait = Wait::new(&causes::WAITING_FOR_APPROVAL, message);
    Decision { again: Some(until(ends, now)), ..Decision::waits(wait) }
}

/// Whether a Host names this registration.
pub(super) fn names(host: &Host, registration: &str) -> bool {
    host.spec.registration.as_ref().is_some_and(|access| access.name == registration)
}

/// Whether a Host approves this registration: it names it, with the public key of the machine.
pub fn approves(host: &Host, registration: &HostRegistration) -> bool {
    names(host, &registration.name_any()) && has_key(host, registration)
}

fn has_key(host: &Host, registration: &HostRegistration) -> bool {
    let key = host.spec.registration.as_ref().map(|access| &access.public_key);
    key == Some(&registration.spec.public_key)
}

/// The join token of a registration, if the registration is one of those that the token allows.
fn accept<'a>(seen: &Observed<'a>) -> Result<&'a HostToken, Refusal> {
    let (registration, spec) = (seen.registration, &seen.registration.spec);
    // Agents leave them out. They are large, and the holder of a join token could fill the management plane with them.
    for (field, is_set) in
        [("spec.instruction", spec.instruction.is_some()), ("spec.credential", spec.credential.is_some())]
    {
        if is_set {
            return Err(Refusal::Field(field));
        }
    }
    let token = seen.token.ok_or_else(|| Refusal::NoToken(spec.token.clone()))?;
    if !is_proven(registration, token) {
        return Err(Refusal::Proof(token.name.clone()));
    }
    let created = created(registration);
    if created > token.expires {
        return Err(Refusal::Expired { token: token.name.clone(), expires: token.expires, created });
    }
    // The first ones count, and those that have a Host: machines choose their names, so that one of the same second may come
    // before one that was approved. What was deleted does not count: a machine that was denied has used nothing.
    let place = |registration: &HostRegistration| (self::created(registration), registration.name_any());
    let own = place(registration);
    let approved: BTreeSet<&str> = seen
        .hosts
        .iter()
        .filter_map(|host| host.spec.registration.as_ref().map(|access| access.name.as_str()))
        .collect();
    let is_earlier = |other: &&Arc<HostRegistration>| {
        let place = place(other);
        other.spec.token == token.name
            && place != own
            && (place < own || approved.contains(place.1.as_str()))
            && is_proven(other, token)
    };
    let uses = usize::try_from(token.uses).unwrap_or(usize::MAX);
    match seen.registrations.iter().filter(is_earlier).take(uses).count() < uses {
        true => Ok(token),
        false => Err(Refusal::Spent { token: token.name.clone(), uses: token.uses }),
    }
}

fn is_proven(registration: &HostRegistration, token: &HostToken) -> bool {
    let spec = &registration.spec;
    let (namespace, name) = (registration.namespace().unwrap_or_default(), registration.name_any());
    let request = JoinRequest {
        namespace: &namespace,
        registration: &name,
        public_key: &spec.public_key,
        nonce: &spec.nonce,
    };
    request.is_proven(&token.key, &spec.proof)
}

fn created(registration: &HostRegistration) -> Timestamp {
    registration.creation_timestamp().map_or(Timestamp::MAX, |created| created.0)
}

fn refused(seen: &Observed<'_>, refusal: &Refusal, now: Timestamp) -> Decision {
    let registration = seen.registration;
    let ends = created(registration).checked_add(REFUSED_FOR).unwrap_or(Timestamp::MAX);
    if ends <= now {
        return Decision::of(RegistrationStep::Delete("it was refused an hour ago"));
    }
    let others = seen.registrations.iter().filter(|other| is_refused(other)).take(MOST_REFUSED).count();
    if others >= MOST_REFUSED && !is_refused(registration) {
        return Decision::of(RegistrationStep::Delete("it was refused, and so were many others"));
    }
    let wait = Wait::new(&causes::REGISTRATION_REFUSED, format!("The registration is refused: {refusal}"));
    Decision { again: Some(until(ends, now)), ..Decision::waits(wait) }
}

/// Whether the refusal was written.
fn is_refused(registration: &HostRegistration) -> bool {
    get(registration, APPROVED)
        .is_some_and(|condition| condition.reason == causes::REGISTRATION_REFUSED.reason)
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(now)).unwrap_or_default()
}

/// The Host of a machine that the rule of its token approves.
fn new_host(registration: &HostRegistration, token: &HostToken) -> Host {
    let name = registration.name_any();
    let digits: String = name.trim_start_matches("host-").chars().take(DIGITS).collect();
    host(&format!("{}-{digits}", token.name), registration, Some(token))
}

/// The Host that approves a registration, with the labels and the failure domain of its join token.
pub fn host(name: &str, registration: &HostRegistration, token: Option<&HostToken>) -> Host {
    let spec = HostSpec {
        ssh: None,
        simulated: None,
        registration: Some(RegistrationAccess {
            name: registration.name_any(),
            public_key: registration.spec.public_key.clone(),
        }),
        failure_domain: token.and_then(|token| token.failure_domain.clone()),
        unschedulable: None,
        config: None,
        windows: Vec::new(),
        claim: None,
        quarantine: None,
    };
    let mut host = Host::new(name, spec);
    if let Some(token) = token.filter(|token| !token.labels.is_empty()) {
        host.metadata.labels = Some(token.labels.clone());
    }
    host
}
