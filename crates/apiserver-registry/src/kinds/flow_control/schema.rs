//! The rules of FlowSchemas.

use serde_json::{Value, json};

use super::{EXEMPT, LAST_PRECEDENCE};
use crate::{
    match_criteria::items,
    names::{NameRule, name_error},
    object,
    status::Cause,
};

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The kinds of subjects, and the fields that say which one.
const SUBJECTS: [(&str, &str); 3] =
    [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

pub(super) fn invalid_schema(name: &str, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let precedence = spec.get("matchingPrecedence").unwrap_or(&Value::Null);
    let mut refuse =
        |detail: &str| causes.push(Cause::invalid("spec.matchingPrecedence", precedence, detail));
    match precedence.as_i64().unwrap_or(0) {
        ..=0 => refuse("must be a positive value"),
        1 if name != EXEMPT => refuse("only the schema named 'exempt' may have matchingPrecedence 1"),
        number if number > LAST_PRECEDENCE => refuse("must not be greater than 10000"),
        _ => {}
    }
    if let Some(method) = spec.get("distinguisherMethod").filter(|method| !method.is_null())
        && !matches!(object::text(method, &["type"]), "ByNamespace" | "ByUser")
    {
        let given = method.get("type").unwrap_or(&Value::Null);
        let supported = ["ByNamespace", "ByUser"];
        causes.push(Cause::unsupported("spec.distinguisherMethod.type", given, &supported));
    }
    let at = "spec.priorityLevelConfiguration.name";
    match object::text(spec, &["priorityLevelConfiguration", "name"]) {
        "" => causes.push(Cause::required(at, "must reference a priority level")),
        level => {
            let detail = name_error(NameRule::Subdomain, level);
            causes.extend(detail.map(|detail| Cause::invalid(at, &level.into(), detail)));
        }
    }
    for (index, rule) in items(spec, "rules").iter().enumerate() {
        causes.extend(invalid_rule(rule, &format!("spec.rules[{index}]")));
    }
    causes
}

fn invalid_rule(rule: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let subjects = items(rule, "subjects");
    if subjects.is_empty() {
        let detail = "subjects must contain at least one value";
        causes.push(Cause::required(format!("{at}.subjects"), detail));
    }
    for (index, subject) in subjects.iter().enumerate() {
        causes.extend(invalid_subject(subject, &format!("{at}.subjects[{index}]")));
    }
    let (resources, paths) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resources.is_empty() && paths.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        causes.push(Cause::required(at, detail));
    }
    for (index, rule) in resources.iter().enumerate() {
        causes.extend(invalid_resource_rule(rule, &format!("{at}.resourceRules[{index}]")));
    }
    for (index, rule) in paths.iter().enumerate() {
        let at = format!("{at}.nonResourceRules[{index}]");
        causes.extend(invalid_verbs(rule, &at));
        let needed = "nonResourceURLs must contain at least one value";
        causes.extend(invalid_words(rule, &at, "nonResourceURLs", "non-resource URLs", needed));
        for (index, path) in items(rule, "nonResourceURLs").iter().enumerate() {
            let detail = invalid_path(path.as_str().unwrap_or_default());
            causes.extend(
                detail.map(|detail| Cause::invalid(format!("{at}.nonResourceURLs[{index}]"), path, detail)),
            );
        }
    }
    causes
}

fn invalid_subject(subject: &Value, at: &str) -> Vec<Cause> {
    let kind = subject.get("kind").unwrap_or(&Value::Null);
    let Some((kind, own)) = SUBJECTS.into_iter().find(|(known, _)| kind == known) else {
        let supported = SUBJECTS.map(|(kind, _)| kind);
        return vec![Cause::unsupported(format!("{at}.kind"), kind, &supported)];
    };
    let is_set = |field: &str| subject.get(field).is_some_and(|value| !value.is_null());
    let mut causes = Vec::new();
    if is_set(own) {
        let text = |field: &str| object::text(subject, &[own, field]);
        if text("name").is_empty() {
            causes.push(Cause::required(format!("{at}.{own}.name"), ""));
        }
        if own == "serviceAccount" {
            let mut check = |field: &str, rule: NameRule| {
                let detail = name_error(rule, text(field)).filter(|_| !matches!(text(field), "" | "*"));
                let refuse =
                    |detail| Cause::invalid(format!("{at}.{own}.{field}"), &text(field).into(), detail);
                causes.extend(detail.map(refuse));
            };
            check("name", NameRule::Subdomain);
            check("namespace", NameRule::Label);
            if text("namespace").is_empty() {
                let detail = "must specify namespace for service account";
                causes.push(Cause::required(format!("{at}.{own}.namespace"), detail));
            }
        }
    } else {
        let detail = format!("{own} is required when subject kind is '{kind}'");
        causes.push(Cause::required(format!("{at}.{own}"), &detail));
    }
    for (other, field) in SUBJECTS.into_iter().filter(|(other, field)| *other != kind && is_set(field)) {
        let detail = format!("{field} is forbidden when subject kind is not '{other}'");
        causes.push(Cause::forbidden(format!("{at}.{field}"), &detail));
    }
    causes
}

