//! FlowSchemas and PriorityLevelConfigurations. They are only stored: this server limits each client by itself
//! (`crate::limits`), and no request is classified by them.

use serde_json::{Value, json};

use super::{super::Rules, core::default_to};
use crate::{
    auth::{AUTHENTICATED, MASTERS, UNAUTHENTICATED},
    match_criteria::items,
    names::{NameRule, name_error},
    object,
    status::Cause,
};

pub(crate) const GROUP: &str = "flowcontrol.apiserver.k8s.io";
pub(crate) const FLOW_SCHEMAS: &str = "flowschemas";
pub(crate) const PRIORITY_LEVELS: &str = "prioritylevelconfigurations";

const EXEMPT: &str = "exempt";
const CATCH_ALL: &str = "catch-all";
const LAST_PRECEDENCE: i64 = 10_000;
const MOST_QUEUES: i64 = 10_000_000;
/// Bits of the hash by which upstream deals queues to flows.
const HASH_BITS: f64 = 60.0;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// The kinds of subjects, and the fields that say which one.
const SUBJECTS: [(&str, &str); 3] =
    [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];

pub(crate) const FLOW_SCHEMA: Rules = Rules {
    default: |schema| {
        if let Some(spec) = schema.get_mut("spec").filter(|spec| spec.is_object()) {
            default_number(spec, "matchingPrecedence", 1000);
        }
    },
    validate: |schema, _| {
        let (name, spec) = (object::name(schema), schema.get("spec").unwrap_or(&Value::Null));
        let mut causes = invalid_schema(name, spec);
        let is_fixed = |(fixed, _): &(&str, Value)| *fixed == name;
        if mandatory_schemas().into_iter().find(is_fixed).is_some_and(|(_, fixed)| fixed != *spec) {
            let detail = format!("spec of '{name}' must equal the fixed value");
            causes.push(Cause::invalid("spec", spec, &detail));
        }
        causes
    },
    validate_status: |schema, _| invalid_conditions(schema),
    reset_status: &["metadata", "spec"],
    ..LEVEL
};

pub(crate) const PRIORITY_LEVEL: Rules = Rules {
    validate: |level, _| {
        let (name, spec) = (object::name(level), level.get("spec").unwrap_or(&Value::Null));
        let mut causes = invalid_level(name, spec);
        causes.extend(changed_level(name, spec));
        causes
    },
    ..LEVEL
};

const LEVEL: Rules = Rules {
    default: default_level,
    on_create: |object, _| object["status"] = json!({}),
    validate_status: |level, _| invalid_conditions(level),
    reset_status: &["metadata", "spec"],
    blank: || json!({"spec": {}, "status": {}}),
    generation: true,
    ..Rules::PLAIN
};

