//! MachineDeployment, MachineSet and MachineHealthCheck against a real API server.

#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

#[path = "../common/extension.rs"]
#[allow(dead_code, reason = "every suite uses a part of it")]
mod extension;
mod player;
mod stage;

use anyhow::{Result, ensure};
use capstan_api::conditions::get;
use capstan_api::core::MachineDeployment;
use capstan_api::runtime::ExtensionConfig;
use capstan_testkit::eventually;
use extension::{Mood, NO};
use k8s_openapi::api::core::v1::{Node, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use stage::{CORE, NAMESPACE, NEW, OLD, Stage, deployment, machine_template, names, uids};
use std::time::Duration;

fn says(object: &MachineDeployment, type_: &str) -> String {
    get(object, type_)
        .map_or("missing".to_owned(), |condition| format!("{}/{}", condition.status, condition.reason))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_scales_rolls_and_goes() -> Result<()> {
    let stage = Stage::start().await?;
    stage.create(deployment(3)).await?;
    let first = stage.until_rolled_out(3, OLD).await?;
    for machine in &first {
        let name = machine.name_any();
        ensure!(machine.spec.infrastructure_ref.name == name, "{:?}", machine.spec.infrastructure_ref);
        let clone = stage.clones("TestMachine").get(&name).await?;
        ensure!(clone.data["spec"]["size"] == "large", "{:?}", clone.data);
        ensure!(clone.labels().get("from").is_some_and(|from| from == "template"), "{:?}", clone.labels());
        ensure!(clone.labels().get("pool").is_some_and(|pool| pool == "a"), "{:?}", clone.labels());
        stage.clones("TestConfig").get(&name).await?;
    }
    let md = stage.deployments().get("md").await?;
    for (type_, expected) in [
        ("Available", "True/Available"),
        ("MachinesReady", "True/Ready"),
        ("MachinesUpToDate", "True/UpToDate"),
        ("RollingOut", "False/NotRollingOut"),
        ("ScalingUp", "False/NotScalingUp"),
        ("ScalingDown", "False/NotScalingDown"),
        ("Remediating", "False/NotRemediating"),
        ("Deleting", "False/NotDeleting"),
        ("Paused", "False/NotPaused"),
    ] {
        ensure!(says(&md, type_) == expected, "{type_} says {}", says(&md, type_));
    }

    stage.nothing_is_written().await?;

    stage.change(&json!({"spec": {"replicas": 5}})).await?;
    let five = stage.until_rolled_out(5, OLD).await?;
    ensure!(uids(&five).is_superset(&uids(&first)), "scaling up replaced machines");
    stage.change(&json!({"spec": {"replicas": 1}})).await?;
    stage.until_rolled_out(1, OLD).await?;
    stage.change(&json!({"spec": {"replicas": 3}})).await?;
    let before = stage.until_rolled_out(3, OLD).await?;

    // A label is handed down without a rollout, to the clones as well, and taken away again.
    stage.change(&json!({"spec": {"template": {"metadata": {"labels": {"extra": "1"}}}}})).await?;
    let labelled = |wanted: bool| {
        let stage = &stage;
        async move {
            eventually(Duration::from_secs(60), "the label to be handed down", async || {
                for machine in stage.machines().list(&ListParams::default()).await?.items {
                    ensure!(
                        machine.labels().contains_key("extra") == wanted,
                        "Machine {:?}",
                        machine.labels()
                    );
                    let clone = stage.clones("TestConfig").get(&machine.name_any()).await?;
                    ensure!(clone.labels().contains_key("extra") == wanted, "clone {:?}", clone.labels());
                }
                Ok(())
            })
            .await
        }
    };
    labelled(true).await?;
    stage.change(&json!({"spec": {"template": {"metadata": {"labels": {"extra": null}}}}})).await?;
    labelled(false).await?;
    ensure!(uids(&stage.until_rolled_out(3, OLD).await?) == uids(&before), "a label replaced machines");

    stage.player.wants(NEW);
    stage.change(&json!({"spec": {"template": {"spec": {"version": NEW}}}})).await?;
    let after = stage.until_rolled_out(3, NEW).await?;
    ensure!(uids(&after).is_disjoint(&uids(&before)), "not all machines were replaced");
    let (fewest, most) = stage.player.record();
    ensure!(fewest >= 3, "only {fewest} machines were available");
    ensure!(most <= 4, "there were {most} machines");
    let md = stage.deployments().get("md").await?;
    let revision = md.annotations().get("machinedeployment.clusters.x-k8s.io/revision").cloned();
    ensure!(revision.as_deref() == Some("2"), "revision {revision:?}");

    stage.deployments().delete("md", &DeleteParams::default()).await?;
    eventually(Duration::from_secs(60), "everything to be gone", async || {
        ensure!(stage.deployments().get_opt("md").await?.is_none(), "the MachineDeployment is there");
        for kind in ["TestMachine", "TestConfig"] {
            let left = stage.clones(kind).list(&ListParams::default()).await?.items;
            ensure!(left.is_empty(), "{} of {kind} left", left.len());
        }
        ensure!(stage.machines().list(&ListParams::default()).await?.items.is_empty(), "Machines left");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn in_place_keeps_every_machine() -> Result<()> {
    let mut stage = Stage::start().await?;
    stage.register("willing", Mood::Willing).await?;
    stage.create(deployment(3)).await?;
    let before = stage.until_rolled_out(3, OLD).await?;
    let mut other = stage::template("TestConfigTemplate");
    other["metadata"]["name"] = json!("u");
    other["spec"]["template"]["spec"] = json!({"size": "larger"});
    stage.create(other).await?;
    stage.player.wants(NEW);
    let bootstrap = json!({"configRef": {"name": "u"}});
    stage.change(&json!({"spec": {"template": {"spec": {"version": NEW, "bootstrap": bootstrap}}}})).await?;
    let after = stage.until_rolled_out(3, NEW).await?;
    ensure!(uids(&before) == uids(&after), "{:?} became {:?}", names(&before), names(&after));
    let (fewest, most) = stage.player.record();
    ensure!(fewest >= 2, "only {fewest} machines were available");
    ensure!(most == 3, "there were {most} machines");
    for machine in after {
        let marked = |annotations: &std::collections::BTreeMap<String, String>| {
            annotations.keys().any(|key| key.starts_with("in-place") || key.ends_with("pending-hooks"))
        };
        ensure!(!marked(machine.annotations()), "{:?}", machine.annotations());
        let config = stage.clones("TestConfig").get(&machine.name_any()).await?;
        ensure!(config.data["spec"]["size"] == "larger", "{:?}", config.data);
        ensure!(!marked(config.annotations()), "{:?}", config.annotations());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_touches_nothing() -> Result<()> {
    let mut stage = Stage::start().await?;
    stage.register("unwilling", Mood::Unwilling).await?;
    stage.create(deployment(2)).await?;
    let before = stage.until_rolled_out(2, OLD).await?;
    let held = async |stage: &Stage, why: &str| {
        eventually(Duration::from_secs(60), "the rollout to be held", async || {
            let md = stage.deployments().get("md").await?;
            ensure!(says(&md, "RollingOut") == "True/RolloutHeld", "{}", says(&md, "RollingOut"));
            let message = get(&md, "RollingOut").map(|message| message.message.clone()).unwrap_or_default();
            ensure!(message.contains(why), "{message}");
            Ok(())
        })
        .await
    };
    let untouched = async |stage: &Stage| {
        let machines = stage.machines().list(&ListParams::default()).await?.items;
        let of = |machine: &capstan_api::core::Machine| (machine.uid(), machine.metadata.generation);
        ensure!(
            machines.iter().map(of).collect::<Vec<_>>() == before.iter().map(of).collect::<Vec<_>>(),
            "a Machine was touched"
        );
        ensure!(stage.sets().list(&ListParams::default()).await?.items.len() == 1, "a MachineSet was made");
        anyhow::Ok(())
    };
    stage.change(&json!({"spec": {"template": {"spec": {"version": NEW}}}})).await?;
    held(&stage, NO).await?;
    untouched(&stage).await?;

    // With another one beside it nobody could say whose answer counts.
    stage.register("willing", Mood::Willing).await?;
    held(&stage, "only one is supported").await?;
    untouched(&stage).await?;

    // The willing one alone lets it happen.
    stage.player.wants(NEW);
    let configs: Api<ExtensionConfig> = Api::all(stage.client.clone());
    configs.delete("unwilling", &DeleteParams::default()).await?;
    let after = stage.until_rolled_out(2, NEW).await?;
    ensure!(uids(&before) == uids(&after), "a Machine was replaced");
    let md = stage.deployments().get("md").await?;
    ensure!(says(&md, "RollingOut") == "False/NotRollingOut", "{}", says(&md, "RollingOut"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_deletes_marked_machines_and_replaces_unhealthy_ones() -> Result<()> {
    let stage = Stage::start().await?;
    let set = json!({
        "apiVersion": CORE, "kind": "MachineSet", "metadata": {"name": "ms", "namespace": NAMESPACE},
        "spec": {"clusterName": "demo", "replicas": 4, "selector": {}, "template": machine_template(OLD)},
    });
    stage.create(set).await?;
    let available = |number: usize| {
        move |machines: &[capstan_api::core::Machine]| {
            ensure!(machines.len() == number, "{} machines", machines.len());
            let ready = machines.iter().all(|machine| capstan_api::conditions::is_true(machine, "Available"));
            ensure!(ready, "not all available");
            Ok(())
        }
    };
    let four = stage.until_machines("four machines", available(4)).await?;

    let marked = four[2].name_any();
    let mark = json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}});
    stage.machines().patch(&marked, &PatchParams::default(), &Patch::Merge(&mark)).await?;
    stage
        .sets()
        .patch("ms", &PatchParams::default(), &Patch::Merge(&json!({"spec": {"replicas": 3}})))
        .await?;
    let three = stage.until_machines("three machines", available(3)).await?;
    ensure!(!names(&three).contains(&marked), "{marked} is still there");

    // A leftover of a process that died half-way is cleaned up.
    let owner = stage.sets().get("ms").await?;
    let leftover = |kind: &str| {
        json!({
            "apiVersion": "test.cluster.x-k8s.io/v1", "kind": kind,
            "metadata": {"name": "leftover", "namespace": NAMESPACE, "labels": owner.spec.selector.match_labels,
                "ownerReferences": [{"apiVersion": CORE, "kind": "MachineSet", "name": "ms", "uid": owner.uid()}]},
        })
    };
    let until_gone = async |kind: &str| {
        eventually(Duration::from_secs(60), "the leftover to be gone", async || {
            ensure!(stage.clones(kind).get_opt("leftover").await?.is_none(), "still there");
            Ok(())
        })
        .await
    };
    stage.create(leftover("TestMachine")).await?;
    let touch = json!({"metadata": {"annotations": {"touched": "yes"}}});
    stage.sets().patch("ms", &PatchParams::default(), &Patch::Merge(&touch)).await?;
    until_gone("TestMachine").await?;
    // The clone itself wakes the MachineSet, again and again.
    for kind in ["TestConfig", "TestMachine"] {
        stage.create(leftover(kind)).await?;
        until_gone(kind).await?;
    }
    let kept = stage.machines().list(&ListParams::default()).await?.items;
    ensure!(uids(&kept) == uids(&three), "a Machine was replaced");

    // The plane itself plays the workload cluster.
    let kubeconfig = std::fs::read_to_string(stage.plane.kubeconfig())?;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "demo-kubeconfig", "labels": {"cluster.x-k8s.io/cluster-name": "demo"}},
        "type": "cluster.x-k8s.io/secret", "stringData": {"value": kubeconfig},
    }))?;
    Api::namespaced(stage.client.clone(), NAMESPACE).create(&PostParams::default(), &secret).await?;
    stage
        .create(json!({
            "apiVersion": CORE, "kind": "MachineHealthCheck", "metadata": {"name": "mhc", "namespace": NAMESPACE},
            "spec": {
                "clusterName": "demo", "selector": {"matchLabels": {"pool": "a"}},
                "checks": {"unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 1}]},
                "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": 1}},
            },
        }))
        .await?;
    stage
        .until_machines("all to pass the check", |machines| {
            let passed = |m| capstan_api::conditions::is_true(m, "HealthCheckSucceeded");
            ensure!(machines.iter().all(passed), "not all pass");
            Ok(())
        })
        .await?;

    let sick = three[0].name_any();
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletDown",
        "lastTransitionTime": "2020-01-01T00:00:00Z"}]}});
    let nodes: Api<Node> = Api::all(stage.client.clone());
    nodes.patch_status(&sick, &PatchParams::default(), &Patch::Merge(&status)).await?;
    let healed = stage
        .until_machines("the sick machine to be replaced", |machines| {
            ensure!(!names(machines).contains(&sick), "{sick} is still there");
            available(3)(machines)
        })
        .await?;
    ensure!(uids(&healed).intersection(&uids(&three)).count() == 2, "healthy machines were replaced");
    let check: capstan_api::core::MachineHealthCheck =
        Api::namespaced(stage.client.clone(), NAMESPACE).get("mhc").await?;
    ensure!(get(&check, "RemediationAllowed").is_some(), "nothing is told");
    Ok(())
}
