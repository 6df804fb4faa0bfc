//! The objects of the benchmark: Machines of Cluster API, each 4 KB in the request, with values for all rules of the
//! CRD.

use bytes::Bytes;
use serde_json::{Value, json};

/// Bytes of a body.
pub(crate) const SIZE: usize = 4096;
/// Where they are created.
pub(crate) const PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines";
/// What tells watchers which one they see: as it stands in JSON, before the number. Before the note in the alphabet, so that
/// it is found as early in what a plane sends that puts names in order.
pub(crate) const MARK: &str = r#"bench.capstan.dev/index":""#;

/// The name of the machine with this number.
pub(crate) fn name(number: usize) -> String {
    format!("machine-{number:08}")
}

/// The body that creates it.
pub(crate) fn body(number: usize) -> Bytes {
    let mut machine = machine(number);
    let bare = machine.to_string().len();
    machine["metadata"]["annotations"]["bench.capstan.dev/note"] = "x".repeat(SIZE - bare).into();
    let text = machine.to_string();
    assert_eq!(text.len(), SIZE, "a body of exactly this size");
    text.into()
}

fn machine(number: usize) -> Value {
    let reference = |group: &str, kind: &str| json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": name(number)});
    let gate = |number: usize| {
        let polarity = if number.is_multiple_of(2) { "Positive" } else { "Negative" };
        json!({"conditionType": format!("checks.example.com/Probe{number}"), "polarity": polarity})
    };
    let taint = |number: usize| {
        json!({
            "key": format!("tenancy.example.com/reserved-{number}"), "value": format!("team-{number}"),
            "effect": "NoSchedule", "propagation": "Always",
        })
    };
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": name(number),
            "namespace": "default",
            "labels": {
                "cluster.x-k8s.io/cluster-name": "measured",
                "cluster.x-k8s.io/deployment-name": format!("workers-{}", number % 100),
                "topology.example.com/rack": format!("rack-{}", number % 40),
            },
            "annotations": {
                "bench.capstan.dev/index": format!("{number:08}"),
                "bench.capstan.dev/note": "",
            },
            "finalizers": ["machine.cluster.x-k8s.io"],
        },
        "spec": {
            "clusterName": "measured",
            "version": "v1.36.3",
            "failureDomain": format!("zone-{}", number % 3),
            "providerID": format!("host://{}", name(number)),
            "minReadySeconds": 10,
            "deletion": {"nodeDrainTimeoutSeconds": 600, "nodeDeletionTimeoutSeconds": 60},
            "bootstrap": {"configRef": reference("bootstrap", "CapstanConfig")},
            "infrastructureRef": reference("infrastructure", "HostMachine"),
            "readinessGates": (0..8).map(gate).collect::<Vec<_>>(),
            "taints": (0..8).map(taint).collect::<Vec<_>>(),
        },
    })
}
