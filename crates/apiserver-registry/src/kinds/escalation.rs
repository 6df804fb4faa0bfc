//! Privilege escalation: a user cannot write roles and bindings with more rights than they have, unless the verbs
//! `escalate` and `bind` were granted.

use serde_json::Value;

use super::super::Writer;
use crate::{
    object,
    rbac::{self, Access, RBAC, Rule, go_list},
    status::{ApiError, Result},
    user::MASTERS,
};

/// Refuses a role that holds more than its writer.
pub(crate) fn role(writer: &Writer<'_>, role: &Value, old: Option<&Value>) -> Result<()> {
    if writer.user.is_in(MASTERS) || is_only_for_the_collector(role, old) {
        return Ok(());
    }
    let resource = writer.resource.resource();
    if may(writer, "escalate", resource, writer.name) {
        return Ok(());
    }
    check(writer, role, &Rule::of(role))?;
    let aggregates = |role: &Value| {
        let selectors = object::at(role, &["aggregationRule", "clusterRoleSelectors"]);
        selectors.and_then(Value::as_array).is_some_and(|selectors| !selectors.is_empty())
    };
    // What gathers rules may come to hold anything.
    if (aggregates(role) || old.is_some_and(aggregates)) && !missing(writer, &everything()).is_empty() {
        let detail = "must have cluster-admin privileges to use the aggregationRule";
        return Err(ApiError::forbidden(writer.resource, object::name(role), detail));
    }
    Ok(())
}

/// Refuses a binding to a role that holds more than whoever binds it.
pub(crate) fn binding(writer: &Writer<'_>, binding: &Value, old: Option<&Value>) -> Result<()> {
    if writer.user.is_in(MASTERS) || is_only_for_the_collector(binding, old) {
        return Ok(());
    }
    let (kind, name) =
        (object::text(binding, &["roleRef", "kind"]), object::text(binding, &["roleRef", "name"]));
    let resource = match kind {
        "Role" => "roles",
        "ClusterRole" => "clusterroles",
        _ => return Err(ApiError::unexplained(format!("unsupported role reference kind: {kind:?}"))),
    };
    if may(writer, "bind", resource, name) {
        return Ok(());
    }
    let role = rbac::role(writer.store, binding, writer.namespace);
    // The name of the role with the resource of the binding, as upstream.
    let role = role.ok_or_else(|| ApiError::not_found(writer.resource, name))?;
    check(writer, binding, &Rule::of(&role.value))
}

/// Owners and finalizers may be changed by whoever may write the object.
fn is_only_for_the_collector(new: &Value, old: Option<&Value>) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            object::metadata_mut(&mut object).shift_remove(field);
        }
        object
    };
    old.is_some_and(|old| rest(old) == rest(new))
}

fn may(writer: &Writer<'_>, verb: &str, resource: &str, name: &str) -> bool {
    let access =
        Access::Resource { verb, group: RBAC, namespace: writer.namespace, resource, subresource: "", name };
    writer.authorizer.allows(&access)
}

fn everything() -> Vec<Rule> {
    let all = || vec!["*".to_owned()];
    vec![
        Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() },
    ]
}

fn missing(writer: &Writer<'_>, wanted: &[Rule]) -> Vec<Rule> {
    uncovered(&writer.authorizer.rules(writer.namespace), wanted)
}

fn check(writer: &Writer<'_>, object: &Value, wanted: &[Rule]) -> Result<()> {
    let missing = missing(writer, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = compact(missing).iter().map(Rule::describe).collect();
    lines.sort();
    lines.dedup();
    let (user, groups) = (&writer.user.name, go_list(&writer.user.groups));
    let detail = format!(
        "user {user:?} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
        lines.join("\n")
    );
    Err(ApiError::forbidden(writer.resource, object::name(object), &detail))
}

/// The atoms of what is wanted that nothing held covers.
fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let atoms = wanted.iter().flat_map(Rule::atoms);
    atoms.filter(|atom| !held.iter().any(|rule| rule.covers(atom))).collect()
}

/// Atoms that differ in their verb only become one rule.
fn compact(atoms: Vec<Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for atom in atoms {
        let same = |rule: &&mut Rule| Rule { verbs: atom.verbs.clone(), ..(**rule).clone() } == atom;
        match rules.iter_mut().find(same) {
            Some(rule) if atom.non_resource_urls.is_empty() => rule.verbs.extend(atom.verbs),
            _ => rules.push(atom),
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(value: &Value) -> Vec<Rule> {
        Rule::of(&json!({"rules": value}))
    }

    #[test]
    fn what_is_missing_is_named() {
        let held = rules(&json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]));
        let wanted = rules(&json!([
            {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods", "secrets"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["a"]},
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
        ]));
        let lines: Vec<String> = compact(uncovered(&held, &wanted)).iter().map(Rule::describe).collect();
        assert_eq!(
            lines,
            [
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
                r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
                r#"{APIGroups:[""], Resources:["nodes"], ResourceNames:["a"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#,
            ]
        );
        assert!(uncovered(&everything(), &wanted).is_empty());
    }

    #[test]
    fn owners_may_change() {
        let old = json!({"metadata": {"name": "a"}, "rules": []});
        let owned = json!({"metadata": {"name": "a", "ownerReferences": [{}]}, "rules": []});
        assert!(is_only_for_the_collector(&owned, Some(&old)));
        assert!(!is_only_for_the_collector(&json!({"metadata": {"name": "a"}, "rules": [{}]}), Some(&old)));
        assert!(!is_only_for_the_collector(&old, None));
    }
}
