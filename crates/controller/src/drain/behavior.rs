//! Which pods of a Node are evicted, which are waited for, and which stay. Pure.

use capstan_api::meta::labels;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// Annotation that a kubelet sets on the mirror pod of a static pod, which only the kubelet can end.
const MIRROR_POD: &str = "kubernetes.io/config.mirror";

/// What the drain does with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behavior {
    /// Evict it.
    Drain,
    /// It is already terminating: wait for it, without another eviction.
    Leaving,
    /// Its eviction was rejected recently: evict it later.
    Refused,
    /// Leave it.
    Skip,
    /// Wait until it completes.
    WaitCompleted,
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
    match pod.labels().get(labels::DRAIN).map(|value| value.to_lowercase().replacen('-', "", 1)).as_deref() {
        Some("skip") => Behavior::Skip,
        Some("waitcompleted") => Behavior::WaitCompleted,
        _ if pod.metadata.deletion_timestamp.is_some() => Behavior::Leaving,
        _ if circumstances.refused_until.is_some_and(|until| circumstances.now < until) => Behavior::Refused,
        _ => Behavior::Drain,
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
