//! Patches: order, selection, values, and what they cannot change.

use crate::blueprint::Blueprint;
use crate::desired::ComputeError;
use crate::fixtures::{CONTROL_PLANE, INFRASTRUCTURE, World};
use crate::patches::{Generated, Patching, Step};
use crate::state::Desired;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A selector of all machines.
fn machines() -> Value {
    json!({
        "apiVersion": INFRASTRUCTURE,
        "kind": "MachineTemplate",
        "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["*"]}},
    })
}

fn plane() -> Value {
    json!({"apiVersion": CONTROL_PLANE, "kind": "PlaneTemplate", "matchResources": {"controlPlane": true}})
}

fn patch(selector: impl Into<Value>, operations: impl Into<Value>) -> Value {
    let (selector, operations): (Value, Value) = (selector.into(), operations.into());
    json!({"name": "p", "definitions": [{"selector": selector, "jsonPatches": operations}]})
}

fn world(patches: Value) -> World {
    let mut world = World::with_class(|class| {
        class["spec"]["variables"] = json!([
            {"name": "size", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}},
            {"name": "list", "required": false, "schema": {"openAPIV3Schema":
                {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}}},
        ]);
        class["spec"]["patches"] = patches;
    });
    world.change_cluster(|cluster| {
        let topology = &mut cluster["spec"]["topology"];
        topology["variables"] = json!([
            {"name": "size", "value": "xl"},
            {"name": "list", "value": [{"n": 1}, {"n": 2}]},
            {"name": "undefined", "value": "x"},
        ]);
        topology["workers"]["machineDeployments"][0]["variables"] =
            json!({"overrides": [{"name": "size", "value": "xs"}]});
    });
    world
}

/// The size of the machines of the control plane, of a, and of b.
fn sizes(desired: &Desired) -> [&Value; 3] {
    let control_plane = desired.control_plane.machine_template.as_ref().expect("a template");
    [
        control_plane,
        &desired.machine_deployments["a"].infrastructure,
        &desired.machine_deployments["b"].infrastructure,
    ]
    .map(|template| &template["spec"]["template"]["spec"]["size"])
}

fn replace(value_from: impl Into<Value>) -> Value {
    let value_from: Value = value_from.into();
    json!([{"op": "replace", "path": "/spec/template/spec/size", "valueFrom": value_from}])
}

#[test]
fn values_come_from_variables_and_templates() {
    for (from, expected) in [
        (json!({"variable": "size"}), [json!("xl"), json!("xs"), json!("xl")]),
        (json!({"variable": "list[1].n"}), [json!(2), json!(2), json!(2)]),
        (json!({"template": "{{ .size | upper }}"}), [json!("XL"), json!("XS"), json!("XL")]),
        (
            json!({"template": "a: {{ (index .list 1).n }}\n"}),
            [json!({"a": 2}), json!({"a": 2}), json!({"a": 2})],
        ),
        (json!({"variable": "builtin.cluster.name"}), [json!("c"), json!("c"), json!("c")]),
        (
            json!({"variable": "builtin.cluster.topology"}),
            std::array::from_fn(|_| {
                json!({
                    "version": "v1.30.0", "classRef": {"name": "class", "namespace": "default"},
                    "class": "class", "classNamespace": "default",
                })
            }),
        ),
        (
            json!({"variable": "builtin.cluster.network"}),
            std::array::from_fn(|_| json!({"serviceDomain": "cluster.local", "pods": ["10.1.0.0/16"]})),
        ),
        (
            json!({"template": "{{ if .builtin.controlPlane }}{{ .builtin.controlPlane.version }}-{{ .builtin.controlPlane.replicas }}{{ else }}{{ .builtin.machineDeployment.topologyName }}-{{ .builtin.machineDeployment.class }}{{ end }}"}),
            [json!("v1.30.0-3"), json!("a-small"), json!("b-large")],
        ),
        (
            json!({"template": "{{ dig \"machineDeployment\" \"metadata\" \"labels\" \"class\" \"none\" .builtin }}"}),
            [json!("none"), json!("small"), json!("large")],
        ),
    ] {
        let desired = world(json!([patch(machines(), replace(from.clone()))])).computed().desired;
        assert_eq!(sizes(&desired), expected.each_ref(), "{from}");
    }
}

