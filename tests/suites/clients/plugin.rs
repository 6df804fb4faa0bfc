//! `kubectl capstan`: the real kubectl finds the program by its name, runs it, and completes its arguments.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use capstan_tests::{Embedded, capstan_binary, kubectl};
use capstan_tools::{Program, locate};

/// Runs kubectl with both plugins on its PATH.
fn with_plugins(bin: &Path, kubeconfig: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(locate(Program::Kubectl)?)
        .args(args)
        .env("PATH", bin)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .context("cannot run kubectl")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {} failed: {errors}", args.join(" "));
    String::from_utf8(output.stdout).context("kubectl printed something that is not text")
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_runs_and_completes_capstan() {
    let plane = Embedded::start().await.unwrap();
    let kubeconfig = plane.kubeconfig();
    let cluster = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: shop, namespace: default}\n\
                   spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: HostCluster, name: shop}}\n";
    kubectl(&kubeconfig, &["apply", "-f", "-"], cluster).unwrap();
    let bin = tempfile::tempdir().unwrap();
    for name in ["kubectl-capstan", "kubectl_complete-capstan"] {
        symlink(capstan_binary().unwrap(), bin.path().join(name)).unwrap();
    }
    let run = |args: &[&str]| with_plugins(bin.path(), &kubeconfig, args).unwrap();
    let listed = run(&["capstan", "get", "clusters"]);
    assert!(listed.lines().any(|line| line.starts_with("shop ")), "{listed}");
    let help = run(&["capstan", "why", "--help"]);
    assert!(help.contains("Usage: kubectl capstan why"), "{help}");
    let completed = run(&["__complete", "capstan", "why", "sh"]);
    assert!(completed.lines().any(|line| line == "shop"), "{completed}");
    let flags = run(&["plugin", "list"]);
    assert!(flags.contains("kubectl-capstan"), "{flags}");
}
