//! Tables for the endpoint, and for the failure domains.

mod domains;

use capstan_api::conditions::{get, is_true};
use capstan_api::core::{Cluster, ClusterSpec};
use capstan_api::infrastructure::{
    CompleteApiEndpoint, Host, HostCluster, HostClusterSpec, HostSpec, SecretReference, SimulatedHost,
    SshAccess,
};
use capstan_api::meta::ApiEndpoint;
use capstan_api::wait::{Wait, causes};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use std::sync::Arc;

use super::{ControlPlane, ControlPlaneHosts, Decision, Domains, Endpoint, Observed, decide, write_status};

/// A control plane without machines that may claim any host.
fn anywhere() -> ControlPlane {
    ControlPlane { hosts: ControlPlaneHosts::Matching(None), machines: [].into() }
}

/// Hosts as they are in memory.
fn shared(hosts: &[Host]) -> Vec<Arc<Host>> {
    hosts.iter().cloned().map(Arc::new).collect()
}

fn decided(cluster: &Cluster, host_cluster: &HostCluster, hosts: &[Host]) -> Decision {
    decide(&Observed { cluster, host_cluster, hosts: &shared(hosts), control_plane: &anywhere() })
}

fn simulated(name: &str, domain: &str) -> Host {
    let spec = HostSpec {
        ssh: None,
        simulated: Some(SimulatedHost::default()),
        registration: None,
        failure_domain: Some(domain.to_owned()),
        unschedulable: None,
        claim: None,
        quarantine: None,
        config: None,
        windows: Vec::new(),
    };
    Host::new(name, spec)
}

fn over_ssh(name: &str) -> Host {
    let mut host = simulated(name, "c");
    host.spec.simulated = None;
    host.spec.ssh = Some(SshAccess {
        address: "10.0.0.1".to_owned(),
        port: 22,
        user: "root".to_owned(),
        sudo: None,
        credentials_ref: SecretReference { name: "key".to_owned() },
        host_keys: vec![],
        trust_on_first_use: Some(true),
    });
    host
}

fn reason(endpoint: &Endpoint) -> &str {
    match endpoint {
        Endpoint::Known => "Known",
        Endpoint::TakeOver(_) => "TakeOver",
        Endpoint::Reserve => "Reserve",
        Endpoint::Wait(wait) => &wait.reason,
    }
}

#[test]
fn the_endpoint_is_the_users_or_a_reserved_port_or_asked_for() {
    let endpoint = CompleteApiEndpoint { host: "api.example".to_owned(), port: 6443 };
    let plain = Cluster::new("c", ClusterSpec::default());
    let set = Cluster::new(
        "c",
        ClusterSpec {
            control_plane_endpoint: Some(ApiEndpoint {
                host: Some("api.example".to_owned()),
                port: Some(6443),
            }),
            ..Default::default()
        },
    );
    let open = HostCluster::new("hc", HostClusterSpec::default());
    let known = HostCluster::new(
        "hc",
        HostClusterSpec { control_plane_endpoint: Some(endpoint.clone()), ..Default::default() },
    );
    let broken = LabelSelectorRequirement { key: "a".into(), operator: "Near".into(), values: None };
    let unreadable = HostCluster::new(
        "hc",
        HostClusterSpec {
            host_selector: Some(LabelSelector { match_labels: None, match_expressions: Some(vec![broken]) }),
            ..Default::default()
        },
    );
    let sim = vec![simulated("a", "west"), simulated("b", "east"), simulated("c", "west")];
    let mixed = vec![simulated("a", "west"), over_ssh("b")];
    for (cluster, host_cluster, hosts, expected) in [
        (&plain, &known, &vec![], "Known"),
        (&set, &open, &mixed, "TakeOver"),
        (&plain, &open, &sim, "Reserve"),
        (&plain, &open, &mixed, "ControlPlaneEndpointNotSet"),
        (&plain, &open, &vec![], "NoHosts"),
        (&plain, &unreadable, &sim, "InvalidHostSelector"),
    ] {
        assert_eq!(reason(&decided(cluster, host_cluster, hosts).endpoint), expected);
    }
}

#[test]
fn only_a_known_endpoint_makes_it_provisioned() {
    let mut updated = HostCluster::new("hc", HostClusterSpec::default());
    let with = |endpoint| Decision { endpoint, domains: Domains::default() };
    let wait = Endpoint::Wait(Wait::new(&causes::NO_HOSTS, "add some"));
    write_status(&mut updated, &with(wait), Timestamp::UNIX_EPOCH);
    let provisioned =
        |updated: &HostCluster| updated.status.clone().and_then(|status| status.initialization).is_some();
    assert!(!provisioned(&updated));
    assert!(get(&updated, "Ready").is_some_and(|ready| ready.message.contains("add some")));
    updated.spec.control_plane_endpoint = Some(CompleteApiEndpoint { host: "h".to_owned(), port: 1 });
    write_status(&mut updated, &with(Endpoint::Known), Timestamp::UNIX_EPOCH);
    assert!(provisioned(&updated) && is_true(&updated, "Ready"));
}
