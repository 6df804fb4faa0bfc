//! Defaults.

use super::objects::object;
use super::{defaulted, errors, with, write};
use capstan_admission::{Facts, Kind, default};
use serde_json::{Value, json};

const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";
const MIN: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
const MAX: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";

#[test]
fn what_has_every_default_stays_as_it_is() {
    for kind in Kind::ALL {
        let object = object(kind);
        assert_eq!(defaulted(kind, None, &object), object, "{kind:?}");
        assert_eq!(defaulted(kind, Some(&object), &object), object, "{kind:?}");
    }
}

#[test]
fn what_is_missing_is_set() {
    let version = json!({"template": {"spec": {"version": "1.36.0"}}});
    let own = |label: &str| {
        let labels = json!({label: "a", CLUSTER: "shop"});
        json!({"spec": {
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}},
        }})
    };
    for (kind, removed, expected) in [
        (Kind::Machine, json!({"metadata": {"labels": null}}), json!({})),
        (Kind::Machine, json!({"metadata": {"labels": {CLUSTER: "other"}}}), json!({})),
        (Kind::Machine, json!({"spec": {"version": "1.36.0"}}), json!({"spec": {"version": "v1.36.0"}})),
        (Kind::Machine, json!({"spec": {"version": null}}), json!({"spec": {"version": null}})),
        (Kind::Machine, json!({"spec": {"deletion": null}}), json!({})),
        (
            Kind::Machine,
            json!({"spec": {"deletion": {"nodeDeletionTimeoutSeconds": 0}}}),
            json!({"spec": {"deletion": {"nodeDeletionTimeoutSeconds": 0}}}),
        ),
        (Kind::MachineSet, json!({"metadata": {"labels": null}}), json!({})),
        (Kind::MachineSet, json!({"spec": {"replicas": null}}), json!({"spec": {"replicas": 1}})),
        (Kind::MachineSet, json!({"spec": version}), json!({})),
        (
            Kind::MachineDeployment,
            json!({"metadata": {"annotations": {MIN: "3", MAX: "5"}}, "spec": {"replicas": null}}),
            json!({"metadata": {"annotations": {MIN: "3", MAX: "5"}}, "spec": {"replicas": 3}}),
        ),
        (Kind::MachineDeployment, json!({"spec": {"rollout": null}}), json!({})),
        (
            Kind::MachineDeployment,
            json!({"spec": {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": null}}}}}),
            json!({}),
        ),
        (
            Kind::MachineDeployment,
            json!({"spec": {"rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": null}}}}),
            json!({"spec": {"rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": null}}}}),
        ),
        (
            Kind::MachineDeployment,
            json!({"spec": {"selector": null, "template": {"metadata": null}}}),
            with(
                json!({"spec": {"selector": {"matchLabels": {"set": null}},
                    "template": {"metadata": {"labels": {"set": null}}}}}),
                &json!({}),
            ),
        ),
        (Kind::MachinePool, json!({"spec": {"replicas": null}}), json!({"spec": {"replicas": 1}})),
        (Kind::MachinePool, json!({"spec": {"template": {"spec": {"deletion": null}}}}), json!({})),
        (
            Kind::MachineHealthCheck,
            json!({"metadata": {"labels": null}, "spec": {"checks": null}}),
            json!({}),
        ),
        (Kind::ExtensionConfig, json!({"spec": {"namespaceSelector": null}}), json!({})),
        (Kind::ExtensionConfig, json!({"spec": {"clientConfig": {"service": {"port": null}}}}), json!({})),
        (
            Kind::ExtensionConfig,
            json!({"spec": {"clientConfig": {"service": null, "url": "https://a"}}}),
            json!({"spec": {"clientConfig": {"service": null, "url": "https://a"}}}),
        ),
    ] {
        let incomplete = with(object(kind), &removed);
        let mut complete = with(object(kind), &expected);
        if removed.pointer("/spec/selector") == Some(&Value::Null) {
            complete = with(complete, &own("cluster.x-k8s.io/deployment-name"));
        }
        assert_eq!(defaulted(kind, None, &incomplete), complete, "{kind:?} {removed}");
    }
}

#[test]
fn a_machine_set_without_a_selector_selects_by_its_name() {
    let name = "n".repeat(64);
    let change = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": null}}});
    let found = defaulted(Kind::MachineSet, None, &with(object(Kind::MachineSet), &change));
    let label = &found["spec"]["selector"]["matchLabels"]["cluster.x-k8s.io/set-name"];
    assert!(label.as_str().is_some_and(|label| label.starts_with("hash_") && label.len() < 64), "{found}");
    assert_eq!(&found["spec"]["template"]["metadata"]["labels"]["cluster.x-k8s.io/set-name"], label);
    assert_eq!(found["spec"]["selector"]["matchLabels"].as_object().map(serde_json::Map::len), Some(1));
}

#[test]
fn replicas_of_an_update_depend_on_those_before() {
    let autoscaled = json!({"metadata": {"annotations": {MIN: "3", MAX: "7"}}, "spec": {"replicas": null}});
    for kind in [Kind::MachineSet, Kind::MachineDeployment, Kind::MachinePool] {
        for (before, expected) in [(1, 3), (5, 5), (9, 7)] {
            let old = with(object(kind), &json!({"spec": {"replicas": before}}));
            let new = with(object(kind), &autoscaled);
            assert_eq!(defaulted(kind, Some(&old), &new)["spec"]["replicas"], expected, "{kind:?}");
        }
        let wrong = with(object(kind), &autoscaled);
        let wrong = with(wrong, &json!({"metadata": {"annotations": {MIN: "x"}}}));
        let found = errors(default(&write(kind, None, &wrong), &Facts::default()).map(|_| Vec::new()));
        assert_eq!(found, [format!("metadata.annotations.{MIN}: FieldValueInvalid")]);
    }
}

#[test]
fn objects_of_another_shape_are_left_to_the_schema() {
    for kind in Kind::ALL {
        for spec in
            [json!(null), json!("text"), json!({}), json!({"template": 1, "selector": [], "topology": 1})]
        {
            let new = with(object(kind), &json!({"spec": null}));
            let mut new = new;
            new["spec"] = spec;
            default(&write(kind, None, &new), &Facts::default()).expect("no error");
        }
    }
}
