//! Valid objects, as users write them: without what has a default.

use serde_json::{Value, json};

fn machine_spec() -> Value {
    json!({
        "clusterName": "shop",
        "bootstrap": {"dataSecretName": "data"},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachineTemplate", "name": "shop",
        },
    })
}

fn group(kind: &str) -> &'static str {
    match kind {
        "ClusterResourceSet" => "addons.cluster.x-k8s.io",
        "ExtensionConfig" => "runtime.cluster.x-k8s.io",
        "IPAddress" | "IPAddressClaim" => "ipam.cluster.x-k8s.io",
        _ => "cluster.x-k8s.io",
    }
}

fn spec(kind: &str) -> Value {
    let template = |kind: &str, group: &str| {
        let api_version = format!("{group}.cluster.x-k8s.io/v1alpha1");
        json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": "standard"}})
    };
    let pool = json!({"apiGroup": "ipam.example.com", "kind": "Pool", "name": "p"});
    match kind {
        "Machine" => machine_spec(),
        "MachineSet" | "MachineDeployment" => {
            json!({"clusterName": "shop", "selector": {}, "template": {"spec": machine_spec()}})
        }
        "MachinePool" => json!({"clusterName": "shop", "template": {"spec": machine_spec()}}),
        "MachineHealthCheck" => json!({
            "clusterName": "shop", "selector": {"matchLabels": {"a": "b"}},
            "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 300}]},
        }),
        "MachineDrainRule" => json!({"drain": {"behavior": "Skip"}}),
        "ClusterResourceSet" => json!({
            "clusterSelector": {"matchLabels": {"a": "b"}}, "resources": [{"kind": "Secret", "name": "s"}],
        }),
        "ExtensionConfig" => json!({"clientConfig": {"service": {"namespace": "n", "name": "s"}}}),
        "IPAddressClaim" => json!({"poolRef": pool}),
        "IPAddress" => {
            json!({"address": "192.0.2.7", "prefix": 24, "claimRef": {"name": "claim"}, "poolRef": pool})
        }
        "Cluster" => json!({"topology": {"classRef": {"name": "standard"}, "version": "v1.36.0"}}),
        "ClusterClass" => json!({
            "infrastructure": template("HostClusterTemplate", "infrastructure"),
            "controlPlane": template("CapstanControlPlaneTemplate", "controlplane"),
            "workers": {"machineDeployments": [{
                "class": "small",
                "bootstrap": template("CapstanConfigTemplate", "bootstrap"),
                "infrastructure": template("HostMachineTemplate", "infrastructure"),
            }]},
        }),
        other => panic!("no object of the kind {other}"),
    }
}

/// A valid object.
pub(crate) fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{}/v1beta2", group(kind)), "kind": kind,
        "metadata": {"name": name}, "spec": spec(kind),
    })
}

/// A valid object after a merge patch.
pub(crate) fn with(kind: &str, name: &str, patch: &Value) -> Value {
    let mut object = object(kind, name);
    json_patch::merge(&mut object, patch);
    object
}
