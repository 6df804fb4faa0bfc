//! What a HostCluster lacks, and what it says meanwhile. Pure.

use capstan_api::conditions::{NewCondition, set};
use capstan_api::core::{Cluster, FailureDomain};
use capstan_api::infrastructure::{CompleteApiEndpoint, Host, HostCluster};
use jiff::Timestamp;
use std::collections::BTreeSet;

use crate::driver::HostKind;
use crate::names::hostcluster::{ENDPOINT_AVAILABLE, reasons};
use crate::ready::sum_up;
use crate::selector::HostSelectors;

/// What is to be done about the endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// It is known.
    Known,
    /// The user has set it on the Cluster: it is to be taken over.
    TakeOver(CompleteApiEndpoint),
    /// All hosts are simulated here: a free port of this machine is to be reserved.
    Reserve,
    /// Somebody else must act.
    Wait {
        /// Why, as one word.
        reason: &'static str,
        /// Why, and who must do what.
        message: String,
    },
}

/// What is to be done about the endpoint, and the failure domains of the hosts that may be claimed.
pub fn decide(
    cluster: &Cluster,
    host_cluster: &HostCluster,
    hosts: &[Host],
) -> (Endpoint, Vec<FailureDomain>) {
    let selector = host_cluster.spec.host_selector.as_ref();
    let selectors = match HostSelectors::default().and("spec.hostSelector", selector) {
        Ok(selectors) => selectors,
        Err(error) => {
            let wait = Endpoint::Wait { reason: reasons::INVALID_SELECTOR, message: error.to_string() };
            return (wait, Vec::new());
        }
    };
    let ours: Vec<&Host> = hosts.iter().filter(|host| selectors.match_host(host)).collect();
    (endpoint(cluster, host_cluster, &ours), failure_domains(&ours))
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
        return Endpoint::Wait {
            reason: reasons::NO_HOSTS,
            message: "no Host in this namespace fits spec.hostSelector: add a HostPool or Hosts, or set \
                      spec.controlPlaneEndpoint"
                .to_owned(),
        };
    }
    if hosts.iter().all(|host| HostKind::of(host) == HostKind::Simulated) {
        return Endpoint::Reserve;
    }
    Endpoint::Wait {
        reason: reasons::ENDPOINT_NOT_SET,
        message: "spec.controlPlaneEndpoint is not set: set it to the virtual address, load balancer or DNS name of \
                  the API server, or to the address of the host that will be the only control plane machine"
            .to_owned(),
    }
}

fn failure_domains(hosts: &[&Host]) -> Vec<FailureDomain> {
    let names: BTreeSet<&String> =
        hosts.iter().filter_map(|host| host.spec.failure_domain.as_ref()).collect();
    // The schema allows a hundred of them.
    names
        .into_iter()
        .take(100)
        .map(|name| FailureDomain { name: name.clone(), control_plane: Some(true), ..Default::default() })
        .collect()
}

/// Writes into status what was decided. Provisioned stays provisioned.
pub fn tell(
    host_cluster: &mut HostCluster,
    endpoint: &Endpoint,
    domains: Vec<FailureDomain>,
    now: Timestamp,
) {
    let condition = match endpoint {
        Endpoint::Wait { reason, message } => {
            NewCondition::new(ENDPOINT_AVAILABLE, false, *reason).message(message)
        }
        _ => NewCondition::new(ENDPOINT_AVAILABLE, true, reasons::AVAILABLE),
    };
    set(host_cluster, condition, now);
    let status = host_cluster.status.get_or_insert_default();
    status.failure_domains = domains;
    if host_cluster.spec.control_plane_endpoint.is_some() {
        status.initialization.get_or_insert_default().provisioned = Some(true);
    }
    sum_up(host_cluster, &[ENDPOINT_AVAILABLE], now);
}
