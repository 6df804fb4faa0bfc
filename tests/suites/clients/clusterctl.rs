//! The real clusterctl on embedded planes: what it describes, and a cluster that it moves from one to another.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_testkit::{eventually, kubectl};
use capstan_tests::{Embedded, MOVED_KINDS, Running, capstan, clusterctl, simulated_hosts};
use serde_json::Value;

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);

/// A cluster goes from one embedded plane to another and is the same there; the manager of the new one goes on with it.
#[tokio::test(flavor = "multi_thread")]
async fn clusterctl_describes_and_moves() {
    let folder = tempfile::Builder::new().prefix("capstan-clients-").tempdir().unwrap();
    let (source, target) = tokio::join!(Embedded::start(), Embedded::start());
    let (source, target) = (source.unwrap(), target.unwrap());
    let (from, to) = (ClusterctlPlane(source.kubeconfig()), ClusterctlPlane(target.kubeconfig()));
    let manager = manager(&from, folder.path());
    from.takes(&simulated_hosts(2)).await;
    let args = ["generate", "cluster", "barge", "--kubernetes-version", "v1.36.0+k3s1"];
    from.takes(&capstan(&[&args[..], &["--worker-machine-count", "1"]].concat()).unwrap()).await;
    from.is_well().await;
    from.is_described();
    let before = from.names().await.unwrap();
    assert!(before.len() > 10, "{before:?}");

    clusterctl(&["move", "--kubeconfig", from.path(), "--to-kubeconfig", to.path()], &[], "").unwrap();
    assert_eq!(to.names().await.unwrap(), before);
    assert_eq!(from.names().await.unwrap(), Vec::<String>::new());
    // Hosts that are simulated can be reached by one process at a time.
    manager.kill().unwrap();
    let mut manager = self::manager(&to, folder.path());
    to.is_well().await;
    to.is_described();
    assert_eq!(to.names().await.unwrap(), before);
    manager.ensure_running().unwrap();
}

fn manager(plane: &ClusterctlPlane, folder: &Path) -> Running {
    let data = folder.join("data");
    let args = ["manager", "--kubeconfig", plane.path(), "--data-dir", data.to_str().unwrap()];
    Running::start(&args, &folder.join("manager.log")).unwrap()
}

struct ClusterctlPlane(PathBuf);

impl ClusterctlPlane {
    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    async fn takes(&self, manifests: &str) {
        eventually(DEADLINE, "the manifests to be taken", async || {
            kubectl(&self.0, &["apply", "-f", "-"], Some(manifests)).await?.success()
        })
        .await
        .unwrap();
    }

    async fn list(&self, kinds: &str) -> Result<Vec<Value>> {
        let listed = kubectl(&self.0, &["get", kinds, "-A", "-o", "json"], None).await?.success()?;
        let listed: Value = serde_json::from_str(&listed)?;
        Ok(listed["items"].as_array().cloned().unwrap_or_default())
    }

    /// What a move takes along, by kind and name.
    async fn names(&self) -> Result<Vec<String>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let named =
            |object: &Value| format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]));
        let mut names: Vec<String> = self.list(MOVED_KINDS).await?.iter().map(named).collect();
        let secrets = self.list("secrets").await?;
        names.extend(secrets.iter().map(named).filter(|name| name.starts_with("Secret/barge-")));
        names.sort();
        Ok(names)
    }

    async fn is_well(&self) {
        eventually(DEADLINE, "the cluster to be available", async || {
            let clusters = self.list("clusters").await?;
            ensure!(clusters.len() == 1, "{} clusters", clusters.len());
            let conditions = clusters[0]["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let available = conditions.iter().find(|condition| condition["type"] == "Available");
            ensure!(available.is_some_and(|condition| condition["status"] == "True"), "{available:?}");
            let machines = self.list("machines").await?;
            let nodes = machines.iter().filter(|machine| !machine["status"]["nodeRef"].is_null()).count();
            ensure!(machines.len() == 2 && nodes == 2, "{nodes} of {} machines", machines.len());
            Ok(())
        })
        .await
        .unwrap();
    }

    fn is_described(&self) {
        let args = ["describe", "cluster", "barge", "--echo", "--kubeconfig", self.path()];
        let tree = clusterctl(&args, &[], "").unwrap();
        for part in
            ["Cluster default/barge", "HostCluster default/barge", "CapstanControlPlane", "MachineDeployment"]
        {
            assert!(tree.contains(part), "{part} is not in\n{tree}");
        }
    }
}
