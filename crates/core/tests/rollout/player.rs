//! Plays the controller of Machines and their providers: takes over what was cloned, lets Machines become available,
//! runs what they ask for, and lets them go. Keeps a record of how few and how many there were.

use anyhow::Result;
use capstan_api::core::Machine;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

use crate::stage::{GROUP, NAMESPACE, OLD, untyped};

const INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(crate) struct Player {
    record: Arc<Record>,
    /// The version that is up to date.
    version: Arc<Mutex<String>>,
}

#[derive(Default)]
struct Record {
    fewest_available: AtomicUsize,
    most: AtomicUsize,
}

impl Player {
    pub(crate) fn start(client: &Client, running: &mut JoinSet<()>) -> Self {
        let player = Self { record: Arc::default(), version: Arc::new(Mutex::new(OLD.to_owned())) };
        let (plays, client) = (player.clone(), client.clone());
        running.spawn(async move {
            loop {
                // A conflict or a race with deletion: the next turn will do.
                _ = plays.play_once(&client).await;
                tokio::time::sleep(INTERVAL).await;
            }
        });
        player
    }

    /// From now on, this version is up to date, and the record starts anew.
    pub(crate) fn wants(&self, version: &str) {
        version.clone_into(&mut self.version.lock().expect("nobody panics"));
        self.record.fewest_available.store(usize::MAX, Ordering::SeqCst);
        self.record.most.store(0, Ordering::SeqCst);
    }

    /// The fewest machines that were available at a time, and the most that there were.
    pub(crate) fn record(&self) -> (usize, usize) {
        (self.record.fewest_available.load(Ordering::SeqCst), self.record.most.load(Ordering::SeqCst))
    }

    async fn play_once(&self, client: &Client) -> Result<()> {
        let api: Api<Machine> = Api::namespaced(client.clone(), NAMESPACE);
        let machines = api.list(&ListParams::default()).await?.items;
        let alive = || machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none());
        let available = alive().filter(|machine| is_available(machine)).count();
        self.record.fewest_available.fetch_min(available, Ordering::SeqCst);
        self.record.most.fetch_max(machines.len(), Ordering::SeqCst);
        for machine in &machines {
            match machine.metadata.deletion_timestamp {
                Some(_) => let_go(client, &api, machine).await?,
                None => self.run(client, &api, machine).await?,
            }
        }
        Ok(())
    }

    async fn run(&self, client: &Client, api: &Api<Machine>, machine: &Machine) -> Result<()> {
        let name = machine.name_any();
        let is_new = machine.status.as_ref().is_none_or(|status| status.node_ref.is_none());
        if is_new {
            for kind in ["TestMachine", "TestConfig"] {
                let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name,
                    "uid": machine.uid(), "controller": true}]);
                let patch = json!({"metadata": {"ownerReferences": owner}});
                clones(client, kind).patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
            let node: Node = serde_json::from_value(json!({"metadata": {"name": name}}))?;
            _ = Api::<Node>::all(client.clone()).create(&PostParams::default(), &node).await;
        }
        let version = machine.spec.version.clone().unwrap_or_default();
        let wanted = self.version.lock().expect("nobody panics").clone();
        let conditions = json!([
            condition(machine, "Available", true),
            condition(machine, "Ready", true),
            condition(machine, "UpToDate", version == wanted),
        ]);
        let kept = machine.status.iter().flat_map(|status| status.conditions.clone());
        let kept: Vec<Value> = kept
            .filter(|condition| !["Available", "Ready", "UpToDate"].contains(&condition.type_.as_str()))
            .map(|condition| json!(condition))
            .collect();
        let conditions: Vec<Value> =
            conditions.as_array().cloned().unwrap_or_default().into_iter().chain(kept).collect();
        let kubelet = machine.status.as_ref().and_then(|status| status.node_info.as_ref());
        let kubelet = kubelet.map(|info| info.kubelet_version.as_str());
        let reported = machine.status.as_ref().map(|status| json!(status.conditions));
        if kubelet == Some(&version) && reported == Some(json!(conditions)) {
            return end_update(client, api, machine).await;
        }
        let info = json!({"kubeletVersion": version, "machineID": "", "systemUUID": "", "bootID": "",
            "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64"});
        let patch = json!({
            "metadata": {"resourceVersion": machine.resource_version()},
            "status": {"nodeRef": {"name": name}, "nodeInfo": info, "conditions": conditions},
        });
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }
}

/// Takes the marks of an update away, once the Machine runs what it asks for.
async fn end_update(client: &Client, api: &Api<Machine>, machine: &Machine) -> Result<()> {
    if !capstan_controller::in_place::is_hook_pending(&machine.metadata) {
        return Ok(());
    }
    let name = machine.name_any();
    let marks = [
        "in-place-updates.internal.cluster.x-k8s.io/update-in-progress",
        "runtime.cluster.x-k8s.io/pending-hooks",
    ];
    let patch = |mark: &str| json!({"metadata": {"annotations": {mark: null}}});
    for kind in ["TestMachine", "TestConfig"] {
        let patch = patch(marks[0]);
        clones(client, kind).patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    for mark in marks {
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch(mark))).await?;
    }
    Ok(())
}

fn is_available(machine: &Machine) -> bool {
    let updating = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
    capstan_api::conditions::is_true(machine, "Available") && !machine.annotations().contains_key(updating)
}

fn condition(machine: &Machine, type_: &str, status: bool) -> Value {
    let status = if status { "True" } else { "False" };
    let before = capstan_api::conditions::get(machine, type_).filter(|it| it.status.to_string() == status);
    let since = before.map_or_else(|| json!("2020-01-01T00:00:00Z"), |it| json!(it.last_transition_time));
    json!({"type": type_, "status": status, "reason": "Played", "message": "", "lastTransitionTime": since})
}

async fn let_go(client: &Client, api: &Api<Machine>, machine: &Machine) -> Result<()> {
    let name = machine.name_any();
    for kind in ["TestMachine", "TestConfig"] {
        _ = clones(client, kind).delete(&name, &DeleteParams::default()).await;
    }
    _ = Api::<Node>::all(client.clone()).delete(&name, &DeleteParams::default()).await;
    api.patch(&name, &PatchParams::default(), &Patch::Merge(&json!({"metadata": {"finalizers": null}})))
        .await?;
    Ok(())
}

fn clones(client: &Client, kind: &str) -> Api<kube::api::DynamicObject> {
    untyped(client, &format!("{GROUP}/v1"), kind)
}
