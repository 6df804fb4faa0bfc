//! Where a control plane machine can be placed, and what is said while that is not known.

use capstan_api::conditions::{ConditionStatus, NewCondition, get, set};
use capstan_api::core::{Cluster, ClusterSpec, FailureDomain};
use capstan_api::infrastructure::{
    CLAIMABLE_HOSTS, Host, HostClaim, HostCluster, HostClusterSpec, HostQuarantine,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;

use super::{anywhere, over_ssh, shared, simulated};
use crate::hostcluster::{ControlPlane, ControlPlaneHosts, Domains, Observed, decide, write_status};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn with(mut host: Host, change: impl FnOnce(&mut Host)) -> Host {
    change(&mut host);
    host
}

fn claimed(host: Host, cluster: &str, machine: &str) -> Host {
    with(host, |host| {
        host.spec.claim = Some(HostClaim {
            id: "i".to_owned(),
            machine_name: machine.to_owned(),
            cluster_name: cluster.to_owned(),
            since: None,
        });
    })
}

fn selector(key: &str) -> LabelSelector {
    LabelSelector { match_labels: Some([(key.to_owned(), "yes".to_owned())].into()), match_expressions: None }
}

fn domains(control_plane: &ControlPlane, hosts: &[Host], before: &[FailureDomain]) -> Domains {
    let mut host_cluster = HostCluster::new("hc", HostClusterSpec::default());
    host_cluster.status.get_or_insert_default().failure_domains = before.to_vec();
    let cluster = Cluster::new("c", ClusterSpec::default());
    decide(&Observed { cluster: &cluster, host_cluster: &host_cluster, hosts: &shared(hosts), control_plane })
        .domains
}

/// Name, whether control plane machines may go there, and how many hosts they could claim.
fn facts_of(domains: &[FailureDomain]) -> Vec<(&str, Option<bool>, Option<&str>)> {
    domains
        .iter()
        .map(|domain| {
            let count = domain.attributes.get(CLAIMABLE_HOSTS).map(String::as_str);
            (domain.name.as_str(), domain.control_plane, count)
        })
        .collect()
}

#[test]
fn only_domains_with_a_host_to_claim_are_for_the_control_plane() {
    let quarantine = HostQuarantine { reason: "LeftDirty".to_owned(), message: None, since: None };
    let hosts = [
        simulated("a", "free"),
        simulated("b", "free"),
        claimed(simulated("c", "free"), "other", "w"),
        claimed(simulated("d", "full"), "other", "w"),
        with(simulated("e", "dirty"), |host| host.spec.quarantine = Some(quarantine)),
        with(simulated("f", "lost"), |host| {
            set(host, NewCondition::new("Reachable", false, "Unreachable"), NOW);
        }),
        with(simulated("g", "closed"), |host| host.spec.unschedulable = Some(true)),
    ];
    let found = domains(&anywhere(), &hosts, &[]);
    assert_eq!(
        facts_of(&found.list),
        [
            ("closed", Some(false), Some("0")),
            ("dirty", Some(false), Some("0")),
            ("free", Some(true), Some("2")),
            ("full", Some(false), Some("0")),
            ("lost", Some(false), Some("0")),
        ]
    );
    assert_eq!(found.unknown, None);
}

#[test]
fn many_free_hosts_are_not_all_counted() {
    let hosts: Vec<Host> = (0..9).map(|number| simulated(&format!("h{number}"), "large")).collect();
    assert_eq!(facts_of(&domains(&anywhere(), &hosts, &[]).list), [("large", Some(true), Some("5"))]);
}

#[test]
fn the_template_of_the_control_plane_counts() {
    let labelled =
        |host: Host| with(host, |host| _ = host.labels_mut().insert("server".into(), "yes".into()));
    let hosts = [simulated("a", "workers"), labelled(simulated("b", "mixed")), simulated("c", "mixed")];
    let control_plane =
        ControlPlane { hosts: ControlPlaneHosts::Matching(Some(selector("server"))), ..anywhere() };
    let found = domains(&control_plane, &hosts, &[]);
    assert_eq!(
        facts_of(&found.list),
        [("mixed", Some(true), Some("1")), ("workers", Some(false), Some("0"))]
    );
}

#[test]
fn a_full_domain_with_a_control_plane_machine_stays() {
    let control_plane = ControlPlane { machines: ["cp-1".to_owned()].into(), ..anywhere() };
    let hosts = [
        claimed(simulated("a", "ours"), "c", "cp-1"),
        claimed(simulated("b", "workers"), "c", "md-1"),
        // A namesake in another Cluster.
        claimed(simulated("d", "theirs"), "other", "cp-1"),
    ];
    let found = domains(&control_plane, &hosts, &[]);
    assert_eq!(
        facts_of(&found.list),
        [
            ("ours", Some(true), Some("0")),
            ("theirs", Some(false), Some("0")),
            ("workers", Some(false), Some("0"))
        ]
    );
}

#[test]
fn a_host_that_was_never_asked_is_not_counted_and_takes_nothing_away() {
    let hosts = [over_ssh("a")];
    assert_eq!(facts_of(&domains(&anywhere(), &hosts, &[]).list), [("c", Some(true), None)]);
    let full = domains(&anywhere(), &[claimed(over_ssh("b"), "other", "w")], &[]).list;
    assert_eq!(facts_of(&full), [("c", Some(false), Some("0"))]);
    assert_eq!(facts_of(&domains(&anywhere(), &hosts, &full).list), [("c", Some(false), None)]);
    // It does not answer: that is an answer.
    let lost = with(over_ssh("a"), |host| {
        set(host, NewCondition::new("Reachable", false, "Unreachable"), NOW);
    });
    assert_eq!(facts_of(&domains(&anywhere(), &[lost], &[]).list), [("c", Some(false), Some("0"))]);
    let reached = with(over_ssh("a"), |host| {
        set(host, NewCondition::new("Reachable", true, "Reachable"), NOW);
    });
    assert_eq!(facts_of(&domains(&anywhere(), &[reached], &[]).list), [("c", Some(true), Some("1"))]);
}

#[test]
fn what_cannot_be_read_keeps_what_was_said_before() {
    let unreadable = ControlPlane {
        hosts: ControlPlaneHosts::Unknown("HostMachineTemplate default/t does not exist".to_owned()),
        machines: ["cp-1".to_owned()].into(),
    };
    let hosts = [
        claimed(simulated("a", "full"), "other", "w"),
        simulated("b", "free"),
        simulated("d", "new"),
        claimed(simulated("e", "ours"), "c", "cp-1"),
        claimed(simulated("f", "taken"), "other", "w"),
    ];
    let said = |name: &str, so: bool, count: &str| FailureDomain {
        name: name.to_owned(),
        control_plane: Some(so),
        attributes: [(CLAIMABLE_HOSTS.to_owned(), count.to_owned())].into(),
    };
    let before = [said("free", false, "0"), said("full", true, "3"), said("gone", true, "1")];
    let found = domains(&unreadable, &hosts, &before);
    assert_eq!(
        facts_of(&found.list),
        [
            ("free", Some(false), Some("0")),
            ("full", Some(true), Some("3")),
            ("new", Some(true), None),
            ("ours", Some(true), None),
            ("taken", Some(false), None),
        ]
    );
    let mut host_cluster = HostCluster::new("hc", HostClusterSpec::default());
    let cluster = Cluster::new("c", ClusterSpec::default());
    let decision = |host_cluster: &HostCluster, control_plane: &ControlPlane| {
        decide(&Observed { cluster: &cluster, host_cluster, hosts: &shared(&hosts), control_plane })
    };
    let unknown = decision(&host_cluster, &unreadable);
    write_status(&mut host_cluster, &unknown, NOW);
    let condition = get(&host_cluster, "FailureDomainsKnown").expect("the condition");
    assert_eq!(condition.status, ConditionStatus::Unknown);
    assert!(condition.message.contains("HostMachineTemplate default/t does not exist"), "{condition:?}");
    let known = decision(&host_cluster, &anywhere());
    write_status(&mut host_cluster, &known, NOW);
    assert!(capstan_api::conditions::is_true(&host_cluster, "FailureDomainsKnown"));
}

#[test]
fn a_selector_that_makes_no_sense_keeps_what_was_said_before() {
    let mut nonsense = selector("a");
    nonsense.match_expressions =
        serde_json::from_value(serde_json::json!([{"key": "a", "operator": "Near"}])).expect("a list");
    let control_plane =
        ControlPlane { hosts: ControlPlaneHosts::Matching(Some(nonsense.clone())), ..anywhere() };
    let before = domains(&anywhere(), &[simulated("a", "west")], &[]).list;
    let full = [claimed(simulated("a", "west"), "other", "w")];
    let found = domains(&control_plane, &full, &before);
    assert_eq!(found.list, before);
    assert!(found.unknown.is_some_and(|why| why.contains("spec.template.spec.hostSelector")));
    let mut host_cluster =
        HostCluster::new("hc", HostClusterSpec { host_selector: Some(nonsense), ..Default::default() });
    host_cluster.status.get_or_insert_default().failure_domains.clone_from(&before);
    let cluster = Cluster::new("c", ClusterSpec::default());
    let (full, control_plane) = (shared(&full), anywhere());
    let seen = Observed {
        cluster: &cluster,
        host_cluster: &host_cluster,
        hosts: &full,
        control_plane: &control_plane,
    };
    assert_eq!(decide(&seen).domains.list, before);
}
