//! The order of the deletion.

use capstan_controller::Knowledge;
use kube::ResourceExt as _;
use serde_json::json;

use super::{NOW, deleted, found, machine, node, observed};
use crate::external::Reading;
use crate::machinepool::decide::delete::decide;
use crate::machinepool::observe::Observed;

fn without_objects() -> Observed {
    Observed { bootstrap: Reading::Missing, infrastructure: Reading::Missing, ..observed() }
}

fn with_nodes() -> serde_json::Value {
    json!({
        "spec": {"providerIDList": ["x://a"], "template": {"spec": {"deletion": {"nodeDeletionTimeoutSeconds": 60}}}},
        "status": {"nodeRefs": [{"kind": "Node", "name": "a", "uid": "uid-a"}]},
    })
}

#[test]
fn both_objects_go_first_and_at_once() {
    let going = || found("Pool", &json!({"metadata": {"deletionTimestamp": "2025-01-01T00:00:00Z"}}));
    let here = || found("Config", &json!({}));
    let other = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "q", "uid": "q",
        "controller": true}]);
    let of_other = || found("Config", &json!({"metadata": {"ownerReferences": other}}));
    for (bootstrap, infrastructure, asked, message) in [
        (
            here(),
            found("Pool", &json!({})),
            vec!["Config", "Pool"],
            "Waiting for Config and Pool to be deleted",
        ),
        (here(), going(), vec!["Config"], "Waiting for Config and Pool to be deleted"),
        (Reading::Missing, going(), vec![], "Waiting for Pool to be deleted"),
        (Reading::Unreferenced, Reading::Missing, vec![], "Deletion completed"),
        // Another pool works with the object.
        (of_other(), Reading::Missing, vec![], "Deletion completed"),
        // What cannot be read is not gone.
        (Reading::Missing, Reading::Unreadable, vec![], "Please check controller logs for errors"),
    ] {
        let seen = Observed { bootstrap, infrastructure, ..observed() };
        let deletion = decide(&deleted(&json!({})), &seen, NOW);
        let kinds: Vec<&str> = deletion.objects.iter().map(|reference| reference.kind.as_str()).collect();
        assert_eq!((kinds, deletion.message.as_str()), (asked, message));
        assert_eq!(deletion.is_done, message == "Deletion completed");
    }
}

#[test]
fn nodes_go_after_the_machines() {
    let nodes = || Knowledge::Known(vec![node("a", "x://a", &json!({})), node("b", "x://b", &json!({}))]);
    let still = Observed { nodes: nodes(), ..observed() };
    assert!(decide(&deleted(&with_nodes()), &still, NOW).nodes.is_empty(), "the machines are there");
    let seen = Observed { nodes: nodes(), ..without_objects() };
    let deletion = decide(&deleted(&with_nodes()), &seen, NOW);
    let names: Vec<String> = deletion.nodes.iter().map(|node| node.name_any()).collect();
    assert_eq!((names, deletion.is_done), (vec!["a".to_owned()], false));
    assert_eq!(deletion.message, "Deleting Nodes a");
    // A Node of a Machine goes with it.
    let machines = Knowledge::Known(vec![machine("m", &json!({"spec": {"providerID": "x://a"}}))]);
    let seen = Observed { nodes: nodes(), machines, ..without_objects() };
    assert!(decide(&deleted(&with_nodes()), &seen, NOW).is_done);
}

#[test]
fn unknown_nodes_are_waited_for_until_the_time_is_over() {
    let unknown = || Observed { nodes: Knowledge::unknown("no connection"), ..without_objects() };
    let waits = decide(&deleted(&with_nodes()), &unknown(), NOW);
    assert_eq!(
        (waits.is_done, waits.message.as_str()),
        (false, "Waiting to delete the Nodes: no connection")
    );
    // Ten seconds, if the pool does not say.
    let mut usual = deleted(&with_nodes());
    usual.spec.template.spec.deletion = None;
    assert!(decide(&usual, &unknown(), NOW).is_done);
    let mut unlimited = deleted(&with_nodes());
    unlimited.spec.template.spec.deletion.get_or_insert_default().node_deletion_timeout_seconds = Some(0);
    assert!(!decide(&unlimited, &unknown(), NOW).is_done);
    // It has never had any.
    unlimited.status = None;
    assert!(decide(&unlimited, &unknown(), NOW).is_done);
    // They go with the cluster.
    let mut seen = unknown();
    seen.cluster.metadata.deletion_timestamp = deleted(&json!({})).metadata.deletion_timestamp;
    assert!(decide(&deleted(&with_nodes()), &seen, NOW).is_done);
}
