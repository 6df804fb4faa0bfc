//! What is wrong with a policy or a binding, in upstream's words.

use std::collections::HashSet;

use capstan_apiserver_schema::admission::{Environment, Returns, Uses};
use serde_json::Value;

use super::{mutating::PatchType, uses};
use crate::{
    match_criteria::{self, items},
    names::{NameRule, name_error, qualified_name_error},
    object,
    selector::LabelSelector,
    status::Cause,
    webhook::configuration::{uncompiled, validate_conditions},
};

/// Reasons that a validation may give.
const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
/// As many audit annotations as upstream allows.
const ANNOTATIONS: usize = 20;
/// The longest expression of an audit annotation, in bytes; as upstream.
const LONGEST_ANNOTATION: usize = 5 << 10;
/// Words that are no identifiers in CEL.
#[rustfmt::skip]
const RESERVED: [&str; 21] = [
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
];

/// Operations that a mutating policy may be about.
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// What is wrong with the parts that all policies have; and the variables.
fn common(spec: &Value, operations: Option<&[&str]>) -> (Vec<Cause>, Environment) {
    let mut causes = Vec::new();
    if let Some(kind) = spec.get("paramKind").filter(|kind| kind.is_object()) {
        causes.extend(param_kind(kind));
    }
    match spec.get("matchConstraints").filter(|constraints| constraints.is_object()) {
        None => causes.push(Cause::required("spec.matchConstraints", "")),
        Some(constraints) => {
            causes.extend(match_criteria::validate(constraints, "spec.matchConstraints"));
            if items(constraints, "resourceRules").is_empty() {
                causes.push(Cause::required("spec.matchConstraints.resourceRules", ""));
            }
            if let Some(operations) = operations {
                causes.extend(unsupported_operations(constraints, "spec.matchConstraints", operations));
            }
        }
    }
    let conditions = items(spec, "matchConditions");
    causes.extend(validate_conditions(conditions, "spec.matchConditions", uses(spec, Returns::Bool)));
    let mut variables = Environment::default();
    for (index, variable) in items(spec, "variables").iter().enumerate() {
        causes.extend(declare(
            &mut variables,
            variable,
            &format!("spec.variables[{index}]"),
            uses(spec, Returns::Anything),
        ));
    }
    (causes, variables)
}

/// Operations that a policy of this kind cannot be about. As upstream, the place does not name the rule.
fn unsupported_operations(written: &Value, at: &str, supported: &[&str]) -> Vec<Cause> {
    let rules = items(written, "resourceRules").iter();
    let given = rules.flat_map(|rule| items(rule, "operations"));
    let unsupported = given.filter(|operation| !supported.iter().any(|known| operation == known));
    let at = format!("{at}.resourceRules.operations");
    unsupported.map(|operation| Cause::unsupported(at.clone(), operation, supported)).collect()
}

/// Everything that is wrong with a validating policy.
pub(crate) fn policy(policy: &Value) -> Vec<Cause> {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let (mut causes, variables) = common(spec, None);
    let (validations, annotations) = (items(spec, "validations"), items(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        causes.push(Cause::required("spec.validations", detail));
        causes.push(Cause::required("spec.auditAnnotations", detail));
    }
    for (index, given) in validations.iter().enumerate() {
        let at = format!("spec.validations[{index}]");
        causes.extend(validation(&variables, given, &at, spec));
    }
    if annotations.len() > ANNOTATIONS {
        let detail = format!("must not have more than {ANNOTATIONS} auditAnnotations");
        causes.push(Cause::invalid("spec.auditAnnotations", &Value::from(annotations), &detail));
    }
    let mut keys = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let at = format!("spec.auditAnnotations[{index}]");
        causes.extend(audit_annotation(
            &variables,
            object::name(policy),
            annotation,
            &at,
            uses(spec, Returns::TextOrNull),
        ));
        let key = object::text(annotation, &["key"]);
        if !keys.insert(key) {
            causes.push(Cause::duplicate(format!("{at}.key"), &key.into()));
        }
    }
    causes
}

