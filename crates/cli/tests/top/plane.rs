//! An embedded plane with objects.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(120);

pub(super) const CAPSTAN: &str = env!("CARGO_BIN_EXE_capstan");

/// `capstan up`; dropping the value kills it.
pub(super) struct TopPlane {
    child: Child,
    folder: tempfile::TempDir,
    controllers: &'static str,
    listen: String,
}

impl TopPlane {
    pub(super) fn start(controllers: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (child, listen) = up(&folder.path().join("data"), controllers, "127.0.0.1:0");
        Self { child, folder, controllers, listen }
    }

    pub(super) fn kubeconfig(&self) -> String {
        self.folder.path().join("data/admin.kubeconfig").to_str().unwrap().to_owned()
    }

    pub(super) fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the plane again, at the same address.
    pub(super) fn start_again(&mut self) {
        (self.child, _) = up(&self.folder.path().join("data"), self.controllers, &self.listen);
    }

    pub(super) async fn client(&self) -> Client {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let file = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Applies objects; retries until the plane accepts each.
    pub(super) async fn apply(&self, objects: &[Value]) {
        let client = self.client().await;
        for object in objects {
            let started = Instant::now();
            while let Err(error) = apply(&client, object).await {
                assert!(started.elapsed() < DEADLINE, "{object:#}: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

impl Drop for TopPlane {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Starts it, and says where it listens once it is ready.
fn up(data: &Path, controllers: &str, listen: &str) -> (Child, String) {
    let anywhere = "127.0.0.1:0";
    let mut child = Command::new(CAPSTAN)
        .args(["up", "--listen", listen, "--controllers", controllers, "--artifacts-listen", anywhere])
        .arg("--data-dir")
        .arg(data)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let ready = said.find(|line| line.starts_with("ready: ")).expect("it ended instead of starting");
    std::thread::spawn(move || said.for_each(drop));
    let (_, address) = ready.split_once("https://").unwrap();
    let end = address.find(|letter: char| !(letter.is_ascii_digit() || ".:".contains(letter)));
    (child, address[..end.unwrap_or(address.len())].trim_end_matches(['.', ':']).to_owned())
}

async fn apply(client: &Client, object: &Value) -> kube::Result<()> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let namespace =
        if text("/metadata/namespace").is_empty() { "default" } else { text("/metadata/namespace") };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let params = PatchParams::apply("test").force();
    api.patch(text("/metadata/name"), &params, &Patch::Apply(object)).await?;
    if object.get("status").is_some() {
        api.patch_status(text("/metadata/name"), &params, &Patch::Apply(object)).await?;
    }
    Ok(())
}

/// Simulated hosts, and a cluster on them with one control plane machine and one worker.
pub(super) fn shop() -> Vec<Value> {
    let output = Command::new(CAPSTAN)
        .args(["generate", "cluster", "shop", "--kubernetes-version", "v1.36.0+k3s1"])
        .args(["--control-plane-machine-count", "1", "--worker-machine-count", "1"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut objects = vec![json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool",
        "metadata": {"name": "simulated", "namespace": "default"},
        "spec": {"replicas": 3, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 20}},
    })];
    objects.extend(serde_saphyr::from_multiple::<Value>(&String::from_utf8(output.stdout).unwrap()).unwrap());
    objects
}

/// A cluster, a machine and a host with `hostile` in all texts.
pub(super) fn hostile(hostile: &str) -> Vec<Value> {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "False", "reason": "Hostile", "message": hostile,
            "lastTransitionTime": "2026-11-17T00:00:00Z"})
    };
    let labels = json!({"cluster.x-k8s.io/cluster-name": "shop", "cluster.x-k8s.io/control-plane": ""});
    let metadata = |name: &str| json!({"name": name, "namespace": "default", "labels": labels});
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    vec![
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata("shop"),
            "spec": {"infrastructureRef": {"apiGroup": infrastructure, "kind": "HostCluster", "name": "shop"}},
            "status": {"conditions": [condition("Available")]}}),
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata("shop-0"),
            "spec": {"clusterName": "shop", "bootstrap": {"dataSecretName": "x"},
                "infrastructureRef": {"apiGroup": infrastructure, "kind": "HostMachine", "name": "shop-0"}},
            "status": {"conditions": [condition("Ready")]}}),
        json!({"apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": metadata("shop-0"),
            "spec": {"machineName": "shop-0", "machineID": "0123456789abcdef0123456789abcdef"},
            "status": {"phase": "Failed", "message": hostile,
                "output": {"stdout": {"head": hostile}, "stderr": {"tail": hostile}},
                "facts": {"hostname": hostile, "osImage": hostile, "kernelVersion": hostile},
                "probes": [{"name": "kubelet", "healthy": false, "message": hostile}],
                "plan": {"digest": "0".repeat(64), "revision": 1},
                "step": {"name": "install", "index": 1, "total": 2}}}),
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host", "metadata": metadata("rack-1"),
            "spec": {"simulated": {}, "quarantine": {"reason": "Hostile", "message": hostile}},
            "status": {"conditions": [condition("Usable")], "facts": {"osImage": hostile}}}),
    ]
}
