//! Objects in, lines out.

use super::*;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;

fn object<K: DeserializeOwned + Send + Sync + 'static>(value: Value) -> AnyObject {
    Arc::new(serde_json::from_value::<K>(value).unwrap())
}

fn written(objects: &[AnyObject]) -> Vec<String> {
    let mut text = String::new();
    write(&mut text, objects);
    text.lines().map(str::to_owned).collect()
}

fn cluster() -> AnyObject {
    object::<Cluster>(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "shop", "namespace": "fleet", "uid": "u1", "creationTimestamp": "1970-01-01T00:01:40Z",
                     "annotations": {"cluster.x-k8s.io/paused": "\"by\nhand"}},
        "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}, "paused": true},
        "status": {
            "phase": "Provisioned",
            "conditions": [{"type": "Available", "status": "False", "reason": "No", "message": "",
                            "lastTransitionTime": "1970-01-01T00:00:07Z"}],
        },
    }))
}

fn machine(name: &str) -> AnyObject {
    object::<Machine>(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "namespace": "fleet", "uid": "u2", "ownerReferences": [
            {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "md", "uid": "u3",
             "controller": true},
        ]},
        "spec": {"clusterName": "shop", "version": "v1.36.0+k3s1", "bootstrap": {}, "infrastructureRef":
            {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachine", "name": "hm"}},
        "status": {"phase": "Running", "nodeRef": {"name": "node-1"},
                   "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]},
    }))
}

#[test]
fn metrics_of_a_cluster_have_upstreams_names() {
    let own = "name=\"shop\",namespace=\"fleet\",uid=\"u1\"";
    let text = written(&[cluster()]);
    for line in [
        "# TYPE capi_cluster_info gauge".to_owned(),
        format!(
            "capi_cluster_info{{{own},control_plane_endpoint_host=\"10.0.0.1\",control_plane_endpoint_port=\"6443\"}} 1"
        ),
        format!("capi_cluster_created{{{own}}} 100"),
        format!("capi_cluster_spec_paused{{{own}}} 1"),
        format!("capi_cluster_annotation_paused{{{own},paused_value=\"\\\"by\\nhand\"}} 1"),
        format!("capi_cluster_status_phase{{{own},phase=\"Provisioned\"}} 1"),
        format!("capi_cluster_status_phase{{{own},phase=\"Failed\"}} 0"),
        format!("capi_cluster_status_condition{{{own},status=\"False\",type=\"Available\"}} 1"),
        format!("capi_cluster_status_condition{{{own},status=\"True\",type=\"Available\"}} 0"),
        format!(
            "capi_cluster_status_condition_last_transition_time{{{own},status=\"False\",type=\"Available\"}} 7"
        ),
    ] {
        assert!(text.contains(&line), "{line}\n{}", text.join("\n"));
    }
}

#[test]
fn a_machine_names_its_cluster_its_node_and_its_owner() {
    let own = "cluster_name=\"shop\",name=\"a\",namespace=\"fleet\",uid=\"u2\"";
    let text = written(&[machine("a")]);
    for line in [
        format!("capi_machine_status_noderef{{{own},node_name=\"node-1\"}} 1"),
        format!("capi_machine_addresses{{{own},type=\"InternalIP\",address=\"10.0.0.7\"}} 1"),
        format!(
            "capi_machine_owner{{{own},owner_is_controller=\"true\",owner_kind=\"MachineSet\",owner_name=\"md\",\
             owner_uid=\"u3\"}} 1"
        ),
        format!("capi_machine_status_phase{{{own},phase=\"Running\"}} 1"),
    ] {
        assert!(text.contains(&line), "{line}\n{}", text.join("\n"));
    }
    assert!(!text.iter().any(|line| line.contains("annotation_paused")));
}

#[test]
fn samples_of_a_metric_are_together_below_one_declaration() {
    let text = written(&[machine("a"), cluster(), machine("b")]);
    let mut current = String::new();
    let mut declared = Vec::new();
    for line in &text {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            current = rest.split(' ').next().unwrap().to_owned();
            assert!(!declared.contains(&current), "{current} is declared twice");
            declared.push(current.clone());
        } else if !line.starts_with('#') {
            assert!(line.starts_with(&format!("{current}{{")), "{line} stands below {current}");
        }
    }
    assert_eq!(text.iter().filter(|line| line.starts_with("capi_machine_info{")).count(), 2);
}

#[test]
fn replicas_are_counted_and_a_percentage_is_no_number() {
    let template = json!({"spec": {"clusterName": "shop", "bootstrap": {}, "infrastructureRef":
        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachineTemplate", "name": "t"}}});
    let deployment = object::<MachineDeployment>(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "md"},
        "spec": {"clusterName": "shop", "replicas": 5, "selector": {}, "template": template, "rollout": {"strategy":
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 2}}}},
        "status": {"replicas": 4, "availableReplicas": 1, "upToDateReplicas": 3},
    }));
    let text = written(&[deployment]);
    let value = |name: &str| {
        let line = text.iter().find(|line| line.starts_with(&format!("capi_machinedeployment_{name}{{")))?;
        line.rsplit(' ').next().map(str::to_owned)
    };
    let found =
        ["spec_replicas", "status_replicas", "status_replicas_unavailable", "status_replicas_updated"];
    assert_eq!(found.map(|name| value(name).unwrap()), ["5", "4", "3", "3"]);
    assert_eq!(value("status_replicas_ready").as_deref(), Some("0"));
    assert_eq!(value("spec_strategy_rollingupdate_max_surge"), None);
    assert_eq!(value("spec_strategy_rollingupdate_max_unavailable").as_deref(), Some("2"));
}

#[test]
fn kinds_without_metrics_are_left_out() {
    assert!(written(&[Arc::new("a text")]).is_empty());
}
