//! `capstan ui` and `capstan up --ui` as a person starts them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use capstan_testkit::eventually;
use capstan_tests::{Running, kubectl};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(120);

/// A web view that runs.
pub(super) struct View {
    /// The login link, of `with_controllers`.
    pub(super) link: String,
    kubeconfig: PathBuf,
    log: PathBuf,
    _running: Running,
    _folder: tempfile::TempDir,
}

impl View {
    /// A plane with all controllers, and its web view.
    pub(super) async fn with_controllers(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (data, log) = (folder.path().join("data"), folder.path().join("log"));
        let args = ["up", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap(), "--ui"];
        let running = Running::start(&[&args[..], more].concat(), &log).unwrap();
        let kubeconfig = data.join("admin.kubeconfig");
        let mut view = Self { link: String::new(), kubeconfig, log, _running: running, _folder: folder };
        view.link = view.link().await;
        view
    }

    /// `capstan ui` with this kubeconfig.
    pub(super) fn beside(kubeconfig: &Path, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let args = ["ui", "--kubeconfig", kubeconfig.to_str().unwrap()];
        let running = Running::start(&[&args[..], more].concat(), &log).unwrap();
        Self {
            link: String::new(),
            kubeconfig: kubeconfig.to_owned(),
            log,
            _running: running,
            _folder: folder,
        }
    }

    /// The link that it printed.
    pub(super) async fn link(&self) -> String {
        eventually(DEADLINE, "a login link", async || {
            let log = std::fs::read_to_string(&self.log)?;
            let link =
                log.lines().find_map(|line| line.strip_prefix("web view: ")).with_context(|| log.clone())?;
            Ok(link.split_whitespace().next().context("no link")?.to_owned())
        })
        .await
        .unwrap()
    }

    /// A page of it.
    pub(super) async fn at(&self, path: &str) -> String {
        let link = self.link().await;
        let (server, _) = link.split_once("/login").unwrap();
        format!("{server}{path}")
    }

    pub(super) fn kubectl(&self, args: &[&str]) -> String {
        kubectl(&self.kubeconfig, args, "").unwrap()
    }

    pub(super) async fn apply(&self, manifests: &str) {
        eventually(DEADLINE, "the manifests to be taken", async || {
            kubectl(&self.kubeconfig, &["apply", "-f", "-"], manifests)
        })
        .await
        .unwrap();
    }
}

/// Applies an object as soon as the plane knows its kind.
pub(super) async fn apply(kubeconfig: &Path, object: &Value) {
    eventually(DEADLINE, "the object to be taken", async || {
        kubectl(kubeconfig, &["apply", "--server-side", "-f", "-"], &object.to_string())
    })
    .await
    .unwrap();
}

/// A kubeconfig of a user who may read everything but Secrets, and write nothing.
pub(super) async fn reader(admin: &Path) -> PathBuf {
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": [
            {"apiGroups": ["cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io",
                "controlplane.cluster.x-k8s.io", "agent.capstan.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]},
    ]});
    apply(admin, &objects).await;
    let token = kubectl(admin, &["create", "token", "reader"], "").unwrap();
    let mut kubeconfig: Value = serde_saphyr::from_str(&std::fs::read_to_string(admin).unwrap()).unwrap();
    let user = kubeconfig["users"][0]["name"].clone();
    kubeconfig["users"] = json!([{"name": user, "user": {"token": token.trim()}}]);
    let path = admin.with_file_name("reader.kubeconfig");
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

/// Texts with `markup`, each with a number by which it is found on a page.
struct Planter<'a> {
    markup: &'a str,
    numbers: std::cell::Cell<usize>,
}

impl Planter<'_> {
    fn text(&self) -> String {
        self.numbers.set(self.numbers.get() + 1);
        format!("planted{}.{}", self.numbers.get(), self.markup)
    }

    /// For fields of few characters.
    fn short_text(&self) -> String {
        self.numbers.set(self.numbers.get() + 1);
        format!("planted{}.<img src=x>", self.numbers.get())
    }

    fn condition(&self, type_: &str, status: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "Hostile", "message": self.text(),
            "lastTransitionTime": "2026-11-17T00:00:00Z"})
    }
}

