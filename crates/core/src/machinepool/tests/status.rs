//! Counters, phases and conditions.

use capstan_api::conditions::{get, has};
use capstan_api::core::{MachinePool, MachinePoolPhase};
use capstan_controller::Knowledge;
use serde_json::{Value, json};

use super::{NOW, deleted, found, machine, node, observed, pool};
use crate::external::Reading;
use crate::machinepool::decide::nodes;
use crate::machinepool::observe::Observed;
use crate::machinepool::status::update;

fn says(pool: &MachinePool, type_: &str) -> String {
    get(pool, type_).map_or("missing".to_owned(), |condition| {
        format!("{}/{}: {}", condition.status, condition.reason, condition.message)
    })
}

/// A pool that is provisioned, with these Nodes.
fn up(replicas: i32, ready: i32, change: &Value) -> (MachinePool, Observed) {
    let list: Vec<String> = (0..replicas).map(|number| format!("x://{number}")).collect();
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let nodes: Vec<_> = (0..replicas)
        .map(|number| {
            let change = if number < ready { &json!({}) } else { &not_ready };
            node(&format!("n{number}"), &format!("x://{number}"), change)
        })
        .collect();
    let mut all = json!({
        "spec": {"providerIDList": list},
        "status": {"replicas": replicas,
            "initialization": {"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true}},
    });
    super::merge(&mut all, change);
    let pool = pool(&all);
    let matched = nodes::matched(&pool, &nodes, NOW);
    (pool, Observed { nodes: Knowledge::Known(nodes), matched: Some(matched), ..observed() })
}

#[test]
fn phases_are_upstreams() {
    let flags = |created: bool, provisioned: bool| json!({"bootstrapDataSecretCreated": created, "infrastructureProvisioned": provisioned});
    let by_hand = json!({});
    let external =
        |by: &str| json!({"metadata": {"annotations": {"cluster.x-k8s.io/replicas-managed-by": by}}});
    for (replicas, ready, change, phase) in [
        (3, 3, by_hand.clone(), MachinePoolPhase::Running),
        (3, 2, by_hand.clone(), MachinePoolPhase::ScalingUp),
        (4, 4, by_hand.clone(), MachinePoolPhase::ScalingDown),
        (3, 2, external("external-autoscaler"), MachinePoolPhase::Scaling),
        (4, 4, external(""), MachinePoolPhase::Scaling),
        (3, 2, external("false"), MachinePoolPhase::ScalingUp),
        (3, 3, external("external-autoscaler"), MachinePoolPhase::Running),
        (0, 0, json!({"status": {"initialization": flags(true, false)}}), MachinePoolPhase::Provisioning),
        (0, 0, json!({"status": {"initialization": flags(false, false)}}), MachinePoolPhase::Pending),
        (
            3,
            3,
            json!({"status": {"initialization": flags(true, false), "nodeRefs": [{"name": "n0"}]}}),
            MachinePoolPhase::Provisioned,
        ),
    ] {
        let (mut pool, observed) = up(replicas, ready, &change);
        update(&mut pool, &observed, None, NOW);
        assert_eq!(pool.status.and_then(|status| status.phase), Some(phase), "{replicas} {ready} {change}");
    }
    let mut going = deleted(&json!({}));
    update(&mut going, &observed(), None, NOW);
    assert_eq!(going.status.and_then(|status| status.phase), Some(MachinePoolPhase::Deleting));
}

#[test]
fn what_is_unknown_stays() {
    let (mut pool, observed) = up(3, 3, &json!({}));
    update(&mut pool, &observed, None, NOW);
    let before = pool.clone();
    let unknown = Observed {
        nodes: Knowledge::unknown("no connection"),
        matched: None,
        infrastructure: Reading::Unreadable,
        ..super::observed()
    };
    update(&mut pool, &unknown, None, NOW);
    let (before, after) = (before.status.expect("a status"), pool.status.clone().expect("a status"));
    assert_eq!(after.phase, before.phase);
    assert_eq!(
        (after.ready_replicas, &after.versions, &after.deprecated),
        (before.ready_replicas, &before.versions, &before.deprecated)
    );
    // Never known is another thing than known no longer.
    let (mut fresh, _) = up(3, 3, &json!({}));
    update(&mut fresh, &Observed { infrastructure: found("Pool", &ready()), ..unknown }, None, NOW);
    assert_eq!(says(&fresh, "Available"), "Unknown/ConnectionDown: no connection");
}

fn ready() -> Value {
    json!({"status": {"initialization": {"provisioned": true}}})
}

#[test]
fn a_pool_without_machines_is_counted_by_its_provider_and_its_nodes() {
    let (mut pool, observed) = up(3, 2, &json!({}));
    update(&mut pool, &observed, None, NOW);
    let status = pool.status.clone().expect("a status");
    assert_eq!(
        (status.ready_replicas, status.available_replicas, status.up_to_date_replicas),
        (Some(3), Some(3), Some(3)),
        "as upstream"
    );
    assert_eq!(json!(status.versions), json!([{"version": "v1.36.1", "replicas": 3}]));
    let old = status.deprecated.and_then(|deprecated| deprecated.v1beta1).expect("numbers of Nodes");
    assert_eq!(
        (old.ready_replicas, old.available_replicas, old.unavailable_replicas),
        (Some(2), Some(2), Some(1))
    );
    assert_eq!(says(&pool, "Available"), "False/NotAvailable: 2 available replicas, at least 3 required");
    assert_eq!(says(&pool, "MachinesReady"), "missing");
}

#[test]
fn a_pool_with_machines_is_counted_by_them() {
    let good = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let machines = vec![
        machine(
            "a",
            &json!({"status": {"conditions": [good("Ready"), good("Available"), good("UpToDate")]}}),
        ),
        machine("b", &json!({"spec": {"version": "v1.36.1"}, "status": {"conditions": [good("Ready")]}})),
    ];
    let (mut pool, observed) = up(2, 2, &json!({"spec": {"replicas": 2}}));
    let observed = Observed {
        machine_kind: Some("Instance".to_owned()),
        machines: Knowledge::Known(machines),
        ..observed
    };
    update(&mut pool, &observed, None, NOW);
    let status = pool.status.clone().expect("a status");
    assert_eq!(
        (status.ready_replicas, status.available_replicas, status.up_to_date_replicas),
        (Some(2), Some(1), Some(1))
    );
    assert_eq!(json!(status.versions), json!([{"version": "v1.36.1", "replicas": 1}]));
    assert_eq!(says(&pool, "Available"), "False/NotAvailable: 1 available replicas, at least 2 required");
    assert_eq!(says(&pool, "MachinesReady"), "True/Ready: ");
    assert!(says(&pool, "MachinesUpToDate").starts_with("Unknown/UpToDateUnknown"));

    // Machines that cannot be listed are not none.
    let unknown = Observed { machines: Knowledge::unknown("not listed"), ..observed };
    update(&mut pool, &unknown, None, NOW);
    let status = pool.status.clone().expect("a status");
    assert_eq!((status.ready_replicas, status.available_replicas), (Some(2), Some(1)));
    assert!(says(&pool, "MachinesReady").starts_with("Unknown/InternalError"));

    // The provider makes no objects for machines any more.
    let (_, without) = up(2, 2, &json!({}));
    update(&mut pool, &without, None, NOW);
    assert!(!has(&pool, "MachinesReady") && !has(&pool, "MachinesUpToDate"));
}

#[test]
fn conditions_say_what_the_pool_waits_for() {
    let (mut pool, observed) = up(3, 3, &json!({}));
    update(&mut pool, &observed, None, NOW);
    for (type_, expected) in [
        ("BootstrapConfigReady", "True/Ready: "),
        ("InfrastructureReady", "True/Ready: "),
        ("Available", "True/Available: "),
        ("ScalingUp", "False/NotScalingUp: "),
        ("ScalingDown", "False/NotScalingDown: "),
        ("Deleting", "False/NotDeleting: "),
    ] {
        assert_eq!(says(&pool, type_), expected, "{type_}");
    }

    let mut fresh = super::pool(&json!({}));
    update(&mut fresh, &super::observed(), None, NOW);
    for (type_, expected) in [
        ("BootstrapConfigReady", "False/NotReady: Config status.initialization.dataSecretCreated is false"),
        ("InfrastructureReady", "False/NotReady: Pool status.initialization.provisioned is false"),
        (
            "Available",
            "False/NotAvailable: * InfrastructureReady: Pool status.initialization.provisioned is false",
        ),
        ("ScalingUp", "True/ScalingUp: Scaling up from 0 to 3 replicas"),
    ] {
        assert_eq!(says(&fresh, type_), expected, "{type_}");
    }

    let mut going = deleted(&json!({"status": {"replicas": 3}}));
    let deletion = crate::machinepool::decide::delete::decide(&going, &super::observed(), NOW);
    update(&mut going, &super::observed(), Some(&deletion), NOW);
    assert_eq!(says(&going, "Deleting"), "True/Deleting: Waiting for Config and Pool to be deleted");
    assert_eq!(says(&going, "ScalingDown"), "True/ScalingDown: Scaling down from 3 to 0 replicas");
    assert_eq!(says(&going, "Available"), "False/NotAvailable: Deletion in progress");
}
