//! `capstan move`, from outside: a cluster of simulated hosts goes from the embedded plane to a real one and back, and
//! through a folder; nothing is lost, hosts stay claimed, machines keep running; and what must not begin is refused.
//!
//! Simulated hosts live in a folder, as real ones live in a rack. The manager of the old plane is stopped before that of the
//! new one starts, on the same folder.

#![cfg(test)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_testkit::{RealPlane, eventually, kubectl as run_kubectl};
use capstan_tests::{Embedded, MOVED_KINDS, Running, capstan, capstan_output, simulated_hosts};
use serde_json::Value;

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);
const VERSION: &str = "v1.36.0+k3s1";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_moves_to_a_real_plane_and_back() {
    let folder = tempfile::Builder::new().prefix("capstan-movement-").tempdir().unwrap();
    let embedded = Embedded::start().await.unwrap();
    let real = RealPlane::start().await.unwrap();
    let (first, second) = (MovementPlane(embedded.kubeconfig()), MovementPlane(real.kubeconfig().to_owned()));
    let manager = manager(&first, folder.path());
    first.apply(&simulated_hosts(3)).await;
    let version = ["--kubernetes-version", VERSION, "--worker-machine-count", "1"];
    first.apply(&capstan(&[&["generate", "cluster", "barge"][..], &version].concat()).unwrap()).await;
    first.is_well().await;
    let before = first.cluster().await;
    assert_eq!(before.claims.len(), 2, "{before:?}");

    // A plane that knows nothing of clusters, then one whose source is paused: refused, and nothing is touched.
    let refused = first.refused_move_to(&second);
    for line in [
        "provider infrastructure-capstan is missing at the target",
        "the target does not know Cluster (cluster.x-k8s.io/v1beta2)",
    ] {
        assert!(refused.contains(line), "{refused}");
    }
    let initialized = second.output_of(&["init"]);
    assert_eq!(initialized.0, 0, "{}", initialized.2);
    first
        .kubectl(&["patch", "cluster", "barge", "--type=merge", "-p", r#"{"spec":{"paused":true}}"#])
        .await
        .unwrap();
    let refused = first.refused_move_to(&second);
    assert!(refused.starts_with("capstan: Cluster default/barge is paused"), "{refused}");
    first
        .kubectl(&["patch", "cluster", "barge", "--type=merge", "-p", r#"{"spec":{"paused":null}}"#])
        .await
        .unwrap();
    let refused = first.refused_move_to(&first);
    assert!(refused.contains("source and target are the same plane"), "{refused}");
    assert_eq!(second.cluster().await, Cluster::default());
    first.is_well().await;

    // Into a folder: the cluster stays where it is, and is awake.
    let backup = folder.path().join("backup");
    first.succeeds(&["move", "--to-directory", backup.to_str().unwrap()]);
    assert_eq!(first.cluster().await, before);

    let rehearsed = first.succeeds(&["move", "--dry-run", "--to-kubeconfig", second.path()]);
    assert!(
        rehearsed.starts_with("Cluster default/barge\n") || rehearsed.contains("\nCluster default/barge\n")
    );
    first.succeeds(&["move", "--to-kubeconfig", second.path()]);
    assert_eq!(first.cluster().await, Cluster::default());
    assert_eq!(second.cluster().await, before);
    manager.kill().unwrap();
    let manager = self::manager(&second, folder.path());
    second.is_well().await;
    assert_eq!(second.cluster().await, before);

    second.succeeds(&["move", "--to-kubeconfig", first.path()]);
    assert_eq!(second.cluster().await, Cluster::default());
    manager.kill().unwrap();
    let mut manager = self::manager(&first, folder.path());
    first.is_well().await;
    assert_eq!(first.cluster().await, before);

    // It is still a cluster that can be taken down, and its hosts come back clean.
    first.kubectl(&["delete", "cluster", "barge", "--wait=false"]).await.unwrap();
    eventually(DEADLINE, "every host to be clean", async || {
        let states = first.kubectl(&["get", "hosts", "-o", "jsonpath={.items[*].status.state}"]).await?;
        ensure!(states == "Available Available Available", "hosts: {states}");
        Ok(())
    })
    .await
    .unwrap();
    manager.ensure_running().unwrap();

    // And what was written to the folder can be read anywhere.
    let elsewhere = Embedded::start().await.unwrap();
    let elsewhere = (MovementPlane(elsewhere.kubeconfig()), elsewhere);
    eventually(DEADLINE, "the plane to know its providers", async || {
        let providers = elsewhere.0.list("providers").await?;
        ensure!(providers.len() == 5, "{}", providers.len());
        Ok(())
    })
    .await
    .unwrap();
    let args = ["move", "--from-directory", backup.to_str().unwrap(), "--to-kubeconfig", elsewhere.0.path()];
    let (code, _, stderr) = capstan_output(&args, "").unwrap();
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(elsewhere.0.cluster().await, before);
}

fn manager(plane: &MovementPlane, folder: &Path) -> Running {
    let data = folder.join("data");
    let args = ["manager", "--kubeconfig", plane.path(), "--data-dir", data.to_str().unwrap()];
    Running::start(&args, &folder.join("manager.log")).unwrap()
}

/// What must be the same wherever the cluster is.
#[derive(Debug, Default, PartialEq)]
struct Cluster {
    /// `Kind/name` of every object, with those that own it.
    objects: BTreeMap<String, Vec<String>>,
    /// The claim of each Host.
    claims: BTreeMap<String, String>,
    /// The provider ID of each Machine.
    machines: BTreeMap<String, String>,
    /// Everything in the Secrets of the cluster.
    secrets: BTreeMap<String, Value>,
}

struct MovementPlane(PathBuf);

impl MovementPlane {
    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let ran = run_kubectl(&self.0, args, None).await?;
        ensure!(ran.status.success(), "kubectl {} failed: {}", args.join(" "), ran.stderr);
        Ok(ran.stdout)
    }

    async fn apply(&self, manifests: &str) {
        eventually(DEADLINE, "the manifests to be taken", async || {
            let ran = run_kubectl(&self.0, &["apply", "-f", "-"], Some(manifests)).await?;
            ensure!(ran.status.success(), "{}", ran.stderr);
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Runs `capstan` with this plane as source, and gives what it prints.
    fn succeeds(&self, args: &[&str]) -> String {
        let (code, printed, stderr) = self.output_of(args);
        assert_eq!(code, 0, "{stderr}");
        printed
    }

    fn output_of(&self, args: &[&str]) -> (i32, String, String) {
        capstan_output(&[args, &["--kubeconfig", self.path()]].concat(), "").unwrap()
    }

    fn refused_move_to(&self, target: &Self) -> String {
        let (code, _, stderr) = self.output_of(&["move", "--to-kubeconfig", target.path()]);
        assert_eq!(code, 1, "{stderr}");
        stderr
    }

    async fn is_well(&self) {
        eventually(DEADLINE, "the cluster to be available and every machine to have its Node", async || {
            let clusters = self.list("clusters").await?;
            ensure!(clusters.len() == 1, "{} clusters", clusters.len());
            let conditions = clusters[0]["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let available = conditions.iter().find(|condition| condition["type"] == "Available");
            ensure!(available.is_some_and(|condition| condition["status"] == "True"), "{available:?}");
            let machines = self.list("machines").await?;
            let with_node = machines.iter().filter(|machine| !machine["status"]["nodeRef"].is_null()).count();
            ensure!(machines.len() == 2 && with_node == 2, "{with_node} of {} machines", machines.len());
            Ok(())
        })
        .await
        .unwrap();
    }

    async fn list(&self, kinds: &str) -> Result<Vec<Value>> {
        let ran = run_kubectl(&self.0, &["get", kinds, "-A", "-o", "json"], None).await?;
        // A plane that does not know the kinds has none of them.
        if ran.stderr.contains("the server doesn't have a resource type") {
            return Ok(Vec::new());
        }
        ensure!(ran.status.success(), "{}", ran.stderr);
        let list: Value = serde_json::from_str(&ran.stdout)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    async fn cluster(&self) -> Cluster {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |object: &Value| text(&object["metadata"]["name"]);
        let mut cluster = Cluster::default();
        for object in self.list(MOVED_KINDS).await.unwrap() {
            let kind = text(&object["kind"]);
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let owners =
                owners.iter().map(|owner| format!("{}/{}", text(&owner["kind"]), text(&owner["name"])));
            match kind.as_str() {
                "Host" if !object["spec"]["claim"].is_null() => {
                    cluster.claims.insert(name(&object), text(&object["spec"]["claim"]["id"]));
                }
                "Machine" => {
                    cluster.machines.insert(name(&object), text(&object["spec"]["providerID"]));
                }
                _ => {}
            }
            cluster.objects.insert(format!("{kind}/{}", name(&object)), owners.collect());
        }
        for secret in self.list("secrets").await.unwrap() {
            // Keys of the cluster, which machines hold too; what belongs to one machine may be written anew.
            if secret["type"] == "cluster.x-k8s.io/secret" && name(&secret).starts_with("barge-") {
                let keys = ["tls.crt", "tls.key", "private"].map(|key| secret["data"][key].clone());
                cluster.secrets.insert(name(&secret), keys.into());
            }
        }
        cluster
    }
}
