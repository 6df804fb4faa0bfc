//! The desired hosts of a pool, and the changes that are needed. Pure.

pub(super) mod machines;

use capstan_api::infrastructure::{Host, HostPool, HostSpec};
use capstan_api::meta::labels::WATCH_FILTER;
use capstan_controller::names::label_value;
use capstan_controller::owners;
use kube::core::ObjectMeta;
use kube::{Resource as _, ResourceExt as _};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::names::POOL_LABEL;
use crate::names::host::FINALIZER;
use machines::Progress;

/// Resync, in case an event was missed.
const RESYNC: Duration = Duration::from_secs(60);
/// Resync if machines cannot be created: no event reports a bridge or free space on the disk.
pub(super) const AFTER_FAILURE: Duration = Duration::from_secs(10);
/// Resync while machines boot.
const BOOTING: Duration = Duration::from_secs(1);

/// The changes that give the pool its desired hosts.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Hosts to create.
    pub create: Vec<Host>,
    /// Hosts to change: current and desired.
    pub change: Vec<(Host, Host)>,
    /// Hosts to delete, unless they are claimed before.
    pub delete: Vec<Host>,
    /// Number of surplus hosts that cannot be deleted because machines claim them.
    pub claimed: usize,
    /// Names that hosts of other owners use.
    pub taken: Vec<String>,
}

impl Plan {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether Hosts are created or deleted.
    pub(super) fn makes_or_deletes(&self) -> bool {
        !self.create.is_empty() || !self.delete.is_empty()
    }
}

/// Compares the hosts of a namespace with the pool.
pub fn decide(pool: &HostPool, hosts: &[Arc<Host>]) -> Plan {
    let (ours, others): (Vec<&Host>, Vec<&Host>) =
        hosts.iter().map(AsRef::as_ref).partition(|host: &&Host| owners::is_controlled_by(host.meta(), pool));
    let foreign: BTreeSet<String> = others.iter().map(|host| host.name_any()).collect();
    match &pool.spec.static_ {
        Some(_) => listed(pool, &ours, &foreign),
        None => counted(pool, &ours, &foreign),
    }
}

/// A pool that creates its hosts: the number in `replicas`, with the lowest free numbers; none if the pool is being
/// deleted.
fn counted(pool: &HostPool, ours: &[&Host], foreign: &BTreeSet<String>) -> Plan {
    let replicas = pool.spec.replicas.filter(|_| pool.metadata.deletion_timestamp.is_none());
    let wanted = usize::try_from(replicas.unwrap_or_default()).unwrap_or_default();
    let staying: Vec<&Host> = ours.iter().copied().filter(|host| !is_going(host)).collect();
    let mut plan = Plan { change: changes(pool, &staying), ..Plan::default() };

    // Hosts that are still going keep their names.
    let names: BTreeSet<String> = ours.iter().map(|host| host.name_any()).collect();
    let missing = wanted.saturating_sub(staying.len());
    let numbers = (0..).map(|number| (number, format!("{}-{number}", pool.name_any())));
    let free = numbers.filter(|(_, name)| !names.contains(name) && !foreign.contains(name));
    plan.create = free.take(missing).map(|(number, name)| host(pool, number, &name)).collect();

    let surplus = staying.len().saturating_sub(wanted);
    let mut free: Vec<&Host> = staying.iter().copied().filter(|host| host.spec.claim.is_none()).collect();
    // The highest numbers go first.
    free.sort_by_key(|host| std::cmp::Reverse(number(pool, host)));
    plan.delete = free.iter().take(surplus).map(|host| (*host).clone()).collect();
    plan.claimed = surplus - plan.delete.len();
    plan
}

/// A pool with a list of hosts: exactly these.
fn listed(pool: &HostPool, ours: &[&Host], foreign: &BTreeSet<String>) -> Plan {
    let wanted: BTreeMap<String, Host> = pool
        .spec
        .static_
        .iter()
        .flat_map(|list| &list.hosts)
        .enumerate()
        .map(|(number, listed)| (listed.name.clone(), host(pool, number, &listed.name)))
        .collect();
    let staying: Vec<&Host> = ours.iter().copied().filter(|host| !is_going(host)).collect();
    let names: BTreeSet<String> = ours.iter().map(|host| host.name_any()).collect();
    let (kept, surplus): (Vec<&Host>, Vec<&Host>) =
        staying.into_iter().partition(|host| wanted.contains_key(&host.name_any()));
    let (claimed, free): (Vec<&Host>, Vec<&Host>) =
        surplus.into_iter().partition(|host| host.spec.claim.is_some());
    let mut plan = Plan { claimed: claimed.len(), ..Plan::default() };
    plan.delete = free.into_iter().cloned().collect();
    plan.change = changes(pool, &kept);
    for (name, host) in wanted {
        if foreign.contains(&name) {
            plan.taken.push(name);
        } else if !names.contains(&name) {
            plan.create.push(host);
        }
    }
    plan
}

