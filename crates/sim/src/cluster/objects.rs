//! The objects that a node creates in its cluster: its Node, and on servers the Pods of the control plane. Pure.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::config::NodeFacts;
use crate::host::{CPUS, KERNEL, MEMORY, OS_IMAGE};
use crate::vm::state::K3sRole;

/// Parts of a control plane that show as pods.
pub(super) const COMPONENTS: [&str; 4] =
    ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The Node as a kubelet registers it: labels and taints count only now.
pub(super) fn node(facts: &NodeFacts, kind: K3sRole) -> Value {
    let mut labels = Map::new();
    let mut label = |key: &str, value: &str| {
        labels.insert(key.to_owned(), json!(value));
    };
    label("kubernetes.io/hostname", &facts.name);
    label("kubernetes.io/os", "linux");
    label("kubernetes.io/arch", "amd64");
    label("node.kubernetes.io/instance-type", "k3s");
    if kind == K3sRole::Server {
        for role in ["control-plane", "etcd", "master"] {
            label(&format!("node-role.kubernetes.io/{role}"), "true");
        }
    }
    for (key, value) in &facts.labels {
        label(key, value);
    }
    let taints: Vec<Value> = facts
        .taints
        .iter()
        .map(|(key, value, effect)| match value {
            Some(value) => json!({"key": key, "value": value, "effect": effect}),
            None => json!({"key": key, "effect": effect}),
        })
        .collect();
    let mut spec = Map::new();
    if let Some(id) = &facts.provider_id {
        spec.insert("providerID".to_owned(), json!(id));
    }
    if !taints.is_empty() {
        spec.insert("taints".to_owned(), json!(taints));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": facts.name, "labels": labels},
        "spec": spec,
    })
}

/// The status of a Node that is up.
pub(super) fn up(facts: &NodeFacts, now: Timestamp) -> Value {
    let memory = format!("{}Ki", MEMORY / 1024);
    let resources = json!({"cpu": CPUS.to_string(), "memory": memory, "pods": "110"});
    json!({"status": {
        "conditions": conditions(true, now),
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": facts.name},
        ],
        "capacity": resources,
        "allocatable": resources,
        "nodeInfo": {
            "machineID": facts.machine_id,
            "systemUUID": facts.machine_id,
            "bootID": facts.boot_id,
            "kernelVersion": KERNEL,
            "osImage": OS_IMAGE,
            "containerRuntimeVersion": "simulated://1.0.0",
            "kubeletVersion": facts.version,
            "kubeProxyVersion": facts.version,
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }})
}

/// The status of a Node whose kubelet was stopped.
pub(super) fn down(now: Timestamp) -> Value {
    json!({"status": {"conditions": conditions(false, now)}})
}

fn conditions(is_up: bool, now: Timestamp) -> Value {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let condition = |name: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": name, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": second, "lastTransitionTime": second,
        })
    };
    if !is_up {
        return json!([condition(
            "Ready",
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status."
        )]);
    }
    json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ])
}

/// A part of the control plane on a server, as a pod.
pub(super) fn pod(component: &str, facts: &NodeFacts) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{component}-{}", facts.name),
            "namespace": "kube-system",
            "labels": {"component": component, "tier": "control-plane"},
            "annotations": {"kubernetes.io/config.mirror": facts.machine_id, "kubernetes.io/config.source": "file"},
        },
        "spec": {
            "nodeName": facts.name,
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
            "containers": [{"name": component, "image": format!("simulated/{component}:{}", facts.version.replace('+', "-"))}],
        },
    })
}

/// The status of such a pod.
pub(super) fn pod_up(component: &str, now: Timestamp) -> Value {
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": second});
    json!({"status": {
        "phase": "Running",
        "startTime": second,
        "conditions": [condition("Initialized"), condition("Ready"), condition("ContainersReady"), condition("PodScheduled")],
        "containerStatuses": [{
            "name": component, "ready": true, "restartCount": 0, "image": "simulated", "imageID": "",
            "state": {"running": {"startedAt": second}},
        }],
    }})
}
