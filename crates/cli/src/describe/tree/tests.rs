//! Tests of the tree.

use super::*;
use serde_json::json;

fn machine(name: &str, labels: &Value) -> Value {
    json!({
        "kind": "Machine",
        "metadata": {"name": name, "labels": labels},
        "spec": {"infrastructureRef": {"name": name}, "bootstrap": {"configRef": {"name": name}}},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]},
    })
}

fn snapshot() -> Snapshot {
    let infrastructure = json!({"kind": "HostMachineTemplate", "name": "t"});
    Snapshot {
        cluster: json!({
            "kind": "Cluster", "metadata": {"name": "demo"},
            "status": {"controlPlane": {"replicas": 1, "desiredReplicas": 3}, "workers": {"replicas": 1}},
        }),
        infrastructure: Some(json!({"kind": "HostCluster", "metadata": {"name": "demo"}})),
        control_plane: Some(json!({
            "kind": "CapstanControlPlane", "metadata": {"name": "demo"},
            "spec": {"replicas": 3, "version": "v1", "machineTemplate": {"spec": {"infrastructureRef": infrastructure}}},
            "status": {"replicas": 1, "readyReplicas": 1},
        })),
        deployments: vec![json!({
            "kind": "MachineDeployment", "metadata": {"name": "w"}, "spec": {"replicas": 1},
        })],
        machine_sets: vec![json!({
            "kind": "MachineSet",
            "metadata": {"name": "w-1", "labels": {"cluster.x-k8s.io/deployment-name": "w"}}, "spec": {"replicas": 1},
        })],
        machines: vec![
            machine("cp-1", &json!({"cluster.x-k8s.io/control-plane": ""})),
            machine(
                "w-1-a",
                &json!({
                "cluster.x-k8s.io/deployment-name": "w", "cluster.x-k8s.io/set-name": "w-1"}),
            ),
            machine("alone", &json!({})),
        ],
        infrastructure_machines: vec![json!({
            "kind": "HostMachine", "metadata": {"name": "cp-1"}, "spec": {"hostName": "rack-1"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]},
        })],
        bootstrap_configs: vec![json!({
            "kind": "CapstanConfig", "metadata": {"name": "cp-1"},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken", "message": "oh"}]},
        })],
        reports: vec![
            json!({"metadata": {"name": "cp-1"}, "status": {"phase": "Applied"}}),
            json!({"metadata": {"name": "w-1-a"}, "status": {
                "phase": "Applying", "plan": {"revision": 2}, "step": {"index": 3, "total": 7, "name": "install"},
            }}),
        ],
        resource_sets: vec!["cni".to_owned()],
        ..Snapshot::default()
    }
}

fn names(line: &Line) -> Vec<&str> {
    line.children.iter().map(|child| child.name.as_str()).collect()
}

#[test]
fn every_machine_is_under_what_made_it() {
    let tree = tree(&snapshot(), &Options::default());
    assert_eq!(
        names(&tree),
        ["ClusterInfrastructure - HostCluster/demo", "ControlPlane - CapstanControlPlane/demo", "Workers"]
    );
    assert_eq!(tree.counts.as_ref().unwrap().replicas, "2/3");
    let control_plane = &tree.children[1];
    assert_eq!(control_plane.counts.as_ref().unwrap().replicas, "1/3");
    assert_eq!(control_plane.version.as_deref(), Some("v1"));
    assert_eq!(names(control_plane), ["Machine/cp-1"]);
    // What is broken is told although it is below; what says the same as the machine is not.
    assert_eq!(names(&control_plane.children[0]), ["BootstrapConfig - CapstanConfig/cp-1", "Host/rack-1"]);
    let workers = &tree.children[2];
    assert_eq!(names(workers), ["MachineDeployment/w", "Other"]);
    assert_eq!(names(&workers.children[0].children[0]), ["Plan 2: step 3 of 7, install"]);
    assert_eq!(names(&workers.children[1]), ["Machine/alone"]);
}

#[test]
fn machines_of_a_pool_are_under_it() {
    let mut snapshot = snapshot();
    snapshot.machine_pools = vec![json!({
        "kind": "MachinePool", "metadata": {"name": "spot"}, "status": {"replicas": 1},
        "spec": {"replicas": 2, "template": {"spec": {"version": "v1"}}},
    })];
    snapshot.machines.push(machine("spot-a", &json!({"cluster.x-k8s.io/pool-name": "spot"})));
    let tree = tree(&snapshot, &Options::default());
    let workers = &tree.children[2];
    assert_eq!(names(workers), ["MachineDeployment/w", "MachinePool/spot", "Other"]);
    let pool = &workers.children[1];
    assert_eq!((names(pool), pool.version.as_deref()), (vec!["Machine/spot-a"], Some("v1")));
    assert_eq!(pool.counts.as_ref().unwrap().replicas, "1/2");
}

#[test]
fn more_is_shown_when_it_is_asked_for() {
    let all = Options {
        machine_sets: true,
        resource_sets: true,
        templates: true,
        echo: true,
        conditions: vec!["Machine/cp-1".parse().unwrap()],
        ..Options::default()
    };
    let tree = tree(&snapshot(), &all);
    assert_eq!(names(&tree)[1], "ClusterResourceSets");
    assert_eq!(names(&tree.children[1]), ["ClusterResourceSet/cni"]);
    let control_plane = &tree.children[2];
    assert_eq!(names(control_plane), ["Machine/cp-1", "Templates"]);
    assert_eq!(
        names(&control_plane.children[0]),
        ["BootstrapConfig - CapstanConfig/cp-1", "MachineInfrastructure - HostMachine/cp-1", "Host/rack-1"]
    );
    assert_eq!(control_plane.children[0].conditions.len(), 1);
    assert_eq!(names(&control_plane.children[1]), ["MachineInfrastructureTemplate - HostMachineTemplate/t"]);
    let deployment = &tree.children[3].children[0];
    assert_eq!(names(deployment), ["MachineSet/w-1"]);
    assert_eq!(names(&deployment.children[0]), ["Machine/w-1-a"]);
    assert!(deployment.children[0].children[0].conditions.is_empty());
}

#[test]
fn conditions_are_asked_for_by_kind_name_or_all() {
    let object = json!({
        "kind": "Machine", "metadata": {"name": "a"},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "R", "message": ""},
            {"type": "Paused", "status": "False", "reason": "R", "message": ""},
            {"type": "NodeReady", "status": "True", "reason": "R", "message": ""},
            {"type": "Deleting", "status": "True", "reason": "R", "message": ""},
        ]},
    });
    let snapshot = Snapshot::default();
    for (asked, expected) in
        [("all", 4), ("machine", 4), ("Machine/a", 4), ("all+", 2), ("Machine/b", 0), ("Cluster", 0)]
    {
        let options = Options { conditions: vec![asked.parse().unwrap()], ..Options::default() };
        let line = View { snapshot: &snapshot, options: &options }.line(&object, "Ready", "x");
        assert_eq!(line.conditions.len(), expected, "{asked}");
    }
    for wrong in ["", "a b"] {
        assert!(wrong.parse::<ConditionFilter>().is_err(), "{wrong:?}");
    }
}
