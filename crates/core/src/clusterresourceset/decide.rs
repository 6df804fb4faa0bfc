//! What must be applied to a cluster, and what is recorded of it. Pure.

use capstan_api::addons::{
    ClusterResourceSet, ClusterResourceSetBinding, ClusterResourceSetStrategy, ResourceBinding, ResourceRef,
    ResourceSetBinding,
};
use capstan_controller::owners;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::content::Content;
use super::observe::{Resource, ResourceState};

/// The resources that must be applied to a cluster with this record, in their order.
pub(super) fn pending<'a>(
    binding: &ClusterResourceSetBinding,
    set: &ClusterResourceSet,
    resources: &'a [Resource],
) -> Vec<(&'a ResourceRef, &'a Content)> {
    let strategy = set.spec.strategy.unwrap_or_default();
    let recorded = binding.spec.bindings.iter().find(|one| one.cluster_resource_set_name == set.name_any());
    let recorded = |of: &ResourceRef| {
        let resources = recorded.map(|one| one.resources.as_slice()).unwrap_or_default();
        resources.iter().find(|one| one.name == of.name && one.kind == of.kind)
    };
    let contents = resources.iter().filter_map(|resource| match &resource.state {
        ResourceState::Found { content: Ok(content), .. } => Some((&resource.reference, content)),
        _ => None,
    });
    contents.filter(|(of, content)| is_due(strategy, recorded(of), &content.hash)).collect()
}

fn is_due(strategy: ClusterResourceSetStrategy, recorded: Option<&ResourceBinding>, hash: &str) -> bool {
    match (recorded.filter(|recorded| recorded.applied), strategy) {
        (None, _) => true,
        (Some(_), ClusterResourceSetStrategy::ApplyOnce) => false,
        (Some(recorded), ClusterResourceSetStrategy::Reconcile) => recorded.hash.as_deref() != Some(hash),
    }
}

/// Makes a ClusterResourceSet an owner of the record of a cluster, with an entry.
pub(super) fn own(binding: &mut ClusterResourceSetBinding, set: &ClusterResourceSet) {
    if let Some(owner) = owners::plain(set) {
        owners::ensure(&mut binding.metadata, &owner);
    }
    entry(binding, set);
}

fn entry<'a>(
    binding: &'a mut ClusterResourceSetBinding,
    set: &ClusterResourceSet,
) -> &'a mut ResourceSetBinding {
    let (name, bindings) = (set.name_any(), &mut binding.spec.bindings);
    let index = bindings.iter().position(|one| one.cluster_resource_set_name == name);
    let index = index.unwrap_or_else(|| {
        bindings.push(ResourceSetBinding { cluster_resource_set_name: name, resources: Vec::new() });
        bindings.len() - 1
    });
    &mut bindings[index]
}

/// Records that content was applied, or that it was not.
pub(super) fn record(
    binding: &mut ClusterResourceSetBinding,
    set: &ClusterResourceSet,
    of: &ResourceRef,
    content: &Content,
    applied: bool,
    now: Timestamp,
) {
    let resources = &mut entry(binding, set).resources;
    let recorded = ResourceBinding {
        name: of.name.clone(),
        kind: of.kind,
        hash: Some(content.hash.clone()),
        last_applied_time: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
        applied,
    };
    match resources.iter_mut().find(|one| one.name == of.name && one.kind == of.kind) {
        Some(found) => *found = recorded,
        None => resources.push(recorded),
    }
}

/// Takes a ClusterResourceSet out of the record of a cluster.
pub(super) fn forget(binding: &mut ClusterResourceSetBinding, set: &ClusterResourceSet) {
    let name = set.name_any();
    binding.spec.bindings.retain(|one| one.cluster_resource_set_name != name);
    if let Some(owner) = owners::plain(set) {
        owners::remove(&mut binding.metadata, &owner);
    }
}

/// What keeps a ClusterResourceSet from being applied.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Secrets of a wrong type.
    pub(super) wrong_type: Vec<String>,
    /// Everything else, for users.
    pub(super) problems: Vec<String>,
}

impl Progress {
    /// Notes a resource that has no content.
    pub(super) fn resource(&mut self, resource: &Resource) {
        let ResourceRef { name, kind } = &resource.reference;
        match &resource.state {
            ResourceState::Missing => self.problems.push(format!("{kind:?} {name} does not exist")),
            ResourceState::WrongType => self.wrong_type.push(name.clone()),
            ResourceState::Found { content: Err(error), .. } => {
                self.problems.push(format!("{kind:?} {name}: {error}"));
            }
            ResourceState::Found { content: Ok(_), .. } => {}
        }
    }

    /// Notes the objects that a cluster has not accepted.
    pub(super) fn applied(&mut self, cluster: &str, problems: Vec<String>) {
        self.problems.extend(problems.into_iter().map(|problem| format!("Cluster {cluster}: {problem}")));
    }

