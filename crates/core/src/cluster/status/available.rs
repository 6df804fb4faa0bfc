//! Whether the cluster can be used: the sum of what matters for that.

use capstan_api::conditions::{
    ConditionStatus, MergeStrategy, NewCondition, Priority, Reasons, Source, Summary, reasons, types,
};
use capstan_api::core::Cluster;
use capstan_api::meta::ConditionPolarity;

use super::super::decide::handoff::is_deleting;
use super::internal_error;
use crate::names::cluster::{reasons as cluster_reasons, types as cluster_types};

/// What counts for every Cluster, most relevant first.
const GATES: [&str; 6] = [
    types::DELETING,
    cluster_types::REMOTE_CONNECTION_PROBE,
    types::INFRASTRUCTURE_READY,
    cluster_types::CONTROL_PLANE_AVAILABLE,
    cluster_types::WORKERS_AVAILABLE,
    cluster_types::TOPOLOGY_RECONCILED,
];

pub(super) fn available(cluster: &Cluster) -> NewCondition {
    let gates = &cluster.spec.availability_gates;
    let negative = gates
        .iter()
        .filter(|gate| gate.polarity == Some(ConditionPolarity::Negative))
        .map(|gate| &*gate.condition_type);
    let deleting = is_deleting(cluster);
    let strategy = MergeStrategy::new()
        .negative([types::DELETING])
        .negative(negative)
        .reasons(Reasons {
            issue: reasons::NOT_AVAILABLE,
            unknown: reasons::AVAILABLE_UNKNOWN,
            info: reasons::AVAILABLE,
        })
        .weigh(move |source, usual| weigh(deleting, source, usual));
    let types = GATES.into_iter().chain(gates.iter().map(|gate| &*gate.condition_type));
    let may_be_missing = cluster.spec.topology.is_none().then_some(cluster_types::TOPOLOGY_RECONCILED);
    Summary::over(types)
        .ignore_if_missing(may_be_missing)
        .strategy(strategy)
        .summarize(cluster, types::AVAILABLE)
        .unwrap_or_else(|_| internal_error(types::AVAILABLE))
}

fn weigh(deleting: bool, source: &Source<'_>, usual: Priority) -> Priority {
    let is_gone = matches!(source.reason, reasons::OBJECT_DELETED | reasons::OBJECT_DOES_NOT_EXIST);
    let goes_first =
        matches!(source.type_, types::INFRASTRUCTURE_READY | cluster_types::CONTROL_PLANE_AVAILABLE);
    if deleting && is_gone && goes_first {
        return Priority::Info;
    }
    // A topology on its way is not an issue; one that cannot get there is.
    let is_stuck = matches!(
        source.reason,
        cluster_reasons::TOPOLOGY_RECONCILE_FAILED | cluster_reasons::CLUSTER_CLASS_NOT_RECONCILED
    );
    if source.type_ == cluster_types::TOPOLOGY_RECONCILED
        && source.status == ConditionStatus::False
        && !is_stuck
    {
        return Priority::Info;
    }
    usual
}
