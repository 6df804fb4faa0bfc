//! Whether a webhook or a policy is about a write, and in which version.

use capstan_apiserver_schema::admission::Objects;
use serde_json::Value;

use super::{
    Attempt, access,
    review::{Asked, gvk_of},
};
use crate::{
    call::Call,
    match_criteria::{Criteria, Rule},
    object,
    registry::webhook::configuration::Hook,
    selector::LabelSelector,
    status::{ApiError, Result},
    store::GroupResource,
};

/// The version in which a webhook is asked about a write; nothing if it is not asked.
pub(super) fn version(
    call: &Call,
    attempt: &Attempt<'_>,
    hook: &Hook,
    object: Option<&Value>,
) -> Result<Option<String>> {
    let Some(version) = meets(call, attempt, &hook.criteria, object)? else { return Ok(None) };
    Ok(meets_conditions(call, attempt, hook, &version, object)?.then_some(version))
}

/// The version in which a write meets criteria; nothing if it does not.
pub(super) fn meets(
    call: &Call,
    attempt: &Attempt<'_>,
    criteria: &Criteria,
    object: Option<&Value>,
) -> Result<Option<String>> {
    let version = if criteria.everything {
        Some(call.version.name.clone())
    } else {
        ruled(call, attempt, &criteria.rules, criteria.equivalent)
    };
    let Some(version) = version else { return Ok(None) };
    if ruled(call, attempt, &criteria.excluded, criteria.equivalent).is_some() {
        return Ok(None);
    }
    let objects = [object, attempt.old];
    let selected = objects.into_iter().flatten().any(|object| criteria.objects.matches(object));
    let is_met = selected && is_in_namespaces(call, attempt, &criteria.namespaces, object)?;
    Ok(is_met.then_some(version))
}

/// The version that a rule names: the request's own if it can be.
fn ruled(call: &Call, attempt: &Attempt<'_>, rules: &[Rule], equivalent: bool) -> Option<String> {
    if rules.is_empty() {
        return None;
    }
    let own = std::iter::once(call.version.name.as_str());
    let others = call.resource.versions.iter().map(|version| version.name.as_str());
    let versions = own.chain(others.filter(|_| equivalent));
    let subresource = call.side.subresource();
    let (group, resource) = (call.resource.name.group(), call.resource.name.resource());
    for version in versions {
        let asked = Request {
            operation: attempt.operation.as_str(),
            group,
            version,
            resource,
            subresource,
            name: attempt.name,
            namespaced: call.resource.namespaced,
        };
        if rules.iter().any(|rule| asked.is_meant_by(rule)) {
            return Some(version.to_owned());
        }
    }
    None
}

struct Request<'a> {
    operation: &'a str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    name: &'a str,
    namespaced: bool,
}

impl Request<'_> {
    fn is_meant_by(&self, rule: &Rule) -> bool {
        let named = |names: &[String], own: &str| names.iter().any(|name| name == "*" || name == own);
        let scope = match rule.scope.as_str() {
            "Namespaced" => self.namespaced,
            "Cluster" => !self.namespaced,
            _ => true,
        };
        let resource = |name: &String| {
            let (resource, subresource) = name.split_once('/').unwrap_or((name, ""));
            (resource == "*" || resource == self.resource)
                && (subresource == "*" || subresource == self.subresource)
        };
        scope
            && named(&rule.operations, self.operation)
            && named(&rule.groups, self.group)
            && named(&rule.versions, self.version)
            && rule.resources.iter().any(resource)
            && (rule.names.is_empty() || rule.names.iter().any(|name| name == self.name))
    }
}

/// Whether the object's namespace is one the webhook cares for. A namespace is in itself; what is in none is
/// everybody's.
fn is_in_namespaces(
    call: &Call,
    attempt: &Attempt<'_>,
    selector: &LabelSelector,
    object: Option<&Value>,
) -> Result<bool> {
    if selector.is_empty() {
        return Ok(true);
    }
    let namespaces = GroupResource::new("", "namespaces");
    if call.resource.name == namespaces {
        let object = object.or(attempt.old);
        return Ok(object.is_none_or(|namespace| selector.matches(namespace)));
    }
    if call.namespace.is_empty() {
        return Ok(true);
    }
    let namespace = call.plane.namespace(&call.namespace);
    let namespace = namespace.ok_or_else(|| ApiError::not_found(&namespaces, &call.namespace))?;
    Ok(selector.matches(&namespace.value))
}

/// Whether all conditions hold. One that is false counts more than one that cannot be evaluated.
fn meets_conditions(
    call: &Call,
    attempt: &Attempt<'_>,
    hook: &Hook,
    version: &str,
    object: Option<&Value>,
) -> Result<bool> {
    if hook.conditions.is_empty() {
        return Ok(true);
    }
    let request = request(call, attempt, version);
    let objects = Objects {
        object,
        old: attempt.old,
        request: Some(&request),
        namespace: None,
        authorizer: Some(access::authorizer(call)),
    };
    let mut failed = None;
    for (name, condition) in &hook.conditions {
        match condition.holds(&objects) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(reason) => failed = failed.or(Some(format!("match condition {name:?}: {reason}"))),
        }
    }
    match failed {
        None => Ok(true),
        Some(_) if hook.ignored => Ok(false),
        Some(reason) => {
            let detail = format!("{}: {reason}", gvk_of(object.or(attempt.old)));
            Err(ApiError::forbidden(&call.resource.name, object.map_or("", object::name), &detail))
        }
    }
}

/// The request as expressions see it.
pub(super) fn request(call: &Call, attempt: &Attempt<'_>, version: &str) -> Value {
    let asked = Asked { call, attempt, version, review: "v1", uid: "" };
    let mut request = asked.review(None, None)["request"].take();
    for field in ["object", "oldObject", "uid"] {
        request.as_object_mut().map(|request| request.shift_remove(field));
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_what_they_mean() {
        let rule = |resources: &[&str], scope: &str| Rule {
            operations: vec!["CREATE".to_owned()],
            groups: vec!["g".to_owned()],
            versions: vec!["*".to_owned()],
            resources: resources.iter().map(|resource| (*resource).to_owned()).collect(),
            scope: scope.to_owned(),
            names: Vec::new(),
        };
        let request = |subresource: &'static str, operation: &'static str| Request {
            operation,
            group: "g",
            version: "v1",
            resource: "things",
            subresource,
            name: "a",
            namespaced: true,
        };
        let cases: [(&[&str], &str, &str, &str, bool); 9] = [
            (&["things"], "*", "", "CREATE", true),
            (&["things"], "*", "", "UPDATE", false),
            (&["things"], "*", "status", "CREATE", false),
            (&["things/status"], "*", "status", "CREATE", true),
            (&["*/status"], "", "status", "CREATE", true),
            (&["*/*"], "", "", "CREATE", true),
            (&["*"], "", "status", "CREATE", false),
            (&["things"], "Cluster", "", "CREATE", false),
            (&["others", "things"], "Namespaced", "", "CREATE", true),
        ];
        for (resources, scope, subresource, operation, meant) in cases {
            let found = request(subresource, operation).is_meant_by(&rule(resources, scope));
            assert_eq!(found, meant, "{resources:?} {scope} {subresource} {operation}");
        }
        for (name, meant) in [("a", true), ("b", false)] {
            let rule = Rule { names: vec![name.to_owned()], ..rule(&["things"], "*") };
            assert_eq!(request("", "CREATE").is_meant_by(&rule), meant, "{name}");
        }
    }
}
