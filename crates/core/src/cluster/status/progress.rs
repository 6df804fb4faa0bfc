//! Conditions that gather what the control plane, MachineDeployments and MachineSets report of their progress.

use capstan_api::conditions::{
    Aggregate, ConditionStatus, Conditioned, MergeStrategy, NewCondition, Polarity, Reasons, reasons, types,
};
use capstan_api::core::Cluster;
use jiff::Timestamp;

use super::super::observe::{Observed, is_direct};
use super::internal_error;
use crate::external::{Reading, conditions_of, reports};
use crate::names::cluster::{reasons as cluster_reasons, types as cluster_types};

/// MachinePools are left out, as upstream does, because they do not report the condition.
pub(super) fn workers_available(observed: &Observed) -> Option<NewCondition> {
    let type_ = cluster_types::WORKERS_AVAILABLE;
    let Some(descendants) = &observed.descendants else { return Some(internal_error(type_)) };
    if descendants.deployments.is_empty() {
        return Some(NewCondition::new(type_, ConditionStatus::True, cluster_reasons::NO_WORKERS));
    }
    let reasons = Reasons {
        issue: reasons::NOT_AVAILABLE,
        unknown: reasons::AVAILABLE_UNKNOWN,
        info: reasons::AVAILABLE,
    };
    let aggregated = Aggregate::over(types::AVAILABLE)
        .to(type_)
        .strategy(MergeStrategy::new().reasons(reasons))
        .aggregate(&descendants.deployments);
    Some(aggregated.unwrap_or_else(|_| internal_error(type_)))
}

pub(super) fn rolling_out(cluster: &Cluster, observed: &Observed, now: Timestamp) -> Option<NewCondition> {
    let reasons = Reasons {
        issue: reasons::ROLLING_OUT,
        unknown: cluster_reasons::ROLLING_OUT_UNKNOWN,
        info: reasons::NOT_ROLLING_OUT,
    };
    Some(gathered(types::ROLLING_OUT, cluster, observed, false, reasons, now))
}

pub(super) fn scaling_up(cluster: &Cluster, observed: &Observed, now: Timestamp) -> Option<NewCondition> {
    let reasons = Reasons {
        issue: reasons::SCALING_UP,
        unknown: cluster_reasons::SCALING_UP_UNKNOWN,
        info: reasons::NOT_SCALING_UP,
    };
    Some(gathered(types::SCALING_UP, cluster, observed, true, reasons, now))
}

pub(super) fn scaling_down(cluster: &Cluster, observed: &Observed, now: Timestamp) -> Option<NewCondition> {
    let reasons = Reasons {
        issue: reasons::SCALING_DOWN,
        unknown: cluster_reasons::SCALING_DOWN_UNKNOWN,
        info: reasons::NOT_SCALING_DOWN,
    };
    Some(gathered(types::SCALING_DOWN, cluster, observed, true, reasons, now))
}

fn gathered(
    type_: &str,
    cluster: &Cluster,
    observed: &Observed,
    with_sets: bool,
    reasons: Reasons<'_>,
    now: Timestamp,
) -> NewCondition {
    let Some(descendants) = &observed.descendants else { return internal_error(type_) };
    let control_plane = match &observed.control_plane {
        Reading::Unreadable => return internal_error(type_),
        // The contract does not ask for these conditions: a control plane without them is not waited for.
        Reading::Found(object) => conditions_of(object, now).ok().filter(|object| reports(object, type_)),
        Reading::Missing | Reading::Unreferenced => None,
    };
    let mut sources: Vec<&dyn Conditioned> = Vec::new();
    sources.extend(control_plane.iter().map(|object| object as &dyn Conditioned));
    sources.extend(descendants.deployments.iter().map(|object| object as &dyn Conditioned));
    if with_sets {
        let direct = descendants.sets.iter().filter(|set| is_direct(cluster, *set));
        sources.extend(direct.map(|object| object as &dyn Conditioned));
    }
    if sources.is_empty() {
        return NewCondition::new(type_, ConditionStatus::False, reasons.info);
    }
    let strategy = MergeStrategy::new().negative([type_]).target(Polarity::Negative).reasons(reasons);
    Aggregate::over(type_).strategy(strategy).aggregate(sources).unwrap_or_else(|_| internal_error(type_))
}
