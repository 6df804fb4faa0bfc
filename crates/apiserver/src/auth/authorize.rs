//! Authorization: `system:masters` may do everything; all others are authorized by the RBAC objects in the store.
//! [`crate::bootstrap`] creates those that let every user discover.

use std::{fmt, ops::ControlFlow};

use serde_json::Value;

use crate::{
    object,
    rbac::{Access, RBAC, Rule, role},
    status::{ApiError, Result},
    store::{GroupResource, Key, Store, Stored},
    user::{MASTERS, SERVICE_ACCOUNT, User},
};

/// The answer to a question of access.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// What allowed it, or why a binding did not count; may be empty.
    pub(crate) reason: String,
}

/// Decides.
pub(crate) fn decide(store: &Store, user: &User, access: &Access<'_>) -> Decision {
    if user.is_in(MASTERS) {
        return Decision { allowed: true, reason: String::new() };
    }
    let mut reason = None;
    let mut unresolved = Vec::new();
    let _ = visit(store, user, access.namespace(), |grant, rules| match rules {
        Ok(rules) if rules.iter().any(|rule| rule.allows(access)) => {
            reason = Some(format!("RBAC: allowed by {grant}"));
            ControlFlow::Break(())
        }
        Ok(_) => ControlFlow::Continue(()),
        Err(error) => {
            unresolved.push(error);
            ControlFlow::Continue(())
        }
    });
    match reason {
        Some(reason) => Decision { allowed: true, reason },
        None => Decision { allowed: false, reason: aggregate("RBAC: ", &unresolved) },
    }
}

/// Several errors as one text, as Go's aggregate has it.
fn aggregate(head: &str, errors: &[String]) -> String {
    match errors {
        [] => String::new(),
        [one] => format!("{head}{one}"),
        more => format!("{head}[{}]", more.join(", ")),
    }
}

/// All that a user may do in a namespace.
pub(crate) struct Resolution {
    pub(crate) rules: Vec<Rule>,
    /// What could not be found.
    pub(crate) error: String,
}

/// Collects the rules of a user; with no namespace, those that hold everywhere.
pub(crate) fn rules_for(store: &Store, user: &User, namespace: &str) -> Resolution {
    let (mut rules, mut unresolved) = (Vec::new(), Vec::new());
    let _ = visit(store, user, namespace, |_, found| {
        match found {
            Ok(found) => rules.extend(found),
            Err(error) => unresolved.push(error),
        }
        ControlFlow::Continue(())
    });
    Resolution { rules, error: aggregate("", &unresolved) }
}

/// Refuses unless a rule allows it.
pub(crate) fn require(store: &Store, user: &User, access: &Access<'_>) -> Result<()> {
    let decision = decide(store, user, access);
    if decision.allowed {
        return Ok(());
    }
    let mut refusal = refusal(user, access);
    if !decision.reason.is_empty() {
        refusal = format!("{refusal}: {}", decision.reason);
    }
    Err(match access {
        Access::Resource { group, resource, name, .. } => {
            ApiError::forbidden(&GroupResource::new(group, resource), name, &refusal)
        }
        Access::Path { .. } => ApiError::forbidden_path(format!("forbidden: {refusal}")),
    })
}

/// Upstream's sentence.
fn refusal(user: &User, access: &Access<'_>) -> String {
    let user = &user.name;
    let text = match access {
        Access::Path { verb, path } => format!("User {user:?} cannot {verb} path {path:?}"),
        Access::Resource { verb, group, namespace, resource, subresource, .. } => {
            let resource = match *subresource {
                "" => (*resource).to_owned(),
                subresource => format!("{resource}/{subresource}"),
            };
            let scope = match *namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            format!("User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}")
        }
    };
    // Nobody's name becomes markup in a browser.
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A binding that names a user.
struct Grant<'a> {
    binding: &'a Stored,
    subject: &'a Value,
}

impl fmt::Display for Grant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Key { namespace, name, .. } = &self.binding.key;
        let role = |field| object::text(&self.binding.value, &["roleRef", field]);
        let subject = |field| object::text(self.subject, &[field]);
        if namespace.is_empty() {
            write!(f, "ClusterRoleBinding {name:?} of ")?;
        } else {
            write!(f, "RoleBinding {:?} of ", format!("{name}/{namespace}"))?;
        }
        write!(f, "{} {:?} to {} ", role("kind"), role("name"), subject("kind"))?;
        if subject("kind") != "ServiceAccount" {
            return write!(f, "{:?}", subject("name"));
        }
        let own = Some(subject("namespace")).filter(|own| !own.is_empty()).unwrap_or(namespace);
        write!(f, "{:?}", format!("{}/{own}", subject("name")))
    }
}

