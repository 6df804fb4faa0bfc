//! `capstan move`, from outside: a cluster of simulated hosts goes from the embedded plane to a real one and back, and
//! through a folder; nothing is lost, hosts stay claimed, machines keep running; and what must not begin is refused.
//!
//! Simulated hosts live in a folder, as real ones live in a rack. The manager of the old plane is stopped before that of the
//! new one starts, on the same folder.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_testkit::{RealPlane, eventually, kubectl as run_kubectl};
use capstan_tests::{Embedded, Running, capstan, capstan_told};
use serde_json::Value;

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);
const VERSION: &str = "v1.36.0+k3s1";

const POOL: &str = "
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: HostPool
metadata: {name: simulated, namespace: default}
spec:
  replicas: 3
  simulated: {bootMilliseconds: 100, stepMilliseconds: 20}
";

/// What is moved, of which each object must be found again.
const KINDS: &str = "clusters,hostclusters,capstancontrolplanes,machinedeployments,machinesets,machines,hostmachines,\
                     hostmachinetemplates,capstanconfigs,capstanconfigtemplates,hosts,hostpools";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_moves_to_a_real_plane_and_back() {
    let folder = tempfile::Builder::new().prefix("capstan-movement-").tempdir().unwrap();
    let embedded = Embedded::start().await.unwrap();
    let real = RealPlane::start().await.unwrap();
    let (here, there) = (Plane(embedded.kubeconfig()), Plane(real.kubeconfig().to_owned()));
    let manager = manager(&here, folder.path());
    here.apply(POOL).await;
    let version = ["--kubernetes-version", VERSION, "--worker-machine-count", "1"];
    here.apply(&capstan(&[&["generate", "cluster", "barge"][..], &version].concat()).unwrap()).await;
    here.is_well().await;
    let before = here.cluster().await;
    assert_eq!(before.claims.len(), 2, "{before:?}");

    // A plane that knows nothing of clusters, then one whose source is paused: refused, and nothing is touched.
    let refused = here.refused_move_to(&there);
    for line in [
        "provider infrastructure-capstan is missing at the target",
        "the target does not know Cluster (cluster.x-k8s.io/v1beta2)",
    ] {
        assert!(refused.contains(line), "{refused}");
    }
    let told = there.told(&["init"]);
    assert_eq!(told.0, 0, "{}", told.2);
    here.kubectl(&["patch", "cluster", "barge", "--type=merge", "-p", r#"{"spec":{"paused":true}}"#])
        .await
        .unwrap();
    let refused = here.refused_move_to(&there);
    assert!(refused.starts_with("capstan: Cluster default/barge is paused"), "{refused}");
    here.kubectl(&["patch", "cluster", "barge", "--type=merge", "-p", r#"{"spec":{"paused":null}}"#])
        .await
        .unwrap();
    let refused = here.refused_move_to(&here);
    assert!(refused.contains("source and target are the same plane"), "{refused}");
    assert_eq!(there.cluster().await, Cluster::default());
    here.is_well().await;

    // Into a folder: the cluster stays where it is, and is awake.
    let backup = folder.path().join("backup");
    here.succeeds(&["move", "--to-directory", backup.to_str().unwrap()]);
    assert_eq!(here.cluster().await, before);

    let rehearsed = here.succeeds(&["move", "--dry-run", "--to-kubeconfig", there.path()]);
    assert!(
        rehearsed.starts_with("Cluster default/barge\n") || rehearsed.contains("\nCluster default/barge\n")
    );
    here.succeeds(&["move", "--to-kubeconfig", there.path()]);
    assert_eq!(here.cluster().await, Cluster::default());
    assert_eq!(there.cluster().await, before);
    manager.kill().unwrap();
    let manager = self::manager(&there, folder.path());
    there.is_well().await;
    assert_eq!(there.cluster().await, before);

    there.succeeds(&["move", "--to-kubeconfig", here.path()]);
    assert_eq!(there.cluster().await, Cluster::default());
    manager.kill().unwrap();
    let mut manager = self::manager(&here, folder.path());
    here.is_well().await;
    assert_eq!(here.cluster().await, before);

    // It is still a cluster that can be taken down, and its hosts come back clean.
    here.kubectl(&["delete", "cluster", "barge", "--wait=false"]).await.unwrap();
    eventually(DEADLINE, "every host to be clean", async || {
        let states = here.kubectl(&["get", "hosts", "-o", "jsonpath={.items[*].status.state}"]).await?;
        ensure!(states == "Available Available Available", "hosts: {states}");
        Ok(())
    })
    .await
    .unwrap();
    manager.ensure_running().unwrap();

    // And what was written to the folder can be read anywhere.
    let elsewhere = Embedded::start().await.unwrap();
    let elsewhere = (Plane(elsewhere.kubeconfig()), elsewhere);
    eventually(DEADLINE, "the plane to know its providers", async || {
        let providers = elsewhere.0.list("providers").await?;
        ensure!(providers.len() == 5, "{}", providers.len());
        Ok(())
    })
    .await
    .unwrap();
    let args = ["move", "--from-directory", backup.to_str().unwrap(), "--to-kubeconfig", elsewhere.0.path()];
    let (code, _, told) = capstan_told(&args, "").unwrap();
    assert_eq!(code, 0, "{told}");
    assert_eq!(elsewhere.0.cluster().await, before);
}

fn manager(plane: &Plane, folder: &Path) -> Running {
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

struct Plane(PathBuf);

impl Plane {
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
        let (code, printed, told) = self.told(args);
        assert_eq!(code, 0, "{told}");
        printed
    }

    fn told(&self, args: &[&str]) -> (i32, String, String) {
        capstan_told(&[args, &["--kubeconfig", self.path()]].concat(), "").unwrap()
    }

    fn refused_move_to(&self, target: &Self) -> String {
        let (code, _, told) = self.told(&["move", "--to-kubeconfig", target.path()]);
        assert_eq!(code, 1, "{told}");
        told
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
        for object in self.list(KINDS).await.unwrap() {
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
