//! Objects that are valid, with every default set.

use capstan_admission::Kind;
use serde_json::{Value, json};

fn machine_spec() -> Value {
    json!({
        "clusterName": "shop",
        "bootstrap": {"dataSecretName": "data"},
        "infrastructureRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachineTemplate", "name": "shop",
        },
        "version": "v1.36.0",
        "deletion": {"nodeDeletionTimeoutSeconds": 10},
    })
}

fn spec(kind: Kind) -> Value {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "shop", "set": "a"});
    let template = json!({"metadata": {"labels": labels}, "spec": machine_spec()});
    let many = json!({
        "clusterName": "shop", "replicas": 2, "selector": {"matchLabels": labels}, "template": template,
    });
    match kind {
        Kind::Machine => machine_spec(),
        Kind::MachineSet => many,
        Kind::MachineDeployment => {
            let mut spec = many;
            let limits = json!({"maxSurge": 1, "maxUnavailable": 0});
            spec["rollout"] = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}});
            spec
        }
        Kind::MachinePool => json!({"clusterName": "shop", "replicas": 2, "template": template}),
        Kind::MachineHealthCheck => json!({
            "clusterName": "shop",
            "selector": {"matchLabels": {"set": "a"}},
            "checks": {"nodeStartupTimeoutSeconds": 600},
        }),
        Kind::MachineDrainRule => json!({
            "drain": {"behavior": "Skip"},
            "machines": [{"selector": {"matchLabels": {"a": "b"}}}],
            "pods": [{"selector": {"matchLabels": {"a": "b"}}}],
        }),
        Kind::ClusterResourceSet => json!({
            "clusterSelector": {"matchLabels": {"a": "b"}},
            "resources": [{"kind": "Secret", "name": "s"}],
            "strategy": "ApplyOnce",
        }),
        Kind::ClusterResourceSetBinding => json!({"clusterName": "shop"}),
        Kind::ExtensionConfig => json!({
            "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
            "namespaceSelector": {},
        }),
        Kind::IpAddress => json!({
            "address": "192.0.2.7",
            "prefix": 24,
            "claimRef": {"name": "claim"},
            "poolRef": {"apiGroup": "ipam.example.com", "kind": "Pool", "name": "p"},
        }),
        Kind::Cluster => json!({"controlPlaneRef": {
            "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CapstanControlPlane", "name": "shop",
        }}),
        Kind::ClusterClass => {
            let template = |group: &str, kind: &str| {
                let api_version = format!("{group}.cluster.x-k8s.io/v1beta2");
                json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": "t"}})
            };
            json!({
                "infrastructure": template("infrastructure", "NetworkTemplate"),
                "controlPlane": template("controlplane", "PlaneTemplate"),
                "workers": {"machineDeployments": [{
                    "class": "small",
                    "bootstrap": template("bootstrap", "ConfigTemplate"),
                    "infrastructure": template("infrastructure", "MachineTemplate"),
                }]},
            })
        }
    }
}

/// A valid object of a kind.
pub(crate) fn object(kind: Kind) -> Value {
    let name = match kind {
        Kind::Cluster => "shop",
        Kind::ClusterClass => "standard",
        _ => "a",
    };
    json!({
        "apiVersion": format!("{}/v1beta2", kind.group()),
        "kind": kind.name(),
        "metadata": {
            "name": name, "namespace": "n", "labels": {"cluster.x-k8s.io/cluster-name": "shop"},
        },
        "spec": spec(kind),
    })
}
