//! `capstan init` and `capstan delete` on a real API server: the inventory is clusterctl's, and each tool can take away what
//! the other has installed. The embedded plane needs neither.

#![cfg(test)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_testkit::{RealPlane, eventually};
use capstan_tests::{Embedded, capstan_output};

const DEADLINE: Duration = Duration::from_secs(120);

const CLUSTER: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c, namespace: default}
spec:
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: HostCluster, name: c}
";

/// Everything of ours that a plane may hold, whatever it is.
const OURS: &str = "crd,namespace,clusterrole,clusterrolebinding";

#[tokio::test(flavor = "multi_thread")]
async fn clusterctl_and_we_see_and_remove_what_the_other_has_installed() {
    let plane = RealPlane::start().await.unwrap();
    let rehearsed = output_of(plane.kubeconfig(), &["init", "--dry-run"], 0);
    assert!(rehearsed.0.contains("infrastructure-capstan v"), "{rehearsed:?}");
    assert_eq!(ours(&plane).await.unwrap(), "");

    // Twice, as after an interruption.
    for _ in 0..2 {
        output_of(plane.kubeconfig(), &["init"], 0);
    }
    let names =
        kubectl(&plane, &["get", "providers.clusterctl.cluster.x-k8s.io", "-A", "-o", "name"]).await.unwrap();
    assert_eq!(names.lines().count(), 5, "{names}");
    let elsewhere = output_of(plane.kubeconfig(), &["init", "-i", "capstan", "-n", "elsewhere"], 1).1;
    assert!(elsewhere.contains("cannot be installed beside infrastructure-capstan"), "{elsewhere}");

    // Without the kinds: clusterctl trips over those that it has deleted itself a moment ago.
    clusterctl(&plane, &["delete", "--all", "--include-namespace"]);
    only_kinds_are_left(&plane).await;

    output_of(plane.kubeconfig(), &["init", "--target-namespace", "capstan"], 0);
    let manager = kubectl(&plane, &["get", "deployments", "-n", "capstan", "-o", "name"]).await.unwrap();
    assert_eq!(manager.lines().count(), 5, "{manager}");
    // What would take clusters along is refused; what leaves them is not.
    plane.apply_yaml(CLUSTER).await.unwrap();
    let all = ["delete", "--all", "--include-namespace", "--include-crd"];
    let refused = output_of(plane.kubeconfig(), &all, 1).1;
    assert!(refused.contains("there still are objects of Cluster of cluster-api"), "{refused}");
    output_of(plane.kubeconfig(), &["delete", "-i", "capstan"], 0);
    kubectl(&plane, &["delete", "cluster", "c"]).await.unwrap();
    let unknown = output_of(plane.kubeconfig(), &["delete", "-i", "capstan"], 1).1;
    assert!(unknown.contains("it is not installed"), "{unknown}");
    output_of(plane.kubeconfig(), &all, 0);
    eventually(DEADLINE, "only the kinds of what was removed before to be left", async || {
        let left = ours(&plane).await?;
        ensure!(left.lines().all(|name| name.ends_with(".infrastructure.cluster.x-k8s.io")), "{left}");
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_plane_needs_nothing() {
    let plane = Embedded::start().await.unwrap();
    let (_, said) = output_of(&plane.kubeconfig(), &["init"], 0);
    assert!(said.contains("nothing needs to be installed"), "{said}");
    let (_, said) = output_of(&plane.kubeconfig(), &["delete", "--all"], 1);
    assert!(said.contains("its providers are part of it"), "{said}");
}

/// What `capstan` prints and complains of.
fn output_of(kubeconfig: &Path, args: &[&str], expected: i32) -> (String, String) {
    let args = [args, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat();
    let (code, printed, complaint) = capstan_output(&args, "").unwrap();
    assert_eq!(code, expected, "{args:?}: {complaint}");
    (printed, complaint)
}

fn clusterctl(plane: &RealPlane, args: &[&str]) {
    let plane = ["--kubeconfig", plane.kubeconfig().to_str().unwrap()];
    capstan_tests::clusterctl(&[args, &plane].concat(), &[], "").unwrap();
}

async fn kubectl(plane: &RealPlane, args: &[&str]) -> Result<String> {
    let ran = plane.kubectl(args).await?;
    ensure!(ran.status.success(), "kubectl {args:?}: {}", ran.stderr);
    Ok(ran.stdout)
}

async fn ours(plane: &RealPlane) -> Result<String> {
    let label = "cluster.x-k8s.io/provider";
    kubectl(plane, &["get", OURS, "-l", label, "-o", "name"]).await
}

async fn only_kinds_are_left(plane: &RealPlane) {
    eventually(DEADLINE, "everything of ours but the kinds to be gone", async || {
        let left = ours(plane).await?;
        ensure!(left.lines().all(|name| name.starts_with("customresourcedefinition")), "{left}");
        Ok(())
    })
    .await
    .unwrap();
}
