//! Deletion of CRDs: first their objects are deleted, then the finalizer of the CRD is removed.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    object,
    plane::Plane,
    registry::kinds::{CLEANUP_FINALIZER, DEFINITIONS},
    request::options::{DeleteOptions, Propagation},
    status::Result,
    store::{Change, Event, GroupResource, Key, Listing, Stored},
};

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, stopping: watch::Receiver<bool>) {
    let definitions = GroupResource::new(DEFINITIONS.0, DEFINITIONS.1);
    engine::run(plane, stopping, CrdDeleter { definitions, terminating: HashMap::new() }).await;
}

struct CrdDeleter {
    definitions: GroupResource,
    /// The resources of CRDs that are being deleted.
    terminating: HashMap<GroupResource, Key>,
}

fn defined(definition: &Stored) -> GroupResource {
    let value = definition.value.once();
    let text = |path: &[&str]| object::text(&value, path).to_owned();
    GroupResource::new(&text(&["spec", "group"]), &text(&["spec", "names", "plural"]))
}

impl CrdDeleter {
    fn note(&mut self, definition: &Stored) -> Option<Key> {
        let held = object::finalizers(&definition.value.head()).contains(&CLEANUP_FINALIZER);
        if !definition.is_terminating() || !held {
            return None;
        }
        self.terminating.insert(defined(definition), definition.key.clone());
        Some(definition.key.clone())
    }
}

impl Controller for CrdDeleter {
    type Item = Key;

    fn seed(&mut self, everything: &Listing) -> Vec<Key> {
        let definitions: Vec<_> =
            everything.items.iter().filter(|stored| stored.key.resource == self.definitions).collect();
        definitions.into_iter().filter_map(|definition| self.note(definition)).collect()
    }

    fn observe(&mut self, event: &Event) -> Vec<Key> {
        if event.object.key.resource != self.definitions {
            let gone = event.change == Change::Deleted;
            return self
                .terminating
                .get(&event.object.key.resource)
                .filter(|_| gone)
                .cloned()
                .into_iter()
                .collect();
        }
        if event.change == Change::Deleted {
            self.terminating.remove(&defined(&event.object));
            return Vec::new();
        }
        self.note(&event.object).into_iter().collect()
    }

    async fn process(&mut self, plane: &Arc<Plane>, key: &Key) -> Result<Vec<Key>> {
        let Some(definition) = plane.store.get(key).filter(|stored| stored.is_terminating()) else {
            return Ok(Vec::new());
        };
        let resource = defined(&definition);
        let options =
            DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
        for stored in &plane.store.list(&resource, None).items {
            if !stored.is_terminating() {
                engine::remove(plane, stored, &options).await?;
            }
        }
        if plane.store.list(&resource, None).items.is_empty() {
            engine::edit(plane, key, object::uid(&definition.value.head()), |value| {
                let kept = object::finalizers(value).into_iter().filter(|f| *f != CLEANUP_FINALIZER);
                let kept = kept.map(str::to_owned).collect();
                object::set_finalizers(value, kept);
            })
            .await?;
        }
        Ok(Vec::new())
    }
}
