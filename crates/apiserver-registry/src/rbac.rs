//! Roles: what a rule allows, whether it covers another, and which role a binding refers to. Who may do what is decided by the
//! authorizer, which is not here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    object,
    store::{GroupResource, Key, Store, Stored},
};

/// The group of roles and bindings.
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// A request, as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access<'a> {
    /// A verb on a resource. Empty strings are attributes that the request does not have.
    Resource {
        /// Such as `get`.
        verb: &'a str,
        /// The API group.
        group: &'a str,
        /// The namespace; empty for the whole cluster.
        namespace: &'a str,
        /// The plural.
        resource: &'a str,
        /// Such as `status`.
        subresource: &'a str,
        /// The name of the object.
        name: &'a str,
    },
    /// A verb on a non-resource URL.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path of the URL.
        path: &'a str,
    },
}

impl Access<'_> {
    /// Where it happens; empty for the whole cluster.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path { .. } => "",
        }
    }
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// The verbs; `*` is all of them, as in every list.
    pub verbs: Vec<String>,
    /// The API groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The plurals, each with a subresource behind a slash if it is about one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The names of objects; all of them if it is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths that are not resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

const ALL: &str = "*";

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|own| own == word)
}

fn has_or_all(words: &[String], word: &str) -> bool {
    words.iter().any(|own| own == ALL || own == word)
}

/// Whether a resource, with its subresource behind a slash, is among those of a rule.
fn has_resource(words: &[String], resource: &str) -> bool {
    has_or_all(words, resource)
        || resource
            .split_once('/')
            .is_some_and(|(_, sub)| words.iter().any(|own| own.strip_prefix("*/") == Some(sub)))
}

fn has_url(words: &[String], path: &str) -> bool {
    words.iter().any(|own| own == path || (own.ends_with(ALL) && path.starts_with(own.trim_end_matches('*'))))
}

impl Rule {
    /// The rules of a role as it is stored. What is not a rule grants nothing.
    pub fn of(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array).into_iter().flatten();
        rules.filter_map(|rule| Self::deserialize(rule).ok()).collect()
    }

    /// Whether it allows this.
    pub fn allows(&self, access: &Access<'_>) -> bool {
        match *access {
            Access::Resource { verb, group, resource, subresource, name, .. } => {
                let full = match subresource {
                    "" => resource.to_owned(),
                    subresource => format!("{resource}/{subresource}"),
                };
                has_or_all(&self.verbs, verb)
                    && has_or_all(&self.api_groups, group)
                    && has_resource(&self.resources, &full)
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
            Access::Path { verb, path } => {
                has_or_all(&self.verbs, verb) && has_url(&self.non_resource_urls, path)
            }
        }
    }

    /// The same as rules of one verb, one group, one resource and one name each.
    pub(crate) fn atoms(&self) -> Vec<Self> {
        let one = |word: &String| vec![word.clone()];
        let mut atoms = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let atom = Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        atoms.push(atom);
                    } else {
                        let named = |name| Self { resource_names: one(name), ..atom.clone() };
                        atoms.extend(self.resource_names.iter().map(named));
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            for verb in &self.verbs {
                atoms.push(Self { verbs: one(verb), non_resource_urls: one(url), ..Self::default() });
            }
        }
        atoms
    }

    /// Whether it allows all that an atom allows.
    pub fn covers(&self, atom: &Self) -> bool {
        let all = |own: &[String], wanted: &[String]| wanted.iter().all(|word| has_or_all(own, word));
        let names = self.resource_names.is_empty()
            || (!atom.resource_names.is_empty()
                && atom.resource_names.iter().all(|name| has(&self.resource_names, name)));
        all(&self.verbs, &atom.verbs)
            && all(&self.api_groups, &atom.api_groups)
            && atom.resources.iter().all(|resource| has_resource(&self.resources, resource))
            && atom.non_resource_urls.iter().all(|url| has_url(&self.non_resource_urls, url))
            && names
    }

    /// As upstream prints it in refusals.
    pub fn describe(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, words)| !words.is_empty())
            .map(|(field, words)| format!("{field}:{}", go_list(words)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// The role that a binding refers to.
pub fn role(store: &Store, binding: &Value, namespace: &str) -> Option<Arc<Stored>> {
    let name = object::text(binding, &["roleRef", "name"]);
    let (resource, namespace) = match object::text(binding, &["roleRef", "kind"]) {
        "Role" => ("roles", namespace),
        "ClusterRole" => ("clusterroles", ""),
        _ => return None,
    };
    store.get(&Key::new(GroupResource::new(RBAC, resource), namespace, name))
}

/// A list of texts as Go's `%q` prints it.
pub fn go_list(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("[{}]", words.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(value: Value) -> Rule {
        Rule::deserialize(value).unwrap()
    }

    fn apps<'a>(verb: &'a str, resource: &'a str, name: &'a str, subresource: &'a str) -> Access<'a> {
        Access::Resource { verb, group: "apps", namespace: "ns", resource, subresource, name }
    }

    #[test]
    fn rules_allow_what_they_say() {
        let some =
            rule(json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments", "*/scale"]}));
        assert!(some.allows(&apps("get", "deployments", "a", "")));
        assert!(some.allows(&apps("get", "daemonsets", "a", "scale")));
        assert!(!some.allows(&apps("get", "deployments", "a", "status")));
        assert!(!some.allows(&apps("list", "deployments", "", "")));
        let named =
            rule(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]}));
        assert!(named.allows(&apps("delete", "deployments", "a", "")));
        assert!(named.allows(&apps("list", "deployments", "a", "")), "by a field selector for the name");
        assert!(!named.allows(&apps("list", "deployments", "", "")));
        assert!(!named.allows(&apps("delete", "deployments", "b", "")));
    }

    #[test]
    fn paths() {
        let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/api", "/apis/*"]}));
        let get = |path| rule.allows(&Access::Path { verb: "get", path });
        assert!(get("/api") && get("/apis/x") && !get("/api/v1") && !get("/apis"));
        assert!(!rule.allows(&Access::Path { verb: "post", path: "/api" }));
        assert!(!rule.allows(&apps("get", "deployments", "", "")));
    }

    #[test]
    fn coverage() {
        let cases = [
            (json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}), true),
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}), true),
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*/log"]}), true),
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), false),
            (json!({"verbs": ["list"], "apiGroups": [""], "resources": ["*"]}), false),
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["*"], "resourceNames": ["a"]}), false),
            (json!({"verbs": ["*"], "nonResourceURLs": ["*"]}), false),
        ];
        let wanted = rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}));
        for (held, covers) in cases {
            assert_eq!(rule(held.clone()).covers(&wanted.atoms()[0]), covers, "{held}");
        }
        let named = Rule { resource_names: vec!["a".to_owned()], ..wanted.clone() };
        assert!(wanted.covers(&named) && named.covers(&named) && !named.covers(&wanted));
    }
}