    /// Notes a cluster that cannot be reached.
    pub(super) fn unreachable(&mut self, cluster: &str) {
        self.problems.push(format!("Cluster {cluster}: there is no connection to the workload cluster"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::addons::ResourceKind;
    use kube::core::ObjectMeta;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn set(strategy: &str) -> ClusterResourceSet {
        serde_json::from_value(json!({
            "apiVersion": "addons.cluster.x-k8s.io/v1beta2", "kind": "ClusterResourceSet",
            "metadata": {"name": "s", "namespace": "default", "uid": "1"},
            "spec": {"clusterSelector": {"matchLabels": {"a": "b"}}, "resources": [], "strategy": strategy},
        }))
        .expect("a ClusterResourceSet")
    }

    fn binding() -> ClusterResourceSetBinding {
        serde_json::from_value(json!({
            "apiVersion": "addons.cluster.x-k8s.io/v1beta2", "kind": "ClusterResourceSetBinding",
            "metadata": {"name": "c"},
            "spec": {"clusterName": "c", "bindings": [{"clusterResourceSetName": "other", "resources": []}]},
        }))
        .expect("a binding")
    }

    fn content(hash: &str) -> Content {
        Content { hash: hash.to_owned(), objects: Vec::new() }
    }

    fn resource(name: &str, hash: &str) -> Resource {
        let reference = ResourceRef { name: name.to_owned(), kind: ResourceKind::ConfigMap };
        let metadata = Box::new(ObjectMeta::default());
        Resource { reference, state: ResourceState::Found { metadata, content: Ok(content(hash)) } }
    }

    fn due(binding: &ClusterResourceSetBinding, strategy: &str, resources: &[Resource]) -> Vec<String> {
        let pending = pending(binding, &set(strategy), resources);
        pending.into_iter().map(|(of, _)| of.name.clone()).collect()
    }

    #[test]
    fn what_was_applied_is_applied_again_only_if_it_is_to_be_reconciled_and_has_changed() {
        let (a, b) = (resource("a", "h1"), resource("b", "h1"));
        let mut record_of = binding();
        own(&mut record_of, &set("ApplyOnce"));
        assert_eq!(due(&record_of, "ApplyOnce", &[a.clone(), b.clone()]), ["a", "b"]);
        record(&mut record_of, &set("ApplyOnce"), &a.reference, &content("h1"), true, NOW);
        record(&mut record_of, &set("ApplyOnce"), &b.reference, &content("h1"), false, NOW);
        let changed = [resource("a", "h2"), b.clone()];
        assert_eq!(due(&record_of, "ApplyOnce", &changed), ["b"], "what failed is tried again");
        assert_eq!(due(&record_of, "Reconcile", &changed), ["a", "b"]);
        assert_eq!(due(&record_of, "Reconcile", &[a.clone(), b.clone()]), ["b"]);
        record(&mut record_of, &set("Reconcile"), &b.reference, &content("h1"), true, NOW);
        assert_eq!(due(&record_of, "Reconcile", &[a, b]), Vec::<String>::new());
        let nothing = [ResourceState::Missing, ResourceState::WrongType];
        for state in nothing {
            let without = Resource { state, ..resource("c", "") };
            assert_eq!(due(&record_of, "Reconcile", &[without]), Vec::<String>::new());
        }
    }

    #[test]
    fn a_record_has_one_entry_for_each_set_and_resource() {
        let mut record_of = binding();
        let set = set("Reconcile");
        for (hash, applied) in [("h1", false), ("h2", true)] {
            own(&mut record_of, &set);
            record(&mut record_of, &set, &resource("a", hash).reference, &content(hash), applied, NOW);
        }
        let bindings = serde_json::to_value(&record_of.spec.bindings).expect("JSON");
        let resource = json!({"name": "a", "kind": "ConfigMap", "hash": "h2", "applied": true,
            "lastAppliedTime": "2027-01-15T08:00:00Z"});
        assert_eq!(
            bindings,
            json!([
                {"clusterResourceSetName": "other"},
                {"clusterResourceSetName": "s", "resources": [resource]},
            ])
        );
        assert_eq!(record_of.owner_references().len(), 1);
        forget(&mut record_of, &set);
        assert_eq!(record_of.spec, binding().spec);
        assert!(record_of.owner_references().is_empty());
    }

    #[test]
    fn every_problem_is_named() {
        let mut progress = Progress::default();
        for state in [
            ResourceState::Missing,
            ResourceState::WrongType,
            ResourceState::Found {
                metadata: Box::default(),
                content: Err(super::super::content::ContentError::Empty),
            },
        ] {
            progress.resource(&Resource { state, ..resource("a", "") });
        }
        progress.resource(&resource("b", "h"));
        progress.applied("c1", vec!["Pod x: no".to_owned()]);
        progress.unreachable("c2");
        assert_eq!(progress.wrong_type, ["a"]);
        assert_eq!(
            progress.problems,
            [
                "ConfigMap a does not exist",
                "ConfigMap a: has no data",
                "Cluster c1: Pod x: no",
                "Cluster c2: there is no connection to the workload cluster",
            ]
        );
    }
}
