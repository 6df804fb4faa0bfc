//! How far an upgrade is: for decisions about the next object, and for conditions.

use super::Hook;
use std::collections::BTreeSet;

/// How far the upgrade of a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The control plane.
    pub control_plane: ControlPlaneProgress,
    /// MachineDeployments.
    pub machine_deployments: WorkersProgress,
    /// MachinePools.
    pub machine_pools: WorkersProgress,
    /// The oldest version of all workers; `None` without workers.
    pub oldest_workers: Option<String>,
    /// The hook that must be called before the upgrade can go on. The caller calls it and computes again.
    pub needs: Option<Hook>,
    /// Hooks that become pending with the objects of this computation.
    pub to_mark: BTreeSet<Hook>,
    /// Pending hooks that are done.
    pub done: BTreeSet<Hook>,
}

/// How far the control plane is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlPlaneProgress {
    /// It has not the version of the topology, and gets no other version now.
    pub is_pending: bool,
    /// It is pending, and workers must be upgraded first.
    pub is_waiting_for_workers: bool,
    /// It is created for the first time.
    pub is_provisioning: bool,
    /// It is in the middle of an upgrade.
    pub is_upgrading: bool,
    /// It gets another version now.
    pub is_starting: bool,
    /// Versions that it is upgraded to, one after the other; the last is that of the topology.
    pub plan: Vec<String>,
}

impl ControlPlaneProgress {
    /// Whether no upgrade is in progress, starting or pending.
    pub fn is_stable(&self) -> bool {
        self.is_quiet() && !self.is_pending
    }

    /// Whether workers may be upgraded: it is stable, or it waits for them.
    pub fn lets_workers_go(&self) -> bool {
        self.is_quiet() && (!self.is_pending || self.is_waiting_for_workers)
    }

    fn is_quiet(&self) -> bool {
        !self.is_provisioning && !self.is_upgrading && !self.is_starting
    }
}

/// How far the workers of one kind are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkersProgress {
    /// Names in the topology of groups that are not created yet, because the control plane is not stable.
    pub pending_create: BTreeSet<String>,
    /// Names of groups that have not the version of the topology, and get no other version now.
    pub pending: BTreeSet<String>,
    /// Those of them that wait because of an annotation.
    pub deferred: BTreeSet<String>,
    /// Names of groups that are upgrading, or start now.
    pub upgrading: BTreeSet<String>,
    /// How many groups may upgrade at the same time.
    pub most: usize,
    /// Versions that they are upgraded to, one after the other; the last is that of the topology.
    pub plan: Vec<String>,
}

impl WorkersProgress {
    pub(super) fn is_full(&self) -> bool {
        self.upgrading.len() >= self.most.max(1)
    }

    pub(super) fn next_is(&self, version: &str) -> bool {
        self.plan.first().is_some_and(|next| next == version)
    }
}
