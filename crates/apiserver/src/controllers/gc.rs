//! The garbage collector: what has only owners that are gone goes too.
//!
//! A graph of uids is kept from events; every decision is made on the store's current state. Background
//! deletion follows from an owner's absence; foreground and orphan deletion from their finalizers.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    object,
    plane::Plane,
    request::options::{DeleteOptions, Propagation},
    status::Result,
    store::{Change, Event, Key, Listing, Stored},
    verbs::delete::{FOREGROUND, ORPHAN},
};

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, stopping: watch::Receiver<bool>) {
    engine::run(plane, stopping, Collector::default()).await;
}

type Uid = String;

/// Who is where, and who depends on whom.
#[derive(Default)]
struct Collector {
    keys: HashMap<Uid, Key>,
    owners: HashMap<Uid, Vec<Uid>>,
    dependents: HashMap<Uid, HashSet<Uid>>,
}

impl Collector {
    fn insert(&mut self, stored: &Stored, head: &Value) {
        let uid = object::uid(head).to_owned();
        let owners: Vec<Uid> =
            object::owner_references(head).iter().map(|r| object::text(r, &["uid"]).to_owned()).collect();
        if self.owners.get(&uid).map_or(&[][..], Vec::as_slice) != owners.as_slice() {
            self.forget_owners(&uid);
            for owner in &owners {
                self.dependents.entry(owner.clone()).or_default().insert(uid.clone());
            }
            if !owners.is_empty() {
                self.owners.insert(uid.clone(), owners);
            }
        }
        self.keys.insert(uid, stored.key.clone());
    }

    fn forget_owners(&mut self, uid: &str) {
        for owner in self.owners.remove(uid).unwrap_or_default() {
            if let Some(dependents) = self.dependents.get_mut(&owner) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner);
                }
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<Uid> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    fn stored(&self, plane: &Plane, uid: &str) -> Option<Arc<Stored>> {
        let key = self.keys.get(uid)?;
        plane.store.get(key).filter(|stored| object::uid(&stored.value.head()) == uid)
    }

    /// Whether an object is being deleted in the foreground and waits for its dependents.
    fn waits(&self, plane: &Plane, uid: &str) -> bool {
        self.stored(plane, uid).is_some_and(|stored| {
            let head = stored.value.head();
            object::is_terminating(&head) && object::finalizers(&head).contains(&FOREGROUND)
        })
    }

    /// Removes a foreground finalizer once no dependent blocks, after setting them on their way.
    async fn finish_foreground(&self, plane: &Arc<Plane>, owner: &Stored, uid: &str) -> Result<Vec<Uid>> {
        let dependents = self.dependents_of(uid);
        let blocks = |dependent: &Uid| {
            self.stored(plane, dependent).is_some_and(|stored| {
                object::owner_references(&stored.value.head()).iter().any(|reference| {
                    object::text(reference, &["uid"]) == uid
                        && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
                        && named(plane, &stored, reference).as_ref() == Some(&owner.key)
                })
            })
        };
        if !dependents.iter().any(blocks) {
            remove_finalizer(plane, owner, FOREGROUND).await?;
        }
        Ok(dependents)
    }

    /// Makes the dependents forget the owner, then lets it go.
    async fn finish_orphan(&self, plane: &Arc<Plane>, owner: &Stored, uid: &str) -> Result<Vec<Uid>> {
        for dependent in self.dependents_of(uid) {
            if let Some(stored) = self.stored(plane, &dependent) {
                disown(plane, &stored, &[uid.to_owned()]).await?;
            }
        }
        remove_finalizer(plane, owner, ORPHAN).await?;
        Ok(Vec::new())
    }

    /// Deletes what has no owner left, and drops references to owners that are gone if others remain.
    async fn judge(&self, plane: &Arc<Plane>, stored: &Stored, uid: &str) -> Result<Vec<Uid>> {
        let (mut solid, mut dangling, mut waiting) = (0, Vec::new(), Vec::new());
        for reference in object::owner_references(&stored.value.head()) {
            let owner_uid = object::text(reference, &["uid"]).to_owned();
            match owner(plane, stored, reference) {
                Owner::Unknown => return Ok(Vec::new()),
                Owner::Absent => dangling.push(owner_uid),
                Owner::Waiting => waiting.push(owner_uid),
                Owner::Present => solid += 1,
            }
        }
        if dangling.is_empty() && waiting.is_empty() {
            return Ok(Vec::new());
        }
        if solid > 0 {
            dangling.extend(waiting);
            disown(plane, stored, &dangling).await?;
            return Ok(Vec::new());
        }
        let foreground = !waiting.is_empty() && self.dependents.contains_key(uid);
        if foreground && self.dependents_of(uid).iter().any(|dependent| self.waits(plane, dependent)) {
            // Owners in a circle would wait for each other for ever: one of them lets the others go.
            unblock(plane, stored).await?;
        }
        let propagation = foreground.then_some(Propagation::Foreground);
        engine::remove(plane, stored, &DeleteOptions { propagation, ..DeleteOptions::default() }).await?;
        Ok(Vec::new())
    }
}