#[test]
fn patches_are_applied_in_order() {
    let add = |value: &str| json!([{"op": "add", "path": "/spec/template/spec/list/-", "value": value}]);
    let first = json!([{"op": "add", "path": "/spec/template/spec/list", "value": ["a"]}]);
    let definition = |operations: Value| json!({"selector": machines(), "jsonPatches": operations});
    let patches = json!([
        {"name": "1", "definitions": [definition(first), definition(add("b"))]},
        {"name": "2", "enabledIf": "{{ eq .size \"xl\" }}", "definitions": [definition(add("c"))]},
        {"name": "3", "enabledIf": "false", "definitions": [definition(add("d"))]},
        {"name": "4", "enabledIf": "{{ .size }}", "definitions": [definition(add("e"))]},
        {"name": "5", "definitions": [definition(add("f"))]},
    ]);
    let desired = world(patches).computed().desired;
    let list = |template: &Value| template["spec"]["template"]["spec"]["list"].clone();
    assert_eq!(list(&desired.machine_deployments["b"].infrastructure), json!(["a", "b", "c", "f"]));
    assert_eq!(list(&desired.machine_deployments["a"].infrastructure), json!(["a", "b", "f"]));
}

#[test]
fn selectors_choose_templates() {
    let set = json!([{"op": "replace", "path": "/spec/template/spec/size", "value": "patched"}]);
    let selector = |places: Value| json!({"apiVersion": INFRASTRUCTURE, "kind": "MachineTemplate", "matchResources": places});
    for (selector, expected) in [
        (selector(json!({"controlPlane": true})), [true, false, false]),
        (selector(json!({"machineDeploymentClass": {"names": ["small"]}})), [false, true, false]),
        (selector(json!({"machineDeploymentClass": {"names": ["*ge"]}})), [false, false, true]),
        (selector(json!({"machineDeploymentClass": {"names": ["x", "s*"]}})), [false, true, false]),
        (selector(json!({"machinePoolClass": {"names": ["*"]}})), [false, false, false]),
        (selector(json!({"controlPlane": false, "infrastructureCluster": true})), [false, false, false]),
        (
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "MachineTemplate",
            "matchResources": {"controlPlane": true}}),
            [false, false, false],
        ),
    ] {
        let desired = world(json!([patch(selector.clone(), set.clone())])).computed().desired;
        assert_eq!(sizes(&desired).map(|size| size == "patched"), expected, "{selector}");
    }
    let network = json!({"apiVersion": INFRASTRUCTURE, "kind": "NetworkTemplate", "matchResources": {"infrastructureCluster": true}});
    let region = json!([{"op": "replace", "path": "/spec/template/spec/region", "value": "us"}]);
    let desired = world(json!([patch(network, region)])).computed().desired;
    assert_eq!(desired.infrastructure_cluster["spec"]["region"], "us");
    let pools = json!({"apiVersion": INFRASTRUCTURE, "kind": "PoolTemplate", "matchResources": {"machinePoolClass": {"names": ["pool"]}}});
    let named = json!([{"op": "replace", "path": "/spec/template/spec/size", "valueFrom": {"variable": "builtin.machinePool.topologyName"}}]);
    let desired = world(json!([patch(pools, named)])).computed().desired;
    assert_eq!(desired.machine_pools["p"].infrastructure["spec"]["size"], "p");
}

#[test]
fn patches_cannot_change_what_the_topology_sets() {
    let operations = json!([
        {"op": "add", "path": "/spec/template/spec/version", "value": "v0"},
        {"op": "add", "path": "/spec/template/spec/replicas", "value": 99},
        {"op": "add", "path": "/spec/template/spec/machineTemplate/spec", "value": {"infrastructureRef": {"name": "x"}, "taints": []}},
        {"op": "add", "path": "/spec/template/spec/machineTemplate/metadata", "value": {"labels": {"x": "y"}}},
        {"op": "add", "path": "/spec/template/spec/config/args/-", "value": "y"},
        {"op": "add", "path": "/spec/template/metadata/labels/own", "value": "patched"},
        {"op": "replace", "path": "/spec/template/metadata/labels/cluster.x-k8s.io~1cluster-name", "value": "other"},
        {"op": "replace", "path": "/metadata/name", "value": "other"},
        {"op": "replace", "path": "/kind", "value": "Other"},
        {"op": "add", "path": "/status", "value": {}},
    ]);
    let plain = world(json!([])).computed().desired.control_plane.object;
    let patched = world(json!([patch(plane(), operations)])).computed().desired.control_plane.object;
    let mut expected = plain;
    expected["spec"]["config"]["args"] = json!(["x", "y"]);
    expected["metadata"]["labels"]["own"] = json!("patched");
    // Only fields that the topology sets are kept: this one it does not set.
    expected["spec"]["machineTemplate"]["spec"]["taints"] = json!([]);
    assert_eq!(patched, expected);
}

