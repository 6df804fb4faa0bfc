//! Which kinds can be moved. Pure.

use capstan_api::crd::CustomResourceDefinition;
use capstan_api::meta::labels;
use kube::core::{ApiResource, GroupVersionKind};
use std::sync::Arc;

/// The group of Clusters.
pub(crate) const CLUSTER_GROUP: &str = "cluster.x-k8s.io";
/// The group that the inventory of providers is in: each plane has its own.
const INVENTORY_GROUP: &str = "clusterctl.cluster.x-k8s.io";
/// The group of what agents tell.
const AGENT_GROUP: &str = "agent.capstan.dev";

/// A kind whose objects are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MovableKind {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    /// Every object of the kind moves.
    pub(crate) moves: bool,
    /// And everything below it moves too.
    pub(crate) with_dependents: bool,
}

impl MovableKind {
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.resource.group == group && self.resource.kind == kind
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.is(CLUSTER_GROUP, "Cluster")
    }

    pub(crate) fn is_class(&self) -> bool {
        self.is(CLUSTER_GROUP, "ClusterClass")
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.is("", "Secret")
    }

    /// Secrets and ConfigMaps: nobody reconciles them.
    pub(crate) fn is_built_in(&self) -> bool {
        self.resource.group.is_empty()
    }
}

/// The kinds of Cluster API and its providers, in the version they are stored in; and Secrets and ConfigMaps.
///
/// clusterctl knows them by the label it puts on what it installs. Kinds of Cluster API's groups that came to the plane in
/// another way count as well, as on the embedded plane.
pub(crate) fn kinds(crds: &[CustomResourceDefinition]) -> Vec<Arc<MovableKind>> {
    let of_crds = crds.iter().filter(|crd| is_ours(crd)).filter_map(|crd| {
        let version = crd.spec.versions.iter().find(|version| version.storage)?;
        let names = &crd.spec.names;
        let gvk = GroupVersionKind::gvk(&crd.spec.group, &version.name, &names.kind);
        let has_label =
            |key: &str| crd.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key));
        let with_dependents = has_label(labels::CLUSTERCTL_MOVE_HIERARCHY)
            || matches!(
                (crd.spec.group.as_str(), names.kind.as_str()),
                (CLUSTER_GROUP, "Cluster" | "ClusterClass")
                    | ("addons.cluster.x-k8s.io", "ClusterResourceSet")
            );
        Some(MovableKind {
            resource: ApiResource::from_gvk_with_plural(&gvk, &names.plural),
            namespaced: crd.spec.scope == "Namespaced",
            moves: with_dependents || has_label(labels::CLUSTERCTL_MOVE),
            with_dependents,
        })
    });
    let built_in = [("Secret", "secrets"), ("ConfigMap", "configmaps")].map(|(kind, plural)| MovableKind {
        resource: ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", kind), plural),
        namespaced: true,
        moves: false,
        with_dependents: false,
    });
    of_crds.chain(built_in).map(Arc::new).collect()
}

fn is_ours(crd: &CustomResourceDefinition) -> bool {
    let group = crd.spec.group.as_str();
    let labelled = crd.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(labels::CLUSTERCTL));
    group != INVENTORY_GROUP
        && (labelled
            || group == CLUSTER_GROUP
            || group.strip_suffix(CLUSTER_GROUP).is_some_and(|before| before.ends_with('.'))
            || group == AGENT_GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_ours_can_be_moved_and_the_inventory_cannot() {
        let kinds = kinds(&capstan_api::crd::all());
        let find = |kind: &str| kinds.iter().find(|known| known.resource.kind == kind);
        for (kind, moves, with_dependents) in [
            ("Cluster", true, true),
            ("ClusterClass", true, true),
            ("ClusterResourceSet", true, true),
            ("Host", true, true),
            ("HostPool", true, true),
            ("Machine", false, false),
            ("HostMachine", false, false),
            ("CapstanConfig", false, false),
            ("MachineReport", false, false),
            ("Secret", false, false),
            ("ConfigMap", false, false),
        ] {
            let known = find(kind).unwrap_or_else(|| panic!("{kind} is not known"));
            assert_eq!((known.moves, known.with_dependents), (moves, with_dependents), "{kind}");
        }
        assert!(find("Provider").is_none() && find("Metadata").is_none());
        assert!(!find("ExtensionConfig").is_some_and(|kind| kind.namespaced));
    }

    #[test]
    fn others_count_by_label() {
        let mut crd = capstan_api::crd::infrastructure_provider().remove(0);
        crd.spec.group = "example.com".to_owned();
        assert!(!is_ours(&crd));
        crd.spec.group = "notcluster.x-k8s.io".to_owned();
        assert!(!is_ours(&crd));
        crd.metadata.labels.get_or_insert_default().insert(labels::CLUSTERCTL.to_owned(), String::new());
        assert!(is_ours(&crd));
    }
}
