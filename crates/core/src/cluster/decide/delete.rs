//! In which order a Cluster goes: workers, control plane, infrastructure, itself. Pure.

use capstan_api::conditions::reasons;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachinePool, MachineSet};
use capstan_controller::Next;
use kube::{Resource, ResourceExt};
use std::time::Duration;

use super::super::observe::{Descendants, Observed, is_direct};
use crate::external::{Reading, is_deleting};
use crate::names::CHECK_LOGS;
use crate::names::cluster::reasons as cluster_reasons;

/// How many names of one kind a message lists.
const NAMES: usize = 5;

/// In case the last event of a descendant is lost.
const UNTIL_DESCENDANTS_ARE_GONE: Duration = Duration::from_secs(5);

/// The next step of the deletion, and the condition about it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cluster) struct Deletion {
    pub(in crate::cluster) reason: &'static str,
    pub(in crate::cluster) message: String,
    pub(in crate::cluster) delete: Vec<Target>,
    pub(in crate::cluster) is_done: bool,
    pub(in crate::cluster) next: Next,
}

/// An object whose deletion is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cluster) enum Target {
    Pool(String),
    Deployment(String),
    Set(String),
    Machine(String),
    ControlPlane,
    Infrastructure,
}

impl Deletion {
    fn waiting(reason: &'static str, message: impl Into<String>) -> Self {
        let (message, next) = (message.into(), Next::Changed);
        Self { reason, message, delete: Vec::new(), is_done: false, next }
    }

    /// Whether an object is deleted, or the Cluster itself goes.
    pub(in crate::cluster) fn acts(&self) -> bool {
        !self.delete.is_empty() || self.is_done
    }
}

pub(in crate::cluster) fn decide(cluster: &Cluster, observed: &Observed) -> Deletion {
    let Some(descendants) = &observed.descendants else {
        return Deletion::waiting(reasons::INTERNAL_ERROR, CHECK_LOGS);
    };
    let pending = pending(cluster, descendants);
    if !pending.is_empty() {
        return Deletion {
            delete: children(cluster, descendants),
            next: Next::After(UNTIL_DESCENDANTS_ARE_GONE),
            ..Deletion::waiting(cluster_reasons::WAITING_FOR_WORKERS_DELETION, pending.join("\n"))
        };
    }
    let control_plane = provider_object(
        &observed.control_plane,
        cluster.spec.control_plane_ref.as_ref().map(|reference| &*reference.kind),
        Target::ControlPlane,
        cluster_reasons::WAITING_FOR_CONTROL_PLANE_DELETION,
    );
    let infrastructure = provider_object(
        &observed.infrastructure,
        cluster.spec.infrastructure_ref.as_ref().map(|reference| &*reference.kind),
        Target::Infrastructure,
        cluster_reasons::WAITING_FOR_INFRASTRUCTURE_DELETION,
    );
    control_plane.or(infrastructure).unwrap_or_else(|| Deletion {
        is_done: true,
        ..Deletion::waiting(reasons::DELETION_COMPLETED, "Deletion completed")
    })
}

/// The next step for an object of a provider; none once it is deleted.
fn provider_object(
    reading: &Reading,
    kind: Option<&str>,
    target: Target,
    reason: &'static str,
) -> Option<Deletion> {
    match reading {
        Reading::Unreferenced | Reading::Missing => None,
        Reading::Unreadable => Some(Deletion::waiting(reasons::INTERNAL_ERROR, CHECK_LOGS)),
        Reading::Found(object) => {
            let message = format!("Waiting for {} to be deleted", kind.unwrap_or_default());
            let delete = if is_deleting(object) { Vec::new() } else { vec![target] };
            Some(Deletion { delete, ..Deletion::waiting(reason, message) })
        }
    }
}

/// Objects that the Cluster owns itself and that are not being deleted yet. Machines of a control plane are deleted with it.
fn children(cluster: &Cluster, descendants: &Descendants) -> Vec<Target> {
    let mut targets = Vec::new();
    targets.extend(doomed::<MachinePool>(cluster, &descendants.pools).map(Target::Pool));
    targets.extend(doomed::<MachineDeployment>(cluster, &descendants.deployments).map(Target::Deployment));
    targets.extend(doomed::<MachineSet>(cluster, &descendants.sets).map(Target::Set));
    targets.extend(doomed::<Machine>(cluster, &descendants.workers).map(Target::Machine));
    if cluster.spec.control_plane_ref.is_none() {
        targets.extend(doomed::<Machine>(cluster, &descendants.control_plane_machines).map(Target::Machine));
    }
    targets
}

fn doomed<'a, K: Resource<DynamicType = ()>>(
    cluster: &'a Cluster,
    objects: &'a [K],
) -> impl Iterator<Item = String> + 'a {
    let is_alive = |object: &&K| object.meta().deletion_timestamp.is_none();
    objects
        .iter()
        .filter(move |object| is_direct(cluster, *object))
        .filter(is_alive)
        .map(ResourceExt::name_any)
}

/// The objects that must be deleted before the control plane, one line for each kind.
fn pending(cluster: &Cluster, descendants: &Descendants) -> Vec<String> {
    let mut lines = Vec::new();
    if cluster.spec.control_plane_ref.is_none() {
        lines.extend(line("Control plane Machines", &descendants.control_plane_machines));
    }
    lines.extend(line("MachineDeployments", &descendants.deployments));
    lines.extend(line("MachineSets", &descendants.sets));
    lines.extend(line("MachinePools", &descendants.pools));
    lines.extend(line("Worker Machines", &descendants.workers));
    lines
}

fn line<K: Resource>(kind: &str, objects: &[K]) -> Option<String> {
    let mut names: Vec<String> = objects.iter().map(ResourceExt::name_any).collect();
    names.sort();
    (!names.is_empty()).then(|| format!("* {kind}: {}", capstan_controller::text::listed(&names, NAMES)))
}
