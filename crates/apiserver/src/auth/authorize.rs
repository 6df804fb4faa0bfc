//! Whether a user may: `system:masters` may do everything, everybody may discover, all others are judged
//! by the RBAC objects in the store.

use serde_json::Value;

use super::{AUTHENTICATED, MASTERS, User};
use crate::{
    object,
    request::ResourceRequest,
    status::{ApiError, Result},
    store::{GroupResource, Key, Store},
};

const RBAC: &str = "rbac.authorization.k8s.io";

/// What everybody who has proved to be somebody may read.
const DISCOVERY: [&str; 7] = ["/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version"];
/// What anybody may read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Refuses a request for objects unless a rule allows it.
pub(crate) fn resource(store: &Store, user: &User, request: &ResourceRequest) -> Result<()> {
    if user.is_in(MASTERS) || allowed(store, user, &request.namespace, |rule| covers(rule, request)) {
        return Ok(());
    }
    let resource = GroupResource::new(&request.group, &request.resource);
    Err(ApiError::forbidden(&resource, &request.name, &refusal(user, request)))
}

/// Refuses a request for a path unless a rule allows it.
pub(crate) fn path(store: &Store, user: &User, method: &str, path: &str) -> Result<()> {
    let read = matches!(method, "GET" | "HEAD");
    let under = |roots: &[&str]| {
        read && roots
            .iter()
            .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    let verb = method.to_lowercase();
    if user.is_in(MASTERS) || under(&PUBLIC) || (user.is_in(AUTHENTICATED) && under(&DISCOVERY)) {
        return Ok(());
    }
    let covers = |rule: &Value| {
        let matches =
            |url: &str| url == path || url.strip_suffix('*').is_some_and(|start| path.starts_with(start));
        holds(rule, "verbs", |word| word == verb) && holds(rule, "nonResourceURLs", matches)
    };
    if allowed(store, user, "", covers) {
        return Ok(());
    }
    Err(ApiError::forbidden_path(format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name)))
}

/// Upstream's sentence.
fn refusal(user: &User, request: &ResourceRequest) -> String {
    let resource = match request.subresource.as_str() {
        "" => request.resource.clone(),
        subresource => format!("{}/{subresource}", request.resource),
    };
    let scope = match request.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let (name, verb, group) = (&user.name, request.verb.as_str(), &request.group);
    format!("User {name:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}")
}

/// Whether a rule of a role bound to the user covers the request.
fn allowed(store: &Store, user: &User, namespace: &str, covers: impl Fn(&Value) -> bool) -> bool {
    let bound = |resource: &str, within: Option<&str>| {
        let bindings = store.list(&GroupResource::new(RBAC, resource), within).items;
        bindings.iter().any(|binding| {
            names(&binding.value, user, namespace)
                && role(store, &binding.value, &binding.key.namespace)
                    .is_some_and(|role| rules(&role.value).iter().any(&covers))
        })
    };
    bound("clusterrolebindings", None) || (!namespace.is_empty() && bound("rolebindings", Some(namespace)))
}

fn role(store: &Store, binding: &Value, namespace: &str) -> Option<std::sync::Arc<crate::store::Stored>> {
    let name = object::text(binding, &["roleRef", "name"]);
    let (resource, namespace) = match object::text(binding, &["roleRef", "kind"]) {
        "Role" => ("roles", namespace),
        "ClusterRole" => ("clusterroles", ""),
        _ => return None,
    };
    store.get(&Key::new(GroupResource::new(RBAC, resource), namespace, name))
}

fn rules(role: &Value) -> &[Value] {
    role.get("rules").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn names(binding: &Value, user: &User, namespace: &str) -> bool {
    let subjects = binding.get("subjects").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    subjects.iter().any(|subject| {
        let name = object::text(subject, &["name"]);
        match object::text(subject, &["kind"]) {
            "User" => user.name == name,
            "Group" => user.is_in(name),
            "ServiceAccount" => {
                let own = object::text(subject, &["namespace"]);
                let own = if own.is_empty() { namespace } else { own };
                user.name == format!("system:serviceaccount:{own}:{name}")
            }
            _ => false,
        }
    })
}

fn covers(rule: &Value, request: &ResourceRequest) -> bool {
    let resource = match request.subresource.as_str() {
        "" => request.resource.clone(),
        subresource => format!("{}/{subresource}", request.resource),
    };
    let named = rule.get("resourceNames").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
    let any_with_subresource = format!("*/{}", request.subresource);
    holds(rule, "verbs", |word| word == request.verb.as_str())
        && holds(rule, "apiGroups", |group| group == request.group)
        && holds(rule, "resources", |word| {
            word == resource || (!request.subresource.is_empty() && word == any_with_subresource)
        })
        && (!named || holds(rule, "resourceNames", |name| name == request.name))
}

/// Whether one of the rule's words fits, `*` fitting always.
fn holds(rule: &Value, field: &str, fits: impl Fn(&str) -> bool) -> bool {
    let words = rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    words.into_iter().any(|word| (word == "*" && field != "resourceNames") || fits(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::request::Verb;

    fn request(verb: Verb, resource: &str, name: &str, subresource: &str) -> ResourceRequest {
        ResourceRequest {
            verb,
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            namespace: "ns".to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    #[test]
    fn rules_cover_what_they_say() {
        let rule = json!({"verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments", "*/scale"]});
        assert!(covers(&rule, &request(Verb::Get, "deployments", "a", "")));
        assert!(covers(&rule, &request(Verb::Get, "daemonsets", "a", "scale")));
        assert!(!covers(&rule, &request(Verb::Get, "deployments", "a", "status")));
        assert!(!covers(&rule, &request(Verb::List, "deployments", "", "")));
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": ["a"]});
        assert!(covers(&all, &request(Verb::Delete, "deployments", "a", "")));
        assert!(!covers(&all, &request(Verb::Delete, "deployments", "b", "")));
    }

    #[test]
    fn the_refusal_is_upstreams() {
        let stranger = User::new("jane", ["x"]);
        let text = refusal(&stranger, &request(Verb::List, "deployments", "", ""));
        assert_eq!(
            text,
            r#"User "jane" cannot list resource "deployments" in API group "apps" in the namespace "ns""#
        );
    }
}
