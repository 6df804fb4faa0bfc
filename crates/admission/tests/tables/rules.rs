//! Rules of single objects.

use super::objects::object;
use super::{rejected, with};
use capstan_admission::{Fact, Facts, Kind, Operation, Write, needs_of_validate, validate};
use serde_json::{Value, json};

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const FORBIDDEN: &str = "FieldValueForbidden";

fn expressions(operator: &str) -> Value {
    json!({"matchExpressions": [{"key": "a", "operator": operator, "values": []}]})
}

#[test]
fn valid_objects_are_admitted() {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::IpAddress) {
        let object = object(kind);
        let facts = Facts { clusters: Fact::Absent, ..Facts::default() };
        assert_eq!(rejected(kind, None, &object, &facts), [""; 0], "{kind:?}");
        assert_eq!(rejected(kind, Some(&object), &object, &facts), [""; 0], "{kind:?}");
    }
}

#[test]
fn wrong_objects_are_rejected_at_the_field() {
    let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule", "propagation": "Always"}]);
    let of_template = |change: Value| json!({"spec": {"template": change}});
    let templates = [Kind::MachineSet, Kind::MachineDeployment];
    let long = "n".repeat(64);
    let mut table: Vec<(Kind, Value, Vec<String>)> = Vec::new();
    let mut row = |kind: Kind, change: Value, at: &str, reason: &str| {
        let expected = if at.is_empty() { Vec::new() } else { vec![format!("{at}: {reason}")] };
        table.push((kind, change, expected));
    };
    row(Kind::Machine, json!({"spec": {"bootstrap": {"dataSecretName": null}}}), "spec.bootstrap", REQUIRED);
    row(Kind::Machine, json!({"spec": {"bootstrap": {"dataSecretName": ""}}}), "", "");
    for pool in [
        json!({"labels": {"cluster.x-k8s.io/pool-name": "p"}}),
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "MachinePool", "name": "p", "uid": "u"}]}),
    ] {
        let change = json!({"metadata": pool, "spec": {"bootstrap": {"dataSecretName": null}}});
        row(Kind::Machine, change, "", "");
    }
    let control_plane = "node-role.kubernetes.io/control-plane";
    let labels = json!({"cluster.x-k8s.io/control-plane": ""});
    row(Kind::Machine, json!({"spec": {"taints": taint(control_plane)}}), "spec.taints[0].key", INVALID);
    row(
        Kind::Machine,
        json!({"metadata": {"labels": labels}, "spec": {"taints": taint(control_plane)}}),
        "",
        "",
    );
    for (key, is_wrong) in [
        ("node.cluster.x-k8s.io/uninitialized", true),
        ("node.kubernetes.io/unreachable", true),
        ("node.kubernetes.io/out-of-service", false),
        ("example.com/gold", false),
    ] {
        let at = |at: &'static str| if is_wrong { at } else { "" };
        row(Kind::Machine, json!({"spec": {"taints": taint(key)}}), at("spec.taints[0].key"), INVALID);
        for kind in templates {
            let change = of_template(json!({"spec": {"taints": taint(key)}}));
            row(kind, change, at("spec.template.spec.taints[0].key"), INVALID);
        }
    }
    for kind in templates {
        let selector = json!({"spec": {"selector": {"matchLabels": {"set": "b"}}}});
        row(kind, selector, "spec.template.metadata.labels", FORBIDDEN);
        let selector = json!({"spec": {"selector": expressions("In")}});
        row(kind, selector, "spec.selector.matchExpressions[0].values", REQUIRED);
        let change = of_template(json!({"metadata": {"labels": {"a": "-"}}}));
        row(kind, change, "spec.template.metadata.labels", INVALID);
        let change = of_template(json!({"metadata": {"annotations": {"-a": "x"}}}));
        row(kind, change, "spec.template.metadata.annotations", INVALID);
        let at = "spec.machineNaming.template";
        for (template, is_wrong) in [
            ("{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}", false),
            ("{{ .cluster.name }}", true),
            ("{{ .machineDeployment.name }}-{{ .random }}", true),
            ("{{ .random", true),
            ("_{{ .random }}", true),
        ] {
            let change = json!({"spec": {"machineNaming": {"template": template}}});
            row(kind, change, if is_wrong { at } else { "" }, INVALID);
        }
        let skip = "machineset.cluster.x-k8s.io/skip-preflight-checks";
        for (checks, is_wrong) in
            [("All", false), ("", false), ("KubeadmVersionSkew, All", false), ("Some", true)]
        {
            let at = format!("metadata.annotations.{skip}");
            let change = json!({"metadata": {"annotations": {skip: checks}}});
            row(kind, change, if is_wrong { &at } else { "" }, INVALID);
        }
    }
    row(Kind::MachineSet, json!({"metadata": {"name": long}}), "", "");
    row(Kind::MachineDeployment, json!({"metadata": {"name": long}}), "metadata.name", INVALID);
    let limits = |surge: Value, unavailable: Value| {
        json!({"spec": {"rollout": {"strategy": {"rollingUpdate": {
            "maxSurge": surge, "maxUnavailable": unavailable,
        }}}}})
    };
    let at = "spec.rollout.strategy.rollingUpdate";
    let kind = Kind::MachineDeployment;
    row(kind, limits(json!("25%"), json!(0)), "", "");
    row(kind, limits(json!(0), json!(0)), at, INVALID);
    row(kind, limits(json!("1"), json!(0)), "spec.rollout.strategy.rollingUpdate.maxSurge", INVALID);
    row(kind, limits(json!(1), json!("x%")), "spec.rollout.strategy.rollingUpdate.maxUnavailable", INVALID);
    let change = json!({"spec": {"remediation": {"maxInFlight": "some"}}});
    row(kind, change, "spec.remediation.maxInFlight", INVALID);
    let change = of_template(json!({"spec": {"taints": taint("a")}}));
    row(Kind::MachinePool, change, "spec.template.spec.taints", FORBIDDEN);
    let change = of_template(json!({"metadata": {"labels": {"-": "a"}}}));
    row(Kind::MachinePool, change, "spec.template.metadata.labels", INVALID);

    let kind = Kind::MachineHealthCheck;
    let cluster = |name: &str| json!({"matchLabels": {"cluster.x-k8s.io/cluster-name": name}});
    row(kind, json!({"spec": {"selector": cluster("shop")}}), "", "");
    let at = "spec.selector.matchLabels[cluster.x-k8s.io/cluster-name]";
    row(kind, json!({"spec": {"selector": cluster("other")}}), at, INVALID);
    let at = "spec.selector.matchExpressions[0].operator";
    row(kind, json!({"spec": {"selector": expressions("Near")}}), at, INVALID);
    let most =
        |most: Value| json!({"spec": {"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": most}}}});
    row(kind, most(json!("40%")), "", "");
    row(kind, most(json!("many")), "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo", INVALID);

    let kind = Kind::MachineDrainRule;
    for (list, selector) in [
        ("machines", "selector"),
        ("machines", "clusterSelector"),
        ("pods", "selector"),
        ("pods", "namespaceSelector"),
    ] {
        let change = json!({"spec": {list: [{selector: {}}, {selector: expressions("NotIn")}]}});
        let at = format!("spec.{list}[1].{selector}.matchExpressions[0].values");
        row(kind, change, &at, REQUIRED);
    }
    let kind = Kind::ClusterResourceSet;
    let change = json!({"spec": {"clusterSelector": {"matchLabels": {"a/b/c": "x"}}}});
    row(kind, change, "spec.clusterSelector.matchLabels", INVALID);
    let change = json!({"spec": {"namespaceSelector": {"matchLabels": {"a": "?"}}}});
    row(Kind::ExtensionConfig, change, "spec.namespaceSelector.matchLabels[a]", INVALID);

    for (kind, change, expected) in table {
        let valid = object(kind);
        let wrong = with(valid.clone(), &change);
        assert_eq!(rejected(kind, None, &wrong, &Facts::default()), expected, "{kind:?} {change}");
        assert_eq!(rejected(kind, Some(&valid), &wrong, &Facts::default()), expected, "{kind:?} {change}");
    }
}

