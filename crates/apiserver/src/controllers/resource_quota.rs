//! The status of ResourceQuotas: the limits that are enforced, and what is used of them. Nothing else depends on it: writes are
//! checked against what is stored (`crate::quota`).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    object,
    plane::Plane,
    quota::{Limits, Usage},
    quota_admission,
    registry::kinds::RESOURCE_QUOTAS,
    status::Result,
    store::{Change, Event, GroupResource, Key, Listing},
};

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, stopping: watch::Receiver<bool>) {
    let counter = Counter { quotas: GroupResource::new("", RESOURCE_QUOTAS), limited: HashMap::new() };
    engine::run(plane, stopping, counter).await;
}

struct Counter {
    quotas: GroupResource,
    /// The quotas of each namespace that has any.
    limited: HashMap<String, HashSet<String>>,
}

impl Counter {
    fn note(&mut self, key: &Key, exists: bool) {
        if key.resource != self.quotas {
            return;
        }
        let names = self.limited.entry(key.namespace.clone()).or_default();
        match exists {
            true => names.insert(key.name.clone()),
            false => names.remove(&key.name),
        };
        if names.is_empty() {
            self.limited.remove(&key.namespace);
        }
    }
}

/// Whether a change of an object may change what is used.
fn is_relevant(event: &Event, quotas: &GroupResource) -> bool {
    let resource = &event.object.key.resource;
    let is_measured = resource.group().is_empty() && matches!(resource.resource(), "pods" | "services");
    event.change != Change::Updated || is_measured || resource == quotas
}

impl Controller for Counter {
    /// A namespace.
    type Item = String;

    fn seed(&mut self, everything: &Listing) -> Vec<String> {
        self.limited.clear();
        for stored in &everything.items {
            self.note(&stored.key, true);
        }
        self.limited.keys().cloned().collect()
    }

    fn observe(&mut self, event: &Event) -> Vec<String> {
        let key = &event.object.key;
        let had_quotas = self.limited.contains_key(&key.namespace);
        self.note(key, event.change != Change::Deleted);
        let is_limited = had_quotas || self.limited.contains_key(&key.namespace);
        if is_limited && is_relevant(event, &self.quotas) { vec![key.namespace.clone()] } else { Vec::new() }
    }

    async fn process(&mut self, plane: &Arc<Plane>, namespace: &String) -> Result<Vec<String>> {
        let quotas = plane.store.list(&self.quotas, Some(namespace)).items;
        if quotas.is_empty() {
            plane.quotas.forget(namespace);
        }
        for stored in quotas {
            let quota = stored.value.once();
            let limits = Limits::of(&quota);
            let used = quota_admission::used(plane, namespace, &limits, limits.names());
            let status = status(&quota, &used);
            if quota.get("status") != Some(&status) {
                let spec = quota.get("spec").cloned();
                engine::edit(plane, &stored.key, object::uid(&quota), |value| {
                    // Another spec is looked at by itself.
                    if value.get("spec") == spec.as_ref() {
                        value["status"] = status.clone();
                    }
                })
                .await?;
            }
        }
        Ok(Vec::new())
    }
}

fn status(quota: &Value, used: &Usage) -> Value {
    let Some(hard) = object::at(quota, &["spec", "hard"]).filter(|hard| hard.is_object()) else {
        return json!({});
    };
    let used: serde_json::Map<String, Value> =
        used.iter().map(|(name, amount)| (name.clone(), amount.to_string().into())).collect();
    json!({"hard": hard, "used": used})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::quantity;

    #[test]
    fn the_status_repeats_the_limits_and_says_what_is_used() {
        let quota = json!({"spec": {"hard": {"pods": "2", "requests.storage": "1Gi"}}});
        let used = Usage::from([("pods".to_owned(), quantity(&json!("1000m")).unwrap())]);
        let expected = json!({"hard": {"pods": "2", "requests.storage": "1Gi"}, "used": {"pods": "1"}});
        assert_eq!(status(&quota, &used), expected);
        assert_eq!(status(&json!({"spec": {}}), &used), json!({}));
    }
}
