//! Writes an object after a reconcile: only the changes, and never the conditions of other controllers.
//!
//! There are at most two requests: metadata and spec, then status. A merge patch replaces the lists of metadata that several
//! controllers write (finalizers and owners), so it has the resource version: a conflict there ends the reconcile. Several
//! controllers also write conditions of the same object. That patch has the resource version, too; after a conflict the
//! conditions are read again and merged by type. Status comes last, because it reports that spec is in effect. It is written
//! even if metadata could not be, because it shows users why. Changes that only people read may be delayed:
//! [`crate::status_delay`].

use capstan_api::conditions::{Condition, Conditioned, ConditionsPatch, Precedence, types};
use capstan_api::wait::Wait;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Debug;

use crate::error::{Doing, Error, Result};
use crate::events::{Events, Tone};
use crate::merge::difference;
use crate::status_delay::{self, StatusView, is_delayed};

/// How often conditions are read again and merged before the reconcile is given up.
const MOST_TRIES: usize = 10;

/// Holds an object as it was read, and writes the differences.
pub struct Patcher<K> {
    api: Api<K>,
    before: K,
    whole: &'static [&'static str],
}

impl<K> Patcher<K>
where
    K: Resource<DynamicType = ()> + Conditioned + Serialize + DeserializeOwned + Clone + Debug,
{
    /// A patcher for `object` as it was read.
    pub fn new(api: Api<K>, object: &K) -> Self {
        Self { api, before: object.clone(), whole: &[] }
    }

    /// Fields of status whose parts mean something only together: if one part changes, all are written. So they never
    /// mix with those of a status that was written after the object was read. No part may be optional.
    pub fn whole(self, fields: &'static [&'static str]) -> Self {
        Self { whole: fields, ..self }
    }

    /// Writes the differences. `owned` are the condition types that this controller owns.
    pub async fn finish(self, after: &K, owned: &[&str]) -> Result<()> {
        let (before, wanted) = (value(&self.before)?, value(after)?);
        let rest = self.write_rest(after, &without_status(&before), &without_status(&wanted)).await;
        // Without its last finalizer it is gone: there is nothing left to describe.
        if is_ending(after) && rest.is_ok() {
            return Ok(());
        }
        let (latest, rest) = match rest {
            Ok(written) => (written, Ok(())),
            Err(error) => (None, Err(error)),
        };
        let mut after = Cow::Borrowed(after);
        let (was, mut is) = (status_of(&before), status_of(&wanted));
        let changed_spec = before["spec"] != wanted["spec"];
        let generation = latest.as_ref().and_then(|latest| own_generation(&self.before, latest));
        if let Some(generation) = generation.filter(|_| changed_spec) {
            advance(after.to_mut(), &mut is, owned, self.before.meta().generation, generation);
        }
        let is_delayed = is_delayed(
            StatusView { status: &was, conditions: self.before.conditions() },
            StatusView { status: &is, conditions: after.conditions() },
        );
        if is_delayed {
            return rest;
        }
        let status = status_difference(&was, &is, self.whole);
        let written = self.write_status(&after, owned, status, latest).await;
        if written.is_ok() {
            // In a box: it is rarely needed, and it would make every look larger.
            Box::pin(self.publish_waits(after.as_ref())).await;
        }
        rest.and(written)
    }

    /// Makes an event of each wait that has begun and that only a person can end.
    async fn publish_waits(&self, after: &K) {
        let Some(controller) = status_delay::controller() else { return };
        let events = Events::new(self.api.clone().into_client(), controller);
        for wait in begun(self.before.conditions(), after.conditions()) {
            // What commands have printed comes after the first line. It stays in the condition.
            let message = wait.message.lines().next().unwrap_or_default();
            events.publish(after, Tone::Warning, &wait.reason, message, Timestamp::now()).await;
        }
    }

    /// Writes metadata and spec. Gives the object as it is then, if it was written and is still there.
    async fn write_rest(&self, after: &K, before: &Value, wanted: &Value) -> Result<Option<K>> {
        let name = after.name_any();
        let Some(mut patch) = difference(before, wanted) else { return Ok(None) };
        lock_shared_lists(&mut patch, self.before.resource_version().as_deref());
        let written = self.patch(&name, &patch, false).await;
        if after.meta().deletion_timestamp.is_some() && is_not_found(&written) {
            return Ok(None);
        }
        written.map(Some).doing(|| format!("cannot write metadata and spec of {} {name}", K::kind(&())))
    }

    /// Writes conditions, if any have changed, and the rest of `status`, to the object as it is in `latest`.
    async fn write_status(
        &self,
        after: &K,
        owned: &[&str],
        status: Option<Value>,
        latest: Option<K>,
    ) -> Result<()> {
        let name = after.name_any();
        let doing = || format!("cannot write status of {} {name}", K::kind(&()));
        let changes = ConditionsPatch::between(self.before.conditions(), after.conditions());
        let mut patch = json!({"status": status.unwrap_or_else(|| json!({}))});
        if changes.is_empty() && patch == json!({"status": {}}) {
            return Ok(());
        }
        let mut latest = latest.map_or(Cow::Borrowed(&self.before), Cow::Owned);
        for _ in 0..MOST_TRIES {
            if !changes.is_empty() {
                let merged = changes
                    .apply(latest.conditions(), Precedence::Owned(owned))
                    .map_err(|conflict| Error::transient(doing(), conflict))?;
                patch["status"]["conditions"] = json!(merged);
                patch["metadata"] = json!({"resourceVersion": latest.resource_version()});
            }
            let written = self.patch(&name, &patch, true).await;
            if after.meta().deletion_timestamp.is_some() && is_not_found(&written) {
                return Ok(());
            }
            if !is_conflict(&written) || changes.is_empty() {
                return written.map(|_| ()).doing(doing);
            }
            latest = Cow::Owned(self.api.get(&name).await.doing(doing)?);
        }
        Err(Error::Conflict { doing: doing() })
    }

    async fn patch(&self, name: &str, patch: &Value, status: bool) -> std::result::Result<K, kube::Error> {
        let params = PatchParams::default();
        match status {
            true => self.api.patch_status(name, &params, &Patch::Merge(patch)).await,
            false => self.api.patch(name, &params, &Patch::Merge(patch)).await,
        }
    }
}

