//! The release with the real clusterctl: installed, used, upgraded and removed, on a real plane. The managers run as
//! processes, with the arguments of their Deployments and the rights of their service accounts.

#![cfg(test)]

mod fleet;
mod managers;
mod stage;
mod upstream;

use fleet::{Fleet, NEW, OLD};
use managers::Managers;
use stage::Stage;

/// All providers of ours, as `clusterctl init` names them.
const ALL: [&str; 5] = ["core", "bootstrap", "control-plane", "infrastructure", "hooks"];

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_installed_used_upgraded_and_removed() {
    let stage = Stage::set(&["v0.1.0", "v0.1.1"]).await;
    stage.clusterctl(&[
        "init",
        "--core=cluster-api:v0.1.0",
        "--bootstrap=capstan:v0.1.0",
        "--control-plane=capstan:v0.1.0",
        "--infrastructure=capstan:v0.1.0",
        "--runtime-extension=capstan:v0.1.0",
    ]);
    stage.images_are("v0.1.0").await;
    let managers = Managers::start(&stage, &ALL).await;

    let fleet = Fleet::of(&stage, &ALL);
    fleet.comes().await;
    stage.secrets_are_kept_from_others().await;
    fleet.nodes_run(OLD, 2).await;
    fleet.is_described();
    fleet.changes().await;
    managers.were_refused_nothing();
    drop(managers);

    let plan = stage.clusterctl(&["upgrade", "plan"]);
    assert_eq!(plan.matches("v0.1.1").count(), 5, "{plan}");
    stage.clusterctl(&["upgrade", "apply", "--contract=v1beta2"]);
    stage.images_are("v0.1.1").await;
    let managers = Managers::start(&stage, &ALL).await;
    fleet.grows().await;
    fleet.nodes_run(NEW, 3).await;
    fleet.goes().await;
    managers.were_refused_nothing();
    drop(managers);

    // Not the kinds: clusterctl lists some that it has deleted itself a moment ago, and gives up.
    stage.clusterctl(&["delete", "--all", "--include-namespace"]);
    stage.is_empty().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_providers_are_installed_beside_upstreams_core() {
    let stage = Stage::set(&["v0.1.0"]).await;
    let core = upstream::core(&stage);
    stage.clusterctl(&[
        "init",
        &format!("--core=cluster-api:{core}"),
        "--bootstrap=capstan:v0.1.0",
        "--control-plane=capstan:v0.1.0",
        "--infrastructure=capstan:v0.1.0",
        "--runtime-extension=capstan:v0.1.0",
    ]);
    let _core = upstream::manager(&stage).await;
    let managers = Managers::start(&stage, &ALL[1..]).await;
    let fleet = Fleet::of(&stage, &ALL[1..]);
    fleet.comes().await;
    fleet.nodes_run(OLD, 2).await;
    fleet.is_described();
    fleet.goes().await;
    managers.were_refused_nothing();
}
