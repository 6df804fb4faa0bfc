//! The objects of a cluster: content, names, metadata, and that computing twice changes nothing.

use crate::contract::Contract;
use crate::fixtures::World;
use crate::object;
use proptest::prelude::*;
use serde_json::{Value, json};

const CLONED: &str = "cluster.x-k8s.io/cloned-from-groupkind";

#[test]
fn a_new_cluster_gets_all_objects() {
    let desired = World::new().computed().desired;
    assert_eq!(
        desired.infrastructure_cluster,
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "Network",
            "metadata": {
                "name": "c-cbbbb",
                "namespace": "default",
                "labels": {
                    "of-objects": "network",
                    "cluster.x-k8s.io/cluster-name": "c",
                    "topology.cluster.x-k8s.io/owned": "",
                },
                "annotations": {
                    "cluster.x-k8s.io/cloned-from-name": "network",
                    "cluster.x-k8s.io/cloned-from-groupkind": "NetworkTemplate.infrastructure.cluster.x-k8s.io",
                },
            },
            "spec": {"region": "eu"},
        })
    );
    let machines = desired.control_plane.machine_template.expect("a template");
    assert_eq!(object::kind(&machines), "MachineTemplate");
    assert_eq!(machines["spec"]["template"]["spec"], json!({"size": "s"}));
    assert_eq!(machines["metadata"]["ownerReferences"][0]["uid"], "cluster-uid");
    assert_eq!(machines["metadata"]["ownerReferences"][0].get("controller"), None);
    assert_eq!(machines["metadata"].get("resourceVersion"), None);
    let control_plane = desired.control_plane.object;
    assert_eq!(object::kind(&control_plane), "Plane");
    assert_eq!(control_plane["spec"]["version"], "v1.30.0");
    assert_eq!(control_plane["spec"]["replicas"], 3);
    assert_eq!(
        control_plane["spec"]["machineTemplate"],
        json!({
            "metadata": {"labels": {
                "of-machines": "plane", "class": "plane", "both": "topology",
                "cluster.x-k8s.io/cluster-name": "c", "topology.cluster.x-k8s.io/owned": "",
            }},
            "spec": {"infrastructureRef": {
                "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "MachineTemplate", "name": object::name(&machines),
            }},
        })
    );
    assert_eq!(desired.cluster.control_plane_ref, object::reference(&control_plane));
    assert_eq!(desired.cluster.labels["topology.cluster.x-k8s.io/owned"], "");
    assert!(!desired.cluster.annotations.contains_key("topology.internal.cluster.x-k8s.io/upgrade-step"));
    let pool = &desired.machine_pools["p"];
    assert_eq!((object::kind(&pool.bootstrap), object::kind(&pool.infrastructure)), ("Boot", "Pool"));
    assert_eq!(pool.bootstrap["metadata"]["labels"]["topology.cluster.x-k8s.io/pool-name"], "p");
    assert_eq!(pool.object["spec"]["replicas"], 4);
    assert_eq!(
        pool.object["spec"]["template"]["spec"]["infrastructureRef"],
        object::reference(&pool.infrastructure)
    );
    assert!(desired.machine_deployments.values().all(|one| one.health_check.is_none()));
}