/// Waits for a person that are new. That something is paused somebody has asked for.
fn begun(before: &[Condition], after: &[Condition]) -> Vec<Wait> {
    let was = |new: &Condition| before.iter().any(|old| old.type_ == new.type_ && old.reason == new.reason);
    let new = after.iter().filter(|new| new.type_ != types::PAUSED && !was(new));
    // Several conditions of an object may wait for the same, and are one event.
    let mut waits: Vec<Wait> = new.filter_map(Wait::read).filter(Wait::needs_person).collect();
    let mut known = HashSet::new();
    waits.retain(|wait| known.insert(wait.reason.clone()));
    waits
}

/// The generation that our own write of the spec has made, if nobody else's change is in it.
fn own_generation<K: Resource>(before: &K, written: &K) -> Option<i64> {
    let (before, written) = (before.meta().generation?, written.meta().generation?);
    (written == before + 1).then_some(written)
}

/// What was said of the generation `from` is so of the one that our own write has made: it is what we wanted. Otherwise it
/// would be said in one more write.
fn advance<K: Conditioned>(after: &mut K, status: &mut Value, owned: &[&str], from: Option<i64>, to: i64) {
    if status.get("observedGeneration").is_some_and(|observed| observed.as_i64() == from) {
        status["observedGeneration"] = json!(to);
    }
    // Looked at first: a list of conditions is not made where there is none.
    if !after.conditions().is_empty() {
        let own = after.conditions_mut().iter_mut().filter(|condition| owned.contains(&&*condition.type_));
        for condition in own.filter(|condition| condition.observed_generation == from) {
            condition.observed_generation = Some(to);
        }
    }
}

fn lock_shared_lists(patch: &mut Value, version: Option<&str>) {
    let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if metadata.contains_key("finalizers") || metadata.contains_key("ownerReferences") {
        metadata.insert("resourceVersion".to_owned(), json!(version));
    }
}

fn is_ending(object: &impl ResourceExt) -> bool {
    object.meta().deletion_timestamp.is_some() && object.finalizers().is_empty()
}

fn value<K: Serialize>(object: &K) -> Result<Value> {
    serde_json::to_value(object).map_err(|error| Error::transient("cannot serialise an object", error))
}

fn without_status(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

fn status_of(object: &Value) -> Value {
    let mut status = object.get("status").cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = status.as_object_mut() {
        fields.remove("conditions");
    }
    status
}

/// The merge patch between two statuses, with `whole` fields complete if they differ.
fn status_difference(before: &Value, after: &Value, whole: &[&str]) -> Option<Value> {
    let mut patch = difference(before, after)?;
    for field in whole {
        if let (Some(part), Some(value)) = (patch.get_mut(*field), after.get(*field)) {
            *part = value.clone();
        }
    }
    Some(patch)
}

fn is_conflict<T>(result: &std::result::Result<T, kube::Error>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 409)
}

