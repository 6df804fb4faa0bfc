//! A Machine's life.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::common::provider::{self, GROUP_VERSION, object};
use crate::common::{Stage, merge, merge_status, until, until_gone};
use crate::{CORE, cluster, is, machine, owned_by, provision, publish_kubeconfig, release, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_becomes_a_node_and_goes_in_order() -> Result<()> {
    let stage = Stage::start(provider::install).await?;
    let (machines, configs, hosts) = (
        stage.api(CORE, "Machine"),
        stage.api(GROUP_VERSION, "TestConfig"),
        stage.api(GROUP_VERSION, "TestMachine"),
    );
    for kind in ["TestCluster", "TestControlPlane"] {
        stage.create(object(kind, "demo")).await?;
    }
    stage.create(cluster()).await?;
    provision(&stage).await?;
    publish_kubeconfig(&stage).await?;

    stage.create(object("TestConfig", "m")).await?;
    stage.create(object("TestMachine", "m")).await?;
    stage.create(machine("m")).await?;
    until(&configs, "m", "the bootstrap config to be owned", |it| owned_by(it, "Machine")).await?;
    until(&hosts, "m", "the infrastructure to be owned", |it| owned_by(it, "Machine")).await?;
    until(&machines, "m", "the wait for bootstrap data", |machine| {
        is(machine, "/status/phase", &json!("Pending"))?;
        let waits = "False/NotReady: TestConfig status.initialization.dataSecretCreated is false";
        says(machine, "BootstrapConfigReady", waits)
    })
    .await?;

    let created = json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "m-data"});
    merge_status(&configs, "m", &created).await?;
    until(&machines, "m", "the wait for infrastructure", |machine| {
        is(machine, "/spec/bootstrap/dataSecretName", &json!("m-data"))?;
        is(machine, "/status/phase", &json!("Provisioning"))?;
        let waits = "Unknown/InspectionFailed: Waiting for TestMachine to report spec.providerID";
        says(machine, "NodeHealthy", waits)
    })
    .await?;

    merge(&hosts, "m", &json!({"spec": {"providerID": "test://m"}})).await?;
    let addresses = json!([{"type": "InternalIP", "address": "192.0.2.7"}]);
    let provisioned =
        json!({"initialization": {"provisioned": true}, "addresses": addresses, "failureDomain": "rack-1"});
    merge_status(&hosts, "m", &provisioned).await?;
    until(&machines, "m", "the wait for a Node", |machine| {
        is(machine, "/spec/providerID", &json!("test://m"))?;
        is(machine, "/status/addresses", &addresses)?;
        is(machine, "/status/failureDomain", &json!("rack-1"))?;
        is(machine, "/status/phase", &json!("Provisioned"))?;
        let waits = "Unknown/InspectionFailed: Waiting for a Node with spec.providerID test://m to exist";
        says(machine, "NodeHealthy", waits)
    })
    .await?;

    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "node-m"},
        "spec": {
            "providerID": "test://m",
            "taints": [{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}],
        },
    }))?;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.create(&PostParams::default(), &node).await?;
    let good =
        |type_: &str| json!({"type": type_, "status": if type_ == "Ready" { "True" } else { "False" }});
    let conditions = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(good);
    let status = json!({"status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.36.1",
        "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "", "architecture": "",
        "containerRuntimeVersion": "", "kubeProxyVersion": "", "operatingSystem": ""}}});
    nodes
        .patch_status("node-m", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&status))
        .await?;
    let running = until(&machines, "m", "the Machine to run", |machine| {
        is(machine, "/status/nodeRef/name", &json!("node-m"))?;
        is(machine, "/status/nodeInfo/kubeletVersion", &json!("v1.36.1"))?;
        is(machine, "/status/phase", &json!("Running"))?;
        says(machine, "NodeReady", "True/NodeReady")?;
        says(machine, "Ready", "True/Ready")?;
        says(machine, "Available", "True/Available")
    })
    .await?;
    let node = nodes.get("node-m").await?;
    let annotations = node.annotations();
    assert_eq!(annotations.get("cluster.x-k8s.io/machine").map(String::as_str), Some("m"));
    assert!(node.labels().contains_key("node-role.kubernetes.io/worker"), "{:?}", node.labels());
    let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
    assert!(taints.iter().all(|taint| taint.key != "node.cluster.x-k8s.io/uninitialized"), "{taints:?}");

    // Nothing changes, nothing is written.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let later = machines.get("m").await?;
    assert_eq!(running.resource_version(), later.resource_version(), "{}", later.data["status"]);

    // The hook holds it up; a control plane machine must be there for the Node to matter.
    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/test";
    merge(&machines, "m", &json!({"metadata": {"annotations": {hook: ""}}})).await?;
    let mut other = machine("control-plane");
    other["metadata"]["labels"] =
        json!({"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/cluster-name": "demo"});
    stage.create(other).await?;
    // One pod leaves, slowly, because no kubelet is there to end it; the other may stay.
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    for (name, label) in [("leaves", "none"), ("stays", "skip")] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"cluster.x-k8s.io/drain": label}},
            "spec": {"nodeName": "node-m", "containers": [{"name": "c", "image": "i"}]},
        }))?;
        pods.create(&PostParams::default(), &pod).await?;
    }
    machines.delete("m", &DeleteParams::default()).await?;
    until(&machines, "m", "the drain", |machine| {
        let said = crate::common::condition_of(machine, "Deleting");
        let left = "* Pod default/leaves: deletionTimestamp set, but still not removed from the Node";
        ensure!(said.starts_with("True/DrainingNode: Drain not completed yet (started at "), "{said}");
        ensure!(said.ends_with(left), "{said}");
        Ok(())
    })
    .await?;
    pods.delete("leaves", &DeleteParams::default().grace_period(0)).await?;
    until(&machines, "m", "the hook to be waited for", |machine| {
        let waits = format!(
            "True/WaitingForPreTerminateHook: Waiting for pre-terminate hooks to succeed (hooks: {hook})"
        );
        says(machine, "Deleting", &waits)?;
        let ready =
            "False/NotReady: * Deleting: Machine deletion in progress, stage: WaitingForPreTerminateHook";
        says(machine, "Ready", ready)
    })
    .await?;
    assert_eq!(nodes.get("node-m").await?.spec.and_then(|spec| spec.unschedulable), Some(true), "cordoned");
    ensure!(hosts.get("m").await?.metadata.deletion_timestamp.is_none(), "too early");
    merge(&machines, "m", &json!({"metadata": {"annotations": {hook: null}}})).await?;
    release(&hosts, "m").await?;
    release(&configs, "m").await?;
    until_gone(&machines, "m").await?;
    assert!(nodes.get_opt("node-m").await?.is_none(), "the Node went with its Machine");
    Ok(())
}
