//! Which requests the rules of a FlowSchema are about. Pure.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{
    rbac::Access,
    user::{SERVICE_ACCOUNT, User},
};

const ALL: &str = "*";

/// The rules of a FlowSchema.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    #[serde(deserialize_with = "list")]
    subjects: Vec<Subject>,
    #[serde(deserialize_with = "list")]
    resource_rules: Vec<ResourceRule>,
    #[serde(deserialize_with = "list")]
    non_resource_rules: Vec<PathRule>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
enum Subject {
    User {
        user: Name,
    },
    Group {
        group: Name,
    },
    ServiceAccount {
        #[serde(rename = "serviceAccount")]
        account: Account,
    },
}

#[derive(Debug, Deserialize)]
struct Name {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Account {
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceRule {
    #[serde(deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "list")]
    api_groups: Vec<String>,
    #[serde(deserialize_with = "list")]
    resources: Vec<String>,
    cluster_scope: bool,
    #[serde(deserialize_with = "list")]
    namespaces: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PathRule {
    #[serde(deserialize_with = "list")]
    verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "list")]
    urls: Vec<String>,
}

/// A list, which may be null.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What a FlowSchema is about.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    /// The rules of a FlowSchema as it is stored. What is not a rule is about no request.
    pub(super) fn of(spec: &Value) -> Self {
        let rules = spec.get("rules").and_then(Value::as_array).into_iter().flatten();
        Self(rules.filter_map(|rule| Rule::deserialize(rule).ok()).collect())
    }

    /// Whether one of them is about a request of this user.
    pub(super) fn match_request(&self, user: &User, access: &Access<'_>) -> bool {
        self.0.iter().any(|rule| {
            rule.subjects.iter().any(|subject| subject.is(user))
                && match access {
                    Access::Resource { .. } => rule.resource_rules.iter().any(|rule| rule.covers(access)),
                    Access::Path { .. } => rule.non_resource_rules.iter().any(|rule| rule.covers(access)),
                }
        })
    }
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|own| own == ALL || own == word)
}

impl Subject {
    fn is(&self, user: &User) -> bool {
        match self {
            Self::User { user: Name { name } } => name == ALL || *name == user.name,
            Self::Group { group: Name { name } } => name == ALL || user.is_in(name),
            Self::ServiceAccount { account: Account { namespace, name } } => {
                let account = user.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
                account.is_some_and(|(own_namespace, own_name)| {
                    own_namespace == namespace && (name == ALL || own_name == name)
                })
            }
        }
    }
}

impl ResourceRule {
    fn covers(&self, access: &Access<'_>) -> bool {
        let Access::Resource { verb, group, namespace, resource, subresource, .. } = *access else {
            return false;
        };
        let has_resource = match subresource {
            "" => has(&self.resources, resource),
            subresource => has(&self.resources, &format!("{resource}/{subresource}")),
        };
        let has_namespace =
            if namespace.is_empty() { self.cluster_scope } else { has(&self.namespaces, namespace) };
        has(&self.verbs, verb) && has_resource && has(&self.api_groups, group) && has_namespace
    }
}

impl PathRule {
    fn covers(&self, access: &Access<'_>) -> bool {
        let Access::Path { verb, path } = *access else { return false };
        let is_below = |url: &String| {
            // As upstream, with or without a wildcard: a path is about everything below it.
            let parent = url.trim_end_matches(ALL).trim_end_matches('/');
            path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'))
        };
        has(&self.verbs, verb) && self.urls.iter().any(|url| url == ALL || url == path || is_below(url))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(rule: &Value, user: &User, access: &Access<'_>) -> bool {
        Rules::of(&json!({"rules": [rule]})).match_request(user, access)
    }

    const PODS: Access<'_> = Access::Resource {
        verb: "get",
        group: "",
        namespace: "a",
        resource: "pods",
        subresource: "",
        name: "p",
    };

