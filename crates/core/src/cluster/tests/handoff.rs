//! Hand-offs and numbers.

use capstan_api::conditions::{NewCondition, set};
use capstan_controller::Next;
use serde_json::json;

use super::{NOW, cluster, deleting, deployment, found, machine, observed, read, with_both};
use crate::cluster::decide::handoff;
use crate::cluster::observe::Descendants;
use crate::cluster::status::replicas;
use crate::external::Reading;

#[test]
fn infrastructure_is_taken_over_once_it_is_provisioned() {
    let ready = json!({
        "spec": {"controlPlaneEndpoint": {"host": "h", "port": 1}},
        "status": {"initialization": {"provisioned": true}, "failureDomains": [{"name": "a"}]},
    });
    let mut early = with_both();
    let not_yet = found(json!({"spec": ready["spec"], "status": {}}));
    assert!(handoff::infrastructure(&mut early, &not_yet).is_ok());
    assert_eq!(early, with_both(), "nothing is taken over early");

    let mut taken = with_both();
    assert!(handoff::infrastructure(&mut taken, &found(ready.clone())).is_ok());
    assert!(handoff::provisioned(&taken));
    assert_eq!(taken.spec.control_plane_endpoint.as_ref().and_then(|it| it.port), Some(1));

    // A flag that is taken back stays, and so does an endpoint that was set.
    let moved = json!({"spec": {"controlPlaneEndpoint": {"host": "other", "port": 2}}, "status": {}});
    assert!(handoff::infrastructure(&mut taken, &found(moved)).is_ok());
    assert!(handoff::provisioned(&taken));
    assert_eq!(taken.spec.control_plane_endpoint.as_ref().and_then(|it| it.port), Some(1));
    assert!(
        taken.status.is_some_and(|status| status.failure_domains.is_empty()),
        "domains are copied each time"
    );

    let mut going = with_both();
    let mut object = ready;
    object["metadata"] = json!({"name": "c", "deletionTimestamp": "2025-01-01T00:00:00Z"});
    assert!(handoff::infrastructure(&mut going, &found(object)).is_ok());
    assert!(!handoff::provisioned(&going));
}

#[test]
fn a_missing_object_is_waited_for_until_it_was_there() {
    let missing = || Reading::Missing;
    let next = handoff::infrastructure(&mut with_both(), &missing());
    assert!(matches!(next, Ok(Next::After(_))), "{next:?}");
    let mut lost = with_both();
    lost.status = Some(read(json!({"initialization":
        {"infrastructureProvisioned": true, "controlPlaneInitialized": true}})));
    let error = handoff::infrastructure(&mut lost, &missing()).expect_err("lost");
    let text = "Cluster c spec.infrastructureRef: Infra has been deleted after being provisioned";
    assert_eq!(error.to_string(), text);
    let error = handoff::control_plane(&mut lost, &missing()).expect_err("lost");
    assert!(error.to_string().ends_with("Plane has been deleted after being initialized"));
    let mut going = deleting(lost);
    assert!(matches!(handoff::infrastructure(&mut going, &missing()), Ok(Next::Changed)));
    let mut bare = cluster(&json!({}));
    assert!(handoff::infrastructure(&mut bare, &Reading::Unreferenced).is_ok());
    assert!(handoff::provisioned(&bare), "nothing to wait for");
}

#[test]
fn machines_are_counted() {
    let mut alone = machine("alone", false, true);
    set(&mut alone, NewCondition::new("Ready", true, "Ready"), NOW);
    let descendants = Descendants {
        deployments: vec![deployment("md")],
        workers: vec![alone, machine("of-set", false, false)],
        ..Descendants::default()
    };
    let mut cluster = with_both();
    let mut seen = observed(descendants);
    seen.control_plane = found(json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 2,
        "versions": [{"version": "v1.36.1", "replicas": 2}]}}));
    replicas::count(&mut cluster, &seen);
    let status = cluster.status.expect("a status");
    let workers = status.workers.expect("workers");
    assert_eq!(workers.desired_replicas, Some(3));
    assert_eq!(workers.replicas, Some(2));
    assert_eq!(workers.ready_replicas, Some(1));
    assert_eq!(workers.available_replicas, None);
    let versions: Vec<_> = workers.versions.iter().map(|it| it.version.as_str()).collect();
    assert_eq!(versions, ["v1.35.0", "v1.36.1"]);
    let control_plane = status.control_plane.expect("a control plane");
    assert_eq!((control_plane.desired_replicas, control_plane.ready_replicas), (Some(3), Some(2)));
    assert_eq!(control_plane.versions.len(), 1);
}
