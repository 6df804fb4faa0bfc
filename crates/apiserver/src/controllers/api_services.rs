//! An APIService for each group and version that is served. Those of CRDs come and go with them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::engine::{self, Controller};
use crate::{
    call::Call,
    object,
    plane::Plane,
    registry::{
        Registry,
        kinds::{DEFINITIONS, api_service::API_SERVICES},
    },
    request::options::{DeleteOptions, WriteOptions},
    status::Result,
    store::{Change, Event, GroupResource, Key, Listing},
    user::User,
    verbs::create::{self, NewObject},
};

/// Says that this controller manages an APIService, and how: `onstart` for built-in groups, `true` for those of CRDs.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// Priorities of the built-in groups, as upstream's. Clients without a preference take the group with the highest.
const PRIORITIES: [(&str, i64); 19] = [
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("admissionregistration.k8s.io", 16_700),
    ("apiextensions.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
];
/// The priority of a group that only CRDs define, and of its first version.
const CUSTOM: (i64, i64) = (1000, 100);
/// Between the priorities of two versions of a built-in group; also that of the least preferred one.
const VERSION_STEP: i64 = 15;
/// The group of APIServices has none: it is what tells of the others.
const OWN_GROUP: &str = API_SERVICES.0;

/// Runs until the server stops.
pub(crate) async fn run(plane: Arc<Plane>, stopping: watch::Receiver<bool>) {
    let definitions = GroupResource::new(DEFINITIONS.0, DEFINITIONS.1);
    let services = GroupResource::new(API_SERVICES.0, API_SERVICES.1);
    engine::run(plane, stopping, Registrar { definitions, services }).await;
}

struct Registrar {
    definitions: GroupResource,
    services: GroupResource,
}

/// The names of all APIServices that there should be, with what they say.
pub(crate) fn wanted(registry: &Registry) -> BTreeMap<String, Value> {
    let customs: BTreeSet<(&str, &str)> = registry
        .all()
        .filter(|resource| resource.is_custom())
        .flat_map(|resource| {
            resource.versions.iter().map(|version| (resource.name.group(), version.name.as_str()))
        })
        .collect();
    let mut wanted = BTreeMap::new();
    for (group, versions) in registry.groups().iter().filter(|(group, _)| *group != OWN_GROUP) {
        let priority = PRIORITIES.iter().find(|(known, _)| known == group).map(|(_, priority)| *priority);
        for (place, version) in (0..).zip(versions) {
            let is_custom = priority.is_none() && customs.contains(&(group.as_str(), version.as_str()));
            let (managed, minimum, priority) = match priority {
                Some(minimum) if group.is_empty() => ("onstart", minimum, 1),
                Some(minimum) => {
                    // The preferred version comes first and has the highest priority.
                    let newer = i64::try_from(versions.len()).unwrap_or(1) - place;
                    ("onstart", minimum, VERSION_STEP * newer)
                }
                None if is_custom => ("true", CUSTOM.0, (CUSTOM.1 - place).max(1)),
                None => ("onstart", CUSTOM.0, VERSION_STEP),
            };
            let mut spec =
                json!({"version": version, "groupPriorityMinimum": minimum, "versionPriority": priority});
            if !group.is_empty() {
                spec["group"] = group.as_str().into();
            }
            let name = format!("{version}.{group}");
            let service = json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": name, "labels": {MANAGED: managed}}, "spec": spec,
            });
            wanted.insert(name, service);
        }
    }
    wanted
}

impl Controller for Registrar {
    /// All of them at once: they are few.
    type Item = ();

    fn seed(&mut self, _: &Listing) -> Vec<()> {
        vec![()]
    }

    fn observe(&mut self, event: &Event) -> Vec<()> {
        let resource = &event.object.key.resource;
        let is_lost = *resource == self.services && event.change == Change::Deleted;
        if is_lost || *resource == self.definitions { vec![()] } else { Vec::new() }
    }

    async fn process(&mut self, plane: &Arc<Plane>, (): &()) -> Result<Vec<()>> {
        let wanted = wanted(&plane.registry());
        let user = User::controller("apiservices");
        for (name, service) in &wanted {
            let key = Key::new(self.services.clone(), "", name);
            let call = Call::internal(plane, &key, &user).filter(|_| plane.store.get(&key).is_none());
            if let Some(call) = call {
                let new = NewObject::posted(service.clone(), Vec::new());
                match create::create(&call, new, &WriteOptions::default()).await {
                    Err(error) if error.reason() == "AlreadyExists" => {}
                    created => drop(created?),
                }
            }
        }
        for stored in &plane.store.list(&self.services, None).items {
            let value = stored.value.once();
            let is_ours = !object::text(&value, &["metadata", "labels", MANAGED]).is_empty();
            if is_ours && !wanted.contains_key(&stored.key.name) {
                engine::remove(plane, stored, &DeleteOptions::default()).await?;
            }
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_groups_have_upstreams_priorities() {
        let wanted = wanted(&Registry::built_in());
        let spec = |name: &str| wanted[name]["spec"].clone();
        assert_eq!(
            spec("v1."),
            json!({"version": "v1", "groupPriorityMinimum": 18_000, "versionPriority": 1})
        );
        assert_eq!(
            spec("v1.apps"),
            json!({"version": "v1", "groupPriorityMinimum": 17_800, "versionPriority": 15, "group": "apps"})
        );
        let version_priority = |name: &str| spec(name)["versionPriority"].clone();
        assert_eq!(
            (version_priority("v2.autoscaling"), version_priority("v1.autoscaling")),
            (30.into(), 15.into())
        );
        assert!(!wanted.contains_key("v1.apiregistration.k8s.io"));
        let unknown: Vec<_> =
            wanted.values().filter(|one| one["spec"]["groupPriorityMinimum"] == CUSTOM.0).collect();
        assert!(unknown.is_empty(), "groups without a priority in PRIORITIES: {unknown:?}");
    }
}
