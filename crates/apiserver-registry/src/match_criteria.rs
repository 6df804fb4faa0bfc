//! What requests a webhook or a policy is about: rules, selectors, and whether versions count as the same. Only data: it is not
//! compared with a request here.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    names::{NameRule, name_error},
    object,
    selector::LabelSelector,
    status::Cause,
};

/// Which requests are meant.
pub struct Criteria {
    /// Whether all requests are meant: a policy or binding without rules. A webhook without rules is never called.
    pub everything: bool,
    /// What they are about.
    pub rules: Vec<Rule>,
    /// Exceptions from the rules.
    pub excluded: Vec<Rule>,
    /// Whether a rule for one version is meant for the others as well.
    pub equivalent: bool,
    /// Selects namespaces.
    pub namespaces: LabelSelector,
    /// Selects objects.
    pub objects: LabelSelector,
}

/// Which operations on which resources are meant.
pub struct Rule {
    /// Operations, such as `CREATE`; `*` is all of them, as in every list.
    pub operations: Vec<String>,
    /// API groups.
    pub groups: Vec<String>,
    /// Versions.
    pub versions: Vec<String>,
    /// Plurals, each with a subresource behind a slash if it is about one.
    pub resources: Vec<String>,
    /// `Cluster`, `Namespaced`, or `*`.
    pub scope: String,
    /// Names of objects; all if it is empty.
    pub names: Vec<String>,
}

impl Criteria {
    /// The criteria of a webhook, or the match resources of a policy; nothing if a selector cannot be read.
    /// `rules` is the field with the rules.
    pub fn of(written: &Value, rules: &str) -> Option<Self> {
        let selector = |field: &str| LabelSelector::of(written.get(field).unwrap_or(&Value::Null));
        let read = |field: &str| items(written, field).iter().map(Rule::of).collect();
        Some(Self {
            everything: rules == "resourceRules" && items(written, rules).is_empty(),
            rules: read(rules),
            excluded: read("excludeResourceRules"),
            equivalent: object::text(written, &["matchPolicy"]) != "Exact",
            namespaces: selector("namespaceSelector")?,
            objects: selector("objectSelector")?,
        })
    }
}

impl Rule {
    fn of(written: &Value) -> Self {
        let texts =
            |field: &str| items(written, field).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: object::text(written, &["scope"]).to_owned(),
            names: texts("resourceNames"),
        }
    }
}

/// The entries of a list; none if there is no list.
pub fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Sets the default scope of rules.
pub(crate) fn default_rules(written: &mut Value, field: &str) {
    let rules = written.get_mut(field).and_then(Value::as_array_mut);
    let rules = rules.into_iter().flatten().filter(|rule| rule.is_object());
    for rule in rules.filter(|rule| rule.get("scope").is_none()) {
        rule["scope"] = "*".into();
    }
}

/// What is wrong with the match resources of a policy or binding.
pub(crate) fn validate(written: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let policy = object::text(written, &["matchPolicy"]);
    if !["", "Equivalent", "Exact"].contains(&policy) {
        causes.push(Cause::unsupported(
            format!("{at}.matchPolicy"),
            &policy.into(),
            &["Equivalent", "Exact"],
        ));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        let selector = written.get(field).unwrap_or(&Value::Null);
        if LabelSelector::of(selector).is_none() {
            causes.push(Cause::invalid(format!("{at}.{field}"), selector, "not a label selector"));
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(written, field).iter().enumerate() {
            causes.extend(validate_rule(rule, &format!("{at}.{field}[{index}]")));
        }
    }
    causes
}

fn validate_rule(rule: &Value, at: &str) -> Vec<Cause> {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let mut causes = Vec::new();
    let place = |field: &str| format!("{at}.{field}");
    let mut known = HashSet::new();
    for (index, name) in items(rule, "resourceNames").iter().enumerate() {
        let at = format!("{}[{index}]", place("resourceNames"));
        if let Some(detail) = name.as_str().and_then(|name| name_error(NameRule::PathSegment, name)) {
            causes.push(Cause::invalid(at.clone(), name, detail));
        }
        if name.as_str().is_some_and(|name| !known.insert(name)) {
            causes.push(Cause::duplicate(at, name));
        }
    }
    let lists = [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")];
    for (field, words) in lists {
        let given = items(rule, field);
        if given.is_empty() {
            causes.push(Cause::required(place(field), ""));
        }
        if given.len() > 1 && given.iter().any(|one| one == "*") {
            let detail = format!("if '*' is present, must not specify other {words}");
            causes.push(Cause::invalid(place(field), &Value::from(given), &detail));
        }
        for (index, one) in given.iter().enumerate() {
            let at = format!("{}[{index}]", place(field));
            match field {
                "operations" if !OPERATIONS.iter().any(|known| one == known) => {
                    causes.push(Cause::unsupported(at, one, &OPERATIONS));
                }
                "apiVersions" if one == "" => causes.push(Cause::required(at, "")),
                _ => {}
            }
        }
    }
    causes.extend(validate_resources(items(rule, "resources"), &place("resources")));
    let scope = object::text(rule, &["scope"]);
    if !["", "*", "Cluster", "Namespaced"].contains(&scope) {
        let supported = ["*", "Cluster", "Namespaced"];
        causes.push(Cause::unsupported(place("scope"), &scope.into(), &supported));
    }
    causes
}

fn validate_resources(resources: &[Value], at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if resources.is_empty() {
        causes.push(Cause::required(at, ""));
    }
    let (mut every_subresource, mut every_resource) = (Vec::new(), Vec::new());
    for (index, given) in resources.iter().enumerate() {
        let (at, text) = (format!("{at}[{index}]"), given.as_str().unwrap_or_default());
        if text.is_empty() {
            causes.push(Cause::required(at, ""));
            continue;
        }
        let Some((resource, subresource)) = text.split_once('/') else { continue };
        if every_subresource.contains(&resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {text}");
            causes.push(Cause::invalid(at.clone(), given, &detail));
        }
        if every_resource.contains(&subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {text}");
            causes.push(Cause::invalid(at, given, &detail));
        }
        if subresource == "*" {
            every_subresource.push(resource);
        }
        if resource == "*" {
            every_resource.push(subresource);
        }
    }
    if resources.len() > 1 && resources.iter().any(|one| one == "*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        causes.push(Cause::invalid(at, &Value::from(resources), detail));
    }
    let is_plain = |one: &Value| one.as_str().is_some_and(|text| text != "*" && !text.contains('/'));
    if resources.iter().any(|one| one == "*") && resources.iter().any(is_plain) {
        let detail = "if '*' is present, must not specify other resources without subresources";
        causes.push(Cause::invalid(at, &Value::from(resources), detail));
    }
    causes
}
