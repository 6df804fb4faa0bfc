//! The host that a machine claims. Pure.
//!
//! A claim is an ID in two objects: `spec.claimID` of the HostMachine and `spec.claim.id` of the Host. The
//! HostMachine's `spec.hostName` is set once and names the host that counts. If two managers claim hosts for the same
//! machine at the same time, the one that writes `hostName` second fails and releases its host. A host is not changed
//! before its name is written.

use capstan_api::conditions::{get, is_false, types};
use capstan_api::infrastructure::Host;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::host::{is_reachable, is_usable};
use crate::selector::HostSelectors;

/// Number of hosts that a message lists.
const MOST_LISTED: usize = 3;

/// Requirements of a machine for its host.
pub struct Wanted<'a> {
    /// ID of the claim, on the HostMachine and on the Host.
    pub claim_id: &'a str,
    /// Labels the host must have.
    pub selectors: &'a HostSelectors,
    /// Failure domain of the host.
    pub failure_domain: Option<&'a str>,
}

/// Why a matching host cannot be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// Another machine claims it.
    Claimed,
    /// It is quarantined until the user ends that.
    Quarantined,
    /// It does not respond.
    Unreachable,
    /// A known problem prevents a machine from working on it.
    Unusable,
    /// `spec.unschedulable` is set.
    Unschedulable,
    /// The Host is being deleted.
    Deleted,
}

impl Obstacle {
    /// Why the host cannot be claimed, if it cannot.
    pub fn of(host: &Host) -> Option<Self> {
        if host.metadata.deletion_timestamp.is_some() {
            Some(Self::Deleted)
        } else if host.spec.claim.is_some() {
            Some(Self::Claimed)
        } else if host.spec.quarantine.is_some() {
            Some(Self::Quarantined)
        } else if host.spec.unschedulable == Some(true) {
            Some(Self::Unschedulable)
        } else if !is_reachable(host) {
            Some(Self::Unreachable)
        } else if !is_usable(host) {
            Some(Self::Unusable)
        } else {
            None
        }
    }

    /// The word for messages, after "are".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Quarantined => "quarantined",
            Self::Unreachable => "not reachable",
            Self::Unusable => "not usable",
            Self::Unschedulable => "unschedulable",
            Self::Deleted => "being deleted",
        }
    }
}

/// The host to claim.
///
/// # Errors
/// If there is none, with the reason for users.
pub fn choose<'h>(wanted: &Wanted<'_>, hosts: &'h [Arc<Host>]) -> Result<&'h Host, String> {
    let in_domain = |host: &&Host| match wanted.failure_domain {
        Some(domain) => host.spec.failure_domain.as_deref() == Some(domain),
        None => true,
    };
    let matching: Vec<&Host> = hosts
        .iter()
        .map(AsRef::as_ref)
        .filter(|host| wanted.selectors.match_host(host))
        .filter(in_domain)
        .collect();
    matching
        .iter()
        .copied()
        .filter(|host| Obstacle::of(host).is_none())
        .min_by_key(|host| rank(wanted.claim_id, &host.name_any()))
        .ok_or_else(|| why_none(wanted, hosts.len(), &matching))
}

/// The order in which a machine prefers hosts. It differs for each machine, so that machines that are placed at the
/// same time seldom choose the same host.
fn rank(claim_id: &str, host: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (claim_id, host).hash(&mut hasher);
    hasher.finish()
}

/// The message of a host about its problem, if it has one.
pub(in crate::hostmachine) fn complaint(host: &Host) -> Option<String> {
    let condition = match Obstacle::of(host)? {
        Obstacle::Quarantined | Obstacle::Unreachable | Obstacle::Unusable => get(host, types::READY)?,
        Obstacle::Claimed | Obstacle::Unschedulable | Obstacle::Deleted => return None,
    };
    let message = condition.message.replace('\n', "; ");
    (is_false(host, types::READY) && !message.is_empty())
        .then(|| format!("Host {}: {message}", host.name_any()))
}

fn why_none(wanted: &Wanted<'_>, all: usize, matching: &[&Host]) -> String {
    let place = wanted.failure_domain.map(|name| format!(" in failure domain {name}")).unwrap_or_default();
    if all == 0 {
        return "no host is available: there are none in this namespace; add one (`capstan host add`), or raise \
                spec.replicas of a HostPool"
            .to_owned();
    }
    if matching.is_empty() {
        return format!(
            "no host is available: none of {all} matches spec.hostSelector{place}; give a Host these labels, add one \
             (`capstan host add --label`), or raise spec.replicas of a HostPool"
        );
    }
    let mut obstacles: BTreeMap<Obstacle, usize> = BTreeMap::new();
    for obstacle in matching.iter().filter_map(|host| Obstacle::of(host)) {
        *obstacles.entry(obstacle).or_default() += 1;
    }
    let fits = format!("no host is available: {} of {all} match{place}", matching.len());
    let mut text = match obstacles.iter().collect::<Vec<_>>()[..] {
        [(only, _)] => format!("{fits} but are {}", only.words()),
        _ => {
            let list: Vec<String> =
                obstacles.iter().map(|(obstacle, count)| format!("{count} {}", obstacle.words())).collect();
            format!("{fits} but are not free: {}", list.join(", "))
        }
    };
    for complaint in matching.iter().filter_map(|host| complaint(host)).take(MOST_LISTED) {
        text.push('\n');
        text.push_str(&complaint);
    }
    text
}
