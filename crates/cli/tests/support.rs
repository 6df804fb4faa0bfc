//! `capstan support bundle` against a plane with secrets planted in its objects: the archive contains none of them, and
//! everything that is needed.

#![cfg(test)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};

const PLANTED: &str = "hunter2-Planted";

/// A plane without controllers; dropping it kills it.
struct BarePlane {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for BarePlane {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl BarePlane {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_capstan"))
            .args([
                "up",
                "--listen",
                "127.0.0.1:0",
                "--controllers",
                "none",
                "--artifacts-listen",
                "127.0.0.1:0",
            ])
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line.starts_with("ready: ")), "it ended instead of starting");
        std::thread::spawn(move || said.for_each(drop));
        Self { child, folder }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/admin.kubeconfig")
    }

    async fn client(&self) -> Client {
        _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let file = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    fn bundle(&self, kubeconfig: &Path, output: &Path, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_capstan"))
            .args(["support", "bundle", "--kubeconfig"])
            .arg(kubeconfig)
            .arg("--output")
            .arg(output)
            .args(more)
            .output()
            .unwrap()
    }
}

async fn apply(client: &Client, object: &Value) {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let params = PatchParams::apply("kubectl").force();
    let name = text("/metadata/name");
    api.patch(name, &params, &Patch::Apply(object))
        .await
        .unwrap_or_else(|error| panic!("{object:#}: {error}"));
    if object.get("status").is_some() {
        api.patch_status(name, &params, &Patch::Apply(object)).await.unwrap();
    }
}

fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(std::fs::File::open(path).unwrap()));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        // Below the folder that all of it is in.
        files.insert(name.split_once('/').unwrap().1.to_owned(), text);
    }
    files
}

/// A cluster with a secret wherever one may be.
async fn plant(client: &Client) {
    let pem = format!("-----BEGIN EC PRIVATE KEY-----\nMIIB{PLANTED}\n-----END EC PRIVATE KEY-----\n");
    let kubeconfig = format!(
        "users:\n- name: a\n  user:\n    token: {PLANTED}\n    client-key-data: {}\n",
        STANDARD.encode(&pem)
    );
    let metadata = |name: &str| {
        json!({
            "name": name, "namespace": "default", "labels": {"cluster.x-k8s.io/cluster-name": "shop"},
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json!({"stringData": {"a": PLANTED}}).to_string(),
                "example.com/join": format!("curl -H 'Authorization: Bearer {PLANTED}' https://u:{PLANTED}@example.com/"),
                "example.com/kubeconfig": STANDARD.encode(&kubeconfig),
                "example.com/env": json!([{"name": "API_TOKEN", "value": PLANTED}]).to_string(),
                "example.com/key": &pem,
            },
        })
    };
    apply(client, &json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata("shop"),
        "spec": {
                "controlPlaneEndpoint": {"host": "shop.example.com", "port": 6443},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostCluster", "name": "shop"},
            },
        "status": {"conditions": [{
            "type": "Available", "status": "False", "reason": "NotAvailable", "observedGeneration": 1,
            "lastTransitionTime": "2026-11-15T02:00:00Z", "message": format!("join failed: token={PLANTED}"),
        }]},
    })).await;
    apply(client, &json!({
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig", "metadata": metadata("shop-0"),
        "spec": {
            "distro": "k3s", "settings": {"kubelet-arg": [format!("oidc-client-secret={PLANTED}")]},
            "files": [{"path": "/etc/secret", "content": format!("anything {PLANTED}")}],
            "before": [{"name": "join", "command": ["join", "--token", PLANTED], "timeoutSeconds": 30}],
        },
    })).await;
    apply(client, &json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata("shop-kubeconfig"), "type": "cluster.x-k8s.io/secret",
        "stringData": {"value": &kubeconfig},
    })).await;
    apply(client, &json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata("shop-0-plan"), "type": "agent.capstan.dev/machine-plan",
        "stringData": {"plan": json!({"token": PLANTED}).to_string(), "revision": "3"},
    })).await;
    apply(client, &json!({
        "apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": metadata("shop-0"),
        "spec": {"machineName": "shop-0", "machineID": "0b6c1f3e"},
        "status": {"phase": "Failed", "message": format!("K3S_TOKEN={PLANTED} failed"),
            "step": {"name": "start", "index": 2, "total": 7},
            "output": {"stderr": {"head": format!("password: {PLANTED}\n")}}},
    })).await;
    apply(
        client,
        &json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata("shop-0"),
            "spec": {"holderIdentity": "agent"},
        }),
    )
    .await;
    apply(client, &json!({
        "apiVersion": "v1", "kind": "Event", "metadata": metadata("shop.1"),
        "involvedObject": {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "shop", "namespace": "default"},
        "reason": "Failed", "type": "Warning", "message": format!("https://admin:{PLANTED}@10.0.0.1 refused it"),
    })).await;
}

