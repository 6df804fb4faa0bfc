//! Tables for pools.

use capstan_api::infrastructure::{
    Host, HostClaim, HostPool, HostPoolSpec, HostQuarantine, NspawnHosts, SecretReference, SimulatedHost,
    SshAccess, StaticHost, StaticHosts,
};
use capstan_api::meta::TemplateMetadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use proptest::prelude::*;
use std::sync::Arc;

use super::decide::machines::{Progress, access, fill_in, of_pool, orphans};
use super::decide::{again, may_go};
use super::status::news;
use super::{Plan, count};
use crate::provisioner::LocalMachine;

fn pool(replicas: i32) -> HostPool {
    let mut pool = HostPool::new(
        "yard",
        HostPoolSpec {
            replicas: Some(replicas),
            metadata: Some(TemplateMetadata {
                labels: [("disk".to_owned(), "fast".to_owned())].into(),
                annotations: [].into(),
            }),
            failure_domains: vec!["east".to_owned(), "west".to_owned()],
            static_: None,
            nspawn: None,
            simulated: Some(SimulatedHost::default()),
        },
    );
    pool.metadata.namespace = Some("default".to_owned());
    pool.metadata.uid = Some("pool-uid".to_owned());
    pool
}

/// The plan for hosts as they are in memory.
fn decide(pool: &HostPool, hosts: &[Host]) -> Plan {
    super::decide(pool, &shared(hosts))
}

fn shared(hosts: &[Host]) -> Vec<Arc<Host>> {
    hosts.iter().cloned().map(Arc::new).collect()
}

fn claimed(mut host: Host) -> Host {
    host.spec.claim = Some(HostClaim {
        id: "id".to_owned(),
        machine_name: "m".to_owned(),
        cluster_name: "c".to_owned(),
        since: None,
    });
    host
}

/// Carries the plan out as an API server would.
fn apply(hosts: &mut Vec<Host>, plan: Plan) {
    hosts.retain(|host| !plan.delete.iter().any(|gone| gone.name_any() == host.name_any()));
    for (before, after) in plan.change {
        if let Some(host) = hosts.iter_mut().find(|host| host.name_any() == before.name_any()) {
            *host = after;
        }
    }
    hosts.extend(plan.create);
}

#[test]
fn hosts_are_numbered_labelled_owned_and_spread() {
    let plan = decide(&pool(3), &[]);
    let facts: Vec<_> = plan
        .create
        .iter()
        .map(|host| (host.name_any(), host.spec.failure_domain.clone().unwrap_or_default()))
        .collect();
    let expected = [("yard-0", "east"), ("yard-1", "west"), ("yard-2", "east")];
    assert_eq!(facts, expected.map(|(name, domain)| (name.to_owned(), domain.to_owned())));
    let host = &plan.create[0];
    assert_eq!(host.labels()["disk"], "fast");
    assert_eq!(host.labels()["capstan.dev/host-pool"], "yard");
    assert_eq!(host.owner_references()[0].uid, "pool-uid");
}

#[test]
fn only_free_hosts_go_and_the_highest_first() {
    let mut hosts = decide(&pool(4), &[]).create;
    hosts[3] = claimed(hosts[3].clone());
    let plan = decide(&pool(2), &hosts);
    let gone: Vec<_> = plan.delete.iter().map(ResourceExt::name_any).collect();
    assert_eq!(gone, ["yard-2", "yard-1"]);
    assert_eq!(plan.claimed, 0);
    assert!(plan.makes_or_deletes() && !decide(&pool(4), &hosts).makes_or_deletes());
    let all: Vec<Host> = hosts.into_iter().map(claimed).collect();
    let plan = decide(&pool(1), &all);
    assert!(plan.delete.is_empty());
    assert_eq!(plan.claimed, 3);
}

#[test]
fn a_host_that_is_going_neither_counts_nor_lends_its_name() {
    let mut hosts = decide(&pool(1), &[]).create;
    hosts[0].metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    let plan = decide(&pool(1), &hosts);
    assert_eq!(plan.create[0].name_any(), "yard-1");
}