    #[test]
    fn subjects_are_users_groups_and_accounts() {
        let user = User::new("u", ["g"]);
        let account = User::service_account("a", "s", "");
        let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}]);
        let is = |subject: Value, user: &User| {
            matches(&json!({"subjects": [subject], "resourceRules": all}), user, &PODS)
        };
        let subject = |kind: &str, field: &str, name: Value| json!({"kind": kind, field: name});
        for (subject, for_user, for_account) in [
            (subject("User", "user", json!({"name": "u"})), true, false),
            (subject("User", "user", json!({"name": "*"})), true, true),
            (subject("Group", "group", json!({"name": "g"})), true, false),
            (subject("Group", "group", json!({"name": "system:serviceaccounts:a"})), false, true),
            (subject("Group", "group", json!({"name": "*"})), true, true),
            (
                subject("ServiceAccount", "serviceAccount", json!({"namespace": "a", "name": "s"})),
                false,
                true,
            ),
            (
                subject("ServiceAccount", "serviceAccount", json!({"namespace": "a", "name": "*"})),
                false,
                true,
            ),
            (
                subject("ServiceAccount", "serviceAccount", json!({"namespace": "b", "name": "*"})),
                false,
                false,
            ),
            (
                subject("ServiceAccount", "serviceAccount", json!({"namespace": "a", "name": "t"})),
                false,
                false,
            ),
            (json!({"kind": "User"}), false, false),
        ] {
            assert_eq!(
                (is(subject.clone(), &user), is(subject.clone(), &account)),
                (for_user, for_account),
                "{subject}"
            );
        }
        assert!(!matches(&json!({"resourceRules": all}), &user, &PODS), "no subject");
        let subject = json!({"kind": "User", "user": {"name": "u"}, "group": null});
        let nulls = json!({"subjects": [subject], "resourceRules": all, "nonResourceRules": null});
        assert!(matches(&nulls, &user, &PODS));
    }

    #[test]
    fn resources_have_a_scope() {
        let user = User::new("u", ["g"]);
        let covers = |rule: Value, access: &Access<'_>| {
            let subjects = json!([{"kind": "User", "user": {"name": "*"}}]);
            matches(&json!({"subjects": subjects, "resourceRules": [rule]}), &user, access)
        };
        let rule = |resources: Value, namespaces: Value, cluster: bool| {
            json!({
                "verbs": ["get", "list"], "apiGroups": [""], "resources": resources,
                "namespaces": namespaces, "clusterScope": cluster,
            })
        };
        let Access::Resource { verb, group, namespace, resource, name, .. } = PODS else { unreachable!() };
        let logs = Access::Resource { verb, group, namespace, resource, subresource: "log", name };
        let everywhere = Access::Resource { verb, group, namespace: "", resource, subresource: "", name };
        assert!(covers(rule(json!(["pods"]), json!(["a"]), false), &PODS));
        assert!(!covers(rule(json!(["pods"]), json!(["b"]), true), &PODS));
        assert!(!covers(rule(json!(["pods"]), json!(["*"]), false), &logs));
        assert!(covers(rule(json!(["pods/log"]), json!(["*"]), false), &logs));
        assert!(!covers(rule(json!(["*"]), json!(["*"]), false), &everywhere));
        assert!(covers(rule(json!(["*"]), json!([]), true), &everywhere));
        let path = Access::Path { verb, path: "/version" };
        assert!(!covers(rule(json!(["*"]), json!(["*"]), true), &path));
        let deletion = Access::Resource { verb: "delete", group, namespace, resource, subresource: "", name };
        assert!(!covers(rule(json!(["*"]), json!(["*"]), true), &deletion));
        let foreign = Access::Resource { verb, group: "apps", namespace, resource, subresource: "", name };
        assert!(!covers(rule(json!(["*"]), json!(["*"]), true), &foreign));
    }

    #[test]
    fn paths_are_about_what_is_below() {
        let user = User::new("u", ["g"]);
        let asks = |verb: &str, url: &str, path: &str| {
            let rule = json!({
                "subjects": [{"kind": "User", "user": {"name": "*"}}],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": [url]}],
            });
            matches(&rule, &user, &Access::Path { verb, path })
        };
        let covers = |url: &str, path: &str| asks("get", url, path);
        assert!(covers("*", "/version") && covers("/version", "/version") && covers("/apis/*", "/apis/apps"));
        assert!(covers("/apis", "/apis/apps"));
        assert!(!covers("/api", "/apis") && !covers("/version", "/"));
        assert!(!asks("post", "*", "/version"));
    }
}
