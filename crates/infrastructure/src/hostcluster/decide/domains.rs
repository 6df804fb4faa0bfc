//! Failure domains of the hosts, and whether a control plane machine can be placed in each. Pure.
//!
//! Unknown state (a template that cannot be read, a host that was never checked) is not taken for "none": the domain
//! keeps its last known status.

use capstan_api::core::FailureDomain;
use capstan_api::infrastructure::{CLAIMABLE_HOSTS, Host};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::{BTreeMap, BTreeSet};

use crate::host::is_reachability_known;
use crate::hostmachine::Obstacle;
use crate::selector::HostSelectors;

/// Free hosts of a domain beyond this number are not counted. Otherwise every claim of a host would cause a write of
/// every HostCluster in a large namespace.
const MOST_COUNTED: usize = 5;
/// Limit of the schema.
const MOST_DOMAINS: usize = 100;
/// The field with the selector of the control plane's machines, for messages.
const TEMPLATE_FIELD: &str = "spec.template.spec.hostSelector of the control plane's HostMachineTemplate";

/// Hosts that control plane machines may claim, besides the selector of the HostCluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlPlaneHosts {
    /// Hosts that match this selector; all hosts if there is none.
    Matching(Option<LabelSelector>),
    /// The control plane or its template cannot be read, and why.
    Unknown(String),
}

/// The observed control plane of the Cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlPlane {
    /// Hosts that its machines may claim.
    pub hosts: ControlPlaneHosts,
    /// Names of the HostMachines of its Machines.
    pub machines: BTreeSet<String>,
}

/// The failure domains of a HostCluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    /// `status.failureDomains`.
    pub list: Vec<FailureDomain>,
    /// Why the list is stale, if it is.
    pub unknown: Option<String>,
}

/// The failure domains of `hosts`, which all match the selector of the HostCluster of Cluster `cluster`. `before` is
/// the current status.
pub(super) fn failure_domains(
    cluster: &str,
    control_plane: &ControlPlane,
    hosts: &[&Host],
    before: &[FailureDomain],
) -> Domains {
    let selectors = match &control_plane.hosts {
        ControlPlaneHosts::Unknown(why) => Err(why.clone()),
        ControlPlaneHosts::Matching(selector) => {
            HostSelectors::default().and(TEMPLATE_FIELD, selector.as_ref()).map_err(|error| error.to_string())
        }
    };
    let mut by_name: BTreeMap<&str, Vec<&Host>> = BTreeMap::new();
    for host in hosts {
        if let Some(name) = &host.spec.failure_domain {
            by_name.entry(name).or_default().push(host);
        }
    }
    let has_machine = |host: &Host| {
        let claim = host.spec.claim.as_ref();
        claim.is_some_and(|claim| {
            claim.cluster_name == cluster && control_plane.machines.contains(&claim.machine_name)
        })
    };
    let list = by_name.into_iter().take(MOST_DOMAINS).map(|(name, hosts)| {
        let before = before.iter().find(|domain| domain.name == name);
        let mut domain = match &selectors {
            Ok(selectors) => count(name, &hosts, selectors, before),
            Err(_) => before.cloned().unwrap_or_else(|| {
                new(name, hosts.iter().any(|host| Obstacle::of(host).is_none() || is_unknown(host)))
            }),
        };
        if hosts.iter().any(|host| has_machine(host)) {
            domain.control_plane = Some(true);
        }
        domain
    });
    Domains { list: list.collect(), unknown: selectors.as_ref().err().cloned() }
}

/// A domain, if it is known which of its hosts control plane machines may claim.
fn count(
    name: &str,
    hosts: &[&Host],
    selectors: &HostSelectors,
    before: Option<&FailureDomain>,
) -> FailureDomain {
    let wanted: Vec<&Host> = hosts.iter().copied().filter(|host| selectors.match_host(host)).collect();
    let claimable = wanted.iter().filter(|host| Obstacle::of(host).is_none()).take(MOST_COUNTED).count();
    if claimable == 0 && wanted.iter().any(|host| is_unknown(host)) {
        return new(name, before.and_then(|domain| domain.control_plane).unwrap_or(true));
    }
    let mut domain = new(name, claimable > 0);
    domain.attributes.insert(CLAIMABLE_HOSTS.to_owned(), claimable.to_string());
    domain
}

/// Whether only its unknown reachability keeps the host from being claimed.
fn is_unknown(host: &Host) -> bool {
    Obstacle::of(host) == Some(Obstacle::Unreachable) && !is_reachability_known(host)
}

fn new(name: &str, control_plane: bool) -> FailureDomain {
    FailureDomain { name: name.to_owned(), control_plane: Some(control_plane), ..FailureDomain::default() }
}
