//! The endpoint and the failure domains of a HostCluster, and what they wait for. Pure.

pub(super) mod domains;

use capstan_api::core::Cluster;
use capstan_api::infrastructure::{CompleteApiEndpoint, Host, HostCluster};
use capstan_api::wait::{Wait, causes};
use kube::ResourceExt as _;
use std::sync::Arc;
use std::time::Duration;

use crate::driver::HostKind;
use crate::selector::HostSelectors;
use domains::{ControlPlane, Domains, failure_domains};

/// Resync, in case an event was missed.
const RESYNC: Duration = Duration::from_secs(60);
/// Retry after the control plane or its template could not be read.
const UNKNOWN: Duration = Duration::from_secs(10);

/// The next step for the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// It is known.
    Known,
    /// The user has set it on the Cluster, and it must be copied.
    TakeOver(CompleteApiEndpoint),
    /// All hosts are simulated: a free port of this machine must be reserved.
    Reserve,
    /// Another controller or the user must act.
    Wait(Wait),
}

/// Inputs of a decision about a HostCluster.
#[derive(Clone, Copy)]
pub struct Observed<'a> {
    /// The owner of the HostCluster.
    pub cluster: &'a Cluster,
    /// The HostCluster.
    pub host_cluster: &'a HostCluster,
    /// All hosts in the namespace.
    pub hosts: &'a [Arc<Host>],
    /// The control plane of the Cluster.
    pub control_plane: &'a ControlPlane,
}

/// A decision about a HostCluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What is to be done about the endpoint.
    pub endpoint: Endpoint,
    /// The failure domains of the hosts that may be claimed.
    pub domains: Domains,
}

/// Decides about the endpoint and the failure domains.
pub fn decide(seen: &Observed<'_>) -> Decision {
    let host_cluster = seen.host_cluster;
    let before = host_cluster.status.as_ref().map(|status| status.failure_domains.as_slice());
    let before = before.unwrap_or_default();
    let selector = host_cluster.spec.host_selector.as_ref();
    let selectors = match HostSelectors::default().and("spec.hostSelector", selector) {
        Ok(selectors) => selectors,
        Err(error) => {
            let message = error.to_string();
            return Decision {
                domains: Domains { list: before.to_vec(), unknown: Some(message.clone()) },
                endpoint: Endpoint::Wait(Wait::new(&causes::INVALID_HOST_SELECTOR, message)),
            };
        }
    };
    let ours: Vec<&Host> =
        seen.hosts.iter().map(AsRef::as_ref).filter(|host| selectors.match_host(host)).collect();
    Decision {
        endpoint: endpoint(seen.cluster, host_cluster, &ours),
        domains: failure_domains(&seen.cluster.name_any(), seen.control_plane, &ours, before),
    }
}

/// When to reconcile the HostCluster again.
pub(super) fn again(decision: &Decision) -> Duration {
    if decision.domains.unknown.is_some() { UNKNOWN } else { RESYNC }
}

fn endpoint(cluster: &Cluster, host_cluster: &HostCluster, hosts: &[&Host]) -> Endpoint {
    if host_cluster.spec.control_plane_endpoint.is_some() {
        return Endpoint::Known;
    }
    if let Some(endpoint) = &cluster.spec.control_plane_endpoint
        && let (Some(host), Some(port)) = (&endpoint.host, endpoint.port)
        && endpoint.is_valid()
    {
        return Endpoint::TakeOver(CompleteApiEndpoint { host: host.clone(), port });
    }
    if hosts.is_empty() {
        return Endpoint::Wait(Wait::new(
            &causes::NO_HOSTS,
            "no Host in this namespace fits spec.hostSelector: add a HostPool or Hosts, or set \
             spec.controlPlaneEndpoint",
        ));
    }
    if hosts.iter().all(|host| HostKind::of(host) == HostKind::Simulated) {
        return Endpoint::Reserve;
    }
    Endpoint::Wait(Wait::new(
        &causes::ENDPOINT_NOT_SET,
        "spec.controlPlaneEndpoint is not set: set it to the virtual address, load balancer or DNS name of the API \
         server, or to the address of the host that will be the only control plane machine",
    ))
}