/// Bindings are found by their subjects: there are two for each machine.
pub(crate) fn index_bindings(store: &Store) {
    for resource in ["clusterrolebindings", "rolebindings"] {
        store.index(&GroupResource::new(RBAC, resource), binding_keys);
    }
}

fn binding_keys(binding: &Stored) -> Vec<String> {
    let subjects = binding.value.get("subjects").and_then(Value::as_array).into_iter().flatten();
    let key = |subject: &Value| {
        let name = object::text(subject, &["name"]);
        match object::text(subject, &["kind"]) {
            "User" => Some(format!("user {name}")),
            "Group" => Some(format!("group {name}")),
            "ServiceAccount" => {
                let own = object::text(subject, &["namespace"]);
                let own = if own.is_empty() { &binding.key.namespace } else { own };
                Some(format!("user {SERVICE_ACCOUNT}{own}:{name}"))
            }
            _ => None,
        }
    };
    subjects.filter_map(key).collect()
}

/// The keys of bindings that may name a user.
fn subject_keys(user: &User) -> Vec<String> {
    let groups = user.groups.iter().map(|group| format!("group {group}"));
    groups.chain([format!("user {}", user.name)]).collect()
}

/// Shows the rules of each binding that names the user, or why there are none, until told to stop.
fn visit(
    store: &Store,
    user: &User,
    namespace: &str,
    mut look: impl FnMut(&Grant<'_>, Result<Vec<Rule>, String>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let scopes = [("clusterrolebindings", None), ("rolebindings", Some(namespace))];
    for (resource, within) in scopes.into_iter().filter(|(_, within)| *within != Some("")) {
        for binding in &store.list_by(&GroupResource::new(RBAC, resource), within, &subject_keys(user)) {
            let Some(subject) = subject(&binding.value, user, within.unwrap_or_default()) else { continue };
            let rules = match role(store, &binding.value, &binding.key.namespace) {
                Some(role) => Ok(Rule::of(&role.value)),
                None => {
                    let reference = |field| object::text(&binding.value, &["roleRef", field]);
                    Err(format!(
                        "{}.{RBAC} {:?} not found",
                        reference("kind").to_lowercase(),
                        reference("name")
                    ))
                }
            };
            look(&Grant { binding, subject }, rules)?;
        }
    }
    ControlFlow::Continue(())
}

/// The subject of a binding that is this user.
fn subject<'a>(binding: &'a Value, user: &User, namespace: &str) -> Option<&'a Value> {
    let subjects = binding.get("subjects").and_then(Value::as_array)?;
    subjects.iter().find(|subject| {
        let name = object::text(subject, &["name"]);
        match object::text(subject, &["kind"]) {
            "User" => user.name == name,
            "Group" => user.is_in(name),
            "ServiceAccount" => {
                let own = object::text(subject, &["namespace"]);
                let own = if own.is_empty() { namespace } else { own };
                let account = user.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
                !own.is_empty() && account == Some((own, name))
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_refusal_is_upstreams() {
        let access = Access::Resource {
            verb: "list",
            group: "apps",
            namespace: "ns",
            resource: "deployments",
            subresource: "",
            name: "",
        };
        assert_eq!(
            refusal(&User::new("jane", ["x"]), &access),
            r#"User "jane" cannot list resource "deployments" in API group "apps" in the namespace "ns""#
        );
        let path = Access::Path { verb: "get", path: "/api" };
        assert_eq!(refusal(&User::anonymous(), &path), r#"User "system:anonymous" cannot get path "/api""#);
    }

    #[test]
    fn bindings_name_users_groups_and_accounts() {
        let account = User::service_account("ns", "a", "1");
        let jane = User::new("jane", ["ops"]);
        let cases = [
            (json!({"kind": "User", "name": "jane"}), &jane, true),
            (json!({"kind": "Group", "name": "ops"}), &jane, true),
            (json!({"kind": "Group", "name": "system:authenticated"}), &jane, true),
            (json!({"kind": "User", "name": "ops"}), &jane, false),
            (json!({"kind": "ServiceAccount", "name": "a"}), &account, true),
            (json!({"kind": "ServiceAccount", "name": "a", "namespace": "other"}), &account, false),
            (json!({"kind": "Group", "name": "system:serviceaccounts:ns"}), &account, true),
            // A name with a colon is no way into another namespace.
            (json!({"kind": "ServiceAccount", "name": "ns:a", "namespace": ""}), &account, false),
        ];
        for (subject, user, expected) in cases {
            let binding = json!({"subjects": [subject]});
            assert_eq!(super::subject(&binding, user, "ns").is_some(), expected, "{binding}");
        }
        let binding = json!({"subjects": [{"kind": "ServiceAccount", "name": "a"}]});
        assert!(subject(&binding, &account, "").is_none(), "bound everywhere, it needs its namespace");
    }
}