fn invalid_verbs(rule: &Value, at: &str) -> Vec<Cause> {
    let needed = "verbs must contain at least one value";
    let mut causes: Vec<Cause> = invalid_words(rule, at, "verbs", "verbs", needed).into_iter().collect();
    let verbs = items(rule, "verbs");
    let is_known = |verb: &Value| verb.as_str().is_some_and(|verb| VERBS.contains(&verb));
    if !has_all(verbs) && !verbs.iter().all(is_known) {
        causes.push(Cause::unsupported(format!("{at}.verbs"), &json!(verbs), &VERBS));
    }
    causes
}

fn invalid_resource_rule(rule: &Value, at: &str) -> Vec<Cause> {
    let mut causes = invalid_verbs(rule, at);
    for (field, others, needed) in [
        ("apiGroups", "api groups", "resource rules must supply at least one api group"),
        ("resources", "resources", "resource rules must supply at least one resource"),
    ] {
        causes.extend(invalid_words(rule, at, field, others, needed));
    }
    let namespaces = items(rule, "namespaces");
    if namespaces.is_empty() && rule.get("clusterScope") == Some(&Value::Bool(true)) {
        return causes;
    }
    let needed = "resource rules that are not cluster scoped must supply at least one namespace";
    causes.extend(invalid_words(rule, at, "namespaces", "namespaces", needed));
    if !has_all(namespaces) {
        for (index, namespace) in namespaces.iter().enumerate() {
            let detail = name_error(NameRule::Label, namespace.as_str().unwrap_or_default());
            causes.extend(detail.map(|detail| {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {detail}");
                Cause::invalid(format!("{at}.namespaces[{index}]"), namespace, &detail)
            }));
        }
    }
    causes
}

fn has_all(words: &[Value]) -> bool {
    words.iter().any(|word| word == "*")
}

/// What is wrong with a list that must not be empty, and with `*` beside others in it.
fn invalid_words(rule: &Value, at: &str, field: &str, others: &str, needed: &str) -> Option<Cause> {
    let words = items(rule, field);
    let at = format!("{at}.{field}");
    match words {
        [] => Some(Cause::required(at, needed)),
        [_, _, ..] if has_all(words) => {
            let detail = format!("if '*' is present, must not specify other {others}");
            Some(Cause::invalid(at, &json!(words), &detail))
        }
        _ => None,
    }
}

fn invalid_path(path: &str) -> Option<&'static str> {
    let has_inner_wildcard = path.strip_suffix("/*").unwrap_or(path).contains('*');
    match path {
        "*" | "/" => None,
        "" => Some("must not be empty"),
        path if !path.starts_with('/') => Some("must start with slash"),
        path if path.contains(' ') => Some("must not contain white-space"),
        path if path.contains("//") => Some("must not contain double slash"),
        _ if has_inner_wildcard => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::FLOW_SCHEMA, *};

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn schemas_are_defaulted_and_validated() {
        let mut schema =
            json!({"metadata": {"name": "f"}, "spec": {"priorityLevelConfiguration": {"name": "p"}}});
        (FLOW_SCHEMA.default)(&mut schema);
        assert_eq!(schema["spec"]["matchingPrecedence"], 1000);
        assert_eq!((FLOW_SCHEMA.validate)(&schema, None), []);
        let spec = |rule: Value| {
            json!({
                "matchingPrecedence": 2, "priorityLevelConfiguration": {"name": "p"}, "rules": [rule],
            })
        };
        let user = json!({"kind": "User", "user": {"name": "u"}});
        let all = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
        let good = json!({"subjects": [user], "nonResourceRules": [all]});
        assert_eq!(invalid_schema("f", &spec(good)), []);
        for (rule, expected) in [
            (json!({}), &["subjects", ""][..]),
            (json!({"subjects": [{"kind": "Robot"}], "nonResourceRules": [all]}), &["subjects[0].kind"]),
            (
                json!({"subjects": [{"kind": "User", "group": {"name": "g"}}], "nonResourceRules": [all]}),
                &["subjects[0].user", "subjects[0].group"],
            ),
            (
                json!({"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "A"}}], "nonResourceRules": [all]}),
                &["subjects[0].serviceAccount.name", "subjects[0].serviceAccount.namespace"],
            ),
            (
                json!({"subjects": [user], "nonResourceRules": [{"verbs": ["*", "get"], "nonResourceURLs": ["a", "/b*"]}]}),
                &[
                    "nonResourceRules[0].verbs",
                    "nonResourceRules[0].nonResourceURLs[0]",
                    "nonResourceRules[0].nonResourceURLs[1]",
                ],
            ),
            (
                json!({"subjects": [user], "resourceRules": [{"verbs": ["fly"], "apiGroups": [], "resources": ["*", "x"]}]}),
                &[
                    "resourceRules[0].verbs",
                    "resourceRules[0].apiGroups",
                    "resourceRules[0].resources",
                    "resourceRules[0].namespaces",
                ],
            ),
        ] {
            let expected: Vec<String> = expected
                .iter()
                .map(|field| format!("spec.rules[0].{field}").trim_end_matches('.').to_owned())
                .collect();
            assert_eq!(fields(&invalid_schema("f", &spec(rule.clone()))), expected, "{rule}");
        }
        let bad = json!({"matchingPrecedence": 10_001, "distinguisherMethod": {"type": "x"}});
        assert_eq!(
            fields(&invalid_schema("f", &bad)),
            [
                "spec.matchingPrecedence",
                "spec.distinguisherMethod.type",
                "spec.priorityLevelConfiguration.name",
            ]
        );
    }
}
