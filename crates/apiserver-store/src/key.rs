//! How an object is named in the store: its resource, its namespace, its name.

use std::{fmt, sync::Arc};

/// A group and a plural: `apps` and `deployments`. The core group is the empty string. It has no version, because an
/// object is stored once for all versions.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource(Arc<(String, String)>);

impl GroupResource {
    /// Names a resource.
    pub fn new(group: &str, resource: &str) -> Self {
        Self(Arc::new((group.to_owned(), resource.to_owned())))
    }

    /// The API group, empty for the core group.
    pub fn group(&self) -> &str {
        &self.0.0
    }

    /// The plural, as in a URL.
    pub fn resource(&self) -> &str {
        &self.0.1
    }
}

impl fmt::Display for GroupResource {
    /// As upstream's messages have it: `deployments.apps`, and plain `secrets` for the core group.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group() {
            "" => f.write_str(self.resource()),
            group => write!(f, "{}.{group}", self.resource()),
        }
    }
}

impl fmt::Debug for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Where one object is kept. The namespace is empty for what has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The kind of thing.
    pub resource: GroupResource,
    /// The namespace, or the empty string.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Key {
    /// Names an object.
    pub fn new(resource: GroupResource, namespace: &str, name: &str) -> Self {
        Self { resource, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The row key on disk. No part can hold a slash: names are path segments of URLs.
    pub(super) fn encode(&self) -> String {
        let (group, resource) = (self.resource.group(), self.resource.resource());
        format!("{group}/{resource}/{}/{}", self.namespace, self.name)
    }

    /// Rows of a resource follow each other: with the one `before`, its name is in memory once.
    pub(super) fn decode(row: &str, before: Option<&Self>) -> Option<Self> {
        let mut parts = row.splitn(4, '/');
        let (group, resource) = (parts.next()?, parts.next()?);
        let (namespace, name) = (parts.next()?, parts.next()?);
        let is_same = |name: &&GroupResource| (name.group(), name.resource()) == (group, resource);
        let known = before.map(|before| &before.resource).filter(is_same).cloned();
        let resource = known.unwrap_or_else(|| GroupResource::new(group, resource));
        Some(Self::new(resource, namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_disk() {
        let mut other = Key::new(GroupResource::new("", "secrets"), "", "b");
        for key in [
            Key::new(GroupResource::new("", "secrets"), "default", "a.b"),
            Key::new(GroupResource::new("rbac.authorization.k8s.io", "clusterroles"), "", "system:x"),
        ] {
            assert_eq!(Key::decode(&key.encode(), Some(&other)).as_ref(), Some(&key));
            other = key;
        }
    }

    #[test]
    fn resources_print_as_upstream_prints_them() {
        assert_eq!(GroupResource::new("", "secrets").to_string(), "secrets");
        assert_eq!(GroupResource::new("apps", "deployments").to_string(), "deployments.apps");
    }
}
