//! What is refused, and the path of each error.

use super::*;
use crate::fixtures::{INFRASTRUCTURE, World};
use crate::upgrade::{Hook, Hooks};
use capstan_api::core::{Cluster, ClusterClass};
use capstan_apiserver_schema::FieldError;
use serde_json::{Value, json};

fn class_of(change: impl FnOnce(&mut Value)) -> ClusterClass {
    World::with_class(change).class
}

fn cluster_of(change: impl FnOnce(&mut Value)) -> Cluster {
    let mut world = World::new();
    world.change_cluster(change);
    world.cluster
}

/// The one error of a class or a Cluster.
fn only(errors: &[FieldError]) -> String {
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].to_string()
}

fn patch(selector: impl Into<Value>, operation: impl Into<Value>) -> Value {
    let (selector, operation): (Value, Value) = (selector.into(), operation.into());
    json!([{"name": "p", "definitions": [{"selector": selector, "jsonPatches": [operation]}]}])
}

fn machines(names: &[&str]) -> Value {
    json!({"apiVersion": INFRASTRUCTURE, "kind": "MachineTemplate",
        "matchResources": {"machineDeploymentClass": {"names": names}}})
}

fn set() -> Value {
    json!({"op": "replace", "path": "/spec/template/spec/size", "value": "x"})
}

#[test]
fn a_sound_class_and_its_cluster_have_no_errors() {
    let world = World::new();
    assert_eq!(class(&world.class, None), []);
    let clusters = [world.cluster.clone()];
    assert_eq!(class(&world.class, Some(ClassChange { old: &world.class, clusters: &clusters })), []);
    assert_eq!(cluster(&world.cluster, Some(&world.class), None), []);
    assert_eq!(cluster(&world.cluster, None, None), []);
    let change = ClusterChange { old: &world.cluster, old_class: Some(&world.class), facts: None };
    assert_eq!(cluster(&world.cluster, Some(&world.class), Some(&change)), []);
}

