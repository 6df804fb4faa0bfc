//! One machine, step by step.

use capstan_api::conditions::{NewCondition, set};
use capstan_api::infrastructure::{Host, HostCluster, HostClusterSpec, HostQuarantine};
use capstan_api::wait::causes;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::ResourceExt;
use std::sync::Arc;

use super::fixtures::*;
use crate::driver::Reached;
use crate::hostmachine::{HostMachineStep, Observed, decide, provider_id};

fn waits_for(step: HostMachineStep<'_>) -> String {
    match step {
        HostMachineStep::Wait(wait) => wait.reason.into_owned(),
        other => panic!("does not wait: {other:?}"),
    }
}

fn described(step: HostMachineStep<'_>) -> String {
    match step {
        HostMachineStep::Wait(wait) => wait.message,
        other => panic!("does not wait: {other:?}"),
    }
}

#[test]
fn the_hand_offs_are_waited_for_in_their_order() {
    let (machine, hosts) = (machine(), shared([host("a")]));
    let (bare, full) = (owner(None), owner(Some("data")));
    let (early, ready) = (cluster(false), cluster(true));
    let seen = Observed { machine: &machine, owner: None, cluster: None, host_cluster: None, hosts: &hosts };
    assert_eq!(waits_for(decide(seen)), causes::WAITING_FOR_MACHINE_OWNER.reason);
    let seen = Observed { owner: Some(&bare), ..seen };
    assert_eq!(waits_for(decide(seen)), causes::WAITING_FOR_MACHINE_OWNER.reason);
    let seen = Observed { cluster: Some(&early), ..seen };
    assert_eq!(waits_for(decide(seen)), "WaitingForClusterInfrastructureReady");
    let seen = Observed { cluster: Some(&ready), ..seen };
    assert_eq!(waits_for(decide(seen)), "WaitingForBootstrapData");
    let seen = Observed { owner: Some(&full), ..seen };
    assert_eq!(decide(seen), HostMachineStep::ChooseClaimId);
}

#[test]
fn from_claim_to_start() {
    let (owner, cluster) = (owner(Some("data")), cluster(true));
    let mut machine = machine();
    machine.spec.claim_id = Some("id".to_owned());
    let free = shared([host("a")]);
    let seen = Observed {
        machine: &machine,
        owner: Some(&owner),
        cluster: Some(&cluster),
        host_cluster: None,
        hosts: &free,
    };
    assert_eq!(decide(seen), HostMachineStep::Claim(&free[0]));

    // A crash after the claim: the host is found, however many others are free.
    let hosts = shared([host("a"), claimed(host("z"), "id")]);
    assert_eq!(decide(Observed { hosts: &hosts, ..seen }), HostMachineStep::Record(&hosts[1]));

    // A second manager has claimed as well: the one that is recorded counts.
    let hosts = shared([claimed(host("a"), "id"), claimed(host("z"), "id")]);
    assert_eq!(decide(Observed { hosts: &hosts, ..seen }), HostMachineStep::Record(&hosts[0]));
    let mut recorded = machine.clone();
    recorded.spec.host_name = Some("z".to_owned());
    recorded.spec.provider_id = Some(provider_id("yard", "z", "id"));
    let seen = Observed { machine: &recorded, ..seen };
    assert_eq!(decide(Observed { hosts: &hosts, ..seen }), HostMachineStep::GiveBack(&hosts[0]));
    assert_eq!(
        decide(Observed { hosts: &hosts[1..], ..seen }),
        HostMachineStep::Start(&hosts[1], "data".to_owned())
    );

    // A claim that somebody removed is never taken again: the host may have had another life since.
    assert_eq!(waits_for(decide(Observed { hosts: &free, ..seen })), causes::HOST_LOST.reason);
    let free_again = shared([host("z")]);
    assert_eq!(waits_for(decide(Observed { hosts: &free_again, ..seen })), causes::HOST_LOST.reason);
}

#[test]
fn a_user_may_name_the_host() {
    let (owner, cluster) = (owner(Some("data")), cluster(true));
    let mut machine = machine();
    machine.spec.claim_id = Some("id".to_owned());
    machine.spec.host_name = Some("b".to_owned());
    let hosts = shared([host("a"), host("b")]);
    let seen = Observed {
        machine: &machine,
        owner: Some(&owner),
        cluster: Some(&cluster),
        host_cluster: None,
        hosts: &hosts,
    };
    assert_eq!(decide(seen), HostMachineStep::Claim(&hosts[1]));
    assert!(described(decide(Observed { hosts: &hosts[..1], ..seen })).contains("there is no Host b"));
    let taken = shared([claimed(host("b"), "other")]);
    assert!(described(decide(Observed { hosts: &taken, ..seen })).contains("is claimed"));
    let ours = shared([claimed(host("b"), "id")]);
    assert_eq!(decide(Observed { hosts: &ours, ..seen }), HostMachineStep::Record(&ours[0]));
}

