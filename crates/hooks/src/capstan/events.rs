//! Says no where users look: as an event of their MachineDeployment.
//!
//! One event for each thing that is said, counted up each time it is said again. The library's recorder would count
//! whatever is said of an object as one, and repeat only the first of it.

use capstan_api::core::MachineDeployment;
use capstan_plan::Digest;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};

/// As much as an event may say.
const LONGEST: usize = 1024;

const REASON: &str = "ChangeRefused";
const COMPONENT: &str = "capstan-hooks";

pub(super) struct Events {
    client: Client,
}

impl Events {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// A change of the MachineDeployment was refused. That it cannot be told is no reason not to refuse it.
    pub(super) async fn refused(&self, namespace: &str, deployment: &str, why: &str) {
        if let Err(error) = self.tell(namespace, deployment, why, Timestamp::now()).await {
            tracing::warn!(%error, deployment, "cannot make an event of a refusal");
        }
    }

    async fn tell(&self, namespace: &str, deployment: &str, why: &str, now: Timestamp) -> kube::Result<()> {
        let deployments: Api<MachineDeployment> = Api::namespaced(self.client.clone(), namespace);
        let Some(deployment) = deployments.get_opt(deployment).await? else { return Ok(()) };
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let event = event(&deployment, why, now);
        let name = event.name_any();
        match events.get_opt(&name).await? {
            Some(told) => {
                events.patch(&name, &PatchParams::default(), &Patch::Merge(again(&told, now))).await?;
            }
            None => _ = events.create(&PostParams::default(), &event).await?,
        }
        Ok(())
    }
}

fn event(deployment: &MachineDeployment, why: &str, now: Timestamp) -> Event {
    let regarding = deployment.object_ref(&());
    // The same for the same words about the same object, and for no others.
    let said = format!("{:?} {why}", deployment.uid());
    let digest = Digest::of(said.as_bytes()).to_string();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{}", deployment.name_any(), &digest[..16])),
            namespace: deployment.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: regarding,
        type_: Some("Warning".to_owned()),
        reason: Some(REASON.to_owned()),
        message: Some(shortened(why)),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        ..Event::default()
    }
}

fn again(told: &Event, now: Timestamp) -> Value {
    json!({"count": told.count.unwrap_or(1).saturating_add(1), "lastTimestamp": Time(now)})
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_not_too_long() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"ä".repeat(900));
        assert!(long.len() <= LONGEST && long.ends_with("ä..."), "{}", long.len());
    }

    #[test]
    fn the_same_words_are_one_event() {
        let deployment: MachineDeployment = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": "workers", "namespace": "n", "uid": "u"},
            "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {
                "clusterName": "c", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "i", "kind": "T", "name": "t"}}}},
        }))
        .expect("a MachineDeployment");
        let now = Timestamp::UNIX_EPOCH;
        let (one, other) = (event(&deployment, "no", now), event(&deployment, "never", now));
        assert_eq!(one.name_any(), event(&deployment, "no", Timestamp::now()).name_any());
        assert_ne!(one.name_any(), other.name_any());
        assert_eq!(one.involved_object.uid.as_deref(), Some("u"));
        assert_eq!(again(&one, now)["count"], 2);
    }
}
