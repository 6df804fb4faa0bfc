//! What a Cluster says of itself.

use capstan_api::conditions::{NewCondition, set};
use capstan_api::core::{Cluster, ClusterPhase, Machine};
use capstan_controller::remote::Health;
use jiff::SignedDuration;
use serde_json::json;

use super::{NOW, cluster, condition_of, deleting, found, machine, observed, read, with_both};
use crate::cluster::decide::delete;
use crate::cluster::observe::Descendants;
use crate::cluster::status;
use crate::external::Reading;

#[test]
fn phases_follow_the_flags() {
    let mut cluster = cluster(&json!({}));
    let mut phase = |change: &dyn Fn(&mut Cluster)| {
        change(&mut cluster);
        status::update(&mut cluster, &observed(Descendants::default()), None, NOW);
        cluster.status.as_ref().and_then(|status| status.phase)
    };
    assert_eq!(phase(&|_| {}), Some(ClusterPhase::Pending));
    assert_eq!(phase(&|it| it.spec = with_both().spec), Some(ClusterPhase::Provisioning));
    assert_eq!(
        phase(&|it| it.spec.control_plane_endpoint = Some(read(json!({"host": "h", "port": 1})))),
        Some(ClusterPhase::Provisioning)
    );
    assert_eq!(
        phase(&|it| {
            let flags = read(json!({"infrastructureProvisioned": true}));
            it.status.get_or_insert_default().initialization = Some(flags);
        }),
        Some(ClusterPhase::Provisioned)
    );
    assert_eq!(phase(&|it| *it = deleting(it.clone())), Some(ClusterPhase::Deleting));
}

#[test]
fn a_new_cluster_says_what_it_waits_for() {
    let mut cluster = with_both();
    let mut seen = observed(Descendants::default());
    seen.infrastructure = found(json!({}));
    seen.control_plane = Reading::Missing;
    status::update(&mut cluster, &seen, None, NOW);
    for (type_, status, reason, message) in [
        ("InfrastructureReady", "False", "NotReady", "Infra status.initialization.provisioned is false"),
        ("ControlPlaneAvailable", "False", "ObjectDoesNotExist", "Plane does not exist"),
        ("ControlPlaneInitialized", "Unknown", "ObjectDoesNotExist", "Plane does not exist"),
        ("WorkersAvailable", "True", "NoWorkers", ""),
        ("ControlPlaneMachinesReady", "True", "NoReplicas", ""),
        ("WorkerMachinesUpToDate", "True", "NoReplicas", ""),
        ("RemoteConnectionProbe", "False", "ProbeFailed", "Remote connection not established yet"),
        ("RollingOut", "False", "NotRollingOut", ""),
        ("ScalingUp", "False", "NotScalingUp", ""),
        ("ScalingDown", "False", "NotScalingDown", ""),
        ("Remediating", "False", "NotRemediating", ""),
        ("Deleting", "False", "NotDeleting", ""),
        (
            "Available",
            "False",
            "NotAvailable",
            "* RemoteConnectionProbe: Remote connection not established yet\n\
             * InfrastructureReady: Infra status.initialization.provisioned is false\n\
             * ControlPlaneAvailable: Plane does not exist",
        ),
    ] {
        let condition = condition_of(&cluster, type_);
        let said = (condition.status.to_string(), &*condition.reason, &*condition.message);
        assert_eq!((said.0.as_str(), said.1, said.2), (status, reason, message), "{type_}");
    }
}

#[test]
fn initialized_is_sticky_and_comes_from_nodes_without_a_provider() {
    let mut standing_alone =
        cluster(&json!({"infrastructureRef": {"apiGroup": "i", "kind": "Infra", "name": "c"}}));
    let mut first = machine("cp", true, true);
    let seen = |machine: Machine| {
        observed(Descendants { control_plane_machines: vec![machine], ..Descendants::default() })
    };
    status::update(&mut standing_alone, &seen(first.clone()), None, NOW);
    let waits = "Waiting for the first control plane machine to have status.nodeRef set";
    assert_eq!(condition_of(&standing_alone, "ControlPlaneInitialized").message, waits);
    first.status = Some(read(json!({"nodeRef": {"name": "x"}})));
    status::update(&mut standing_alone, &seen(first), None, NOW);
    assert_eq!(condition_of(&standing_alone, "ControlPlaneInitialized").reason, "Initialized");
    status::update(&mut standing_alone, &observed(Descendants::default()), None, NOW);
    assert_eq!(
        condition_of(&standing_alone, "ControlPlaneInitialized").reason,
        "Initialized",
        "it never goes back"
    );
}

