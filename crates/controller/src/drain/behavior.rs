//! Which pods of a Node are evicted, which are waited for, and which stay. Pure.

use capstan_api::meta::labels;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::rules::Treatment;

/// Annotation that a kubelet sets on the mirror pod of a static pod, which only the kubelet can end.
const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// What the drain does with a pod. Pods with a lower order come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behavior {
    /// Evict it.
    Drain { order: i32 },
    /// It is already terminating: wait for it, without another eviction.
    Leaving { order: i32 },
    /// Its eviction was rejected recently: evict it later.
    Refused { order: i32 },
    /// Leave it.
    Skip,
    /// Wait until it completes.
    WaitCompleted,
}

impl Behavior {
    /// The order of a pod that must be gone before the Node is drained.
    pub(super) fn order(self) -> Option<i32> {
        match self {
            Self::Drain { order } | Self::Leaving { order } | Self::Refused { order } => Some(order),
            // Its rule has no order.
            Self::WaitCompleted => Some(0),
            Self::Skip => None,
        }
    }
}

/// Facts that are not in the pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    /// The kubelet does not respond: terminating pods will not end.
    pub(super) is_unreachable: bool,
    /// The DaemonSet in the owner reference of the pod exists.
    pub(super) has_daemon_set: bool,
    /// The eviction of the pod was rejected and is not retried before this time.
    pub(super) refused_until: Option<Timestamp>,
    /// What the MachineDrainRules say about the pod.
    pub(super) treatment: Treatment,
    pub(super) now: Timestamp,
}

pub(super) fn behavior(pod: &Pod, circumstances: Circumstances) -> Behavior {
    let is_stuck = pod
        .metadata
        .deletion_timestamp
        .as_ref()
        .is_some_and(|time| circumstances.now.duration_since(time.0) >= SignedDuration::from_secs(2));
    if circumstances.is_unreachable && is_stuck {
        return Behavior::Skip;
    }
    if daemon_set(pod).is_some() && circumstances.has_daemon_set && !is_finished(pod) {
        return Behavior::Skip;
    }
    if pod.annotations().contains_key(MIRROR_POD) {
        return Behavior::Skip;
    }
    // Upper and lower case are the same, and so are `wait-completed` and `waitCompleted`.
    let label = pod.labels().get(labels::DRAIN).map(|value| value.to_lowercase().replacen('-', "", 1));
    let treatment = match label.as_deref() {
        Some("skip") => Treatment::Skip,
        Some("waitcompleted") => Treatment::WaitCompleted,
        _ => circumstances.treatment,
    };
    let is_refused = || circumstances.refused_until.is_some_and(|until| circumstances.now < until);
    match treatment {
        Treatment::Skip => Behavior::Skip,
        Treatment::WaitCompleted => Behavior::WaitCompleted,
        Treatment::Drain { order } if pod.metadata.deletion_timestamp.is_some() => {
            Behavior::Leaving { order }
        }
        Treatment::Drain { order } if is_refused() => Behavior::Refused { order },
        Treatment::Drain { order } => Behavior::Drain { order },
    }
}

/// The DaemonSet in the owner reference of a pod: it would replace an evicted pod at once.
pub(super) fn daemon_set(pod: &Pod) -> Option<&str> {
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    (owner.kind == "DaemonSet").then_some(&owner.name)
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
