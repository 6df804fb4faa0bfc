//! Which pods are evicted, as a table.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::behavior::{Behavior, Circumstances, behavior};
use super::rules::Treatment;
use super::turns::{Turn, turns};

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
        (json!({}), "Running", false, false, Behavior::Drain { order: 0 }),
        (owned.clone(), "Running", false, true, Behavior::Skip),
        (owned.clone(), "Running", false, false, Behavior::Drain { order: 0 }),
        (owned, "Succeeded", false, true, Behavior::Drain { order: 0 }),
        (mirror, "Running", false, false, Behavior::Skip),
        (labelled("skip"), "Running", false, false, Behavior::Skip),
        (labelled("Skip"), "Running", false, false, Behavior::Skip),
        (labelled("wait-completed"), "Running", false, false, Behavior::WaitCompleted),
        (labelled("WaitCompleted"), "Running", false, false, Behavior::WaitCompleted),
        (labelled("nonsense"), "Running", false, false, Behavior::Drain { order: 0 }),
        (dying.clone(), "Running", false, false, Behavior::Leaving { order: 0 }),
        (dying, "Running", true, false, Behavior::Skip),
        (freshly_dying, "Running", true, false, Behavior::Leaving { order: 0 }),
    ] {
        let treatment = Treatment::DEFAULT;
        let circumstances =
            Circumstances { is_unreachable, has_daemon_set, refused_until: None, treatment, now };
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
        (json!({}), None, Behavior::Drain { order: 0 }),
        (json!({}), Some(after), Behavior::Refused { order: 0 }),
        (json!({}), Some(now), Behavior::Drain { order: 0 }),
        (json!({}), Some(before), Behavior::Drain { order: 0 }),
        (dying.clone(), None, Behavior::Leaving { order: 0 }),
        (dying, Some(after), Behavior::Leaving { order: 0 }),
        (waits, Some(after), Behavior::WaitCompleted),
    ] {
        let treatment = Treatment::DEFAULT;
        let circumstances =
            Circumstances { is_unreachable: false, has_daemon_set: false, refused_until, treatment, now };
        assert_eq!(behavior(&pod(&metadata, "Running"), circumstances), expected, "{metadata}");
    }
}

#[test]
fn labels_of_pods_come_before_rules_and_rules_before_the_default() {
    let now: Timestamp = "2025-01-01T00:01:00Z".parse().expect("a time");
    let labelled = |value: &str| json!({"labels": {"cluster.x-k8s.io/drain": value}});
    let dying = json!({"deletionTimestamp": "2025-01-01T00:00:58Z"});
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
    let ordered = Treatment::Drain { order: 5 };
    for (metadata, treatment, expected) in [
        (json!({}), ordered, Behavior::Drain { order: 5 }),
        (json!({}), Treatment::Skip, Behavior::Skip),
        (json!({}), Treatment::WaitCompleted, Behavior::WaitCompleted),
        (dying.clone(), ordered, Behavior::Leaving { order: 5 }),
        (dying.clone(), Treatment::Skip, Behavior::Skip),
        (dying, Treatment::WaitCompleted, Behavior::WaitCompleted),
        (mirror, ordered, Behavior::Skip),
        (labelled("skip"), ordered, Behavior::Skip),
        (labelled("wait-completed"), Treatment::Skip, Behavior::WaitCompleted),
        (labelled("nonsense"), Treatment::Skip, Behavior::Skip),
    ] {
        let circumstances = Circumstances {
            is_unreachable: false,
            has_daemon_set: false,
            refused_until: None,
            treatment,
            now,
        };
        assert_eq!(behavior(&pod(&metadata, "Running"), circumstances), expected, "{metadata} {treatment:?}");
    }
}

#[test]
fn pods_of_a_higher_order_wait_until_the_others_are_gone() {
    let drain = |order| Behavior::Drain { order };
    let (leaving, refused) = (|order| Behavior::Leaving { order }, |order| Behavior::Refused { order });
    let (skip, wait) = (Behavior::Skip, Behavior::WaitCompleted);
    for (behaviors, expected) in [
        (vec![], vec![]),
        (vec![drain(0), drain(0)], vec![Turn::Evict, Turn::Evict]),
        (vec![drain(1), drain(0)], vec![Turn::EvictLater, Turn::Evict]),
        (vec![drain(1), leaving(0)], vec![Turn::EvictLater, Turn::Leaving]),
        (vec![drain(1), refused(0)], vec![Turn::EvictLater, Turn::Refused]),
        (vec![refused(1), drain(0)], vec![Turn::EvictLater, Turn::Evict]),
        // What terminates is not stopped.
        (vec![drain(0), leaving(1)], vec![Turn::Evict, Turn::Leaving]),
        (vec![wait, drain(-1)], vec![Turn::CompletesLater, Turn::Evict]),
        (vec![wait, drain(1)], vec![Turn::Completes, Turn::EvictLater]),
        (vec![skip, drain(i32::MAX)], vec![Turn::Skip, Turn::Evict]),
        (vec![skip], vec![Turn::Skip]),
    ] {
        assert_eq!(turns(&behaviors), expected, "{behaviors:?}");
    }
}