/// Everything that is wrong with a mutating policy.
pub(crate) fn mutating_policy(policy: &Value) -> Vec<Cause> {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let (mut causes, variables) = common(spec, Some(&MUTATING_OPERATIONS));
    let mutations = items(spec, "mutations");
    if mutations.is_empty() {
        causes.push(Cause::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (index, given) in mutations.iter().enumerate() {
        causes.extend(mutation(&variables, given, &format!("spec.mutations[{index}]"), spec));
    }
    if object::text(spec, &["reinvocationPolicy"]).is_empty() {
        causes.push(Cause::required("spec.reinvocationPolicy", ""));
    }
    causes
}

fn mutation(variables: &Environment, given: &Value, at: &str, spec: &Value) -> Vec<Cause> {
    // The schema has the names that there are.
    let Some(patch_type) = PatchType::of(given) else {
        let is_missing = object::text(given, &["patchType"]).is_empty();
        return is_missing.then(|| Cause::required(format!("{at}.patchType"), "")).into_iter().collect();
    };
    let mut causes = Vec::new();
    let part = |patch_type: PatchType| given.get(patch_type.field()).filter(|part| part.is_object());
    let (name, place) = (patch_type.name(), |field: &str| format!("{at}.{field}"));
    match part(patch_type) {
        None => {
            let detail = format!("must be specified when patchType is {name}");
            causes.push(Cause::required(place(patch_type.field()), &detail));
        }
        Some(part) => {
            let (at, source) = (
                format!("{at}.{}.expression", patch_type.field()),
                object::text(part, &["expression"]).trim(),
            );
            if source.is_empty() {
                causes.push(Cause::required(at, ""));
            } else if let Err(why) = variables.compile(source, uses(spec, patch_type.returns())) {
                causes.push(uncompiled(at, source, &why));
            }
        }
    }
    for other in PatchType::ALL.into_iter().filter(|other| *other != patch_type && part(*other).is_some()) {
        let (field, detail) = (other.field(), format!("must not be specified when patchType is {name}"));
        causes.push(Cause::invalid(place(field), &format!("{{{field}}}").into(), &detail));
    }
    causes
}

fn param_kind(kind: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |field: &str| object::text(kind, &[field]);
    let api_version = text("apiVersion");
    let at = "spec.paramKind.apiVersion";
    if api_version.is_empty() {
        causes.push(Cause::required(at, ""));
    } else if api_version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {api_version}");
        causes.push(Cause::invalid(at, &api_version.into(), &detail));
    } else {
        let (group, version) = object::split_api_version(api_version);
        if let Some(detail) = name_error(NameRule::Subdomain, group).filter(|_| !group.is_empty()) {
            causes.push(Cause::invalid(at, &group.into(), detail));
        }
        if version.is_empty() {
            causes.push(Cause::invalid(at, &api_version.into(), "version must be specified"));
        } else if let Some(detail) = name_error(NameRule::Word, version) {
            causes.push(Cause::invalid(at, &version.into(), detail));
        }
    }
    let kind = text("kind");
    if kind.is_empty() {
        causes.push(Cause::required("spec.paramKind.kind", ""));
    } else if let Some(detail) = name_error(NameRule::Word, &kind.to_lowercase()) {
        let detail = format!("may have mixed case, but should otherwise match: {detail}");
        causes.push(Cause::invalid("spec.paramKind.kind", &kind.into(), &detail));
    }
    causes
}

fn declare(variables: &mut Environment, variable: &Value, at: &str, uses: Uses) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |field: &str| object::text(variable, &[field]);
    let (name, source) = (text("name"), text("expression"));
    let is_identifier = !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !RESERVED.contains(&name);
    if name.trim().is_empty() {
        causes.push(Cause::required(format!("{at}.name"), "name is not specified"));
    } else if !is_identifier {
        causes.push(Cause::invalid(format!("{at}.name"), &name.into(), "must be a valid CEL identifier"));
    }
    if source.trim().is_empty() {
        causes.push(Cause::required(format!("{at}.expression"), "expression is not specified"));
    } else if let Err(why) = variables.declare(name, source, uses) {
        causes.push(uncompiled(format!("{at}.expression"), source, &why));
    }
    causes
}

fn validation(variables: &Environment, given: &Value, at: &str, spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |field: &str| object::text(given, &[field]);
    let (source, message, by_expression) = (text("expression"), text("message"), text("messageExpression"));
    if source.trim().is_empty() {
        causes.push(Cause::required(format!("{at}.expression"), "expression is not specified"));
    } else if let Err(why) = variables.compile(source, uses(spec, Returns::Bool)) {
        causes.push(uncompiled(format!("{at}.expression"), source, &why));
    }
    let empty = "must be non-empty if specified";
    if !by_expression.is_empty() {
        let at = format!("{at}.messageExpression");
        if by_expression.trim().is_empty() {
            causes.push(Cause::invalid(at, &by_expression.into(), empty));
        } else if let Err(why) = variables.compile(by_expression, uses(spec, Returns::Text)) {
            causes.push(uncompiled(at, by_expression, &why));
        }
    }
    if !message.is_empty() && message.trim().is_empty() {
        causes.push(Cause::invalid(format!("{at}.message"), &message.into(), empty));
    } else if message.trim().contains(['\n', '\r']) {
        causes.push(Cause::invalid(format!("{at}.message"), &message.into(), "must not contain line breaks"));
    }
    let reason = given.get("reason").and_then(Value::as_str);
    if let Some(reason) = reason.filter(|reason| !REASONS.contains(reason)) {
        causes.push(Cause::unsupported(format!("{at}.reason"), &reason.into(), &REASONS));
    }
    causes
}