fn is_not_found<T>(result: &std::result::Result<T, kube::Error>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 404)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::core::Machine;

    #[test]
    fn what_our_own_write_has_made_is_observed_with_it() {
        let machine = |generation: i64, conditions: Value| -> Machine {
            serde_json::from_value(json!({
                "metadata": {"name": "a", "generation": generation},
                "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"}},
                "status": {"conditions": conditions},
            }))
            .expect("a Machine")
        };
        let before = machine(3, json!([]));
        assert_eq!(own_generation(&before, &machine(4, json!([]))), Some(4));
        assert_eq!(own_generation(&before, &machine(3, json!([]))), None, "nothing has changed");
        assert_eq!(
            own_generation(&before, &machine(5, json!([]))),
            None,
            "somebody else has changed it, too"
        );

        let condition = |type_: &str, observed: i64| {
            json!({"type": type_, "status": "True", "reason": "R", "message": "", "observedGeneration": observed,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let conditions = [condition("Ours", 3), condition("Old", 2), condition("Theirs", 3)];
        let (mut after, mut status) = (machine(3, json!(conditions)), json!({"observedGeneration": 3}));
        advance(&mut after, &mut status, &["Ours", "Old"], Some(3), 4);
        let observed: Vec<_> =
            after.conditions().iter().map(|condition| condition.observed_generation).collect();
        assert_eq!(observed, [Some(4), Some(2), Some(3)]);
        assert_eq!(status, json!({"observedGeneration": 4}));
    }

    #[test]
    fn a_wait_for_a_person_is_published_once() {
        let condition = |type_: &str, status: &str, reason: &str| -> Condition {
            serde_json::from_value(json!({"type": type_, "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}))
            .expect("a condition")
        };
        let events_of = |before: &[Condition], after: &[Condition]| -> Vec<String> {
            begun(before, after).into_iter().map(|wait| wait.reason.into_owned()).collect()
        };
        let no_host = condition("HostClaimed", "False", "NoHostAvailable");
        assert_eq!(events_of(&[], std::slice::from_ref(&no_host)), ["NoHostAvailable"]);
        assert!(events_of(std::slice::from_ref(&no_host), std::slice::from_ref(&no_host)).is_empty());
        assert!(
            events_of(&[], &[condition("HostClaimed", "False", "Claiming")]).is_empty(),
            "a controller acts"
        );
        assert!(events_of(&[], &[condition("Paused", "True", "Paused")]).is_empty(), "a user has paused it");
        assert!(
            events_of(&[], &[condition("Deleting", "True", "ResettingHost")]).is_empty(),
            "the agent acts"
        );
        assert_eq!(events_of(&[], &[condition("Deleting", "True", "HostUnreachable")]), ["HostUnreachable"]);
        let summed_up = condition("Ready", "False", "NoHostAvailable");
        assert_eq!(events_of(&[], &[no_host, summed_up]).len(), 1);
    }

    #[test]
    fn parts_that_belong_together_are_written_together() {
        let before = json!({"plan": {"setup": "a", "revision": 1}, "phase": "x"});
        for (after, patch) in [
            (before.clone(), None),
            (
                json!({"plan": {"setup": "b", "revision": 1}, "phase": "x"}),
                Some(json!({"plan": {"setup": "b", "revision": 1}})),
            ),
            (json!({"plan": {"setup": "a", "revision": 1}, "phase": "y"}), Some(json!({"phase": "y"}))),
            (json!({"phase": "x"}), Some(json!({"plan": null}))),
        ] {
            assert_eq!(status_difference(&before, &after, &["plan"]), patch, "{after}");
        }
    }

    #[test]
    fn lists_that_others_write_too_are_locked() {
        let mut patch = json!({"metadata": {"labels": {"a": "b"}}, "spec": {}});
        lock_shared_lists(&mut patch, Some("7"));
        assert_eq!(patch, json!({"metadata": {"labels": {"a": "b"}}, "spec": {}}));
        let mut patch = json!({"metadata": {"finalizers": []}});
        lock_shared_lists(&mut patch, Some("7"));
        assert_eq!(patch, json!({"metadata": {"finalizers": [], "resourceVersion": "7"}}));
    }
}