#[test]
fn patches_fail_with_their_place() {
    let failure = |patches: Value| match world(patches).compute() {
        Err(ComputeError::Patch(failure)) => failure.to_string(),
        other => panic!("{other:?}"),
    };
    for (operations, expected) in [
        (
            replace(json!({"variable": "none"})),
            "definitions[0].jsonPatches[0].valueFrom.variable: variable \"none\" does not exist",
        ),
        // Set in the Cluster, but not defined by the class.
        (replace(json!({"variable": "undefined"})), "variable \"undefined\" does not exist"),
        (
            replace(json!({"template": "{{ fail \"why\" }}"})),
            "valueFrom.template: template cannot be rendered",
        ),
        (replace(json!({"template": "{{"})), "valueFrom.template: template cannot be parsed"),
        (replace(json!({})), "one of value, valueFrom.variable and valueFrom.template must be set"),
        (json!([{"op": "add", "path": "/spec/none/x", "value": 1}]), "/spec/none/x"),
        (json!([{"op": "remove", "path": "/spec/none"}]), "/spec/none"),
    ] {
        let text = failure(json!([patch(machines(), operations)]));
        assert!(text.contains(expected), "{text}");
        assert!(
            text.starts_with("cannot apply patch \"p\" of the ClusterClass to MachineTemplate \"machines\""),
            "{text}"
        );
    }
    let mut condition = patch(machines(), json!([]));
    condition["enabledIf"] = json!("{{ .size.x }}");
    assert!(failure(json!([condition])).contains("enabledIf: template cannot be rendered"));
    let text = failure(json!([{"name": "e", "external": {"generatePatchesExtension": "ext"}}]));
    assert!(text.contains("runtime extension \"ext\" is needed"), "{text}");
}

#[test]
fn patches_of_runtime_extensions_are_applied_between_inline_ones() {
    let add = |value: &str| json!([{"op": "add", "path": "/spec/template/spec/list/-", "value": value}]);
    let first = json!([{"op": "add", "path": "/spec/template/spec/list", "value": ["a"]}]);
    let mut world = world(json!([
        patch(machines(), first),
        {"name": "validates", "external": {"validateTopologyExtension": "v"}},
        {"name": "e", "external": {"generatePatchesExtension": "ext"}},
        patch(machines(), add("z")),
    ]));
    let patches = world.class.spec.patches.split_off(0);
    let plain = world.computed().desired;
    world.class.spec.patches = patches;
    let topology = world.cluster.spec.topology.clone().expect("a topology");
    let template = json!({"apiVersion": INFRASTRUCTURE, "kind": "MachineTemplate", "metadata": {"name": "m"}, "spec": {"template": {"spec": {}}}});
    let blueprint = Blueprint {
        class: &world.class,
        topology: &topology,
        infrastructure_cluster: &template,
        control_plane: &template,
        control_plane_machines: Some(&template),
        machine_deployment_templates: BTreeMap::new(),
        machine_pool_templates: BTreeMap::new(),
    };
    let mut patching = Patching::new(&blueprint, &world.cluster, plain);
    let Ok(Step::External(patch)) = patching.step() else { panic!("the extension is next") };
    assert_eq!(patch.name, "e");
    // Variables of the class itself are not for the extension.
    assert_eq!(patching.variables().keys().collect::<Vec<_>>(), ["builtin"]);
    let item =
        patching.items().iter().position(|item| item.holder == crate::patches::Holder::ControlPlaneMachines);
    let item = item.expect("machines of the control plane");
    assert!(patching.answer(&[Generated { item: 99, patch: add("m"), is_merge: false }]).is_err());
    let merge = json!({"spec": {"template": {"spec": {"merged": true}}}});
    let answer = [
        Generated { item, patch: add("m"), is_merge: false },
        Generated { item, patch: merge, is_merge: true },
        Generated { item, patch: json!([]), is_merge: false },
    ];
    patching.answer(&answer).expect("the patches fit");
    assert_eq!(patching.step(), Ok(Step::Done));
    let machines = patching.finish().control_plane.machine_template.expect("a template");
    assert_eq!(machines["spec"]["template"]["spec"], json!({"list": ["a", "m", "z"], "merged": true}));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The last patch of a field wins, whatever the patches before it say.
    #[test]
    fn the_last_patch_wins(values in prop::collection::vec("[a-z]{1,4}", 1..6), enabled in prop::collection::vec(any::<bool>(), 6)) {
        let patches: Vec<Value> = values.iter().zip(&enabled).map(|(value, enabled)| {
            let mut one = patch(machines(), json!([{"op": "replace", "path": "/spec/template/spec/size", "value": value}]));
            one["enabledIf"] = json!(enabled.to_string());
            one
        }).collect();
        let last = values.iter().zip(&enabled).rfind(|(_, enabled)| **enabled);
        let expected = last.map_or("s", |(value, _)| value.as_str());
        let desired = world(json!(patches)).computed().desired;
        prop_assert!(sizes(&desired).iter().all(|size| *size == expected));
    }
}