#[test]
fn a_strangers_host_is_left_alone() {
    let mut stranger = decide(&pool(1), &[]).create.remove(0);
    stranger.metadata.owner_references = None;
    let plan = decide(&pool(1), &[stranger]);
    assert_eq!(plan.create[0].name_any(), "yard-1");
    assert!(plan.change.is_empty() && plan.delete.is_empty());
}

#[test]
fn hosts_are_counted_by_state() {
    let mut hosts = decide(&pool(4), &[]).create;
    hosts[0] = claimed(hosts[0].clone());
    hosts[1].spec.quarantine =
        Some(HostQuarantine { reason: "LeftDirty".to_owned(), message: None, since: None });
    let all: Vec<&Host> = hosts.iter().collect();
    assert_eq!(count(&all), [4, 2, 1, 1]);
}

fn of_machines(replicas: i32) -> HostPool {
    let mut pool = pool(replicas);
    pool.spec.simulated = None;
    pool.spec.nspawn = Some(NspawnHosts {
        root_filesystem: "/rootfs".to_owned(),
        bridge: "br0".to_owned(),
        credentials_ref: SecretReference { name: "pair".to_owned() },
    });
    pool
}

fn machine(address: &str) -> LocalMachine {
    LocalMachine { address: address.to_owned(), port: 22, host_keys: vec!["ssh-ed25519 AAAA".to_owned()] }
}

#[test]
fn a_host_is_made_when_its_machine_is_up_and_follows_it() {
    let pool = of_machines(2);
    let (wanted, nspawn) = of_pool(&pool).expect("a pool that makes machines");
    assert_eq!((wanted.namespace.as_str(), wanted.name.as_str()), ("default", "yard"));
    let mut plan = decide(&pool, &[]);
    let up = [("yard-1".to_owned(), access(nspawn, &machine("10.0.0.2")))].into();
    fill_in(&mut plan, &[], &up);
    let names: Vec<_> = plan.create.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["yard-1"]);
    let host = plan.create.remove(0);
    let ssh = host.spec.ssh.as_ref().expect("how it is reached");
    assert_eq!(
        (ssh.address.as_str(), ssh.user.as_str(), ssh.credentials_ref.name.as_str()),
        ("10.0.0.2", "root", "pair")
    );
    assert_eq!((ssh.host_keys.len(), ssh.trust_on_first_use), (1, None));

    let mut plan = Plan::default();
    fill_in(&mut plan, &[&host], &up);
    assert!(plan.is_empty(), "it is as it should be");
    let moved = [("yard-1".to_owned(), access(nspawn, &machine("10.0.0.9")))].into();
    fill_in(&mut plan, &[&host], &moved);
    assert_eq!(plan.change[0].1.spec.ssh.as_ref().map(|ssh| ssh.address.as_str()), Some("10.0.0.9"));
}

#[test]
fn machines_that_nobody_speaks_of_are_orphans() {
    let pool = of_machines(2);
    let names = ["yard-0", "yard-1", "yard-7"].map(str::to_owned);
    let plan = decide(&pool, &[]);
    assert_eq!(orphans(&names, &[], &plan), ["yard-7"]);
    let host = plan.create[0].clone();
    assert_eq!(orphans(&names, &[&host], &Plan::default()), ["yard-1", "yard-7"]);
}

#[test]
fn a_pool_that_goes_wants_no_hosts() {
    let mut pool = of_machines(2);
    let mut hosts = decide(&pool, &[]).create;
    hosts[1] = claimed(hosts[1].clone());
    pool.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    let plan = decide(&pool, &hosts);
    assert_eq!((plan.create.len(), plan.delete.len(), plan.claimed), (0, 1, 1));
}