/// A cluster, a machine and a host: each field that a machine, a provider or a user can fill with text, and that a page
/// shows, has `markup` in it. Gives the number of such fields.
pub(super) async fn plant(admin: &Path, markup: &str) -> usize {
    let planter = Planter { markup, numbers: std::cell::Cell::new(0) };
    let labels = json!({"cluster.x-k8s.io/cluster-name": "shop", "cluster.x-k8s.io/control-plane": ""});
    let metadata = |name: &str| json!({"name": name, "namespace": "default", "labels": labels});
    let reference =
        |group: &str, kind: &str, name: &str| json!({"apiGroup": group, "kind": kind, "name": name});
    let (infrastructure, bootstrap) = ("infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io");
    let control_plane = "controlplane.cluster.x-k8s.io";
    let template = json!({"clusterName": "shop", "version": "v1.36.0+k3s1",
        "bootstrap": {"configRef": reference(bootstrap, "CapstanConfigTemplate", "shop")},
        "infrastructureRef": reference(infrastructure, "HostMachineTemplate", "shop")});
    let selected =
        json!({"cluster.x-k8s.io/cluster-name": "shop", "cluster.x-k8s.io/deployment-name": "shop-md"});
    let objects = [
        (
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata("shop"),
                "spec": {"infrastructureRef": reference(infrastructure, "HostCluster", "shop"),
                    "controlPlaneRef": reference(control_plane, "CapstanControlPlane", "shop"),
                    "controlPlaneEndpoint": {"host": planter.text(), "port": 6443}}}),
            json!({"conditions": [planter.condition("Available", "False")],
                "initialization": {"infrastructureProvisioned": true}}),
        ),
        (
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostCluster", "metadata": metadata("shop"),
                "spec": {}}),
            json!({"conditions": [planter.condition("Ready", "False")]}),
        ),
        (
            json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
                "metadata": metadata("shop"), "spec": {"replicas": 1, "version": "v1.36.0+k3s1",
                    "machineTemplate": {"spec": {"infrastructureRef": reference(infrastructure, "HostMachineTemplate", "shop")}},
                    "config": {"distro": "k3s"}}}),
            json!({"conditions": [{"type": "RollingOut", "status": "True", "reason": "RollingOut",
                "message": format!("Rolling out\n* {}\n* Machine shop-0: {}", planter.text(), planter.text()),
                "lastTransitionTime": "2026-11-17T00:00:00Z"}]}),
        ),
        (
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": metadata("shop-md"),
                "spec": {"clusterName": "shop", "selector": {"matchLabels": selected},
                    "template": {"metadata": {"labels": selected}, "spec": template}}}),
            json!({"conditions": [planter.condition("Available", "False")]}),
        ),
        (
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata("shop-0"),
                "spec": {"clusterName": "shop", "bootstrap": {"dataSecretName": "x", "configRef": reference(bootstrap, "CapstanConfig", "shop-0")},
                    "infrastructureRef": reference(infrastructure, "HostMachine", "shop-0")}}),
            json!({"conditions": [planter.condition("Ready", "False"), planter.condition("UpToDate", "False")]}),
        ),
        (
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostMachine", "metadata": metadata("shop-0"),
                "spec": {"hostName": "rack-1"}}),
            json!({"conditions": [planter.condition("HostClaimed", "False")]}),
        ),
        (
            json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig", "metadata": metadata("shop-0"),
                "spec": {"distro": "k3s"}}),
            json!({"conditions": [planter.condition("AgentEnrolled", "False")]}),
        ),
        (
            json!({"apiVersion": "agent.capstan.dev/v1alpha1", "kind": "MachineReport", "metadata": metadata("shop-0"),
                "spec": {"machineName": "shop-0", "machineID": "0123456789abcdef0123456789abcdef"}}),
            json!({"phase": "Failed", "message": planter.text(),
                "output": {"stdout": {"head": planter.text(), "tail": planter.text()},
                    "stderr": {"head": planter.text(), "tail": planter.text()}},
                "facts": {"hostname": planter.text(), "osImage": planter.text(), "kernelVersion": planter.text(),
                    "architecture": planter.short_text(), "machineID": planter.short_text(), "bootID": planter.short_text()},
                "probes": [{"name": "kubelet", "healthy": false, "message": planter.text()}],
                "ledger": {"total": 1, "items": [{"kind": "File", "name": planter.text(), "before": "Nothing"}]},
                "plan": {"digest": "0".repeat(64), "revision": 1}, "step": {"name": "install", "index": 2, "total": 2}}),
        ),
        (
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host", "metadata": metadata("rack-1"),
                "spec": {"simulated": {}, "failureDomain": "<script>window.pwned = 1</script>",
                    "quarantine": {"reason": "Hostile", "message": planter.text()}}}),
            json!({"conditions": [planter.condition("Usable", "False")], "facts": {"osImage": planter.text()}}),
        ),
    ];
    for (object, status) in objects {
        apply(admin, &object).await;
        let what =
            format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let patch = json!({"status": status}).to_string();
        kubectl(admin, &["patch", &what, "--subresource=status", "--type=merge", "-p", &patch], "").unwrap();
    }
    // The plan of the machine: names of steps, and the record of what it changes.
    let plan = json!({"steps": [{"name": planter.text()}, {"name": "install"}]}).to_string();
    let record = json!({"setup": {"version": planter.text(), "restart": "a", "drain": "a"}, "attempt": 1});
    let mut secret = metadata("shop-0-plan");
    secret["annotations"] = json!({"capstan.dev/plan-record": record.to_string()});
    apply(
        admin,
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "type": "agent.capstan.dev/machine-plan",
            "stringData": {"plan": plan}}),
    )
    .await;
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "hostile", "namespace": "default"},
        "involvedObject": {"kind": "Machine", "name": "shop-0", "namespace": "default"}, "reason": planter.text(),
        "message": planter.text(), "type": "Warning"});
    kubectl(admin, &["create", "-f", "-"], &event.to_string()).unwrap();
    planter.numbers.get()
}
