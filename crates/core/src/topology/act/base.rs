//! Creates an object, or applies its changes.

use capstan_controller::Result;
use capstan_topology::intent::intent;
use capstan_topology::metadata::OWNED;
use capstan_topology::validation::same_object;
use kube::api::{Api, DynamicObject};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;

use super::super::decide::valid;
use super::super::names::events;
use super::super::observe::{kind, value};
use super::{Writer, differs, named, text};

impl Writer<'_> {
    /// Creates an object that the Cluster refers to, or applies its changes. `version` is where it has its Kubernetes
    /// version, for the event. Gives whether it was created.
    pub(super) async fn object(
        &mut self,
        current: Option<&DynamicObject>,
        desired: &Value,
        version: Option<&str>,
    ) -> Result<bool> {
        let api = self.api_of(desired).await?;
        let (of_kind, name) = named(desired);
        // One that was created right before the process died has its name.
        let found = match current {
            Some(_) => None,
            None => self.found(desired).await?,
        };
        let Some(current) = current.or(found.as_ref()) else {
            self.create(&api, desired).await?;
            let message = format!("Created {of_kind} {}", self.quoted(name));
            self.note(events::CREATED, message);
            return Ok(true);
        };
        let before = value(current)?;
        let subject = format!("{} {}/{}", kind(current), self.namespace, current.name_any());
        valid(&subject, &same_object(&before, desired))?;
        if self.apply(&api, current, desired).await? {
            let change = version.map(|version| change(&before, desired, version)).unwrap_or_default();
            let message = format!("Updated {of_kind} {}{change}", self.quoted(name));
            self.note(events::UPDATED, message);
        }
        Ok(false)
    }

    /// The object that has the name of a desired one, if the topology has made it.
    pub(super) async fn found(&self, desired: &Value) -> Result<Option<DynamicObject>> {
        let (kind, name) = named(desired);
        let api_version = text(desired, "/apiVersion");
        let found = self.core.externals.get_version((api_version, kind), &self.namespace, name).await?;
        let is_ours = |object: &DynamicObject| {
            object.labels().contains_key(OWNED) && object.metadata.deletion_timestamp.is_none()
        };
        Ok(found.filter(is_ours))
    }

    /// Creates an object.
    pub(super) async fn create<K>(&mut self, api: &Api<K>, desired: &Value) -> Result<Option<K>>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize,
    {
        self.tried.push(named(desired).1.to_owned());
        self.applier.apply(api, None, &intent(desired)).await
    }

    /// Applies what differs. Gives whether the object is another one now.
    pub(super) async fn apply<K>(&self, api: &Api<K>, current: &K, desired: &Value) -> Result<bool>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize,
    {
        let applied = self.applier.apply(api, Some(current), &of_object(current, desired)).await?;
        Ok(applied.is_some_and(|applied| differs(current.meta(), applied.meta())))
    }
}

/// What is written of an object that exists. With its UID: if it was deleted meanwhile, it is not created again.
pub(super) fn of_object<K: Resource>(current: &K, desired: &Value) -> Value {
    let mut intent = intent(desired);
    if let Some(uid) = &current.meta().uid {
        intent["metadata"]["uid"] = json!(uid);
    }
    intent
}

/// The end of an event about an object whose version changes.
pub(super) fn change(before: &Value, desired: &Value, version: &str) -> String {
    let (from, to) = (text(before, version), text(desired, version));
    if from.is_empty() || to.is_empty() || from == to {
        return String::new();
    }
    format!(" with version change from {from} to {to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_version_is_part_of_the_event() {
        let of = |version: &str| json!({"spec": {"version": version}});
        for (from, to, expected) in [
            ("v1.1.0", "v1.2.0", " with version change from v1.1.0 to v1.2.0"),
            ("v1.1.0", "v1.1.0", ""),
            ("", "v1.1.0", ""),
        ] {
            assert_eq!(change(&of(from), &of(to), "/spec/version"), expected);
        }
    }

    #[test]
    fn an_object_that_exists_is_meant_by_its_uid() {
        let current: DynamicObject = serde_json::from_value(
            json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "uid": "u"}}),
        )
        .expect("an object");
        let desired = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "status": {}});
        let expected = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "uid": "u"}});
        assert_eq!(of_object(&current, &desired), expected);
    }
}