fn assert_is_free_of_secrets(files: &BTreeMap<String, String>) {
    let encoded = [0, 1, 2].map(|shift| {
        let text = STANDARD.encode(format!("{}{PLANTED}", "x".repeat(shift)));
        text[4..text.len() - 4].to_owned()
    });
    for (name, text) in files {
        assert!(!text.contains(PLANTED), "{name}: {text}");
        assert!(encoded.iter().all(|encoded| !text.contains(encoded.as_str())), "{name}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_in_it_but_secrets() {
    let plane = BarePlane::start();
    let client = plane.client().await;
    plant(&client).await;
    let output = plane.folder.path().join("bundle.tar.gz");
    let done = plane.bundle(&plane.kubeconfig(), &output, &[]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && done.stdout.is_empty(), "{said}");
    assert!(said.contains("reading clusters.cluster.x-k8s.io\n") && said.contains("bundle.tar.gz"), "{said}");
    assert_eq!(std::fs::metadata(&output).unwrap().permissions().mode() & 0o777, 0o600);

    let files = unpacked(&output);
    assert_is_free_of_secrets(&files);
    let json = |name: &str| -> Value {
        serde_json::from_str(files.get(name).unwrap_or_else(|| panic!("{name} is not in {:?}", files.keys())))
            .unwrap()
    };
    assert!(json("version.json")["program"]["version"].is_string());
    assert!(json("version.json")["server"]["gitVersion"].is_string());
    let cluster = &json("objects/clusters.cluster.x-k8s.io.json")["items"][0];
    assert_eq!((&cluster["metadata"]["name"], &cluster["kind"]), (&json!("shop"), &json!("Cluster")));
    assert_eq!(cluster["status"]["conditions"][0]["reason"], "NotAvailable");
    assert!(cluster["metadata"].get("managedFields").is_none());
    let secrets = json("secrets.json");
    let kubeconfig =
        secrets["items"].as_array().unwrap().iter().find(|it| it["metadata"]["name"] == "shop-kubeconfig");
    assert!(kubeconfig.unwrap()["dataBytes"]["value"].as_u64().unwrap() > 100, "{secrets:#}");
    assert_eq!(json("plans.json")["items"][0]["revision"], "3");
    assert_eq!(json("leases.json")["items"][0]["spec"]["holderIdentity"], "agent");
    assert_eq!(json("events.json")["items"][0]["reason"], "Failed");
    let report = &json("objects/machinereports.agent.capstan.dev.json")["items"][0];
    assert_eq!(report["status"]["step"]["name"], "start");
    assert!(files["clusters/default/shop/describe.txt"].contains("Cluster/shop"));
    assert!(files["clusters/default/shop/why.txt"].contains("Cluster/shop: Available is False"));
    assert!(json("manifest.json")["files"].as_array().unwrap().len() > 8);

    let again = plane.bundle(&plane.kubeconfig(), &output, &[]);
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(
        !again.status.success() && said.contains("bundle.tar.gz exists") && said.contains("--force"),
        "{said}"
    );
    assert!(plane.bundle(&plane.kubeconfig(), &output, &["--force"]).status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_noted_and_end_nothing() {
    let plane = BarePlane::start();
    let client = plane.client().await;
    plant(&client).await;
    let admin = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let kubeconfig = plane.folder.path().join("no-rights.kubeconfig");
    let cluster = admin.clusters[0].cluster.as_ref().unwrap();
    let no_rights = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": cluster.server, "certificate-authority-data": cluster.certificate_authority_data}}],
        "users": [{"name": "u", "user": {"token": reader(&client).await}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
    });
    std::fs::write(&kubeconfig, no_rights.to_string()).unwrap();
    let output = plane.folder.path().join("bundle.tar.gz");
    let done = plane.bundle(&kubeconfig, &output, &[]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success() && said.contains("could not be read"), "{said}");
    let files = unpacked(&output);
    assert_is_free_of_secrets(&files);
    let manifest: Value = serde_json::from_str(&files["manifest.json"]).unwrap();
    let not_read = manifest["notRead"].to_string();
    assert!(not_read.contains("secrets") && not_read.contains("forbidden"), "{manifest:#}");
    assert!(not_read.contains("only namespace default was read"), "{manifest:#}");
    assert!(files.contains_key("objects/clusters.cluster.x-k8s.io.json"), "{:?}", files.keys());
}

/// The token of a user who may list Clusters in one namespace, and nothing else.
async fn reader(client: &Client) -> String {
    let metadata = json!({"name": "reader", "namespace": "default"});
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": ["cluster.x-k8s.io"], "resources": ["clusters"], "verbs": ["get", "list"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
        }),
    ] {
        apply(client, &object).await;
    }
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(client.clone(), "default");
    let request =
        serde_json::from_value(json!({"metadata": {}, "spec": {"audiences": [], "expirationSeconds": 3600}}))
            .unwrap();
    let token =
        accounts.create_token_request("reader", &kube::api::PostParams::default(), &request).await.unwrap();
    token.status.unwrap().token.unwrap()
}