fn audit_annotation(
    variables: &Environment,
    policy: &str,
    annotation: &Value,
    at: &str,
    uses: Uses,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |field: &str| object::text(annotation, &[field]);
    let (key, source) = (format!("{policy}/{}", text("key")), text("valueExpression"));
    if let Some(detail) = qualified_name_error(&key) {
        causes.push(Cause::invalid(format!("{at}.key"), &key.into(), &detail));
    }
    let at = format!("{at}.valueExpression");
    if source.trim().is_empty() {
        causes.push(Cause::required(at, "valueExpression is not specified"));
    } else if source.trim().len() > LONGEST_ANNOTATION {
        causes.push(Cause::required(at, &format!("must not exceed {LONGEST_ANNOTATION} bytes in length")));
    } else if let Err(why) = variables.compile(source.trim(), uses) {
        causes.push(uncompiled(at, source, &why));
    }
    causes
}

/// What is wrong with the parts that all bindings have.
fn common_binding(spec: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let policy = object::text(spec, &["policyName"]);
    if policy.is_empty() {
        causes.push(Cause::required("spec.policyName", ""));
    } else if let Some(detail) = name_error(NameRule::Subdomain, policy) {
        causes.push(Cause::invalid("spec.policyName", &policy.into(), detail));
    }
    if let Some(params) = spec.get("paramRef").filter(|params| params.is_object()) {
        causes.extend(param_ref(params));
    }
    if let Some(resources) = spec.get("matchResources").filter(|resources| resources.is_object()) {
        causes.extend(match_criteria::validate(resources, "spec.matchResources"));
    }
    causes
}

/// Everything that is wrong with the binding of a mutating policy.
pub(crate) fn mutating_binding(binding: &Value) -> Vec<Cause> {
    let spec = binding.get("spec").unwrap_or(&Value::Null);
    let mut causes = common_binding(spec);
    let resources = spec.get("matchResources").unwrap_or(&Value::Null);
    causes.extend(unsupported_operations(resources, "spec.matchResources", &MUTATING_OPERATIONS));
    causes
}

/// Everything that is wrong with the binding of a validating policy.
pub(crate) fn binding(binding: &Value) -> Vec<Cause> {
    let spec = binding.get("spec").unwrap_or(&Value::Null);
    let mut causes = common_binding(spec);
    let (at, actions) = ("spec.validationActions", items(spec, "validationActions"));
    let mut known = HashSet::new();
    for (index, action) in actions.iter().enumerate() {
        if action.as_str().is_some_and(|action| !known.insert(action)) {
            causes.push(Cause::duplicate(format!("{at}[{index}]"), action));
        }
    }
    let has = |wanted: &str| actions.iter().any(|action| action == wanted);
    if has("Deny") && has("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the \
                      API response and headers serves no purpose)";
        causes.push(Cause::invalid(at, &Value::from(actions), detail));
    }
    if actions.is_empty() {
        causes.push(Cause::required(at, "at least one validation action is required"));
    }
    causes
}

fn param_ref(params: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |field: &str| object::text(params, &[field]);
    let at = |field: &str| format!("spec.paramRef.{field}");
    let (name, selector) = (text("name"), params.get("selector").filter(|selector| selector.is_object()));
    let exclusive = "name and selector are mutually exclusive";
    if let Some(detail) = name_error(NameRule::PathSegment, name) {
        causes.push(Cause::invalid(at("name"), &name.into(), detail));
    }
    if let Some(selector) = selector {
        if !name.is_empty() {
            causes.push(Cause::forbidden(at("name"), exclusive));
            causes.push(Cause::forbidden(at("selector"), exclusive));
        }
        if LabelSelector::of(selector).is_none() {
            causes.push(Cause::invalid(at("selector"), selector, "not a label selector"));
        }
    } else if name.is_empty() {
        causes.push(Cause::required("spec.paramRef", "one of name or selector must be specified"));
    }
    match text("parameterNotFoundAction") {
        "" => causes.push(Cause::required(at("parameterNotFoundAction"), "")),
        "Allow" | "Deny" => {}
        other => {
            let supported = ["Deny", "Allow"];
            causes.push(Cause::unsupported(at("parameterNotFoundAction"), &other.into(), &supported));
        }
    }
    causes
}
