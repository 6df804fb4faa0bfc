//! The desired machines of a control plane, read from its objects.

use capstan_api::controlplane::ControlPlaneRemediation;
use capstan_api::core::FailureDomain;
use capstan_api::infrastructure::CLAIMABLE_HOSTS;
use capstan_controller::Knowledge;
use capstan_distro::{Change, Cost, Role};
use capstan_planner::facts::{EtcdView, LocalVolumes};
use capstan_planner::machines::{Limits, Remediated, Wanted};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;

use crate::scope::{Scope, replicas};

/// Observed state besides the machines.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) etcd: &'a EtcdView,
    pub(crate) volumes: &'a Knowledge<LocalVolumes>,
    pub(crate) initialized: bool,
}

/// The desired state of a control plane, without the machines themselves.
pub(crate) fn wanted<'a>(
    scope: &'a Scope<'_>,
    endpoint: &'a str,
    view: View<'a>,
    remediated: Option<&'a Remediated>,
) -> Wanted<'a> {
    let View { etcd, volumes, initialized } = view;
    let status = scope.cluster.status.as_ref();
    let domains = status.map(|status| status.failure_domains.as_slice()).unwrap_or_default();
    Wanted {
        replicas: replicas(scope.owner),
        domains: domains
            .iter()
            .filter(|domain| domain.control_plane == Some(true) && !is_full(domain))
            .map(|domain| domain.name.as_str())
            .collect(),
        begun: scope.begun(),
        impossible: impossible(scope),
        may_replace: scope.may_replace(),
        initialized,
        volumes,
        endpoint,
        etcd,
        exhausted: BTreeSet::new(),
        spare: Knowledge::default(),
        remediation: limits(scope.owner.spec.remediation.as_ref(), remediated, scope.now),
        now: scope.now,
    }
}

/// `spec.remediation`, with defaults for the rest.
fn limits<'a>(
    spec: Option<&ControlPlaneRemediation>,
    last: Option<&'a Remediated>,
    now: Timestamp,
) -> Limits<'a> {
    let usual = Limits { last, now, ..Limits::default() };
    let Some(spec) = spec else { return usual };
    let seconds = |value: Option<i32>| value.map(|value| SignedDuration::from_secs(value.max(0).into()));
    Limits {
        max_retry: spec.max_retry.and_then(|most| u32::try_from(most).ok()),
        retry_period: seconds(spec.retry_period_seconds).unwrap_or(usual.retry_period),
        min_healthy: seconds(spec.min_healthy_period_seconds).unwrap_or(usual.min_healthy),
        ..usual
    }
}

/// Whether the infrastructure provider reports that no machine can be placed in the domain. If it reports nothing,
/// there may be room.
fn is_full(domain: &FailureDomain) -> bool {
    domain.attributes.get(CLAIMABLE_HOSTS).is_some_and(|hosts| hosts == "0")
}

/// Versions and settings that no machine can get, whatever its current state.
fn impossible(scope: &Scope<'_>) -> Vec<Change> {
    let config = capstan_distro::check(&scope.owner.spec.config, Role::Server).err().map(|error| {
        let field = error.field.replacen("spec.", "spec.config.", 1);
        Change { field, ..Change::from(error) }
    });
    let network = (scope.asked_network() != scope.network()).then(|| {
        let why = "it was decided when the cluster began and cannot be changed: set it back";
        Change::new(format!("Cluster {} spec.clusterNetwork", scope.cluster_name()), Cost::Refused, why)
    });
    config.into_iter().chain(network).collect()
}