impl Controller for Collector {
    type Item = Uid;

    fn seed(&mut self, everything: &Listing) -> Vec<Uid> {
        *self = Self::default();
        let mut held = Vec::new();
        for stored in &everything.items {
            let head = stored.value.head();
            self.insert(stored, &head);
            if is_held_by_us(&head) {
                held.push(object::uid(&head).to_owned());
            }
        }
        self.owners.keys().cloned().chain(held).collect()
    }

    fn observe(&mut self, event: &Event) -> Vec<Uid> {
        let head = event.object.value.head();
        let uid = object::uid(&head).to_owned();
        if event.change == Change::Deleted {
            let mut next = self.dependents_of(&uid);
            next.extend(self.owners.get(&uid).into_iter().flatten().cloned());
            self.forget_owners(&uid);
            self.keys.remove(&uid);
            return next;
        }
        let former: Vec<Uid> = self.owners.get(&uid).cloned().unwrap_or_default();
        self.insert(&event.object, &head);
        let mut next = Vec::new();
        if is_held_by_us(&head) {
            next.extend(self.dependents_of(&uid));
        }
        if is_held_by_us(&head) || self.owners.contains_key(&uid) {
            next.push(uid);
        }
        // An owner that waits for this one may wait no longer.
        next.extend(former);
        next
    }

    async fn process(&mut self, plane: &Arc<Plane>, uid: &Uid) -> Result<Vec<Uid>> {
        let Some(stored) = self.stored(plane, uid) else { return Ok(Vec::new()) };
        let head = stored.value.head();
        let finalizers = object::finalizers(&head);
        let next = if !object::is_terminating(&head) {
            self.judge(plane, &stored, uid).await?
        } else if finalizers.contains(&FOREGROUND) {
            // The dependents come back by their own events: looking at them again here would never end.
            self.finish_foreground(plane, &stored, uid).await?;
            Vec::new()
        } else if finalizers.contains(&ORPHAN) {
            self.finish_orphan(plane, &stored, uid).await?
        } else {
            Vec::new()
        };
        Ok(next)
    }
}

fn is_held_by_us(object: &Value) -> bool {
    object::is_terminating(object)
        && object::finalizers(object).iter().any(|f| [FOREGROUND, ORPHAN].contains(f))
}

/// What has become of an owner.
enum Owner {
    Present,
    /// The owner is being deleted in the foreground and waits for its dependents.
    Waiting,
    Absent,
    /// No resource of this kind is served, so it is unknown whether the owner exists.
    Unknown,
}

/// Looks an owner up by all that the reference says: a uid of another kind or namespace is not an owner.
fn owner(plane: &Plane, dependent: &Stored, reference: &Value) -> Owner {
    let Some(key) = named(plane, dependent, reference) else { return Owner::Unknown };
    match plane.store.get(&key) {
        Some(owner) => {
            let head = owner.value.head();
            let waits = object::is_terminating(&head) && object::finalizers(&head).contains(&FOREGROUND);
            match object::uid(&head) == object::text(reference, &["uid"]) {
                true if waits => Owner::Waiting,
                true => Owner::Present,
                false => Owner::Absent,
            }
        }
        None => Owner::Absent,
    }
}

/// Where the owner lies that a reference names: in the same namespace, or in none. Nothing if nobody serves its kind.
fn named(plane: &Plane, dependent: &Stored, reference: &Value) -> Option<Key> {
    let (group, _) = object::split_api_version(object::text(reference, &["apiVersion"]));
    let registry = plane.registry();
    let resource = registry.by_kind(group, object::text(reference, &["kind"]))?;
    Some(resource.key(&dependent.key.namespace, object::text(reference, &["name"])))
}

async fn disown(plane: &Plane, stored: &Stored, owners: &[Uid]) -> Result<()> {
    engine::edit(plane, &stored.key, object::uid(&stored.value.head()), |value| {
        let mut references = object::owner_references(value).to_vec();
        references.retain(|reference| !owners.iter().any(|uid| object::text(reference, &["uid"]) == uid));
        let metadata = object::metadata_mut(value);
        if references.is_empty() {
            metadata.shift_remove("ownerReferences");
        } else {
            metadata.insert("ownerReferences".to_owned(), references.into());
        }
    })
    .await
}

/// Lets the owners of an object go without it.
async fn unblock(plane: &Plane, stored: &Stored) -> Result<()> {
    engine::edit(plane, &stored.key, object::uid(&stored.value.head()), |value| {
        let mut references = object::owner_references(value).to_vec();
        for reference in &mut references {
            if reference.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
                reference["blockOwnerDeletion"] = false.into();
            }
        }
        object::metadata_mut(value).insert("ownerReferences".to_owned(), references.into());
    })
    .await
}

async fn remove_finalizer(plane: &Plane, stored: &Stored, finalizer: &str) -> Result<()> {
    engine::edit(plane, &stored.key, object::uid(&stored.value.head()), |value| {
        let kept =
            object::finalizers(value).into_iter().filter(|f| *f != finalizer).map(str::to_owned).collect();
        object::set_finalizers(value, kept);
    })
    .await
}