#[test]
fn all_hosts_that_are_made_or_deleted_at_once_are_one_event_each() {
    let plan = decide(&pool(3), &[]);
    let created: Vec<&Host> = plan.create.iter().collect();
    let events_of = |created: &[&Host], deleted: &[Host]| -> Vec<(&str, String)> {
        news(created, deleted).into_iter().map(|news| (news.reason, news.message)).collect()
    };
    assert_eq!(events_of(&[], &[]), []);
    assert_eq!(events_of(&created, &[]), [("HostsCreated", "3: yard-0, yard-1, yard-2".to_owned())]);
    let both = [("HostsCreated", "1: yard-0".to_owned()), ("HostsDeleted", "1: yard-2".to_owned())];
    assert_eq!(events_of(&created[..1], &plan.create[2..]), both);
}

#[test]
fn a_pool_goes_after_its_hosts_and_machines() {
    let mut pool = of_machines(1);
    let hosts = decide(&pool, &[]).create;
    let busy = Progress { starting: vec!["yard-0".to_owned()], ..Progress::default() };
    assert!(!may_go(&pool, &[], &Progress::default()), "it is not being deleted");
    pool.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(!may_go(&pool, &shared(&hosts), &Progress::default()));
    assert!(!may_go(&pool, &[], &busy));
    assert!(may_go(&pool, &[], &Progress::default()));
}

#[test]
fn machines_that_boot_are_looked_at_soon() {
    let seconds = |progress: Progress| again(&progress).as_secs();
    let booting = || vec!["yard-0".to_owned()];
    assert_eq!(seconds(Progress::default()), 60);
    assert_eq!(seconds(Progress { failed: booting(), ..Progress::default() }), 10);
    assert_eq!(seconds(Progress { starting: booting(), failed: booting(), ..Progress::default() }), 1);
}

#[test]
fn a_listed_host_keeps_the_key_that_was_pinned() {
    let mut pool = pool(0);
    let ssh = SshAccess {
        address: "10.0.0.1".to_owned(),
        port: 22,
        user: "root".to_owned(),
        sudo: None,
        credentials_ref: SecretReference { name: "creds".to_owned() },
        host_keys: vec![],
        trust_on_first_use: Some(true),
    };
    pool.spec.simulated = None;
    pool.spec.replicas = None;
    let listed = StaticHost { name: "rack-1".to_owned(), ssh, failure_domain: None };
    pool.spec.static_ = Some(StaticHosts { hosts: vec![listed] });
    let mut host = decide(&pool, &[]).create.remove(0);
    host.spec.ssh.as_mut().expect("ssh").host_keys = vec!["ssh-ed25519 AAAA".to_owned()];
    assert!(decide(&pool, &[host.clone()]).is_empty());
    pool.spec.static_.as_mut().expect("a list").hosts[0].ssh.address = "10.0.0.2".to_owned();
    let changed = decide(&pool, &[host]).change.remove(0).1.spec.ssh.expect("ssh");
    assert_eq!((changed.address.as_str(), changed.host_keys.len()), ("10.0.0.2", 1));
}

proptest! {
    #[test]
    fn a_pool_settles_and_never_takes_a_claimed_host(
        steps in prop::collection::vec((0_i32..8, prop::collection::vec(any::<bool>(), 10)), 1..8),
    ) {
        let mut hosts: Vec<Host> = Vec::new();
        for (replicas, claims) in steps {
            for (host, is_claimed) in hosts.iter_mut().zip(claims) {
                *host = if is_claimed { claimed(host.clone()) } else {
                    let mut host = host.clone();
                    host.spec.claim = None;
                    host
                };
            }
            let pool = pool(replicas);
            let plan = decide(&pool, &hosts);
            prop_assert!(plan.delete.iter().all(|host| host.spec.claim.is_none()));
            let stuck = plan.claimed;
            apply(&mut hosts, plan);
            prop_assert_eq!(hosts.len(), usize::try_from(replicas).unwrap_or_default() + stuck);
            let again = decide(&pool, &hosts);
            prop_assert!(again.create.is_empty() && again.change.is_empty() && again.delete.is_empty());
        }
    }
}