#[test]
fn classes_are_refused_with_the_path_of_the_field() {
    type Change = Box<dyn FnOnce(&mut Value)>;
    let at = |path: &'static str, value: Value| -> Change {
        Box::new(move |class| *class["spec"].pointer_mut(path).expect(path) = value)
    };
    let add = |path: &'static str, field: &'static str, value: Value| -> Change {
        Box::new(move |class| class["spec"].pointer_mut(path).expect(path)[field] = value)
    };
    let small = "/workers/machineDeployments/0";
    for (change, expected) in [
        (
            at("/infrastructure/templateRef/kind", json!("Network")),
            "spec.infrastructure.templateRef.kind: Invalid value: \"Network\"",
        ),
        (
            at("/controlPlane/templateRef/apiVersion", json!("a/b/c")),
            "spec.controlPlane.templateRef.apiVersion: Invalid value",
        ),
        (
            at("/workers/machineDeployments/1/class", json!("small")),
            "spec.workers.machineDeployments[1].class: Invalid value: \"small\"",
        ),
        (
            add(
                small,
                "rollout",
                json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}),
            ),
            "spec.workers.machineDeployments[small].rollout.strategy.rollingUpdate: Invalid value",
        ),
        (
            add(
                small,
                "rollout",
                json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "many"}}}),
            ),
            "spec.workers.machineDeployments[small].rollout.strategy.rollingUpdate.maxSurge: Invalid value: \"many\"",
        ),
        (
            add(small, "healthCheck", json!({"checks": {"nodeStartupTimeoutSeconds": 5}})),
            "spec.workers.machineDeployments[small].healthCheck.checks.nodeStartupTimeoutSeconds: Invalid value: 5",
        ),
        (
            add(small, "healthCheck", json!({"remediation": {"maxInFlight": "x"}})),
            "spec.workers.machineDeployments[small].healthCheck.remediation.maxInFlight: Invalid value: \"x\"",
        ),
        (
            add(
                small,
                "taints",
                json!([{"key": "node.kubernetes.io/x", "effect": "NoSchedule", "propagation": "Always"}]),
            ),
            "spec.workers.machineDeployments[small].taints[0].key: Invalid value",
        ),
        (
            add(small, "metadata", json!({"labels": {"a b": "c"}})),
            "spec.workers.machineDeployments[small].metadata.labels: Invalid value: \"a b\"",
        ),
        (
            add(small, "naming", json!({"template": "{{ .cluster.name }}_x"})),
            "spec.workers.machineDeployments[small].naming.template: Invalid value",
        ),
        (
            add("/controlPlane", "naming", json!({"template": "{{ .machineDeployment.topologyName }}"})),
            "spec.controlPlane.naming.template: Invalid value",
        ),
        (
            add("", "kubernetesVersions", json!(["v1.30.0", "v1.32.0"])),
            "spec.kubernetesVersions[1]: Invalid value: \"v1.32.0\"",
        ),
        (
            add("", "kubernetesVersions", json!(["v1.30.1", "v1.30.0"])),
            "spec.kubernetesVersions[1]: Invalid value: \"v1.30.0\": must be newer than v1.30.1",
        ),
        (
            add("", "kubernetesVersions", json!(["latest"])),
            "spec.kubernetesVersions[0]: Invalid value: \"latest\"",
        ),
        (
            add(
                "",
                "variables",
                json!([{"name": "builtin", "required": false, "schema": {"openAPIV3Schema": {"type": "string"}}}]),
            ),
            "spec.variables[builtin].name: Invalid value: \"builtin\"",
        ),
        (
            add(
                "",
                "variables",
                json!([{"name": "a.b", "required": false, "schema": {"openAPIV3Schema": {"type": "string"}}}]),
            ),
            "spec.variables[a.b].name: Invalid value: \"a.b\"",
        ),
        (
            add(
                "",
                "variables",
                json!([{"name": "a", "required": false, "schema": {"openAPIV3Schema": {"type": "string", "default": 1}}}]),
            ),
            "spec.variables[a].schema.openAPIV3Schema.default: Invalid value",
        ),
        (
            add(
                "",
                "variables",
                json!([{"name": "a", "required": false, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"b": {"type": "string", "x-metadata": {"labels": {"a b": "c"}}}}}}}]),
            ),
            "spec.variables[a].schema.openAPIV3Schema.properties[b].x-metadata.labels: Invalid value: \"a b\"",
        ),
    ] {
        let found = only(&class(&class_of(change), None));
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let without_machines = class_of(|class| {
        let control_plane = class["spec"]["controlPlane"].as_object_mut().expect("a map");
        control_plane.remove("machineInfrastructure");
        control_plane.insert("healthCheck".to_string(), json!({"checks": {"nodeStartupTimeoutSeconds": 60}}));
    });
    assert!(only(&class(&without_machines, None)).starts_with("spec.controlPlane.healthCheck: Forbidden"));
}

