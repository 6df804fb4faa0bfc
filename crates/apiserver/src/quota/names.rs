//! The names in a ResourceQuota, and what each is about.

use crate::store::GroupResource;

/// Names of kinds of the core group that are counted without a prefix.
const COUNTED: [&str; 5] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets", "services"];

/// What the amount of a name is computed from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The pods that are in the scopes of the quota.
    Pods,
    /// The types and ports of Services.
    Services,
    /// The number of objects.
    Count(GroupResource),
    /// PersistentVolumeClaims, of which there are none.
    Claims,
}

/// What the amount of a name is computed from; nothing if this server cannot tell.
pub(crate) fn source(name: &str) -> Option<Source> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some(match (group, resource) {
            ("", "pods") => Source::Pods,
            _ => Source::Count(GroupResource::new(group, resource)),
        });
    }
    let is_of_claims = matches!(name, "persistentvolumeclaims" | "requests.storage")
        || name.contains(".storageclass.storage.k8s.io/");
    let is_of_pods = matches!(name, "pods" | "cpu" | "memory" | "ephemeral-storage")
        || name.starts_with("hugepages-")
        || name.starts_with("limits.")
        || name.starts_with("requests.");
    match name {
        _ if is_of_claims => Some(Source::Claims),
        name if COUNTED.contains(&name) => Some(Source::Count(GroupResource::new("", name))),
        "services.nodeports" | "services.loadbalancers" => Some(Source::Services),
        _ => is_of_pods.then_some(Source::Pods),
    }
}

/// The names under which an object of a resource is counted.
pub(super) fn count_names(resource: &GroupResource) -> Vec<String> {
    let (group, resource) = (resource.group(), resource.resource());
    let own =
        if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") };
    let old = COUNTED.iter().filter(|name| group.is_empty() && **name == resource);
    std::iter::once(own).chain(old.map(|name| (*name).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_counted() {
        let count = |group: &str, resource: &str| Some(Source::Count(GroupResource::new(group, resource)));
        for (name, expected) in [
            ("count/widgets.example.com", count("example.com", "widgets")),
            ("count/configmaps", count("", "configmaps")),
            ("secrets", count("", "secrets")),
            ("services", count("", "services")),
            ("services.nodeports", Some(Source::Services)),
            ("count/pods", Some(Source::Pods)),
            ("requests.cpu", Some(Source::Pods)),
            ("requests.example.com/dongle", Some(Source::Pods)),
            ("limits.memory", Some(Source::Pods)),
            ("requests.storage", Some(Source::Claims)),
            ("persistentvolumeclaims", Some(Source::Claims)),
            ("gold.storageclass.storage.k8s.io/requests.storage", Some(Source::Claims)),
            ("example.com/other", None),
        ] {
            assert_eq!(source(name), expected, "{name}");
        }
        assert_eq!(count_names(&GroupResource::new("", "secrets")), ["count/secrets", "secrets"]);
        assert_eq!(count_names(&GroupResource::new("apps", "deployments")), ["count/deployments.apps"]);
    }
}
