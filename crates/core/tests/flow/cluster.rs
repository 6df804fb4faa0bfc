//! A Cluster's life.

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use crate::common::provider::{self, GROUP_VERSION, object};
use crate::common::{Stage, merge, merge_status, until, until_gone};
use crate::{CORE, cluster, is, machine, owned_by, provision, publish_kubeconfig, release, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_handed_on_and_goes_in_order() -> Result<()> {
    let stage = Stage::start(provider::install).await?;
    let (clusters, infrastructure, control_plane) = (
        stage.api(CORE, "Cluster"),
        stage.api(GROUP_VERSION, "TestCluster"),
        stage.api(GROUP_VERSION, "TestControlPlane"),
    );

    // The Cluster comes first, as in a manifest in any order.
    stage.create(cluster()).await?;
    until(&clusters, "demo", "the missing infrastructure to be told", |cluster| {
        is(cluster, "/status/phase", &json!("Provisioning"))?;
        says(cluster, "InfrastructureReady", "False/ObjectDoesNotExist: TestCluster does not exist")?;
        says(cluster, "Paused", "False/NotPaused")
    })
    .await?;
    stage.create(object("TestCluster", "demo")).await?;
    stage.create(object("TestControlPlane", "demo")).await?;
    until(&infrastructure, "demo", "the infrastructure to be owned", |it| owned_by(it, "Cluster")).await?;
    until(&control_plane, "demo", "the control plane to be owned", |it| owned_by(it, "Cluster")).await?;
    until(&clusters, "demo", "the wait to be told", |cluster| {
        let waits = "False/NotReady: TestCluster status.initialization.provisioned is false";
        says(cluster, "InfrastructureReady", waits)?;
        says(cluster, "ControlPlaneInitialized", "False/NotInitialized: Control plane not yet initialized")
    })
    .await?;

    provision(&stage).await?;
    publish_kubeconfig(&stage).await?;
    let handed_on = until(&clusters, "demo", "the hand-offs", |cluster| {
        is(cluster, "/spec/controlPlaneEndpoint", &json!({"host": "h.example", "port": 6443}))?;
        is(cluster, "/status/initialization/infrastructureProvisioned", &json!(true))?;
        is(cluster, "/status/initialization/controlPlaneInitialized", &json!(true))?;
        is(cluster, "/status/failureDomains/0/name", &json!("rack-1"))?;
        is(cluster, "/status/phase", &json!("Provisioned"))?;
        is(cluster, "/status/controlPlane/readyReplicas", &json!(1))?;
        is(cluster, "/status/observedGeneration", &json!(cluster.metadata.generation))?;
        says(cluster, "RemoteConnectionProbe", "True/ProbeSucceeded")?;
        says(cluster, "WorkersAvailable", "True/NoWorkers")?;
        says(cluster, "Available", "True/Available")
    })
    .await?;

    // Nothing changes, nothing is written.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let later = clusters.get("demo").await?;
    assert_eq!(handed_on.resource_version(), later.resource_version(), "{}", later.data["status"]);

    // A pause is told, and lasts until it is taken back.
    merge(&clusters, "demo", &json!({"spec": {"paused": true}})).await?;
    until(&clusters, "demo", "the pause", |cluster| {
        says(cluster, "Paused", "True/Paused: Cluster spec.paused is set to true")
    })
    .await?;
    merge_status(&control_plane, "demo", &json!({"readyReplicas": 3})).await?;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    is(&clusters.get("demo").await?, "/status/controlPlane/readyReplicas", &json!(1))?;
    merge(&clusters, "demo", &json!({"spec": {"paused": null}})).await?;
    until(&clusters, "demo", "the end of the pause", |cluster| {
        is(cluster, "/status/controlPlane/readyReplicas", &json!(3))
    })
    .await?;

    // What was said once stays said.
    merge_status(&infrastructure, "demo", &json!({"initialization": {"provisioned": false}})).await?;
    until(&clusters, "demo", "the flag to stay", |cluster| {
        is(cluster, "/status/initialization/infrastructureProvisioned", &json!(true))
    })
    .await?;

    // A worker, then the control plane, then the infrastructure.
    stage.create(object("TestMachine", "worker")).await?;
    stage.create(object("TestConfig", "worker")).await?;
    stage.create(machine("worker")).await?;
    until(&stage.api(CORE, "Machine"), "worker", "the worker to be adopted", |it| owned_by(it, "Cluster"))
        .await?;
    clusters.delete("demo", &DeleteParams::default()).await?;
    until(&clusters, "demo", "the worker to be waited for", |cluster| {
        says(cluster, "Deleting", "True/WaitingForWorkersDeletion: * Worker Machines: worker")?;
        is(cluster, "/status/phase", &json!("Deleting"))
    })
    .await?;
    release(&stage.api(GROUP_VERSION, "TestMachine"), "worker").await?;
    release(&stage.api(GROUP_VERSION, "TestConfig"), "worker").await?;
    until(&clusters, "demo", "the control plane to be waited for", |cluster| {
        says(
            cluster,
            "Deleting",
            "True/WaitingForControlPlaneDeletion: Waiting for TestControlPlane to be deleted",
        )
    })
    .await?;
    ensure!(infrastructure.get("demo").await?.metadata.deletion_timestamp.is_none(), "too early");
    release(&control_plane, "demo").await?;
    until(&clusters, "demo", "the infrastructure to be waited for", |cluster| {
        says(
            cluster,
            "Deleting",
            "True/WaitingForInfrastructureDeletion: Waiting for TestCluster to be deleted",
        )
    })
    .await?;
    release(&infrastructure, "demo").await?;
    until_gone(&clusters, "demo").await
}
