//! Which pods are evicted, as a table.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::behavior::{Behavior, Circumstances, behavior};

fn pod(metadata: &Value, phase: &str) -> Pod {
    serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).expect("a pod")
}

#[test]
fn daemons_static_pods_and_exceptions_stay() {
    let now: Timestamp = "2025-01-01T00:01:00Z".parse().expect("a time");
    let owned = json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u",
        "controller": true}]});
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
    let labelled = |value: &str| json!({"labels": {"cluster.x-k8s.io/drain": value}});
    let dying = json!({"deletionTimestamp": "2025-01-01T00:00:00Z"});
    let freshly_dying = json!({"deletionTimestamp": "2025-01-01T00:00:59Z"});
    for (metadata, phase, is_unreachable, has_daemon_set, expected) in [
        (json!({}), "Running", false, false, Behavior::Drain),
        (owned.clone(), "Running", false, true, Behavior::Skip),
        (owned.clone(), "Running", false, false, Behavior::Drain),
        (owned, "Succeeded", false, true, Behavior::Drain),
        (mirror, "Running", false, false, Behavior::Skip),
        (labelled("skip"), "Running", false, false, Behavior::Skip),
        (labelled("Skip"), "Running", false, false, Behavior::Skip),
        (labelled("wait-completed"), "Running", false, false, Behavior::WaitCompleted),
        (labelled("WaitCompleted"), "Running", false, false, Behavior::WaitCompleted),
        (labelled("nonsense"), "Running", false, false, Behavior::Drain),
        (dying.clone(), "Running", false, false, Behavior::Leaving),
        (dying, "Running", true, false, Behavior::Skip),
        (freshly_dying, "Running", true, false, Behavior::Leaving),
    ] {
        let circumstances = Circumstances { is_unreachable, has_daemon_set, refused_until: None, now };
        assert_eq!(behavior(&pod(&metadata, phase), circumstances), expected, "{metadata} {phase}");
    }
}

#[test]
fn a_pod_is_not_asked_twice_in_a_row() {
    let now: Timestamp = "2025-01-01T00:01:00Z".parse().expect("a time");
    let before: Timestamp = "2025-01-01T00:00:59Z".parse().expect("a time");
    let after: Timestamp = "2025-01-01T00:01:01Z".parse().expect("a time");
    let dying = json!({"deletionTimestamp": "2025-01-01T00:00:58Z"});
    let waits = json!({"labels": {"cluster.x-k8s.io/drain": "wait-completed"}});
    for (metadata, refused_until, expected) in [
        (json!({}), None, Behavior::Drain),
        (json!({}), Some(after), Behavior::Refused),
        (json!({}), Some(now), Behavior::Drain),
        (json!({}), Some(before), Behavior::Drain),
        (dying.clone(), None, Behavior::Leaving),
        (dying, Some(after), Behavior::Leaving),
        (waits, Some(after), Behavior::WaitCompleted),
    ] {
        let circumstances =
            Circumstances { is_unreachable: false, has_daemon_set: false, refused_until, now };
        assert_eq!(behavior(&pod(&metadata, "Running"), circumstances), expected, "{metadata}");
    }
}