fn is_going(host: &Host) -> bool {
    host.metadata.deletion_timestamp.is_some()
}

/// The number in a host's name; hosts without one come last.
fn number(pool: &HostPool, host: &Host) -> usize {
    let name = host.name_any();
    let rest = name.strip_prefix(&pool.name_any()).and_then(|rest| rest.strip_prefix('-'));
    rest.and_then(|number| number.parse().ok()).unwrap_or(usize::MAX)
}

/// The host as the pool creates it.
fn host(pool: &HostPool, number: usize, name: &str) -> Host {
    let listed =
        pool.spec.static_.iter().flat_map(|list| &list.hosts).find(|listed| listed.name.as_str() == name);
    let in_turn = match pool.spec.failure_domains.len() {
        0 => None,
        count => pool.spec.failure_domains.get(number % count).cloned(),
    };
    let spec = HostSpec {
        ssh: listed.map(|listed| listed.ssh.clone()),
        simulated: pool.spec.simulated.clone(),
        registration: None,
        failure_domain: listed.and_then(|listed| listed.failure_domain.clone()).or(in_turn),
        unschedulable: None,
        claim: None,
        quarantine: None,
        config: None,
        windows: Vec::new(),
    };
    let mut host = Host::new(name, spec);
    // Its controller would add it in a write of its own.
    let finalizers = Some(vec![FINALIZER.to_owned()]);
    host.metadata = ObjectMeta { namespace: pool.namespace(), finalizers, ..host.metadata };
    dress(pool, &mut host);
    host
}

/// Sets the pool's labels, annotations and owner on a host. Other labels and annotations are kept.
fn dress(pool: &HostPool, host: &mut Host) {
    let metadata = pool.spec.metadata.clone().unwrap_or_default();
    host.labels_mut().extend(metadata.labels);
    // The manager of the pool also manages its hosts.
    if let Some(filter) = pool.labels().get(WATCH_FILTER) {
        host.labels_mut().insert(WATCH_FILTER.to_owned(), filter.clone());
    }
    host.labels_mut().insert(POOL_LABEL.to_owned(), label_value(&pool.name_any()));
    if !metadata.annotations.is_empty() {
        host.annotations_mut().extend(metadata.annotations);
    }
    if let Some(owner) = owners::controller(pool) {
        owners::ensure(&mut host.metadata, &owner);
    }
}

/// Hosts that differ from the pool. The failure domain of a host is not changed.
fn changes(pool: &HostPool, hosts: &[&Host]) -> Vec<(Host, Host)> {
    hosts
        .iter()
        .filter_map(|host| {
            // Without status, which is most of it: few hosts differ.
            let (metadata, spec) = (host.metadata.clone(), host.spec.clone());
            let mut wanted = Host { metadata, spec, status: None };
            dress(pool, &mut wanted);
            if pool.spec.simulated.is_some() {
                wanted.spec.simulated.clone_from(&pool.spec.simulated);
            }
            if let Some(listed) =
                pool.spec.static_.iter().flat_map(|list| &list.hosts).find(|one| one.name == host.name_any())
            {
                wanted.spec.ssh = Some(with_pinned_keys(listed.ssh.clone(), host));
            }
            let is_other = wanted.metadata != host.metadata || wanted.spec != host.spec;
            is_other.then(|| ((*host).clone(), Host { status: host.status.clone(), ..wanted }))
        })
        .collect()
}

/// A host key that was pinned on first use is kept, although the pool's list does not have it.
fn with_pinned_keys(
    mut ssh: capstan_api::infrastructure::SshAccess,
    host: &Host,
) -> capstan_api::infrastructure::SshAccess {
    if ssh.host_keys.is_empty()
        && let Some(current) = &host.spec.ssh
    {
        ssh.host_keys.clone_from(&current.host_keys);
    }
    ssh
}

/// Whether a pool that is being deleted can be released: it has no Host and no machine.
pub(super) fn may_go(pool: &HostPool, hosts: &[Arc<Host>], progress: &Progress) -> bool {
    pool.metadata.deletion_timestamp.is_some()
        && !hosts.iter().any(|host| owners::is_controlled_by(host.meta(), pool))
        && *progress == Progress::default()
}

/// When to reconcile the pool again.
pub(super) fn again(progress: &Progress) -> Duration {
    match (progress.starting.is_empty(), progress.needs_a_person()) {
        (false, _) => BOOTING,
        (true, true) => AFTER_FAILURE,
        (true, false) => RESYNC,
    }
}
