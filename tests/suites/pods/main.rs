//! Managers as Deployments run them: each group of controllers in a process of its own, with several replicas, with the
//! rights of its service account and no more, and looking after no more than it was told to.

#![cfg(test)]

mod stage;

use anyhow::{Result, ensure};
use capstan_testkit::eventually;
use capstan_tests::{Credential, Place};
use serde_json::{Value, json};
use stage::{DEADLINE, Replica, Stage};

const REMEDY: &str = "capstan generate access --namespace yard | kubectl apply -f -";

#[tokio::test(flavor = "multi_thread")]
async fn five_deployments_with_their_rights_and_no_more_make_a_cluster_and_take_it_away() {
    let stage = Stage::with(&["yard"]).await;
    stage.install().await;
    let mut replicas = Vec::new();
    for group in ["core", "infrastructure", "bootstrap", "hooks"] {
        replicas.push(stage.replica(group, group).await);
    }
    let mut rivals = [
        stage.replica("control-plane", "control-plane-a").await,
        stage.replica("control-plane", "control-plane-b").await,
    ];
    for replica in replicas.iter_mut().chain(&mut rivals) {
        replica.ready().await;
    }

    hooks_know_core_by_its_token(&stage).await;

    stage.apply(stage.cluster("yard", "skiff", 6)).await;
    // Nobody has let them in yet: whoever looks is told what to do.
    eventually(DEADLINE, "the missing right to be told", async || {
        let path = r#"jsonpath={.status.conditions[?(@.type=="CertificatesAvailable")].message}"#;
        let get = ["get", "capstancontrolplane", "skiff-control-plane", "-n", "yard", "-o", path];
        let printed = stage.kubectl(&get).await?;
        ensure!(printed.contains(REMEDY), "{printed}");
        let logs: String = rivals.iter().map(Replica::log).collect();
        ensure!(logs.lines().any(|line| line.contains(REMEDY)), "{logs}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(stage.kubectl(&["get", "secrets", "-n", "yard", "-o", "name"]).await.unwrap(), "");
    stage.let_in("yard").await;
    stage.available("yard", "skiff").await;
    let marks: Vec<usize> = replicas.iter().map(|replica| replica.log().len()).collect();

    let leader = stage.leader("control-plane").await.unwrap();
    let leads = rivals.iter().position(|rival| rival.identity().unwrap() == leader).unwrap();
    let [a, b] = rivals;
    let (killed, mut left) = if leads == 0 { (a, b) } else { (b, a) };
    killed.running.kill().unwrap();
    let heir = left.identity().unwrap();
    // Three servers, then one: etcd is asked, and two members are removed, by who runs elsewhere than it.
    for servers in ["3", "1"] {
        let scale =
            ["scale", "capstancontrolplane", "skiff-control-plane", "-n", "yard", "--replicas", servers];
        stage.kubectl(&scale).await.unwrap();
        ready_replicas(&stage, servers).await.unwrap();
        left.running.ensure_running().unwrap();
    }
    assert_eq!(stage.leader("control-plane").await.unwrap(), heir);
    stage.available("yard", "skiff").await;

    stage.kubectl(&["delete", "cluster", "skiff", "-n", "yard", "--wait=false"]).await.unwrap();
    gone(&stage).await.unwrap();
    replicas.push(left);
    for replica in &mut replicas {
        replica.running.ensure_running().unwrap();
    }
    // Once they were let in, nobody lacked anything.
    for (replica, mark) in replicas.iter().zip(marks) {
        let since = replica.log().split_off(mark);
        assert!(!since.contains("forbidden"), "{since}");
    }
}

/// Core reaches the hooks, and no other manager does.
async fn hooks_know_core_by_its_token(stage: &Stage) {
    let get = |path: &'static str| async move {
        stage.kubectl(&["get", "extensionconfig", "capstan", "-o", path]).await
    };
    eventually(DEADLINE, "core to discover the hooks", async || {
        let condition = get(r#"jsonpath={.status.conditions[?(@.type=="Discovered")]}"#).await?;
        ensure!(condition.contains(r#""status":"True""#), "{condition}");
        Ok(())
    })
    .await
    .unwrap();
    let url = get("jsonpath={.spec.clientConfig.url}").await.unwrap();
    let place = Place::at(&url, &get("jsonpath={.spec.clientConfig.caBundle}").await.unwrap());
    let update = "/hooks.runtime.cluster.x-k8s.io/v1alpha1/updatemachine/update-machine";
    for (token, expected) in [
        (stage.hooks_token("core").await, 200),
        (stage.hooks_token("control-plane").await, 403),
        ("nonsense".to_owned(), 401),
    ] {
        let caller = place.with(Credential::Token(token.trim())).await.unwrap();
        let answer = caller.ask("POST", update, &json!({})).await.unwrap();
        assert_eq!(answer.code, expected, "{answer:?}");
    }
}

async fn ready_replicas(stage: &Stage, wanted: &str) -> Result<()> {
    eventually(DEADLINE, "that many servers to be ready", async || {
        let path = "jsonpath={.status.replicas} {.status.readyReplicas} {.status.upToDateReplicas}";
        let get = ["get", "capstancontrolplane", "skiff-control-plane", "-n", "yard", "-o", path];
        let counts = stage.kubectl(&get).await?;
        ensure!(counts == format!("{wanted} {wanted} {wanted}"), "{counts}");
        Ok(())
    })
    .await
}

async fn gone(stage: &Stage) -> Result<()> {
    eventually(DEADLINE, "everything to be gone and every host to be clean", async || {
        let kinds = "clusters,machines,machinesets,hostmachines,capstanconfigs,machinereports,secrets,roles,\
                     serviceaccounts,leases";
        let left = stage.kubectl(&["get", kinds, "-n", "yard", "-o", "name"]).await?;
        ensure!(left.is_empty(), "still there: {left}");
        let path = "jsonpath={.items[*].status.state}";
        let states = stage.kubectl(&["get", "hosts", "-n", "yard", "-o", path]).await?;
        ensure!(states == ["Available"; 6].join(" "), "hosts: {states}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_loses_the_lease_ends_and_one_that_gets_sigterm_releases_it() {
    let stage = Stage::with(&["yard"]).await;
    stage.install().await;
    let mut first = stage.replica("infrastructure", "first").await;
    first.ready().await;
    let mut second = stage.replica("infrastructure", "second").await;
    second.ready().await;
    assert_eq!(stage.leader("infrastructure").await.unwrap(), first.identity().unwrap());
    // Only who leads brings simulated hosts to life.
    assert!(stage.path("first/sim").is_dir() && !stage.path("second/sim").exists());

    first.running.terminate().unwrap();
    let status = first.running.ended(DEADLINE).await.unwrap();
    assert!(status.success(), "{status:?}");
    let heir = second.identity().unwrap();
    eventually(DEADLINE, "the other one to lead", async || {
        ensure!(stage.leader("infrastructure").await? == heir);
        Ok(())
    })
    .await
    .unwrap();

    let steal = r#"{"spec":{"holderIdentity":"somebody else","leaseDurationSeconds":3600}}"#;
    let lease = ["patch", "lease", "capstan-infrastructure-leader", "-n", "capstan-system"];
    stage.kubectl(&[&lease[..], &["--type=merge", "-p", steal]].concat()).await.unwrap();
    let status = second.running.ended(DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(second.log().contains("it is held by somebody else"), "{}", second.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_another_namespace_is_left_alone() {
    let stage = Stage::with(&["yard", "quarry"]).await;
    let outside = stage.cluster("quarry", "barge", 3);
    stage.apply(outside.clone()).await;
    let before = versions(&stage, "quarry", &outside).await;
    let kubeconfig = stage.plane.kubeconfig().to_owned();
    let mut manager = stage.manager("all", "manager", &kubeconfig, &["--namespace", "yard"]);
    manager.ready().await;
    stage.apply(stage.cluster("yard", "skiff", 3)).await;
    stage.available("yard", "skiff").await;
    assert_eq!(versions(&stage, "quarry", &outside).await, before);
    untouched(&stage, "quarry").await;
    manager.running.ensure_running().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_another_label_is_left_alone() {
    let stage = Stage::with(&["yard", "quarry"]).await;
    let outside = stage.cluster("quarry", "barge", 3);
    stage.apply(outside.clone()).await;
    let before = versions(&stage, "quarry", &outside).await;
    let kubeconfig = stage.plane.kubeconfig().to_owned();
    let mut manager = stage.manager("all", "manager", &kubeconfig, &["--watch-filter", "blue"]);
    manager.ready().await;
    let inside = stage.cluster("yard", "skiff", 3).into_iter().map(|object| labelled(object, "blue"));
    stage.apply(inside.collect()).await;
    stage.available("yard", "skiff").await;
    assert_eq!(versions(&stage, "quarry", &outside).await, before);
    untouched(&stage, "quarry").await;
    // Once it is labelled, it goes on.
    let outside = outside.into_iter().map(|object| labelled(object, "blue"));
    stage.apply(outside.collect()).await;
    stage.available("quarry", "barge").await;
    manager.running.ensure_running().unwrap();
}

/// The object with the label, on itself and on whatever is made from it.
fn labelled(mut object: Value, value: &str) -> Value {
    let label = json!({"cluster.x-k8s.io/watch-filter": value});
    let mut put = |path: &str| {
        if let Some(metadata) = object.pointer_mut(path) {
            let labels = &mut metadata["labels"];
            match labels.as_object_mut() {
                Some(labels) => labels.extend(label.as_object().cloned().unwrap()),
                None => *labels = label.clone(),
            }
        }
    };
    put("/metadata");
    put("/spec/template/metadata");
    if object["kind"] == "CapstanControlPlane" {
        object["spec"]["machineTemplate"]["metadata"] = json!({"labels": label});
    }
    object
}

/// The versions of these objects: another one says that somebody has written.
async fn versions(stage: &Stage, namespace: &str, objects: &[Value]) -> Vec<String> {
    let mut all = Vec::new();
    for object in objects {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        let path = "jsonpath={.metadata.resourceVersion}";
        let version = stage.kubectl(&["get", kind, name, "-n", namespace, "-o", path]).await.unwrap();
        all.push(format!("{kind} {name} {version}"));
    }
    all
}

/// Nothing was made there.
async fn untouched(stage: &Stage, namespace: &str) {
    let kinds = "hosts,machines,machinesets,hostmachines,capstanconfigs,secrets,serviceaccounts";
    let made = stage.kubectl(&["get", kinds, "-n", namespace, "-o", "name"]).await.unwrap();
    assert_eq!(made, "");
}
