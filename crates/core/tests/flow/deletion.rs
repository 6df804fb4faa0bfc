//! The drain of a Machine that is deleted, by MachineDrainRules, and the wait for its volumes.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::common::provider::{self, GROUP_VERSION, object};
use crate::common::{Stage, condition_of, merge, merge_status, until, until_gone};
use crate::{CORE, cluster, is, machine, provision, publish_kubeconfig, release};

#[tokio::test(flavor = "multi_thread")]
async fn pods_go_by_rules_and_volumes_before_the_machine() -> Result<()> {
    let stage = Stage::start(provider::install).await?;
    let machines = stage.api(CORE, "Machine");
    for kind in ["TestCluster", "TestControlPlane"] {
        stage.create(object(kind, "demo")).await?;
    }
    stage.create(cluster()).await?;
    provision(&stage).await?;
    publish_kubeconfig(&stage).await?;
    // A control plane machine must be there for the Node to matter.
    let mut other = machine("control-plane");
    other["metadata"]["labels"] =
        json!({"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/cluster-name": "demo"});
    stage.create(other).await?;
    run(&stage, &machines).await?;

    for (name, drain, app) in [
        ("a-ignored", json!({"behavior": "Skip"}), "ignored"),
        ("b-last", json!({"behavior": "Drain", "order": 5}), "last"),
        ("c-job", json!({"behavior": "WaitCompleted"}), "job"),
    ] {
        let selector = json!([{"selector": {"matchLabels": {"app": app}}}]);
        stage.create(rule(name, &json!({"drain": drain, "pods": selector}))).await?;
    }
    let elsewhere = json!([{"selector": {"matchLabels": {"role": "elsewhere"}}}]);
    stage.create(rule("a-elsewhere", &json!({"drain": {"behavior": "Skip"}, "machines": elsewhere}))).await?;
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    for app in ["first", "ignored", "job", "last"] {
        pods.create(&PostParams::default(), &pod(app)?).await?;
    }
    let attachments: Api<VolumeAttachment> = Api::all(stage.client.clone());
    for app in ["ignored", "last"] {
        attach(&stage, app).await?;
    }

    machines.delete("m", &DeleteParams::default()).await?;
    says(
        &machines,
        "True/DrainingNode: Drain not completed yet (started at ",
        ":\n* Pod default/first: deletionTimestamp set, but still not removed from the Node\n\
         * Pod default/job: waiting for completion\n\
         After above Pods have been removed from the Node, the following Pods will be evicted: default/last",
    )
    .await?;
    let now = DeleteParams::default().grace_period(0);
    pods.delete("first", &now).await?;
    pods.delete("job", &now).await?;
    says(
        &machines,
        "True/DrainingNode: Drain not completed yet (started at ",
        ":\n* Pod default/last: deletionTimestamp set, but still not removed from the Node",
    )
    .await?;
    pods.delete("last", &now).await?;
    // The volume of the pod that stays is attached, too.
    says(
        &machines,
        "True/WaitingForVolumeDetach: Waiting for Node volumes to be detached (started at ",
        ")\n* PersistentVolumeClaims: default/last",
    )
    .await?;
    let infrastructure = stage.api(GROUP_VERSION, "TestMachine");
    ensure!(infrastructure.get("m").await?.metadata.deletion_timestamp.is_none(), "too early");
    attachments.delete("last", &DeleteParams::default()).await?;
    release(&infrastructure, "m").await?;
    release(&stage.api(GROUP_VERSION, "TestConfig"), "m").await?;
    until_gone(&machines, "m").await?;
    assert!(pods.get_opt("ignored").await?.is_some(), "a rule says that it stays");
    Ok(())
}

/// Waits until the Machine says so about its deletion.
async fn says(machines: &Api<DynamicObject>, start: &str, end: &str) -> Result<()> {
    until(machines, "m", end, |machine| {
        let said = condition_of(machine, "Deleting");
        ensure!(said.starts_with(start) && said.ends_with(end), "{said}");
        Ok(())
    })
    .await?;
    Ok(())
}

/// Makes a Machine that runs as a Node.
async fn run(stage: &Stage, machines: &Api<DynamicObject>) -> Result<()> {
    stage.create(object("TestConfig", "m")).await?;
    stage.create(object("TestMachine", "m")).await?;
    stage.create(machine("m")).await?;
    let created = json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "m-data"});
    merge_status(&stage.api(GROUP_VERSION, "TestConfig"), "m", &created).await?;
    let infrastructure = stage.api(GROUP_VERSION, "TestMachine");
    merge(&infrastructure, "m", &json!({"spec": {"providerID": "test://m"}})).await?;
    merge_status(&infrastructure, "m", &json!({"initialization": {"provisioned": true}})).await?;
    let node: Node =
        serde_json::from_value(json!({"metadata": {"name": "node-m"}, "spec": {"providerID": "test://m"}}))?;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &node).await?;
    until(machines, "m", "its Node", |machine| is(machine, "/status/nodeRef/name", &json!("node-m"))).await?;
    Ok(())
}

fn rule(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": CORE, "kind": "MachineDrainRule", "metadata": {"name": name}, "spec": spec})
}

fn pod(app: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": app, "labels": {"app": app}},
        "spec": {
            "nodeName": "node-m",
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": app}}],
        },
    }))?)
}

/// Attaches the volume of a claim to the Node.
async fn attach(stage: &Stage, claim: &str) -> Result<()> {
    let volume: PersistentVolume = serde_json::from_value(json!({
        "metadata": {"name": claim},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "test", "volumeHandle": claim},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": claim},
        },
    }))?;
    Api::all(stage.client.clone()).create(&PostParams::default(), &volume).await?;
    let attachment: VolumeAttachment = serde_json::from_value(json!({
        "metadata": {"name": claim},
        "spec": {"attacher": "test", "nodeName": "node-m", "source": {"persistentVolumeName": claim}},
    }))?;
    let attachments: Api<VolumeAttachment> = Api::all(stage.client.clone());
    attachments.create(&PostParams::default(), &attachment).await?;
    let attached = Patch::Merge(json!({"status": {"attached": true}}));
    attachments.patch_status(claim, &PatchParams::default(), &attached).await?;
    Ok(())
}
