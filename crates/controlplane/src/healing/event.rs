//! Says on a Machine's events how healing goes on: one event for each reason, counted up each time it comes again, so that a
//! machine that falls ill for years has no more than a handful.

use capstan_api::core::Machine;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;

const COMPONENT: &str = "capstan-control-plane";
/// As much as an event may say.
const LONGEST: usize = 1024;

/// Makes the event, or counts it up. That it cannot be told is no reason not to heal.
pub(crate) async fn tell(client: &Client, machine: &Machine, reason: &str, message: &str, now: Timestamp) {
    if let Err(error) = try_tell(client, machine, reason, message, now).await {
        tracing::warn!(%error, machine = machine.name_any(), "cannot make an event of healing");
    }
}

async fn try_tell(
    client: &Client,
    machine: &Machine,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> kube::Result<()> {
    let events: Api<Event> = Api::namespaced(client.clone(), &machine.namespace().unwrap_or_default());
    let event = event(machine, reason, message, now);
    let name = event.name_any();
    match events.get_opt(&name).await? {
        Some(told) => {
            let count = told.count.unwrap_or(1).saturating_add(1);
            let again = json!({"count": count, "lastTimestamp": Time(now), "message": event.message});
            events.patch(&name, &PatchParams::default(), &Patch::Merge(again)).await?;
        }
        None => _ = events.create(&PostParams::default(), &event).await?,
    }
    Ok(())
}

fn event(machine: &Machine, reason: &str, message: &str, now: Timestamp) -> Event {
    let uid = machine.uid().unwrap_or_default();
    let id: String = uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    let end =
        (0..=message.len().min(LONGEST)).rev().find(|end| message.is_char_boundary(*end)).unwrap_or_default();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{id}.{}", machine.name_any(), reason.to_ascii_lowercase())),
            namespace: machine.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: machine.object_ref(&()),
        type_: Some("Warning".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message[..end].to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_for_each_reason_and_machine() {
        let machine = |uid: &str| -> Machine {
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": "w", "namespace": "n", "uid": uid},
                "spec": {"clusterName": "c", "bootstrap": {},
                    "infrastructureRef": {"apiGroup": "i", "kind": "T", "name": "t"}},
            }))
            .expect("a Machine")
        };
        let name = |uid: &str, reason: &str, message: &str| {
            event(&machine(uid), reason, message, Timestamp::UNIX_EPOCH).name_any()
        };
        assert_eq!(name("12345678-9", "Rebooting", "one"), "w.12345678.rebooting");
        assert_eq!(name("12345678-9", "Rebooting", "one"), name("12345678-9", "Rebooting", "other"));
        assert_ne!(name("12345678-9", "Rebooting", ""), name("87654321-9", "Rebooting", ""));
        let long = event(&machine("u"), "R", &"ä".repeat(900), Timestamp::UNIX_EPOCH);
        assert!(long.message.is_some_and(|message| message.len() <= LONGEST));
    }
}