#[test]
fn unhealthy_machines_are_named() {
    let unhealthy = |name: &str, remediated: bool| {
        let mut machine = machine(name, false, false);
        let new = NewCondition::new;
        set(&mut machine, new("HealthCheckSucceeded", false, "NodeDead"), NOW);
        if remediated {
            set(&mut machine, new("OwnerRemediated", false, "Waiting").message("waits"), NOW);
        }
        machine
    };
    for (workers, reason, message) in [
        (vec![unhealthy("a", false)], "NotRemediating", "Machine a is not healthy (not to be remediated)"),
        (
            vec![unhealthy("b", false), unhealthy("a", false)],
            "NotRemediating",
            "Machines a, b are not healthy (not to be remediated)",
        ),
        (vec![unhealthy("a", true), unhealthy("b", false)], "Remediating", "* Machine a: waits"),
    ] {
        let mut cluster = with_both();
        status::update(&mut cluster, &observed(Descendants { workers, ..Descendants::default() }), None, NOW);
        let condition = condition_of(&cluster, "Remediating");
        assert_eq!((&*condition.reason, &*condition.message), (reason, message));
    }
}

#[test]
fn a_broken_connection_is_reported_after_a_while() {
    let ago = |seconds| NOW - SignedDuration::from_secs(seconds);
    for (last_success, failures, reason, message) in [
        (Some(ago(5)), 0, "ProbeSucceeded", ""),
        (Some(ago(50)), 4, "ProbeSucceeded", ""),
        (
            Some(ago(51)),
            5,
            "ProbeFailed",
            "Remote connection probe failed, probe last succeeded at 2027-01-15T07:59:09Z",
        ),
        (None, 50, "ProbeFailed", "Remote connection probe failed"),
        (None, 49, "ProbeFailed", "Remote connection not established yet"),
    ] {
        let mut cluster = with_both();
        let mut seen = observed(Descendants::default());
        seen.health = Health { last_success, failures, failing: Some((ago(failures.into()), NOW)) };
        status::update(&mut cluster, &seen, None, NOW);
        let condition = condition_of(&cluster, "RemoteConnectionProbe");
        assert_eq!((&*condition.reason, &*condition.message), (reason, message));
    }
}

#[test]
fn what_is_gone_is_no_issue_for_a_cluster_that_goes() {
    let mut cluster = deleting(with_both());
    cluster.status = Some(read(json!({"initialization": {"infrastructureProvisioned": true}})));
    let mut seen = observed(Descendants::default());
    (seen.infrastructure, seen.control_plane) = (Reading::Missing, Reading::Missing);
    seen.health = Health { last_success: Some(NOW), ..Health::default() };
    let deletion = delete::decide(&cluster, &seen);
    status::update(&mut cluster, &seen, Some(&deletion), NOW);
    assert_eq!(condition_of(&cluster, "InfrastructureReady").message, "Infra has been deleted");
    assert_eq!(condition_of(&cluster, "Deleting").reason, "DeletionCompleted");
    assert_eq!(condition_of(&cluster, "Available").message, "* Deleting: Deletion completed");
}

#[test]
fn availability_gates_count() {
    let mut cluster = with_both();
    cluster.spec.availability_gates = read(json!([{"conditionType": "Mine"}]));
    status::update(&mut cluster, &observed(Descendants::default()), None, NOW);
    let message = &condition_of(&cluster, "Available").message;
    assert!(message.ends_with("* Mine: Condition not yet reported"), "{message}");
}
