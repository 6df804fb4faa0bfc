//! What moves with what, and in which order.

use super::*;
use crate::kinds::kinds;
use crate::order::groups;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::LazyLock;

static KINDS: LazyLock<Vec<Arc<MovableKind>>> = LazyLock::new(|| kinds(&capstan_api::crd::all()));

/// An object of namespace `default` whose UID is `MovableKind/name`, owned by objects that are named so.
pub(crate) fn object(title: &str, owners: &[&str], fields: Value) -> Object {
    let (kind, name) = title.split_once('/').unwrap();
    let kind = KINDS.iter().find(|known| known.resource.kind == kind).unwrap().clone();
    let owners: Vec<Value> = owners
        .iter()
        .map(|uid| {
            let (kind, name) = uid.split_once('/').unwrap();
            json!({"apiVersion": "x/v1", "kind": kind, "name": name, "uid": uid})
        })
        .collect();
    let mut body = json!({
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": name, "namespace": "default", "uid": title, "ownerReferences": owners},
    });
    merge(&mut body, fields);
    Object { kind, body: serde_json::from_value(body).unwrap() }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

pub(crate) fn plain(title: &str, owners: &[&str]) -> Object {
    object(title, owners, json!({}))
}

/// A cluster with one machine on a host of a pool, as our providers and core leave it.
pub(crate) fn cluster() -> Vec<Object> {
    let done = json!({"status": {
        "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
        "conditions": [{"type": "ControlPlaneInitialized", "status": "True"}],
    }});
    vec![
        object("Cluster/c", &[], done),
        plain("HostCluster/c", &["Cluster/c"]),
        plain("CapstanControlPlane/c", &["Cluster/c"]),
        plain("Secret/c-plan-key", &["CapstanControlPlane/c"]),
        plain("Secret/c-ca", &[]),
        object("Machine/m", &["CapstanControlPlane/c"], json!({"status": {"nodeRef": {"name": "n"}}})),
        plain("HostMachine/m", &["Machine/m"]),
        plain("CapstanConfig/m", &["Machine/m"]),
        plain("MachineReport/m", &["CapstanConfig/m"]),
        plain("Secret/m", &["CapstanConfig/m"]),
        plain("HostPool/p", &[]),
        object("Host/h", &["HostPool/p"], json!({"spec": {"ssh": {"credentialsRef": {"name": "key"}}}})),
        plain("Secret/key", &[]),
        plain("Secret/other", &[]),
        plain("ConfigMap/other", &[]),
    ]
}

fn moving(graph: &Graph) -> BTreeSet<String> {
    graph.moving().map(|node| node.object.uid().to_owned()).collect()
}

#[test]
fn everything_of_a_cluster_and_its_hosts_moves_and_nothing_else() {
    let graph = Graph::new(cluster(), "default", &[]);
    let left: Vec<&str> =
        graph.nodes.iter().filter(|node| !node.moves).map(|node| node.object.uid()).collect();
    assert_eq!(left, ["Secret/other", "ConfigMap/other"]);
    let rests: Vec<&str> =
        graph.nodes.iter().filter(|node| node.rests_by_itself()).map(|node| node.object.uid()).collect();
    assert_eq!(rests, ["Cluster/c", "HostPool/p", "Host/h"]);
}

#[test]
fn secrets_that_files_are_made_from_go_along() {
    let files =
        json!({"spec": {"files": [{"path": "/a", "contentFrom": {"secret": {"name": "s", "key": "k"}}}]}});
    let objects = vec![
        plain("Cluster/c", &[]),
        object("CapstanConfigTemplate/t", &["Cluster/c"], files),
        plain("Secret/s", &[]),
        object(
            "CapstanConfigTemplate/stays",
            &[],
            json!({"spec": {"files": [{"contentFrom": {"secret": {"name": "n"}}}]}}),
        ),
        plain("Secret/n", &[]),
    ];
    let graph = Graph::new(objects, "default", &[]);
    assert_eq!(
        graph.nodes.iter().map(|node| node.moves).collect::<Vec<_>>(),
        [true, true, true, false, false]
    );
}

#[test]
fn what_is_labelled_moves_with_or_without_what_is_below() {
    let labelled =
        |title: &str, label: &str| object(title, &[], json!({"metadata": {"labels": {label: ""}}}));
    let graph = Graph::new(
        vec![
            labelled("Secret/alone", "clusterctl.cluster.x-k8s.io/move"),
            plain("ConfigMap/below-alone", &["Secret/alone"]),
            labelled("Secret/head", "clusterctl.cluster.x-k8s.io/move-hierarchy"),
            plain("ConfigMap/below-head", &["Secret/head"]),
        ],
        "default",
        &[],
    );
    assert_eq!(
        moving(&graph),
        ["ConfigMap/below-head", "Secret/alone", "Secret/head"].map(str::to_owned).into()
    );
}

#[test]
fn secrets_go_with_the_cluster_they_are_named_after_unless_somebody_owns_them() {
    for (secret, owners, expected) in [
        ("Secret/c-kubeconfig", &[][..], true),
        ("Secret/c-sa", &[], true),
        ("Secret/c-nonsense", &[], false),
        ("Secret/c", &[], false),
        ("Secret/cc-ca", &[], false),
        ("Secret/c-ca", &["Secret/elsewhere"], false),
    ] {
        let graph = Graph::new(vec![plain("Cluster/c", &[]), plain(secret, owners)], "default", &[]);
        assert_eq!(graph.nodes[1].moves, expected, "{secret}");
    }
}

#[test]
fn classes_that_others_need_are_copied_and_stay() {
    let in_namespace = |title: &str, owners: &[&str], namespace: &str| {
        object(title, owners, json!({"metadata": {"namespace": namespace}}))
    };
    let of_class = json!({"spec": {"topology": {"classRef": {"name": "far", "namespace": "classes"}}}});
    let objects = vec![
        object("Cluster/c", &[], of_class),
        in_namespace("ClusterClass/far", &[], "classes"),
        in_namespace("HostClusterTemplate/far", &["ClusterClass/far"], "classes"),
        plain("ClusterClass/near", &[]),
        plain("ClusterClass/shared", &[]),
    ];
    let shared = ("default".to_owned(), "shared".to_owned());
    let graph = Graph::new(objects, "default", &[shared]);
    let stays: Vec<bool> = graph.nodes.iter().map(|node| node.stays).collect();
    assert_eq!(stays, [false, true, true, false, true]);
    assert!(graph.nodes.iter().all(|node| node.moves));
    assert_eq!(graph.nodes[0].soft_owners, [1]);
    let order = groups(&graph).unwrap();
    assert!(order[0].contains(&1) && order[1].contains(&0), "{order:?}");
}

#[test]
fn an_object_that_was_read_twice_is_there_once() {
    let graph = Graph::new(vec![plain("Secret/a", &[]), plain("Secret/a", &[])], "default", &[]);
    assert_eq!(graph.nodes.len(), 1);
}

#[test]
fn circles_are_named() {
    let objects = vec![
        plain("Cluster/c", &[]),
        plain("Machine/a", &["Machine/b", "Cluster/c"]),
        plain("Machine/b", &["Machine/a"]),
    ];
    let circle = groups(&Graph::new(objects, "default", &[])).unwrap_err();
    assert_eq!(circle, ["Machine default/a", "Machine default/b"]);
}

proptest! {
    /// However objects own each other, as long as that is no circle: each comes once, after its owners, and what moves is
    /// exactly what a root can reach.
    #[test]
    fn owners_come_first_and_nothing_is_lost(
        edges in prop::collection::vec(prop::collection::vec(0_usize..30, 0..4), 1..30),
        roots in prop::collection::vec(any::<bool>(), 30),
    ) {
        let title = |place: usize| {
            format!("{}/{place}", if roots[place] { "Cluster" } else { "Machine" })
        };
        // An owner always has a smaller number.
        let owners: Vec<Vec<usize>> = edges
            .iter()
            .enumerate()
            .map(|(place, owners)| owners.iter().filter(|owner| **owner < place).copied().collect())
            .collect();
        let objects = owners.iter().enumerate().map(|(place, owners)| {
            let owners: Vec<String> = owners.iter().map(|owner| title(*owner)).collect();
            plain(&title(place), &owners.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let graph = Graph::new(objects.collect(), "default", &[]);
        let mut reached = vec![false; owners.len()];
        for place in 0..owners.len() {
            reached[place] = roots[place] || owners[place].iter().any(|owner| reached[*owner]);
        }
        let moves: Vec<bool> = graph.nodes.iter().map(|node| node.moves).collect();
        prop_assert_eq!(&moves, &reached);
        let order: Vec<usize> = groups(&graph).unwrap().concat();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let expected: Vec<usize> = (0..owners.len()).filter(|place| reached[*place]).collect();
        prop_assert_eq!(sorted, expected);
        for (at, place) in order.iter().enumerate() {
            for owner in owners[*place].iter().filter(|owner| reached[**owner]) {
                prop_assert!(order[..at].contains(owner), "{owner} is not before {place}");
            }
        }
    }
}
