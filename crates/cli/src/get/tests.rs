//! Tests of tables and other formats, for objects in all relevant states.

use super::*;
use clap::Parser;

use crate::args::{Args, Verb};

fn args(words: &[&str]) -> GetArgs {
    match Args::try_parse_from([&["capstan", "get"], words].concat()).unwrap().verb {
        Verb::Get(Get::Clusters(args) | Get::Hosts(args)) => args,
        Verb::Get(Get::Machines(args)) => args.get,
        other => panic!("parsed as {other:?}"),
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message})
}

fn object(name: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": spec, "status": status,
    })
}

fn cluster(conditions: &[Value]) -> Value {
    let versions = json!([{"version": "v1.36.0+k3s1"}, {"version": "v1.36.1+k3s1"}]);
    let status = json!({
        "phase": "Provisioned", "conditions": conditions,
        "controlPlane": {"desiredReplicas": 3, "readyReplicas": 2, "upToDateReplicas": 1, "versions": versions},
        "workers": {"desiredReplicas": 5, "upToDateReplicas": 1},
    });
    object("demo", &json!({"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}}), &status)
}

fn rendered(objects: &[Value], words: &[&str], shown: &KindTable, width: Option<usize>) -> String {
    printed(objects, &args(words), shown, Timestamp::from_second(60).unwrap(), width).unwrap()
}

fn clusters() -> KindTable {
    clusters::shown(resource::<Cluster>())
}

#[test]
fn a_cluster_is_one_line_with_what_it_waits_for() {
    let waits = [condition(
        "Available",
        "False",
        "NotAvailable",
        "* ControlPlaneAvailable: no quorum\n* Workers: 5 missing",
    )];
    let text = rendered(&[cluster(&waits)], &["clusters"], &clusters(), None);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "NAME   PHASE         VERSION                     CONTROL PLANE   WORKERS   AGE   WAITING FOR",
            "demo   Provisioned   v1.36.0+k3s1,v1.36.1+k3s1   2/3             0/5       60s   ControlPlaneAvailable: no quorum (and 1 more)",
        ]
    );
    let narrow = rendered(&[cluster(&waits)], &["clusters"], &clusters(), Some(60));
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    let wide = rendered(&[cluster(&waits)], &["clusters", "-o", "wide"], &clusters(), Some(60));
    assert!(wide.contains("False       2/8          10.0.0.1:6443"), "{wide}");
    let all = rendered(&[cluster(&waits)], &["clusters", "-A"], &clusters(), None);
    assert!(all.starts_with("NAMESPACE   NAME") && all.contains("\nshop        demo"), "{all}");
}

#[test]
fn what_an_object_waits_for_is_the_first_of_many_things() {
    let available = || condition("Available", "True", "Available", "");
    let rolling = condition("RollingOut", "True", "RollingOut", "Rolling out 2 replicas");
    let mut deleted = cluster(&[condition("Deleting", "True", "WaitingForWorkers", "2 Machines left")]);
    deleted["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    let mut paused = cluster(&[available()]);
    paused["spec"]["paused"] = json!(true);
    let list = condition("Available", "False", "NotAvailable", "Machines:\n  * a: no host");
    for (object, expected) in [
        (cluster(&[available()]), ""),
        (cluster(&[]), "no controller has set Available"),
        (cluster(&[available(), rolling.clone()]), "RollingOut: Rolling out 2 replicas"),
        (cluster(&[condition("Available", "Unknown", "NotYet", ""), rolling]), "NotYet"),
        (cluster(&[list]), "Machines: a: no host"),
        (deleted, "2 Machines left"),
        (paused, "Paused"),
        (
            cluster(&[available(), condition("UpToDate", "False", "NotUpToDate", "version differs")]),
            "version differs",
        ),
    ] {
        assert_eq!(cells::waits_for(&object, "Available"), expected);
    }
}

#[test]
fn a_machine_names_its_node_and_host() {
    let spec = json!({"clusterName": "demo", "version": "v1.36.0", "providerID": "capstan://shop/rack-1/c"});
    let mut machine = object(
        "web-0",
        &spec,
        &json!({
            "phase": "Running", "nodeRef": {"name": "web-0"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.9"}],
            "conditions": [condition("Ready", "True", "Ready", ""), condition("UpToDate", "True", "UpToDate", "")],
        }),
    );
    let shown = machines::shown(resource::<Machine>());
    let text = rendered(std::slice::from_ref(&machine), &["machines"], &shown, None);
    let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells, ["web-0", "demo", "worker", "Running", "v1.36.0", "web-0", "rack-1", "60s"]);
    machine["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
    let text = rendered(&[machine], &["machines", "-o", "wide"], &shown, None);
    assert!(text.contains("control-plane") && text.contains("10.0.0.9"), "{text}");
}

#[test]
fn a_host_names_its_pool_and_who_has_it() {
    let spec = json!({"ssh": {"address": "10.0.0.1", "port": 2222}, "claim": {"clusterName": "demo", "machineName": "m"}});
    let mut host = object(
        "rack-1",
        &spec,
        &json!({
            "state": "Claimed", "facts": {"memoryBytes": 2_147_483_648_i64, "cpus": 4},
            "conditions": [condition("Ready", "False", "Unreachable", "no route\x1b[2J")],
        }),
    );
    host["metadata"]["ownerReferences"] = json!([{"kind": "HostPool", "name": "rack"}]);
    let shown = hosts::shown(resource::<Host>());
    let text = rendered(std::slice::from_ref(&host), &["hosts"], &shown, None);
    let line = text.lines().nth(1).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(&cells[..6], ["rack-1", "Claimed", "rack", "demo/m", "10.0.0.1:2222", "60s"]);
    assert!(line.ends_with("Unreachable: no route\u{fffd}[2J"), "{line:?}");
    host["spec"]["quarantine"] = json!({"reason": "LeftDirty", "message": "files left"});
    let text = rendered(&[host], &["hosts", "-o", "wide"], &shown, None);
    assert!(text.contains("LeftDirty: files left") && text.contains("2048Mi"), "{text}");
}

#[test]
fn programs_get_objects_or_names() {
    let objects = [cluster(&[])];
    assert_eq!(
        rendered(&objects, &["clusters", "-o", "name"], &clusters(), None),
        "cluster.cluster.x-k8s.io/demo\n"
    );
    let list: Value =
        serde_json::from_str(&rendered(&objects, &["clusters", "-o", "json"], &clusters(), None)).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["metadata"]["name"]), (&json!("List"), &json!("demo")));
    let one = rendered(&objects, &["cluster", "demo", "-o", "json"], &clusters(), None);
    assert_eq!(serde_json::from_str::<Value>(&one).unwrap(), objects[0]);
}

#[test]
fn objects_are_sorted_and_control_plane_machines_come_first() {
    let machine = |name: &str, cluster: &str, is_server: bool| {
        let mut machine = object(name, &json!({"clusterName": cluster}), &json!({}));
        if is_server {
            machine["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
        }
        machine
    };
    let mut all = [machine("b", "y", true), machine("a", "x", false), machine("z", "x", true)];
    all.sort_by_cached_key(machines::shown(resource::<Machine>()).key);
    let names: Vec<&str> = all.iter().map(cells::name).collect();
    assert_eq!(names, ["z", "a", "b"]);
}
