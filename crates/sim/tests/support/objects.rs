//! Objects that other controllers create.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::core::{Cluster, Machine};
use capstan_controller::owners;
use serde_json::{Value, json};

use super::plans::{Trust, machine_id};

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

pub(crate) fn pool(replicas: i32) -> Value {
    json!({
        "apiVersion": format!("{INFRASTRUCTURE}/v1alpha1"), "kind": "HostPool", "metadata": {"name": "yard"},
        "spec": {
            "replicas": replicas,
            "simulated": {"bootMilliseconds": 20, "stepMilliseconds": 5},
            "metadata": {"labels": {"disk": "fast"}},
            "failureDomains": ["east", "west"],
        },
    })
}

pub(crate) fn cluster() -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {"infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "HostCluster", "name": "c"}},
    })
}

pub(crate) fn host_cluster(cluster: &Cluster) -> Value {
    json!({
        "apiVersion": format!("{INFRASTRUCTURE}/v1alpha1"), "kind": "HostCluster",
        "metadata": {
            "name": "c", "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [owners::plain(cluster)],
        },
        "spec": {"hostSelector": {"matchLabels": {"disk": "fast"}}},
    })
}

pub(crate) fn machine(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {
            "clusterName": "c",
            "bootstrap": {"dataSecretName": format!("{name}-bootstrap")},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "HostMachine", "name": name},
        },
    })
}

pub(crate) fn host_machine(machine: &Machine) -> Value {
    json!({
        "apiVersion": format!("{INFRASTRUCTURE}/v1alpha1"), "kind": "HostMachine",
        "metadata": {
            "name": machine.metadata.name, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": [owners::controller(machine)],
        },
        "spec": {},
    })
}

pub(crate) fn report(name: &str) -> Value {
    json!({
        "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": {"name": name},
        "spec": {"machineName": name, "machineID": machine_id(name)},
    })
}

/// The bootstrap data of a machine that has enrolled already, with this token. The bootstrap provider's own tests and the suites of
/// the whole show how a machine enrols.
pub(crate) fn bootstrap_secret(name: &str, trust: &Trust, kubeconfig: &Value, token: &str) -> Value {
    let cluster = &kubeconfig["clusters"][0]["cluster"];
    let later = "2100-01-01T00:00:00Z";
    let credential = json!({"token": token, "renewal": later, "expiresAt": later});
    let agent = json!({
        "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "AgentConfig", "server": cluster["server"],
        "caData": cluster["certificate-authority-data"], "namespace": super::NAMESPACE, "machine": name,
        "machineID": machine_id(name),
        "planPublicKey": BASE64_STANDARD.encode(trust.signing_key.public().as_bytes()),
    });
    let file = |path: &str, content: &Value, encoding: &str| json!({"path": path, "permissions": "0600", "content": content, "encoding": encoding});
    let files = [
        file("/etc/capstan/agent.json", &json!(agent.to_string()), "text/plain"),
        file("/etc/capstan/agent.credential", &json!(credential.to_string()), "text/plain"),
    ];
    let data = json!({"write_files": files, "runcmd": [["/opt/capstan/capstan-agent", "enroll"]]});
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("{name}-bootstrap")},
        "type": "cluster.x-k8s.io/secret",
        "stringData": {"value": format!("#cloud-config\n{data}\n"), "format": "cloud-config"},
    })
}
