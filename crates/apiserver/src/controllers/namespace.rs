//! Namespaces that are being deleted: deletes their objects, then finalizes them.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    object,
    plane::Plane,
    request::options::{DeleteOptions, Propagation},
    status::Result,
    store::{Change, Event, GroupResource, Listing, Stored},
};

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, stopping: watch::Receiver<bool>) {
    let namespaces = GroupResource::new("", "namespaces");
    engine::run(plane, stopping, Emptier { namespaces, terminating: Vec::new() }).await;
}

struct Emptier {
    namespaces: GroupResource,
    terminating: Vec<String>,
}

impl Emptier {
    fn is_dying(&self, stored: &Stored) -> bool {
        stored.key.resource == self.namespaces && stored.is_terminating()
    }
}

impl Controller for Emptier {
    type Item = String;

    fn seed(&mut self, everything: &Listing) -> Vec<String> {
        let dying = everything.items.iter().filter(|stored| self.is_dying(stored));
        self.terminating = dying.map(|stored| stored.key.name.clone()).collect();
        self.terminating.clone()
    }

    fn observe(&mut self, event: &Event) -> Vec<String> {
        let key = &event.object.key;
        if key.resource == self.namespaces {
            self.terminating.retain(|name| *name != key.name);
            if event.change != Change::Deleted && self.is_dying(&event.object) {
                self.terminating.push(key.name.clone());
                return vec![key.name.clone()];
            }
        } else if event.change == Change::Deleted && self.terminating.contains(&key.namespace) {
            return vec![key.namespace.clone()];
        }
        Vec::new()
    }

    async fn process(&mut self, plane: &Arc<Plane>, name: &String) -> Result<Vec<String>> {
        let Some(namespace) = plane.namespace(name).filter(|stored| self.is_dying(stored)) else {
            return Ok(Vec::new());
        };
        let content = plane.store.in_namespace(name);
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        for stored in content.iter().filter(|stored| !stored.is_terminating()) {
            engine::remove(plane, stored, &options).await?;
        }
        // What waits for its finalizers comes back as an event when it is gone.
        if plane.store.in_namespace(name).is_empty() {
            let head = namespace.value.head();
            engine::edit(plane, &namespace.key, object::uid(&head), |value| {
                let finalizers = value.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut);
                if let Some(finalizers) = finalizers {
                    finalizers.retain(|finalizer| finalizer != "kubernetes");
                }
            })
            .await?;
        }
        Ok(Vec::new())
    }
}