#[test]
fn what_is_deleted_can_let_go_of_its_finalizers() {
    let wrong = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a"]},
        "spec": {"selector": {"matchLabels": {"set": "other"}}},
    });
    let old = with(object(Kind::MachineSet), &wrong);
    let let_go = with(old.clone(), &json!({"metadata": {"finalizers": null}}));
    assert_eq!(rejected(Kind::MachineSet, Some(&old), &let_go, &Facts::default()), [""; 0]);
    let changed = with(let_go, &json!({"spec": {"replicas": 7}}));
    assert_eq!(rejected(Kind::MachineSet, Some(&old), &changed, &Facts::default()).len(), 1);
}

#[test]
fn objects_that_cannot_be_read_are_not_admitted() {
    let odd = with(object(Kind::Machine), &json!({"spec": {"clusterName": 7}}));
    assert_eq!(rejected(Kind::Machine, None, &odd, &Facts::default()), ["<nil>: InternalError"]);
}

#[test]
fn addresses_come_from_the_pool_of_their_claim() {
    let address = object(Kind::IpAddress);
    let of = |claim: Fact<Value>| Facts { claim, ..Facts::default() };
    let claim = json!({"spec": {"poolRef": address["spec"]["poolRef"]}});
    let other = with(claim.clone(), &json!({"spec": {"poolRef": {"name": "other"}}}));
    for (claim, expected) in [
        (Fact::Known(claim), None),
        (Fact::Absent, None),
        (Fact::Known(other), Some("spec.poolRef: FieldValueInvalid")),
        (Fact::Unknown("timeout".to_owned()), Some("spec.claimRef: InternalError")),
    ] {
        let expected = Vec::from_iter(expected);
        assert_eq!(rejected(Kind::IpAddress, None, &address, &of(claim)), expected);
    }
    let write = Write { kind: Kind::IpAddress, operation: Operation::Create, old: None, new: Some(&address) };
    let claim = needs_of_validate(&write).claim.expect("a claim");
    assert_eq!((claim.namespace.as_str(), claim.name.as_str()), ("n", "claim"));
}

#[test]
fn only_classes_are_kept_from_deletion() {
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::ClusterClass) {
        let old = object(kind);
        let write = Write { kind, operation: Operation::Delete, old: Some(&old), new: None };
        assert_eq!(validate(&write, &Facts::default()), Ok(Vec::new()));
    }
}
