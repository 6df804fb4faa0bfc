//! `make demo`, as far as Capstan goes today: a real API server takes its objects and guards them.
//!
//! It gives way to `capstan demo` once there are controllers to show.

#![allow(clippy::print_stdout, reason = "a demo talks")]

use anyhow::{Result, ensure};
use capstan_api::crd;
use capstan_testkit::{Ran, RealPlane, eventually};
use std::time::{Duration, Instant};

const CLUSTER: &str = include_str!("../fixtures/demo-cluster.yaml");
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let begun = Instant::now();
    say("Starting a real management plane: etcd, kube-apiserver, kube-controller-manager");
    let plane = RealPlane::start().await?;

    say("Applying Capstan's CRDs: capstan crds | kubectl apply -f -");
    let crds = crd::all();
    let yaml: String =
        crds.iter().map(|crd| Ok(format!("---\n{}", crd::to_yaml(crd)?))).collect::<Result<_>>()?;
    let applied = plane.kubectl_stdin(&["apply", "-f", "-"], &yaml).await?.success()?;
    ensure!(applied.lines().count() == crds.len(), "not every CRD was applied:\n{applied}");
    plane
        .kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])
        .await?
        .success()?;
    println!("  {} kinds established", crds.len());

    say("Applying a cluster of three control plane machines and three workers, and six hosts");
    eventually(DEADLINE, "the cluster to be taken", async || {
        // Discovery may lag a moment behind the CRDs.
        plane.kubectl_stdin(&["apply", "-f", "-"], CLUSTER).await?.success()
    })
    .await?;
    let kinds = "clusters,capstancontrolplanes,machinedeployments,hostpools,hosts";
    print!("{}", indent(&plane.kubectl(&["get", kinds]).await?.success()?));

    say("Trying what must not happen");
    refused(&plane, "an even control plane", &["scale", "ccp/demo", "--replicas=2"]).await?;
    let steal = r#"{"spec":{"claim":{"id":"another","machineName":"thief","clusterName":"demo"}}}"#;
    refused(
        &plane,
        "a claim that passes to another machine",
        &["patch", "host", "rack-1", "--type=merge", "-p", steal],
    )
    .await?;

    println!(
        "\nDone in {:.1} s. No controller acts on these objects yet: see the table in README.md.",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn say(text: &str) {
    println!("\n{text}");
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Shows that the API server says no, and what it says.
async fn refused(plane: &RealPlane, what: &str, args: &[&str]) -> Result<()> {
    let Ran { status, stderr, .. } = plane.kubectl(args).await?;
    ensure!(!status.success(), "{what} was not refused");
    println!("  {what}:");
    print!("{}", indent(&indent(&stderr)));
    Ok(())
}
