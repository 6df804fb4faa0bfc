//! Events: what happened to an object, for people who describe it.
//!
//! There is one Event for each reason and object, with a count and the last message: an old object has only a few. A
//! failure to write an Event does not fail the reconcile.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::chain;

/// As much as an event may say.
const LONGEST: usize = 1024;

/// So many events are remembered; then it starts afresh, which costs two requests for each that comes again.
const MOST_REMEMBERED: usize = 10_000;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Normal operation.
    Normal,
    /// A user may have to act.
    Warning,
}

/// How often each event was written, so that one that comes again takes one request. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WrittenEvents(Arc<Mutex<HashMap<(String, String), i32>>>);

impl WrittenEvents {
    fn count(&self, namespace: &str, name: &str) -> Option<i32> {
        self.lock().get(&(namespace.to_owned(), name.to_owned())).copied()
    }

    fn remember(&self, namespace: &str, name: &str, count: i32) {
        let mut known = self.lock();
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert((namespace.to_owned(), name.to_owned()), count);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, String), i32>> {
        // What is inside is a cache: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes events as one component.
#[derive(Clone)]
pub struct Events {
    client: Client,
    component: &'static str,
    written: WrittenEvents,
}

impl Events {
    /// A writer of events for the component of this name.
    pub fn new(client: Client, component: &'static str) -> Self {
        Self { client, component, written: WrittenEvents::default() }
    }

    /// Shares what is known about events that were written.
    #[must_use]
    pub fn remembering(self, written: &WrittenEvents) -> Self {
        Self { written: written.clone(), ..self }
    }

    /// Writes an event, or increases the count of the same event.
    pub async fn publish<K>(&self, object: &K, tone: Tone, reason: &str, message: &str, now: Timestamp)
    where
        K: Resource<DynamicType = ()>,
    {
        let event = event(object, (self.component, tone), reason, message, now);
        if let Err(error) = self.write(&object.namespace().unwrap_or_default(), &event, now).await {
            tracing::warn!(error = chain(&error), object = object.name_any(), reason, "cannot make an event");
        }
    }

    async fn write(&self, namespace: &str, event: &Event, now: Timestamp) -> kube::Result<()> {
        let (events, name): (Api<Event>, _) =
            (Api::namespaced(self.client.clone(), namespace), event.name_any());
        let again = async |count: i32| {
            let count = count.saturating_add(1);
            let again = json!({"count": count, "lastTimestamp": Time(now), "message": event.message});
            events.patch(&name, &PatchParams::default(), &Patch::Merge(again)).await?;
            self.written.remember(namespace, &name, count);
            Ok(())
        };
        if let Some(count) = self.written.count(namespace, &name) {
            match again(count).await {
                // API servers delete events after an hour.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                written => return written,
            }
        }
        match events.create(&PostParams::default(), event).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            made => {
                made?;
                self.written.remember(namespace, &name, 1);
                return Ok(());
            }
        }
        let Some(existing) = events.get_opt(&name).await? else { return Ok(()) };
        again(existing.count.unwrap_or(1)).await
    }
}

fn event<K>(object: &K, (component, tone): (&str, Tone), reason: &str, message: &str, now: Timestamp) -> Event
where
    K: Resource<DynamicType = ()>,
{
    let uid = object.uid().unwrap_or_default();
    let id: String = uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{id}.{}", object.name_any(), reason.to_ascii_lowercase())),
            namespace: object.namespace(),
            ..ObjectMeta::default()
        },
        involved_object: object.object_ref(&()),
        type_: Some(format!("{tone:?}")),
        reason: Some(reason.to_owned()),
        message: Some(shortened(message)),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        reporting_component: Some(component.to_owned()),
        ..Event::default()
    }
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
    use k8s_openapi::api::core::v1::ConfigMap;

    fn object(uid: &str) -> ConfigMap {
        let object = json!({"metadata": {"name": "w", "namespace": "n", "uid": uid}});
        serde_json::from_value(object).expect("an object")
    }

    #[test]
    fn one_event_for_each_reason_and_object() {
        let made = |uid: &str, reason: &str, message: &str| {
            event(&object(uid), ("capstan-x", Tone::Warning), reason, message, Timestamp::UNIX_EPOCH)
        };
        let first = made("12345678-9", "Rebooting", "one");
        assert_eq!(first.name_any(), "w.12345678.rebooting");
        assert_eq!(first.type_.as_deref(), Some("Warning"));
        assert_eq!(first.involved_object.kind.as_deref(), Some("ConfigMap"));
        assert_eq!(first.name_any(), made("12345678-9", "Rebooting", "other").name_any());
        assert_ne!(first.name_any(), made("87654321-9", "Rebooting", "one").name_any());
        assert_ne!(first.name_any(), made("12345678-9", "Restarting", "one").name_any());
    }

    #[test]
    fn an_event_is_not_too_long() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"ä".repeat(900));
        assert!(long.len() <= LONGEST && long.ends_with("ä..."), "{}", long.len());
    }
}
