//! A real plane with everything that five Deployments would find: namespaces, service accounts, and their rights, as
//! `capstan_api::access` says them and no more.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_api::access::access;
use capstan_testkit::{RealPlane, eventually, install_crds};
use capstan_tests::{Running, capstan, installed_access, let_in};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
pub(crate) const DEADLINE: Duration = Duration::from_secs(300);
pub(crate) const VERSION: &str = "v1.36.0+k3s1";
/// Where the managers are installed.
const HOME: &str = "capstan-system";

pub(crate) struct Stage {
    pub(crate) plane: RealPlane,
    folder: TempDir,
}

impl Stage {
    /// A plane with CRDs and these namespaces.
    pub(crate) async fn with(namespaces: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("capstan-pods-").tempdir().unwrap();
        let plane = RealPlane::start().await.unwrap();
        install_crds(&plane.client(), &capstan_api::crd::all()).await.unwrap();
        let stage = Self { plane, folder };
        let all = namespaces.iter().chain([&HOME]);
        let all =
            all.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        stage.apply(all.collect()).await;
        stage
    }

    pub(crate) async fn apply(&self, objects: Vec<Value>) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        // A CRD may be there a moment before its kind is served.
        eventually(DEADLINE, "the manifests to be taken", async || self.plane.apply_yaml(&list).await)
            .await
            .unwrap();
    }

    pub(crate) async fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.plane.kubectl(args).await?.success()
    }

    /// Makes the service account of each group, with its rights everywhere and at home.
    pub(crate) async fn install(&self) {
        let objects = access().iter().flat_map(|group| installed_access(group, HOME)).collect();
        self.apply(objects).await;
    }

    /// Lets all groups work in a namespace with clusters.
    pub(crate) async fn let_in(&self, namespace: &str) {
        let bindings = access().into_iter().map(|group| let_in(&group, HOME, namespace));
        self.apply(bindings.collect()).await;
    }

    /// A kubeconfig with the token of a group's service account.
    async fn kubeconfig(&self, group: &str) -> PathBuf {
        let token = ["create", "token", &account(group), "-n", HOME, "--duration=1h"];
        let token = self.kubectl(&token).await.unwrap();
        let admin = std::fs::read_to_string(self.plane.kubeconfig()).unwrap();
        let mut config: Value = serde_saphyr::from_str(&admin).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim()});
        let path = self.path(&format!("{group}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// A token for the hooks, as the kubelet gives it to a pod of this group.
    pub(crate) async fn hooks_token(&self, group: &str) -> String {
        let token = ["create", "token", &account(group), "-n", HOME, "--audience=hooks.capstan.dev"];
        self.kubectl(&token).await.unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A replica of a Deployment that runs one group, with the rights of its service account.
    pub(crate) async fn replica(&self, group: &str, name: &str) -> Replica {
        let kubeconfig = self.kubeconfig(group).await;
        let mut more = vec!["--leader-elect", "--leader-elect-namespace", HOME];
        let token = self.path("hooks-token");
        if group == "core" {
            std::fs::write(&token, self.hooks_token(group).await).unwrap();
            more.extend(["--hooks-token-file", token.to_str().unwrap()]);
        }
        self.manager(group, name, &kubeconfig, &more)
    }

    /// `capstan manager` with a folder of its own.
    pub(crate) fn manager(&self, group: &str, name: &str, kubeconfig: &Path, more: &[&str]) -> Replica {
        let (data, log) = (self.path(name), self.path(&format!("{name}.log")));
        let args = [
            &[
                "manager",
                "--controllers",
                group,
                "--kubeconfig",
                kubeconfig.to_str().unwrap(),
                "--data-dir",
                data.to_str().unwrap(),
                "--health-addr",
                "127.0.0.1:0",
                "--diagnostics-address",
                "127.0.0.1:0",
                // Not the one that is taken when nobody says anything.
                "--sim-address",
                "127.0.0.7",
                // Core runs in another process.
                "--hooks-review-tokens",
            ],
            more,
        ]
        .concat();
        Replica { running: Running::start(&args, &log).unwrap(), log, group: group.to_owned() }
    }

    /// A pool of simulated hosts and a cluster on them.
    pub(crate) fn cluster(&self, namespace: &str, name: &str, hosts: u32) -> Vec<Value> {
        let pool = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostPool",
            "metadata": {"name": format!("{name}-hosts"), "namespace": namespace},
            "spec": {"replicas": hosts, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 20}},
        });
        let size = ["--control-plane-machine-count", "1", "--worker-machine-count", "1"];
        let what = ["generate", "cluster", name, "-n", namespace, "--kubernetes-version", VERSION];
        let text = capstan(&[&what[..], &size[..]].concat()).unwrap();
        let documents = text.split("\n---\n").map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        std::iter::once(pool).chain(documents).collect()
    }

    pub(crate) async fn available(&self, namespace: &str, name: &str) {
        eventually(DEADLINE, "the cluster to be available", async || {
            let path = r#"jsonpath={.status.conditions[?(@.type=="Available")]}"#;
            let condition = self.kubectl(&["get", "cluster", name, "-n", namespace, "-o", path]).await?;
            ensure!(condition.contains(r#""status":"True""#), "{condition}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Who holds the Lease of a group.
    pub(crate) async fn leader(&self, group: &str) -> Result<String> {
        let lease = format!("capstan-{group}-leader");
        let path = "jsonpath={.spec.holderIdentity}";
        let holder = self.kubectl(&["get", "lease", &lease, "-n", HOME, "-o", path]).await?;
        ensure!(!holder.is_empty(), "nobody holds {lease}");
        Ok(holder)
    }
}

/// One process of a Deployment.
pub(crate) struct Replica {
    pub(crate) running: Running,
    log: PathBuf,
    group: String,
}

impl Replica {
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn logged_after(&self, before: &str) -> Result<String> {
        let log = self.log();
        let line = log.lines().find_map(|line| line.strip_prefix(before));
        line.map(str::to_owned).with_context(|| format!("{}: never said {before:?}:\n{log}", self.group))
    }

    /// What it calls itself in the election.
    pub(crate) fn identity(&self) -> Result<String> {
        self.logged_after("waiting to lead as ")
    }

    /// What a kubelet would hear of it.
    pub(crate) async fn health(&self, path: &str) -> Result<u16> {
        let address = self.logged_after("health checks: http://")?;
        let mut stream = tokio::net::TcpStream::connect(&address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await?;
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await?;
        let code = answer.split(' ').nth(1).context("no HTTP")?;
        Ok(code.parse()?)
    }

    pub(crate) async fn ready(&mut self) {
        eventually(DEADLINE, "a replica to be ready", async || {
            self.running.ensure_running()?;
            ensure!(self.health("/healthz").await? == 200, "not healthy");
            ensure!(self.health("/readyz").await? == 200, "not ready");
            Ok(())
        })
        .await
        .unwrap();
    }
}

fn account(group: &str) -> String {
    format!("capstan-{group}")
}
