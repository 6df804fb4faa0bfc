//! A change of workers that is refused: users see the name of the field, and no machine changes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_api::core::MachineDeployment;
use capstan_testkit::eventually;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::namespaced;

/// Core asks again within a minute; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1alpha1";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";

/// Changes the spec of an idle MachineDeployment, and waits until the change is refused with `field` repeatedly, and
/// has had no effect.
pub async fn is_refused(client: &Client, deployment: &str, spec: &Value, field: &str) -> Result<()> {
    let before = standing(client).await?;
    let refused_before = refusal(client, deployment).await?.map_or(0, |refusal| refusal.count);
    let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), "default");
    let patch = json!({ "spec": spec });
    deployments.patch(deployment, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    // One event counts the refusals of all fields, so only those count that came after the field was named.
    let first = refused_more_often(client, deployment, field, refused_before).await?;
    refused_more_often(client, deployment, field, first).await?;
    let after = standing(client).await?;
    ensure!(before == after, "something was touched: {before:#?} became {after:#?}");
    Ok(())
}

/// What is told of the changes of a MachineDeployment that were refused.
struct Refusal {
    /// How many there were.
    count: i32,
    /// Why the last one was refused.
    message: String,
}

async fn refusal(client: &Client, deployment: &str) -> Result<Option<Refusal>> {
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let events = events.list(&ListParams::default()).await?.items;
    let event = events.into_iter().find(|event| {
        event.involved_object.name.as_deref() == Some(deployment)
            && event.reason.as_deref() == Some("ChangeRefused")
    });
    Ok(event
        .map(|event| Refusal { count: event.count.unwrap_or(1), message: event.message.unwrap_or_default() }))
}

/// Waits until a change was refused more than `times` times, the last time with `field`. Gives how many times it was.
async fn refused_more_often(client: &Client, deployment: &str, field: &str, times: i32) -> Result<i32> {
    eventually(DEADLINE, &format!("more than {times} refusals, with {field}"), async || {
        let Refusal { count, message } = refusal(client, deployment).await?.context("there is no event")?;
        ensure!(count > times && message.contains(field), "refused {count} times: {message}");
        Ok(count)
    })
    .await
}

/// Everything that a rollout would change, by what tells changes apart.
async fn standing(client: &Client) -> Result<Vec<String>> {
    let kinds = [
        (CORE, "MachineSet"),
        (CORE, "Machine"),
        (BOOTSTRAP, "CapstanConfig"),
        (INFRASTRUCTURE, "HostMachine"),
        (INFRASTRUCTURE, "Host"),
    ];
    let mut lines = Vec::new();
    for (group_version, kind) in kinds {
        let api = namespaced(client, "default", group_version, kind);
        for object in api.list(&ListParams::default()).await? {
            let (uid, generation) = (object.uid().unwrap_or_default(), object.metadata.generation);
            lines.push(format!("{kind}/{} {uid} {generation:?}", object.name_any()));
        }
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let plans = secrets.list(&ListParams::default().fields("type=agent.capstan.dev/machine-plan")).await?;
    for plan in plans {
        let revision = plan.data.iter().flatten().find(|(key, _)| *key == "revision");
        lines.push(format!("plan {} {:?}", plan.name_any(), revision.map(|(_, value)| &value.0)));
    }
    Ok(lines)
}