#[test]
fn machine_deployments_have_the_metadata_of_topology_and_class() {
    let desired = World::new().computed().desired;
    let workers = &desired.machine_deployments["a"];
    let labels = json!({
        "class": "small", "both": "topology", "own": "a",
        "cluster.x-k8s.io/cluster-name": "c",
        "topology.cluster.x-k8s.io/owned": "",
        "topology.cluster.x-k8s.io/deployment-name": "a",
    });
    assert_eq!(workers.object["metadata"]["labels"], labels);
    assert_eq!(workers.object["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(workers.object["metadata"]["annotations"], json!({"class": "small"}));
    assert_eq!(
        workers.object["spec"]["selector"]["matchLabels"],
        json!({
            "cluster.x-k8s.io/cluster-name": "c",
            "topology.cluster.x-k8s.io/owned": "",
            "topology.cluster.x-k8s.io/deployment-name": "a",
        })
    );
    let name = object::name(&workers.object);
    assert!(name.starts_with("c-a-") && name.len() == 9, "{name}");
    assert_eq!(workers.bootstrap["metadata"]["labels"]["topology.cluster.x-k8s.io/deployment-name"], "a");
    assert_eq!(
        workers.bootstrap["metadata"]["annotations"][CLONED],
        "BootTemplate.bootstrap.cluster.x-k8s.io"
    );
}

#[test]
fn annotations_about_upgrades_stay_in_the_topology_and_others_do_not() {
    let mut world = World::new();
    let skip = "machineset.cluster.x-k8s.io/skip-preflight-checks";
    world.change_cluster(|cluster| {
        cluster["spec"]["topology"]["workers"]["machineDeployments"][0]["metadata"]["annotations"] = json!({
            "topology.cluster.x-k8s.io/defer-upgrade": "",
            "topology.cluster.x-k8s.io/hold-upgrade-sequence": "",
            skip: "All",
        });
    });
    let desired = world.computed().desired;
    let object = &desired.machine_deployments["a"].object;
    assert_eq!(object["metadata"]["annotations"], json!({"class": "small", skip: "All"}));
    assert_eq!(object["spec"]["template"]["metadata"]["annotations"], json!({"class": "small", skip: "All"}));
}

#[test]
fn fields_of_the_topology_win_over_those_of_the_class() {
    let mut world = World::with_class(|class| {
        let small = &mut class["spec"]["workers"]["machineDeployments"][0];
        small["failureDomain"] = json!("class");
        small["minReadySeconds"] = json!(5);
        small["deletion"] = json!({"order": "Oldest", "nodeDrainTimeoutSeconds": 7});
        small["rollout"] = json!({"strategy": {"type": "OnDelete"}});
        small["naming"] = json!({"template": "{{ .cluster.name }}-x-{{ .machineDeployment.topologyName }}"});
        small["healthCheck"] = json!({"remediation": {"maxInFlight": 1}});
        class["spec"]["controlPlane"]["deletion"] = json!({"nodeDrainTimeoutSeconds": 90});
        class["spec"]["controlPlane"]["taints"] =
            json!([{"key": "k", "effect": "NoSchedule", "propagation": "Always"}]);
    });
    world.change_cluster(|cluster| {
        let topology = &mut cluster["spec"]["topology"];
        let a = &mut topology["workers"]["machineDeployments"][0];
        a["failureDomain"] = json!("topology");
        a["deletion"] = json!({"nodeDrainTimeoutSeconds": 0});
        a["rollout"] = json!({"after": "2030-01-01T00:00:00Z"});
        a["readinessGates"] = json!([{"conditionType": "Gate"}]);
        topology["controlPlane"]["rollout"] = json!({"after": "2030-01-01T00:00:00Z"});
    });
    let mut old = world.clone();
    let desired = world.computed().desired;
    let spec = &desired.machine_deployments["a"].object["spec"];
    assert_eq!(spec["rollout"], json!({"after": "2030-01-01T00:00:00Z"}));
    assert_eq!(spec["deletion"], json!({"order": "Oldest"}));
    assert_eq!(spec["remediation"], json!({"maxInFlight": 1}));
    let machines = &spec["template"]["spec"];
    assert_eq!(machines["failureDomain"], "topology");
    assert_eq!(machines["minReadySeconds"], 5);
    assert_eq!(machines["deletion"], json!({"nodeDrainTimeoutSeconds": 0}));
    assert_eq!(machines["readinessGates"], json!([{"conditionType": "Gate"}]));
    assert_eq!(object::name(&desired.machine_deployments["a"].object), "c-x-a");
    let control_plane = &desired.control_plane.object["spec"];
    assert_eq!(control_plane["rollout"], json!({"after": "2030-01-01T00:00:00Z"}));
    let machines = &control_plane["machineTemplate"]["spec"];
    assert_eq!(machines["deletion"], json!({"nodeDrainTimeoutSeconds": 90}));
    assert_eq!(machines["taints"][0]["key"], "k");

    old.contract = Contract::V1Beta1;
    let control_plane = old.computed().desired.control_plane.object;
    let machines = &control_plane["spec"]["machineTemplate"];
    assert_eq!(machines["nodeDrainTimeout"], "1m30s");
    assert_eq!(machines["infrastructureRef"]["apiVersion"], "infrastructure.cluster.x-k8s.io/v1beta2");
    assert_eq!(machines["infrastructureRef"]["namespace"], "default");
    assert_eq!(machines.get("spec"), None);
}

#[test]
fn health_checks_are_those_of_the_topology_or_of_the_class() {
    let check = |seconds: i32| json!({"checks": {"nodeStartupTimeoutSeconds": seconds}});
    let gate = json!({"checks": {"unhealthyNodeConditions": [
        {"type": "Ready", "status": "False", "timeoutSeconds": 60}]}, "remediation": {"maxInFlight": 1}});
    let enabled = |value: bool, mut check: Value| {
        check["enabled"] = json!(value);
        check
    };
    for (class, topology, expected) in [
        (None, None, None),
        (Some(check(60)), None, Some(60)),
        (Some(check(60)), Some(check(90)), Some(90)),
        (None, Some(check(90)), Some(90)),
        (Some(check(60)), Some(enabled(false, json!({}))), None),
        (Some(check(60)), Some(enabled(true, json!({}))), Some(60)),
        (Some(check(60)), Some(enabled(false, check(90))), None),
        (None, Some(enabled(true, json!({}))), None),
        (Some(gate), None, Some(600)),
    ] {
        let mut world = World::with_class(|object| {
            if let Some(class) = &class {
                object["spec"]["workers"]["machineDeployments"][0]["healthCheck"] = class.clone();
            }
        });
        if let Some(topology) = &topology {
            world.change_cluster(|cluster| {
                cluster["spec"]["topology"]["workers"]["machineDeployments"][0]["healthCheck"] =
                    topology.clone();
            });
        }
        let workers = &world.computed().desired.machine_deployments["a"];
        let found = workers.health_check.as_ref();
        let seconds = found.map(|check| check["spec"]["checks"]["nodeStartupTimeoutSeconds"].clone());
        assert_eq!(seconds, expected.map(|seconds: i32| json!(seconds)), "{class:?} {topology:?}");
        if let Some(check) = found {
            assert_eq!(object::name(check), object::name(&workers.object));
            assert_eq!(check["spec"].get("remediation"), None);
            assert_eq!(
                check["spec"]["selector"]["matchLabels"],
                json!({"topology.cluster.x-k8s.io/owned": "", "topology.cluster.x-k8s.io/deployment-name": "a"})
            );
        }
    }
    let mut world = World::with_class(|class| class["spec"]["controlPlane"]["healthCheck"] = check(60));
    let control_plane = world.computed().desired.control_plane;
    let check = control_plane.health_check.expect("a health check");
    assert_eq!(
        check["spec"]["selector"]["matchLabels"],
        json!({"topology.cluster.x-k8s.io/owned": "", "cluster.x-k8s.io/control-plane": ""})
    );
    assert_eq!(check["metadata"]["ownerReferences"][0]["name"], "c");
}

#[test]
fn objects_that_exist_keep_their_names() {
    let mut world = World::new();
    let first = world.computed();
    world.apply(&first, "v1.30.0");
    world.current.machine_deployments.get_mut("a").expect("a").bootstrap = None;
    let second = world.computed().desired;
    assert_ne!(
        object::name(&second.machine_deployments["a"].bootstrap),
        object::name(&first.desired.machine_deployments["a"].bootstrap),
        "a template that was deleted gets a new name"
    );
    assert_eq!(second.machine_deployments["b"], first.desired.machine_deployments["b"]);
}

#[test]
fn the_owner_that_protects_new_objects_stays() {
    let mut world = World::new();
    let first = world.computed();
    world.apply(&first, "v1.30.0");
    let owner = json!({"apiVersion": "v1", "kind": "Secret", "name": "c-shim", "uid": "s"});
    let other = json!({"apiVersion": "v1", "kind": "Secret", "name": "other", "uid": "o"});
    let current = world.current.infrastructure_cluster.as_mut().expect("it exists");
    object::set(current, object::OWNERS, json!([other, owner]));
    let desired = world.computed().desired;
    assert_eq!(desired.infrastructure_cluster["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(desired.control_plane.object["metadata"].get("ownerReferences"), None);
}

#[test]
fn topologies_must_fit_the_class() {
    let mut world = World::new();
    world.change_cluster(|cluster| {
        cluster["spec"]["topology"]["workers"]["machineDeployments"][1]["class"] = json!("none");
    });
    let error = world.compute().expect_err("there is no such class").to_string();
    assert_eq!(
        error,
        "spec.topology.workers.machineDeployments[b].class: MachineDeployment class \"none\" does not exist in the \
         ClusterClass"
    );
    let mut world = World::with_class(|class| {
        class["spec"]["controlPlane"]["naming"] = json!({"template": "{{ .none }}"});
    });
    let error = world.compute().expect_err("the name fails").to_string();
    assert!(error.starts_with("cannot make a name for the control plane"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Objects that are computed from themselves do not change, whatever the class and the topology say.
    #[test]
    fn computing_twice_changes_nothing(
        replicas in 1_i32..5,
        label in "[a-z]{1,8}",
        size in "[a-z]{1,8}",
        groups in 0_usize..4,
        has_machines in any::<bool>(),
        is_old in any::<bool>(),
    ) {
        let mut world = World::with_class(|class| {
            if !has_machines {
                class["spec"]["controlPlane"].as_object_mut().expect("a map").remove("machineInfrastructure");
            }
            class["spec"]["variables"] = json!([
                {"name": "size", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}},
            ]);
            class["spec"]["patches"] = json!([{"name": "p", "definitions": [{
                "selector": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                    "kind": "MachineTemplate",
                    "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["*"]}},
                },
                "jsonPatches": [
                    {"op": "replace", "path": "/spec/template/spec/size", "valueFrom": {"variable": "size"}},
                ],
            }]}]);
        });
        if is_old {
            world.contract = Contract::V1Beta1;
        }
        world.change_cluster(|cluster| {
            let topology = &mut cluster["spec"]["topology"];
            topology["variables"] = json!([{"name": "size", "value": size}]);
            topology["controlPlane"] = json!({"replicas": replicas, "metadata": {"labels": {label.clone(): "x"}}});
            let groups: Vec<Value> = (0..groups)
                .map(|i| json!({"class": if i % 2 == 0 { "small" } else { "large" }, "name": format!("g{i}")}))
                .collect();
            topology["workers"]["machineDeployments"] = json!(groups);
        });
        let first = world.computed();
        world.apply(&first, "v1.30.0");
        let second = world.computed();
        prop_assert_eq!(&second.desired, &first.desired);
        world.apply(&second, "v1.30.0");
        prop_assert_eq!(world.computed(), second);
    }

    /// Labels and annotations of a topology never change what is in a template.
    #[test]
    fn a_label_does_not_change_templates(key in "[a-z]{1,8}", value in "[a-z]{1,8}") {
        let mut world = World::new();
        let before = world.computed();
        world.apply(&before, "v1.30.0");
        world.change_cluster(|cluster| {
            let topology = &mut cluster["spec"]["topology"];
            let metadata = json!({"labels": {key.clone(): value.clone()}, "annotations": {key.clone(): value}});
            topology["controlPlane"]["metadata"] = metadata.clone();
            topology["workers"]["machineDeployments"][0]["metadata"] = metadata.clone();
            topology["workers"]["machinePools"][0]["metadata"] = metadata;
        });
        let after = world.computed();
        let (a, b) = (&before.desired.machine_deployments["a"], &after.desired.machine_deployments["a"]);
        prop_assert_eq!(&a.bootstrap, &b.bootstrap);
        prop_assert_eq!(&a.infrastructure, &b.infrastructure);
        prop_assert_eq!(&before.desired.control_plane.machine_template, &after.desired.control_plane.machine_template);
        prop_assert_eq!(&before.desired.machine_pools["p"].bootstrap, &after.desired.machine_pools["p"].bootstrap);
        prop_assert!(a.object != b.object);
    }
}