#[test]
fn patches_of_a_class_are_refused_with_their_path() {
    let operation = |fields: Value| {
        let mut operation = json!({"op": "add", "path": "/spec/template/spec/size"});
        operation.as_object_mut().expect("a map").extend(fields.as_object().expect("a map").clone());
        patch(machines(&["small"]), operation)
    };
    let first = "spec.patches[0].definitions[0]";
    for (patches, expected) in [
        (
            operation(json!({"path": "/metadata/name", "value": 1})),
            "jsonPatches[0].path: Invalid value: \"/metadata/name\": must start with /spec",
        ),
        (operation(json!({"path": "/spec/list/1", "value": 1})), "jsonPatches[0].path: Invalid value"),
        (operation(json!({"op": "remove", "path": "/spec/list/0"})), "jsonPatches[0].path: Invalid value"),
        (operation(json!({})), "jsonPatches[0]: Invalid value"),
        (
            operation(json!({"value": 1, "valueFrom": {"variable": "builtin.cluster"}})),
            "jsonPatches[0]: Invalid value",
        ),
        (
            operation(json!({"valueFrom": {"variable": "none"}})),
            "jsonPatches[0].valueFrom.variable: Invalid value: \"none\"",
        ),
        (
            operation(json!({"valueFrom": {"variable": "builtin.none"}})),
            "jsonPatches[0].valueFrom.variable: Invalid value",
        ),
        (
            operation(json!({"valueFrom": {"template": "{{ now }}"}})),
            "jsonPatches[0].valueFrom.template: Invalid value",
        ),
        (operation(json!({"valueFrom": {}})), "jsonPatches[0].valueFrom: Invalid value"),
        (
            patch(machines(&["none"]), set()),
            "selector.matchResources.machineDeploymentClass.names[0]: Invalid value: \"none\"",
        ),
        (
            patch(machines(&["s*l"]), set()),
            "selector.matchResources.machineDeploymentClass.names[0]: Invalid value: \"s*l\"",
        ),
        (
            patch(machines(&["*s*"]), set()),
            "selector.matchResources.machineDeploymentClass.names[0]: Invalid value: \"*s*\"",
        ),
        (
            patch(
                json!({"apiVersion": INFRASTRUCTURE, "kind": "MachineTemplate", "matchResources": {"infrastructureCluster": true}}),
                set(),
            ),
            "selector.matchResources.infrastructureCluster: Invalid value",
        ),
        (
            patch(
                json!({"apiVersion": INFRASTRUCTURE, "kind": "NetworkTemplate", "matchResources": {"controlPlane": true}}),
                set(),
            ),
            "selector.matchResources.controlPlane: Invalid value",
        ),
        (
            patch(
                json!({"apiVersion": INFRASTRUCTURE, "kind": "MachineTemplate", "matchResources": {}}),
                set(),
            ),
            "selector.matchResources: Required value",
        ),
    ] {
        let found = only(&class(&class_of(|class| class["spec"]["patches"] = patches.clone()), None));
        let expected = format!("{first}.{expected}");
        assert!(found.starts_with(&expected), "{found}\n{expected}");
    }
    let sound = [
        operation(json!({"valueFrom": {"variable": "builtin.machineDeployment.bootstrap.configRef.name"}})),
        operation(json!({"path": "/spec/list/0", "value": 1})),
        operation(json!({"path": "/spec/list/-", "value": null})),
        patch(machines(&["*"]), set()),
        patch(machines(&["s*", "*e"]), set()),
    ];
    for patches in sound {
        // JSON types cannot tell `null` from an absent value, and upstream reads it as absent, too.
        let is_null = patches[0]["definitions"][0]["jsonPatches"][0].get("value") == Some(&Value::Null);
        let errors = class(&class_of(|class| class["spec"]["patches"] = patches.clone()), None);
        assert_eq!(errors.is_empty(), !is_null, "{patches} {errors:?}");
    }
    for (fields, expected) in [
        (
            json!({"name": "inline", "external": {"generatePatchesExtension": "e"}}),
            "spec.patches[0].name: Invalid value",
        ),
        (json!({"name": "p"}), "spec.patches[0]: Required value"),
        (json!({"name": "p", "external": {}}), "spec.patches[0].external: Required value"),
        (
            json!({"name": "p", "enabledIf": "{{", "external": {"generatePatchesExtension": "e"}}),
            "spec.patches[0].enabledIf: Invalid value",
        ),
    ] {
        let found = only(&class(&class_of(|class| class["spec"]["patches"] = json!([fields])), None));
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn clusters_keep_classes_from_some_changes() {
    let world = World::new();
    let refused = |old: &ClusterClass, new: &ClusterClass, cluster: &Cluster| {
        let clusters = [cluster.clone()];
        only(&class(new, Some(ClassChange { old, clusters: &clusters })))
    };
    let other_kind =
        class_of(|class| class["spec"]["infrastructure"]["templateRef"]["kind"] = json!("OtherTemplate"));
    assert!(
        refused(&world.class, &other_kind, &world.cluster)
            .starts_with("spec.infrastructure.templateRef.kind: Forbidden")
    );
    let group = class_of(|class| {
        class["spec"]["workers"]["machinePools"][0]["infrastructure"]["templateRef"]["apiVersion"] =
            json!("other.io/v1");
    });
    assert!(
        refused(&world.class, &group, &world.cluster)
            .starts_with("spec.workers.machinePools[0].infrastructure.templateRef.apiVersion: Forbidden")
    );
    let no_machines = class_of(|class| {
        class["spec"]["controlPlane"].as_object_mut().expect("a map").remove("machineInfrastructure");
    });
    assert!(
        refused(&world.class, &no_machines, &world.cluster)
            .starts_with("spec.controlPlane.machineInfrastructure: Forbidden")
    );
    assert!(
        refused(&no_machines, &world.class, &world.cluster)
            .starts_with("spec.controlPlane.machineInfrastructure: Forbidden")
    );
    let bootstrap = class_of(|class| {
        class["spec"]["workers"]["machineDeployments"][0]["bootstrap"]["templateRef"]["kind"] =
            json!("OtherTemplate");
    });
    let clusters = [world.cluster.clone()];
    assert_eq!(class(&bootstrap, Some(ClassChange { old: &world.class, clusters: &clusters })), []);
    let removed = class_of(|class| {
        class["spec"]["workers"]["machineDeployments"].as_array_mut().expect("a list").remove(1);
    });
    assert_eq!(
        refused(&world.class, &removed, &world.cluster),
        "spec.workers.machineDeployments: Forbidden: class \"large\" cannot be removed: Cluster \"c\" uses it"
    );
    let versions = class_of(|class| class["spec"]["kubernetesVersions"] = json!(["v1.31.0"]));
    assert!(
        refused(&world.class, &versions, &world.cluster).starts_with("spec.kubernetesVersions: Forbidden")
    );
    let checked = class_of(|class| {
        class["spec"]["workers"]["machineDeployments"][0]["healthCheck"] =
            json!({"checks": {"nodeStartupTimeoutSeconds": 60}});
    });
    let relies = cluster_of(|cluster| {
        cluster["spec"]["topology"]["workers"]["machineDeployments"][0]["healthCheck"] =
            json!({"enabled": true});
    });
    assert!(
        refused(&checked, &world.class, &relies)
            .starts_with("spec.workers.machineDeployments[small].healthCheck: Forbidden")
    );
    let autoscaled = class_of(|class| {
        class["spec"]["workers"]["machineDeployments"][0]["metadata"]["annotations"] =
            json!({"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "1"});
    });
    assert!(
        refused(&world.class, &autoscaled, &world.cluster)
            .starts_with("spec.topology.workers.machineDeployments[a].replicas: Invalid value: 2")
    );
}

#[test]
fn topologies_are_refused_with_the_path_of_the_field() {
    type Change = Box<dyn FnOnce(&mut Value)>;
    let of = |path: &'static str, field: &'static str, value: Value| -> Change {
        Box::new(move |cluster| cluster.pointer_mut(path).expect(path)[field] = value)
    };
    let (topology, a) = ("/spec/topology", "/spec/topology/workers/machineDeployments/0");
    for (change, expected) in [
        (of(topology, "version", json!("1.30.0")), "spec.topology.version: Invalid value: \"1.30.0\""),
        (
            of(a, "class", json!("none")),
            "spec.topology.workers.machineDeployments[0].class: Invalid value: \"none\"",
        ),
        (of(a, "name", json!("b")), "spec.topology.workers.machineDeployments[1].name: Invalid value: \"b\""),
        (
            of(a, "healthCheck", json!({"enabled": true})),
            "spec.topology.workers.machineDeployments[a].healthCheck.enabled: Forbidden",
        ),
        (
            of(a, "healthCheck", json!({"checks": {"nodeStartupTimeoutSeconds": 1}})),
            "spec.topology.workers.machineDeployments[a].healthCheck.checks.nodeStartupTimeoutSeconds: Invalid value: 1",
        ),
        (
            of(
                a,
                "metadata",
                json!({"annotations": {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "3"}}),
            ),
            "spec.topology.workers.machineDeployments[a].replicas: Invalid value: 2",
        ),
        (
            of(
                a,
                "taints",
                json!([{"key": "k", "effect": "NoSchedule", "propagation": "Always"},
            {"key": "k", "effect": "NoSchedule", "propagation": "OnInitialization"}]),
            ),
            "spec.topology.workers.machineDeployments[a].taints[1]: Invalid value",
        ),
        (
            of(topology, "controlPlane", json!({"healthCheck": {"enabled": true}})),
            "spec.topology.controlPlane.healthCheck.enabled: Forbidden",
        ),
        (
            of("/metadata", "annotations", json!({"topology.cluster.x-k8s.io/upgrade-concurrency": "0"})),
            "metadata.annotations.topology.cluster.x-k8s.io/upgrade-concurrency: Invalid value: \"0\"",
        ),
    ] {
        let found = only(&cluster(&cluster_of(change), Some(&World::new().class), None));
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    let versions = class_of(|class| class["spec"]["kubernetesVersions"] = json!(["v1.31.0"]));
    let found = only(&cluster(&World::new().cluster, Some(&versions), None));
    assert!(
        found.starts_with("spec.topology.version: Invalid value: \"v1.30.0\": must be one of"),
        "{found}"
    );
}

#[test]
fn topologies_cannot_be_added_or_removed() {
    let world = World::new();
    let without = |change: &mut Value| {
        change["spec"] = json!({"infrastructureRef": {"apiGroup": "g.io", "kind": "K", "name": "n"}});
    };
    let plain = cluster_of(without);
    let change = ClusterChange { old: &world.cluster, old_class: None, facts: None };
    assert_eq!(only(&cluster(&plain, None, Some(&change))), "spec.topology: Forbidden: cannot be removed");
    let change = ClusterChange { old: &plain, old_class: None, facts: None };
    assert!(
        only(&cluster(&world.cluster, Some(&world.class), Some(&change)))
            .starts_with("spec.topology.classRef: Forbidden")
    );
    let unsafe_ = cluster_of(|cluster| {
        cluster["metadata"]["annotations"] =
            json!({"unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check": ""});
    });
    assert_eq!(cluster(&unsafe_, Some(&world.class), Some(&change)), []);
}

#[test]
fn a_cluster_can_change_to_a_compatible_class() {
    let world = World::new();
    let rebased = cluster_of(|cluster| cluster["spec"]["topology"]["classRef"] = json!({"name": "other"}));
    let same = cluster_of(|cluster| {
        cluster["spec"]["topology"]["classRef"] = json!({"name": "class", "namespace": "default"});
    });
    let incompatible =
        class_of(|class| class["spec"]["controlPlane"]["templateRef"]["kind"] = json!("OtherTemplate"));
    let change = ClusterChange { old: &world.cluster, old_class: Some(&world.class), facts: None };
    assert_eq!(cluster(&rebased, Some(&world.class), Some(&change)), []);
    assert!(
        only(&cluster(&rebased, Some(&incompatible), Some(&change)))
            .starts_with("spec.controlPlane.templateRef.kind: Forbidden")
    );
    let unknown = ClusterChange { old: &world.cluster, old_class: None, facts: None };
    assert!(
        only(&cluster(&rebased, Some(&world.class), Some(&unknown)))
            .starts_with("spec.topology.classRef: Forbidden")
    );
    assert_eq!(cluster(&same, Some(&world.class), Some(&unknown)), []);
}

#[test]
fn versions_go_up_one_minor_at_a_time_after_the_upgrade_before() {
    let mut world = World::new();
    let computed = world.computed();
    world.apply(&computed, "v1.30.0");
    let plane = world.current.control_plane.clone().expect("it exists");
    let group = &world.current.machine_deployments["a"].object;
    let (idle, pending) =
        (Hooks::default(), Hooks { pending: [Hook::AfterClusterUpgrade].into(), ..Hooks::default() });
    let mut upgrading = plane.clone();
    upgrading["status"] = json!({"version": "v1.29.0"});
    let mut behind = plane.clone();
    behind["spec"]["version"] = json!("v1.29.0");
    behind["status"] = json!({"version": "v1.29.0"});
    let versions = ["v1.30.0", "v1.31.0", "v1.32.0"];
    let listed = class_of(|class| class["spec"]["kubernetesVersions"] = json!(versions));
    for (version, class, control_plane, is_upgrading, hooks, expected) in [
        ("v1.30.0", &world.class, &behind, true, &pending, None),
        ("v1.31.0", &world.class, &plane, false, &idle, None),
        ("v1.30.0+k3s1", &world.class, &plane, false, &idle, None),
        ("v1.29.9", &world.class, &plane, false, &idle, Some("cannot go back from v1.30.0")),
        ("v1.32.0", &world.class, &plane, false, &idle, Some("cannot skip a minor version")),
        ("v1.32.0", &listed, &plane, false, &idle, None),
        ("v1.31.0", &world.class, &plane, false, &pending, Some("hook AfterClusterUpgrade is pending")),
        ("v1.31.0", &world.class, &upgrading, false, &idle, Some("the control plane is upgrading")),
        ("v1.31.0", &world.class, &behind, false, &idle, Some("the control plane has version v1.29.0")),
        ("v1.31.0", &world.class, &plane, true, &idle, Some("workers are upgrading: c-a-")),
    ] {
        let changed = cluster_of(|cluster| cluster["spec"]["topology"]["version"] = json!(version));
        let workers = vec![Rollout { object: group, is_upgrading }];
        let facts = Some(Facts { control_plane, workers, hooks });
        let change = ClusterChange { old: &world.cluster, old_class: None, facts };
        let errors = cluster(&changed, Some(class), Some(&change));
        match expected {
            None => assert_eq!(errors, [], "{version}"),
            Some(expected) => {
                let found = only(&errors);
                assert!(
                    found.starts_with("spec.topology.version: Invalid value") && found.contains(expected),
                    "{found}"
                );
                let mut unsafe_ = changed.clone();
                unsafe_
                    .metadata
                    .annotations
                    .get_or_insert_default()
                    .insert(crate::metadata::UNSAFE_VERSION.into(), String::new());
                assert_eq!(cluster(&unsafe_, Some(class), Some(&change)), []);
            }
        }
    }
}

#[test]
fn objects_keep_group_kind_and_namespace() {
    let object = |api_version: &str, kind: &str, namespace: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}});
    let old = object("g.io/v1", "K", "ns", "n");
    assert_eq!(compatible_objects(&old, &object("g.io/v2", "K", "ns", "m")), []);
    assert_eq!(same_object(&old, &object("g.io/v2", "K", "ns", "n")), []);
    let paths = |errors: Vec<FieldError>| errors.into_iter().map(|error| error.path).collect::<Vec<_>>();
    assert_eq!(
        paths(same_object(&old, &object("h.io/v1", "L", "other", "m"))),
        ["apiVersion", "kind", "metadata.namespace", "metadata.name"]
    );
}

#[test]
fn some_taints_are_reserved() {
    for (key, is_reserved) in [
        ("node.kubernetes.io/not-ready", true),
        ("node.kubernetes.io/out-of-service", false),
        ("node.cloudprovider.kubernetes.io/uninitialized", true),
        ("node.cluster.x-k8s.io/outdated-revision", true),
        ("node-role.kubernetes.io/master", true),
        ("node-role.kubernetes.io/control-plane", false),
        ("example.com/own", false),
    ] {
        let class = class_of(|class| {
            class["spec"]["controlPlane"]["taints"] =
                json!([{"key": key, "effect": "NoSchedule", "propagation": "Always"}]);
        });
        let paths: Vec<String> = super::class(&class, None).into_iter().map(|error| error.path).collect();
        let expected: &[&str] = if is_reserved { &["spec.controlPlane.taints[0].key"] } else { &[] };
        assert_eq!(paths, expected, "{key}");
    }
}
