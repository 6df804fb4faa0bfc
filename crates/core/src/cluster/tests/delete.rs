//! The order of a Cluster's deletion.

use capstan_controller::Next;
use serde_json::json;

use super::{deleting, deployment, found, machine, observed, with_both};
use crate::cluster::decide::delete::{Target, decide};
use crate::cluster::observe::{Descendants, Observed};
use crate::external::Reading;

#[test]
fn a_cluster_goes_workers_first() {
    let all = || Descendants {
        deployments: vec![deployment("md")],
        workers: vec![machine("alone", false, true), machine("of-set", false, false)],
        control_plane_machines: vec![machine("cp", true, true)],
        ..Descendants::default()
    };
    let cluster = deleting(with_both());
    let first = decide(&cluster, &observed(all()));
    assert_eq!(first.reason, "WaitingForWorkersDeletion");
    assert_eq!(first.message, "* MachineDeployments: md\n* Worker Machines: alone, of-set");
    assert_eq!(first.delete, [Target::Deployment("md".into()), Target::Machine("alone".into())]);
    assert!(matches!(first.next, Next::After(_)) && first.acts());

    let without_provider = decide(&deleting(super::cluster(&json!({}))), &observed(all()));
    assert!(without_provider.message.starts_with("* Control plane Machines: cp\n"));
    assert!(without_provider.delete.contains(&Target::Machine("cp".into())));

    let only_control_plane = || Descendants { workers: vec![], deployments: vec![], ..all() };
    let mut rest = observed(only_control_plane());
    rest.control_plane = found(json!({}));
    rest.infrastructure = found(json!({}));
    let second = decide(&cluster, &rest);
    assert_eq!(
        (second.reason, &*second.message),
        ("WaitingForControlPlaneDeletion", "Waiting for Plane to be deleted")
    );
    assert_eq!(second.delete, [Target::ControlPlane]);

    rest.control_plane =
        found(json!({"metadata": {"name": "c", "deletionTimestamp": "2025-01-01T00:00:00Z"}}));
    let waits = decide(&cluster, &rest);
    assert_eq!(waits.delete, [], "asked for already");
    assert!(!waits.acts());
    rest.control_plane = Reading::Missing;
    let third = decide(&cluster, &rest);
    assert_eq!(
        (third.reason, third.delete.as_slice()),
        ("WaitingForInfrastructureDeletion", [Target::Infrastructure].as_slice())
    );
    rest.infrastructure = Reading::Missing;
    let last = decide(&cluster, &rest);
    assert_eq!((last.reason, last.is_done), ("DeletionCompleted", true));
    assert!(last.acts(), "the Cluster itself goes");
}

#[test]
fn nothing_is_deleted_on_a_guess() {
    let cluster = deleting(with_both());
    let blind = decide(&cluster, &Observed::default());
    assert_eq!((blind.reason, blind.is_done), ("InternalError", false));
    let mut unreadable = observed(Descendants::default());
    unreadable.control_plane = Reading::Unreadable;
    unreadable.infrastructure = found(json!({}));
    let waits = decide(&cluster, &unreadable);
    assert_eq!((waits.reason, waits.delete.len(), waits.is_done), ("InternalError", 0, false));
}