#[test]
fn both_selectors_and_the_failure_domain_count() {
    let mut owner = owner(Some("data"));
    owner.spec.failure_domain = Some("west".to_owned());
    let cluster = cluster(true);
    let select = |key: &str, value: &str| LabelSelector {
        match_labels: Some([(key.to_owned(), value.to_owned())].into()),
        match_expressions: None,
    };
    let mut machine = machine();
    machine.spec.claim_id = Some("id".to_owned());
    machine.spec.host_selector = Some(select("disk", "fast"));
    let spec = HostClusterSpec { host_selector: Some(select("team", "a")), ..Default::default() };
    let host_cluster = HostCluster::new("hc", spec);
    let full = |name: &str| labelled(labelled(host(name), "disk", "fast"), "team", "a");
    let hosts = shared([
        within(labelled(host("no-team"), "disk", "fast"), "west"),
        within(labelled(host("no-disk"), "team", "a"), "west"),
        within(full("east"), "east"),
        full("nowhere"),
        within(full("right"), "west"),
    ]);
    let seen = Observed {
        machine: &machine,
        owner: Some(&owner),
        cluster: Some(&cluster),
        host_cluster: Some(&host_cluster),
        hosts: &hosts,
    };
    assert_eq!(decide(seen), HostMachineStep::Claim(&hosts[4]));
    let message = described(decide(Observed { hosts: &hosts[..4], ..seen }));
    assert_eq!(
        message,
        "no host is available: none of 4 matches spec.hostSelector in failure domain west; give a Host these labels, \
         add one (`capstan host add --label`), or raise spec.replicas of a HostPool"
    );
}

#[test]
fn it_says_why_there_is_no_host() {
    let (owner, cluster) = (owner(Some("data")), cluster(true));
    let mut machine = machine();
    machine.spec.claim_id = Some("id".to_owned());
    let mut quarantined = host("q");
    quarantined.spec.quarantine =
        Some(HostQuarantine { reason: "LeftDirty".to_owned(), message: None, since: None });
    let mut unschedulable = host("u");
    unschedulable.spec.unschedulable = Some(true);
    let mut lost = host("l");
    set(&mut lost, NewCondition::new("Reachable", false, "Unreachable"), Timestamp::UNIX_EPOCH);
    let mut full = host("f");
    let reached = Reached {
        problems: vec!["disk: 1 MiB are free in /opt; make room".to_owned()],
        ..Default::default()
    };
    let seen =
        crate::host::Observed { found: Ok(reached), holder: crate::host::Holder::Present, agent: None };
    crate::host::write_status(&mut full, &seen, Timestamp::UNIX_EPOCH);
    let mut going = host("g");
    going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    let taken = |name: &str| claimed(host(name), &format!("of-{name}"));
    for (hosts, message) in [
        (
            vec![],
            "no host is available: there are none in this namespace; add one (`capstan host add`), or raise \
             spec.replicas of a HostPool",
        ),
        (vec![taken("a"), taken("b"), taken("c")], "no host is available: 3 of 3 match but are claimed"),
        (vec![lost.clone()], "no host is available: 1 of 1 match but are not reachable"),
        (
            vec![full.clone(), taken("a")],
            "no host is available: 2 of 2 match but are not free: 1 claimed, 1 not usable\n\
             Host f: disk: 1 MiB are free in /opt; make room",
        ),
        (
            vec![taken("a"), quarantined, unschedulable, lost, going],
            "no host is available: 5 of 5 match but are not free: 1 claimed, 1 quarantined, 1 not reachable, \
             1 unschedulable, 1 being deleted",
        ),
    ] {
        let names: Vec<String> = hosts.iter().map(ResourceExt::name_any).collect();
        let hosts: Vec<Arc<Host>> = hosts.into_iter().map(Arc::new).collect();
        let seen = Observed {
            machine: &machine,
            owner: Some(&owner),
            cluster: Some(&cluster),
            host_cluster: None,
            hosts: &hosts,
        };
        assert_eq!(waits_for(decide(seen)), causes::NO_HOST_AVAILABLE.reason, "{names:?}");
        assert_eq!(described(decide(seen)), message, "{names:?}");
    }
}