/// Specs of the FlowSchemas that every cluster has.
pub(crate) fn mandatory_schemas() -> [(&'static str, Value); 2] {
    let rules = |groups: &[&str]| {
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect();
        json!([{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    let exempt = json!({
        "priorityLevelConfiguration": {"name": EXEMPT}, "matchingPrecedence": 1, "rules": rules(&[MASTERS]),
    });
    let rest = json!({
        "priorityLevelConfiguration": {"name": CATCH_ALL}, "matchingPrecedence": LAST_PRECEDENCE,
        "distinguisherMethod": {"type": "ByUser"}, "rules": rules(&[UNAUTHENTICATED, AUTHENTICATED]),
    });
    [(EXEMPT, exempt), (CATCH_ALL, rest)]
}

/// Specs of the PriorityLevelConfigurations that every cluster has.
pub(crate) fn mandatory_levels() -> [(&'static str, Value); 2] {
    let exempt = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}});
    let limited =
        json!({"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}, "lendablePercent": 0});
    [(EXEMPT, exempt), (CATCH_ALL, json!({"type": "Limited", "limited": limited}))]
}

/// 0 means that it is not set.
fn default_number(value: &mut Value, field: &str, default: i64) {
    if value.get(field).is_none_or(|number| number.is_null() || *number == 0) {
        value[field] = default.into();
    }
}

fn default_level(level: &mut Value) {
    for (part, shares) in [("exempt", 0), ("limited", 30)] {
        let part = level.get_mut("spec").and_then(|spec| spec.get_mut(part)).filter(|part| part.is_object());
        if let Some(part) = part {
            default_to(part, "nominalConcurrencyShares", shares.into());
            default_to(part, "lendablePercent", 0.into());
        }
    }
    let queuing = level.pointer_mut("/spec/limited/limitResponse/queuing").filter(|it| it.is_object());
    if let Some(queuing) = queuing {
        for (field, default) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
            default_number(queuing, field, default);
        }
    }
}

fn invalid_schema(name: &str, spec: &Value) -> Vec<Cause> {
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

fn invalid_level(name: &str, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let kind = spec.get("type").unwrap_or(&Value::Null);
    if (name == EXEMPT) != (kind == "Exempt") {
        causes.push(Cause::invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'"));
    }
    let part = |field: &str| spec.get(field).filter(|part| !part.is_null());
    match (kind.as_str().unwrap_or_default(), part("exempt"), part("limited")) {
        ("Exempt", exempt, limited) => {
            let detail = "must be nil if the type is not Limited";
            causes.extend(limited.map(|_| Cause::forbidden("spec.limited", detail)));
            causes.extend(exempt.into_iter().flat_map(|exempt| invalid_shares(exempt, "spec.exempt")));
        }
        ("Limited", exempt, limited) => {
            let detail = "must be nil if the type is Limited";
            causes.extend(exempt.map(|_| Cause::forbidden("spec.exempt", detail)));
            match limited {
                Some(limited) => causes.extend(invalid_limited(limited)),
                None => {
                    let detail = "must not be empty when type is Limited";
                    causes.push(Cause::required("spec.limited", detail));
                }
            }
        }
        ("", ..) => causes.push(Cause::required("spec.type", "")),
        _ => causes.push(Cause::unsupported("spec.type", kind, &["Exempt", "Limited"])),
    }
    causes
}

/// The mandatory levels stay as they are, but for the shares of the exempt one.
fn changed_level(name: &str, spec: &Value) -> Option<Cause> {
    let (_, fixed) = mandatory_levels().into_iter().find(|(mandatory, _)| *mandatory == name)?;
    if name != EXEMPT {
        let detail = format!("spec of '{name}' must equal the fixed value");
        return (fixed != *spec).then(|| Cause::invalid("spec", spec, &detail));
    }
    let is_changed =
        spec.get("type") != fixed.get("type") || spec.get("limited").is_some_and(|it| !it.is_null());
    let detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value";
    is_changed.then(|| Cause::invalid("spec", spec, detail))
}

fn number(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

fn invalid_shares(part: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let field = "nominalConcurrencyShares";
    if let Some(shares) = number(part, field).filter(|shares| *shares < 0) {
        causes.push(Cause::invalid(
            format!("{at}.{field}"),
            &shares.into(),
            "must be a non-negative integer",
        ));
    }
    if let Some(percent) = number(part, "lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        let detail = "must be between 0 and 100, inclusive";
        causes.push(Cause::invalid(format!("{at}.lendablePercent"), &percent.into(), detail));
    }
    causes
}

fn invalid_limited(limited: &Value) -> Vec<Cause> {
    let at = "spec.limited.limitResponse";
    let mut causes = invalid_shares(limited, "spec.limited");
    let response = limited.get("limitResponse").unwrap_or(&Value::Null);
    let queuing = response.get("queuing").filter(|queuing| !queuing.is_null());
    match (object::text(response, &["type"]), queuing) {
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            causes.push(Cause::forbidden(format!("{at}.queuing"), detail));
        }
        ("Reject", None) => {}
        ("Queue", Some(queuing)) => causes.extend(invalid_queues(queuing, &format!("{at}.queuing"))),
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            causes.push(Cause::required(format!("{at}.queuing"), detail));
        }
        ("", _) => causes.push(Cause::required(format!("{at}.type"), "")),
        (kind, _) => {
            causes.push(Cause::unsupported(format!("{at}.type"), &kind.into(), &["Queue", "Reject"]));
        }
    }
    if let Some(percent) = number(limited, "borrowingLimitPercent").filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        causes.push(Cause::invalid("spec.limited.borrowingLimitPercent", &percent.into(), detail));
    }
    causes
}

fn invalid_queues(queuing: &Value, at: &str) -> Vec<Cause> {
    let of = |field: &str| number(queuing, field).unwrap_or(0);
    let refuse =
        |field: &str, detail: &str| Cause::invalid(format!("{at}.{field}"), &of(field).into(), detail);
    let mut causes = Vec::new();
    if of("queueLengthLimit") <= 0 {
        causes.push(refuse("queueLengthLimit", "must be positive"));
    }
    let (queues, hand) = (of("queues"), of("handSize"));
    if queues <= 0 {
        causes.push(refuse("queues", "must be positive"));
    } else if queues > MOST_QUEUES {
        causes.push(refuse("queues", &format!("must not be greater than {MOST_QUEUES}")));
    }
    if hand <= 0 {
        causes.push(refuse("handSize", "must be positive"));
    } else if hand > queues {
        causes.push(refuse("handSize", &format!("should not be greater than queues ({queues})")));
    } else {
        let bits = entropy_bits(queues, hand);
        if bits > HASH_BITS {
            let detail = format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than 60"
            );
            causes.push(refuse("handSize", &detail));
        }
    }
    causes
}

/// How many bits choose a hand of queues, rounded up. A hand of more than 60 queues needs more than 60 bits.
fn entropy_bits(queues: i64, hand: i64) -> f64 {
    let drawn = (0..hand.min(61)).filter_map(|place| u32::try_from(queues - place).ok());
    drawn.map(|left| f64::from(left).log2()).sum::<f64>().ceil()
}

fn invalid_conditions(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let status = object.get("status").unwrap_or(&Value::Null);
    for (index, condition) in items(status, "conditions").iter().enumerate() {
        let at = format!("status.conditions[{index}].type");
        let kind = object::text(condition, &["type"]);
        if seen.contains(&kind) {
            causes.push(Cause::duplicate(at.clone(), &kind.into()));
        }
        if kind.is_empty() {
            causes.push(Cause::required(at, ""));
        }
        seen.push(kind);
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(causes: &[Cause]) -> Vec<&str> {
        causes.iter().map(|cause| cause.field.as_str()).collect()
    }

    #[test]
    fn what_every_cluster_has_is_valid_and_stays() {
        for (rules, objects) in [(&FLOW_SCHEMA, mandatory_schemas()), (&PRIORITY_LEVEL, mandatory_levels())] {
            for (name, spec) in objects {
                let mut object = json!({"metadata": {"name": name}, "spec": spec});
                let before = object.clone();
                (rules.default)(&mut object);
                assert_eq!(object, before, "defaults change nothing");
                assert_eq!((rules.validate)(&object, None), [], "{name}");
            }
        }
        let mut other = json!({"metadata": {"name": EXEMPT}, "spec": mandatory_levels()[0].1});
        other["spec"]["exempt"]["lendablePercent"] = 50.into();
        assert_eq!((PRIORITY_LEVEL.validate)(&other, None), []);
        other["metadata"]["name"] = CATCH_ALL.into();
        assert_eq!(fields(&(PRIORITY_LEVEL.validate)(&other, None)), ["spec.type", "spec"]);
        let mut other = json!({"metadata": {"name": EXEMPT}, "spec": mandatory_schemas()[0].1});
        other["spec"]["matchingPrecedence"] = 2.into();
        assert_eq!(fields(&(FLOW_SCHEMA.validate)(&other, None)), ["spec"]);
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

    #[test]
    fn levels_are_defaulted_and_validated() {
        let mut level = json!({"metadata": {"name": "p"}, "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}});
        (PRIORITY_LEVEL.default)(&mut level);
        let queuing = json!({"handSize": 8, "queues": 64, "queueLengthLimit": 50});
        assert_eq!(level["spec"]["limited"]["limitResponse"]["queuing"], queuing);
        assert_eq!(level["spec"]["limited"]["nominalConcurrencyShares"], 30);
        assert_eq!((PRIORITY_LEVEL.validate)(&level, None), []);
        for (spec, expected) in [
            (json!({}), &["spec.type"][..]),
            (json!({"type": "Limited"}), &["spec.limited"]),
            (
                json!({"type": "Limited", "limited": {"limitResponse": {}}}),
                &["spec.limited.limitResponse.type"],
            ),
            (
                json!({"type": "Limited", "limited": {"lendablePercent": 101, "limitResponse": {"type": "Reject", "queuing": {}}}}),
                &["spec.limited.lendablePercent", "spec.limited.limitResponse.queuing"],
            ),
            (
                json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {"queues": 2, "handSize": 3, "queueLengthLimit": 1}}}}),
                &["spec.limited.limitResponse.queuing.handSize"],
            ),
        ] {
            assert_eq!(fields(&invalid_level("p", &spec)), expected, "{spec}");
        }
        assert!(entropy_bits(128, 6) <= HASH_BITS && entropy_bits(1000, 9) > HASH_BITS);
    }

    #[test]
    fn conditions_have_types_that_differ() {
        let twice = json!({"status": {"conditions": [{"type": "a"}, {"type": "a"}, {}]}});
        assert_eq!(
            fields(&invalid_conditions(&twice)),
            ["status.conditions[1].type", "status.conditions[2].type"]
        );
    }
}
