//! Hooks of runtime extensions during an upgrade: which are pending, and what they answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A hook of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// Before the first step of an upgrade.
    BeforeClusterUpgrade,
    /// Before each step of the control plane.
    BeforeControlPlaneUpgrade,
    /// After each step of the control plane.
    AfterControlPlaneUpgrade,
    /// Before the workers follow a step.
    BeforeWorkersUpgrade,
    /// After the workers followed a step.
    AfterWorkersUpgrade,
    /// After the last step of an upgrade.
    AfterClusterUpgrade,
}

impl fmt::Display for Hook {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Hook::BeforeClusterUpgrade => "BeforeClusterUpgrade",
            Hook::BeforeControlPlaneUpgrade => "BeforeControlPlaneUpgrade",
            Hook::AfterControlPlaneUpgrade => "AfterControlPlaneUpgrade",
            Hook::BeforeWorkersUpgrade => "BeforeWorkersUpgrade",
            Hook::AfterWorkersUpgrade => "AfterWorkersUpgrade",
            Hook::AfterClusterUpgrade => "AfterClusterUpgrade",
        })
    }
}

/// What a hook answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The upgrade goes on. Also if no extension serves the hook.
    Continue,
    /// The upgrade waits.
    Block,
}

/// What is known of the hooks of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Hooks that are yet to be called: annotation `runtime.cluster.x-k8s.io/pending-hooks` of the Cluster.
    pub pending: BTreeSet<Hook>,
    /// Answers of this reconcile. A hook without one was not called yet.
    pub answers: BTreeMap<Hook, Answer>,
    /// Whether runtime extensions are used at all.
    pub are_enabled: bool,
}

impl Hooks {
    /// Whether a hook holds the upgrade.
    pub fn is_blocking(&self, hook: Hook) -> bool {
        self.answers.get(&hook) == Some(&Answer::Block)
    }

    pub(super) fn is_pending(&self, hook: Hook) -> bool {
        self.pending.contains(&hook)
    }
}
