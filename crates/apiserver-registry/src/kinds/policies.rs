//! Admission policies and their bindings: defaults and rules. They are not evaluated here.

use serde_json::{Value, json};

use super::super::{Rules, Writer};
use crate::{
    match_criteria::default_rules,
    object,
    policy::{mutating, validating, validation},
    rbac::Access,
    status::{ApiError, Cause, Result},
    store::{GroupResource, Key},
    user::MASTERS,
};

pub(crate) const VALIDATING_ADMISSION_POLICY: Rules = Rules {
    default: default_policy,
    validate: |policy, _| validation::policy(policy),
    admit: admit_policy,
    generation: true,
    unconditional_update: false,
    blank: || json!({"spec": {}, "status": {}}),
    ..Rules::PLAIN
};

pub(crate) const VALIDATING_ADMISSION_POLICY_BINDING: Rules = Rules {
    default: |binding| default_criteria(binding, "matchResources"),
    validate: |binding, _| validation::binding(binding),
    admit: |writer, binding, old| admit_binding(writer, binding, old, validating::POLICIES),
    generation: true,
    unconditional_update: false,
    blank: || json!({"spec": {}}),
    ..Rules::PLAIN
};

pub(crate) const MUTATING_ADMISSION_POLICY: Rules = Rules {
    validate: |policy, _| validation::mutating_policy(policy),
    blank: || json!({"spec": {}}),
    ..VALIDATING_ADMISSION_POLICY
};

pub(crate) const MUTATING_ADMISSION_POLICY_BINDING: Rules = Rules {
    validate: |binding, _| validation::mutating_binding(binding),
    admit: |writer, binding, old| admit_binding(writer, binding, old, mutating::POLICIES),
    ..VALIDATING_ADMISSION_POLICY_BINDING
};

fn default_policy(policy: &mut Value) {
    if let Some(spec) = policy.get_mut("spec").filter(|spec| spec.is_object())
        && spec.get("failurePolicy").is_none_or(Value::is_null)
    {
        spec["failurePolicy"] = "Fail".into();
    }
    default_criteria(policy, "matchConstraints");
}

fn default_criteria(object: &mut Value, field: &str) {
    let criteria = object.get_mut("spec").and_then(|spec| spec.get_mut(field));
    let Some(criteria) = criteria.filter(|criteria| criteria.is_object()) else { return };
    for (field, value) in [
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
    ] {
        if criteria.get(field).is_none_or(Value::is_null) {
            criteria[field] = value;
        }
    }
    default_rules(criteria, "resourceRules");
    default_rules(criteria, "excludeResourceRules");
}

/// Group and resource of a kind of parameters; all where they are not known.
fn param_resource<'a>(writer: &'a Writer<'_>, kind: Option<&'a Value>) -> (&'a str, &'a str) {
    let Some(kind) = kind.filter(|kind| kind.is_object()) else { return ("*", "*") };
    let (group, _) = object::split_api_version(object::text(kind, &["apiVersion"]));
    let resource = writer.registry.by_kind(group, object::text(kind, &["kind"]));
    (group, resource.map_or("*", |resource| resource.name.resource()))
}

/// Rejects what lets a user read, through messages of a policy, what they cannot read themselves.
fn require(
    writer: &Writer<'_>,
    access: &Access<'_>,
    field: &str,
    object: &Value,
    detail: &str,
) -> Result<()> {
    if writer.user.is_in(MASTERS) || writer.authorizer.allows(access) {
        return Ok(());
    }
    let cause = Cause::forbidden(field, detail);
    Err(ApiError::invalid(writer.resource.group(), object::kind(object), writer.name, &[cause]))
}

fn admit_policy(writer: &Writer<'_>, policy: &Value, old: Option<&Value>) -> Result<()> {
    let path = ["spec", "paramKind"];
    let kind = object::at(policy, &path).filter(|kind| kind.is_object());
    let Some(kind) = kind.filter(|kind| old.and_then(|old| object::at(old, &path)) != Some(*kind)) else {
        return Ok(());
    };
    let (group, resource) = param_resource(writer, Some(kind));
    let access = Access::Resource { verb: "get", group, namespace: "", resource, subresource: "", name: "" };
    let detail = format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
        writer.user.name,
        object::text(kind, &["kind"]),
        object::text(kind, &["apiVersion"]),
    );
    require(writer, &access, "spec.paramKind", policy, &detail)
}

/// `policies` is the resource of the policy that is bound.
fn admit_binding(writer: &Writer<'_>, binding: &Value, old: Option<&Value>, policies: &str) -> Result<()> {
    let (params, name) = (["spec", "paramRef"], ["spec", "policyName"]);
    let Some(wanted) = object::at(binding, &params).filter(|params| params.is_object()) else {
        return Ok(());
    };
    let is_same = |old: &Value| {
        object::at(old, &params) == Some(wanted) && object::at(old, &name) == object::at(binding, &name)
    };
    if old.is_some_and(is_same) {
        return Ok(());
    }
    let key =
        Key::new(GroupResource::new(writer.resource.group(), policies), "", object::text(binding, &name));
    let policy = writer.store.get(&key);
    let policy = policy.as_ref().map(|policy| policy.value.once());
    let kind = policy.as_ref().and_then(|policy| object::at(policy, &["spec", "paramKind"]));
    let (group, resource) = param_resource(writer, kind);
    let text = |field: &str| object::text(wanted, &[field]);
    let verb = if text("name").is_empty() { "list" } else { "get" };
    let (namespace, name) = (text("namespace"), text("name"));
    let access = Access::Resource { verb, group, namespace, resource, subresource: "", name };
    let user = &writer.user.name;
    let detail = match &policy {
        Some(_) => {
            format!("user {user} does not have {verb:?} permission on the object referenced by paramRef")
        }
        None => format!(
            "unable to get policy {} to determine minimum required permissions and user {user} does not have {verb:?} \
             permission for all groups, versions and resources",
            key.name,
        ),
    };
    require(writer, &access, "spec.paramRef", binding, &detail)
}
