//! Namespaces, secrets, config maps, pods and the other kinds of the core groups.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{
    super::{Rules, Subresource},
    escalation,
};
use crate::{
    names::NameRule,
    object,
    quantity::quantity,
    status::{ApiError, Cause},
    store::GroupResource,
};

/// Namespaces that cannot be deleted, and exist from the start.
pub const UNDELETABLE_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

pub(crate) const WITH_GENERATION: Rules = Rules { generation: true, ..Rules::PLAIN };
pub(crate) const CREATED_ON_UPDATE: Rules = Rules { create_on_update: true, ..Rules::PLAIN };
pub(crate) const LEASE: Rules = Rules {
    default: |lease| default_to(lease, "spec", json!({})),
    validate: |lease, _| {
        let least = [
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, "must be greater than or equal to 0"),
        ];
        let wrong = least.into_iter().filter_map(|(field, least, detail)| {
            let number =
                object::at(lease, &["spec", field]).filter(|number| number.as_i64() < Some(least))?;
            Some(Cause::invalid(format!("spec.{field}"), number, detail))
        });
        wrong.collect()
    },
    blank: || json!({"spec": {}}),
    unconditional_update: false,
    ..CREATED_ON_UPDATE
};
pub(crate) const NODE: Rules = Rules {
    default: |node| {
        if let Some(capacity) = object::at(node, &["status", "capacity"]).cloned() {
            default_to(&mut node["status"], "allocatable", capacity);
        }
    },
    status_on_create: true,
    ..Rules::PLAIN
};

pub(crate) const NAMESPACE: Rules = Rules {
    name: NameRule::Label,
    default: |namespace| {
        let name = object::name(namespace).to_owned();
        if !name.is_empty() {
            let metadata = object::metadata_mut(namespace);
            let labels = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new()));
            labels["kubernetes.io/metadata.name"] = name.into();
        }
    },
    on_create: |namespace, _| {
        namespace["spec"]["finalizers"] = json!(["kubernetes"]);
        namespace["status"] = json!({"phase": "Active"});
    },
    on_update: |namespace, old, _| {
        copy(old, namespace, "spec");
        copy(old, namespace, "status");
    },
    before_delete: |namespace| {
        let name = object::name(namespace);
        // As upstream: `kube-node-lease` may go.
        if UNDELETABLE_NAMESPACES[..3].contains(&name) {
            let namespaces = GroupResource::new("", "namespaces");
            return Err(ApiError::forbidden(&namespaces, name, "this namespace may not be deleted"));
        }
        Ok(())
    },
    ..Rules::PLAIN
};

/// The subresource `finalize`, with which a controller that has emptied a namespace removes its finalizer.
pub(crate) const FINALIZE: Subresource = Subresource {
    name: "finalize",
    merge: |new, old| {
        let mut merged = old.clone();
        let finalizers = object::at(new, &["spec", "finalizers"]);
        match finalizers.filter(|finalizers| **finalizers != json!([])) {
            Some(finalizers) => merged["spec"]["finalizers"] = finalizers.clone(),
            None => drop(merged["spec"].as_object_mut().and_then(|spec| spec.shift_remove("finalizers"))),
        }
        merged
    },
    prepare: |_, _, _| {},
    validate: |_, _| Vec::new(),
    reset: &[],
};

pub(crate) const SECRET: Rules = Rules {
    default: |secret| {
        let texts = secret.as_object_mut().and_then(|secret| secret.shift_remove("stringData"));
        for (key, text) in texts.as_ref().and_then(Value::as_object).into_iter().flatten() {
            secret["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
        }
        if object::text(secret, &["type"]).is_empty() {
            secret["type"] = "Opaque".into();
        }
    },
    validate: |secret, old| {
        let mut causes = Vec::new();
        if let Some(old) = old {
            if old.get("type") != secret.get("type") {
                causes.push(Cause::invalid("type", &secret["type"], "field is immutable"));
            }
            causes.extend(immutable(secret, old, &["data"]));
        }
        causes.extend(data_keys(secret, "data"));
        for (key, value) in entries(secret, "data") {
            if value.as_str().is_none_or(|text| STANDARD.decode(text).is_err()) {
                causes.push(Cause::invalid(
                    format!("data[{key}]"),
                    &json!("<hidden>"),
                    "illegal base64 data",
                ));
            }
        }
        let size: usize =
            entries(secret, "data").filter_map(|(_, v)| v.as_str()).map(|text| text.len() / 4 * 3).sum();
        if size > 1 << 20 {
            let message = "Too long: may not be more than 1048576 bytes".to_owned();
            causes.push(Cause { reason: "FieldValueTooLong".to_owned(), field: "data".to_owned(), message });
        }
        causes.extend(missing_data(secret));
        causes
    },
    ..Rules::PLAIN
};

pub(crate) const CONFIG_MAP: Rules = Rules {
    validate: |map, old| {
        let before = old.map(|old| immutable(map, old, &["data", "binaryData"]));
        let mut causes = before.unwrap_or_default();
        causes.extend(data_keys(map, "data"));
        causes.extend(data_keys(map, "binaryData"));
        let twice = entries(map, "data").filter(|(key, _)| map["binaryData"].get(key.as_str()).is_some());
        let detail = "duplicate of key present in binaryData";
        causes.extend(twice.map(|(key, _)| Cause::invalid(format!("data[{key}]"), &json!(key), detail)));
        causes
    },
    ..Rules::PLAIN
};

pub(crate) const EVENT: Rules = Rules { create_on_update: true, ..Rules::PLAIN };

pub(crate) const POD: Rules = Rules {
    default: |pod| {
        let spec = &mut pod["spec"];
        for (field, value) in [
            ("restartPolicy", "Always"),
            ("dnsPolicy", "ClusterFirst"),
            ("schedulerName", "default-scheduler"),
        ] {
            default_to(spec, field, value.into());
        }
        default_to(spec, "terminationGracePeriodSeconds", 30.into());
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            containers.for_each(default_requests);
        }
    },
    on_create: |pod, _| pod["status"] = json!({"phase": "Pending"}),
    validate: |pod, old| {
        let mut causes = invalid_resources(pod);
        if old.is_some_and(|old| resources_of(pod) != resources_of(old)) {
            causes.push(Cause::forbidden("spec", FIXED_RESOURCES));
        }
        causes
    },
    blank: || json!({"spec": {"containers": null}, "status": {}}),
    generation: true,
    ..Rules::PLAIN
};

/// A container requests what it is limited to, unless it says otherwise.
fn default_requests(container: &mut Value) {
    let limits = object::at(container, &["resources", "limits"]).and_then(Value::as_object).cloned();
    let Some(limits) = limits.filter(|limits| !limits.is_empty()) else { return };
    let requests = container.get_mut("resources").and_then(|resources| object_in(resources, "requests"));
    if let Some(requests) = requests {
        limits.into_iter().for_each(|(name, amount)| default_to(requests, &name, amount));
    }
}

const FIXED_RESOURCES: &str = "pod updates may not change the resources of containers";

/// What the containers of a pod request and are limited to. Quotas are charged for it when the pod is created.
fn resources_of(pod: &Value) -> Vec<(&str, usize, &str, Value)> {
    let mut found = Vec::new();
    for list in ["containers", "initContainers"] {
        let containers = object::at(pod, &["spec", list]).and_then(Value::as_array).into_iter().flatten();
        for (index, container) in containers.enumerate() {
            for part in ["requests", "limits"] {
                let amounts = object::at(container, &["resources", part]).filter(|it| **it != json!({}));
                found.push((list, index, part, amounts.cloned().unwrap_or_default()));
            }
        }
    }
    found
}

fn invalid_resources(pod: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (list, index, part, amounts) in resources_of(pod) {
        for (name, value) in amounts.as_object().into_iter().flatten() {
            let detail = match quantity(value) {
                None => "must be a quantity, such as 500m or 1Gi",
                Some(amount) if amount.is_negative() => "must be greater than or equal to 0",
                Some(_) => continue,
            };
            causes.push(Cause::invalid(
                format!("spec.{list}[{index}].resources.{part}[{name}]"),
                value,
                detail,
            ));
        }
    }
    causes
}

pub(crate) const SERVICE_ACCOUNT: Rules = Rules { returned: true, ..Rules::PLAIN };

/// Only stored: no controller makes pods of it.
pub(crate) const POD_TEMPLATE: Rules = Rules {
    default: |template| {
        if let Some(spec) = template.pointer_mut("/template/spec").filter(|spec| spec.is_object()) {
            default_pods(spec);
        }
    },
    generation: true,
    ..Rules::PLAIN
};

/// Sets the defaults of the spec in a template of pods.
pub(super) fn default_pods(spec: &mut Value) {
    for (field, value) in
        [("restartPolicy", "Always"), ("dnsPolicy", "ClusterFirst"), ("schedulerName", "default-scheduler")]
    {
        default_to(spec, field, value.into());
    }
    default_to(spec, "terminationGracePeriodSeconds", 30.into());
    default_to(spec, "securityContext", json!({}));
}

pub(crate) const SERVICE: Rules = Rules {
    returned: true,
    default: |service| {
        let spec = &mut service["spec"];
        default_to(spec, "type", "ClusterIP".into());
        default_to(spec, "sessionAffinity", "None".into());
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            default_to(port, "protocol", "TCP".into());
            let number = port.get("port").cloned().unwrap_or_default();
            default_to(port, "targetPort", number);
        }
    },
    on_create: |service, _| service["status"] = json!({"loadBalancer": {}}),
    blank: || json!({"spec": {}, "status": {"loadBalancer": {}}}),
    ..Rules::PLAIN
};

pub(crate) const DEPLOYMENT: Rules = Rules {
    default: |deployment| {
        default_to(&mut deployment["spec"], "replicas", 1.into());
        default_to(deployment, "status", json!({}));
    },
    on_create: |deployment, _| deployment["status"] = json!({}),
    on_status: |deployment, old, _| {
        let labels = old.pointer("/metadata/labels").cloned();
        let metadata = object::metadata_mut(deployment);
        match labels {
            Some(labels) => drop(metadata.insert("labels".to_owned(), labels)),
            None => drop(metadata.shift_remove("labels")),
        }
    },
    reset_status: &["spec", "metadata.labels"],
    blank: || blank_workload("strategy"),
    ..WORKLOAD
};

pub(crate) const DAEMON_SET: Rules = Rules {
    on_create: |set, _| {
        // These are always there.
        let counts =
            ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"];
        set["status"] = counts.iter().map(|count| ((*count).to_owned(), Value::from(0))).collect();
    },
    blank: || blank_workload("updateStrategy"),
    ..WORKLOAD
};

pub(crate) const REPLICA_SET: Rules = Rules {
    default: |set| default_to(&mut set["spec"], "replicas", json!(1)),
    // The count is always there.
    on_create: |set, _| set["status"] = json!({"replicas": 0}),
    blank: || {
        let template = json!({"metadata": {}, "spec": {"containers": null}});
        json!({"spec": {"selector": null, "template": template}, "status": {"replicas": 0}})
    },
    ..WORKLOAD
};

/// Deployments, daemon sets and replica sets: kept, never run.
const WORKLOAD: Rules = Rules {
    validate: |workload, old| {
        let selector = object::at(workload, &["spec", "selector"]);
        match old.map(|old| object::at(old, &["spec", "selector"])) {
            Some(old) if old != selector => {
                vec![Cause::invalid("spec.selector", selector.unwrap_or(&Value::Null), "field is immutable")]
            }
            _ => Vec::new(),
        }
    },
    generation: true,
    ..Rules::PLAIN
};

fn blank_workload(strategy: &str) -> Value {
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    json!({"spec": {"selector": null, "template": template, strategy: {}}, "status": {}})
}

pub(crate) const ROLE: Rules = Rules {
    name: NameRule::PathSegment,
    admit_sent: escalation::role,
    validate: |role, _| {
        let namespaced = object::kind(role) == "Role";
        let rules = role.get("rules").and_then(Value::as_array).into_iter().flatten().enumerate();
        rules.flat_map(|(index, rule)| rule_errors(rule, &format!("rules[{index}]"), namespaced)).collect()
    },
    blank: || json!({"rules": null}),
    ..CREATED_ON_UPDATE
};

/// What is wrong with a rule of a role.
fn rule_errors(rule: &Value, at: &str, namespaced: bool) -> Vec<Cause> {
    let lacks = |field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
    let need =
        |field: &str, detail: &str| lacks(field).then(|| Cause::required(format!("{at}.{field}"), detail));
    let mut causes: Vec<Cause> = need("verbs", "verbs must contain at least one value").into_iter().collect();
    if lacks("nonResourceURLs") {
        causes.extend(need("apiGroups", "resource rules must supply at least one api group"));
        causes.extend(need("resources", "resource rules must supply at least one resource"));
        return causes;
    }
    let refuse = |detail| Cause::invalid(format!("{at}.nonResourceURLs"), &rule["nonResourceURLs"], detail);
    if namespaced {
        causes.push(refuse("namespaced rules cannot apply to non-resource URLs"));
    }
    if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !lacks(field)) {
        causes.push(refuse("rules cannot apply to both regular resources and non-resource URLs"));
    }
    causes
}

pub(crate) const ROLE_BINDING: Rules = Rules {
    name: NameRule::PathSegment,
    default: |binding| {
        default_to(&mut binding["roleRef"], "apiGroup", "rbac.authorization.k8s.io".into());
        for subject in binding.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            if matches!(object::text(subject, &["kind"]), "User" | "Group") {
                default_to(subject, "apiGroup", "rbac.authorization.k8s.io".into());
            }
        }
    },
    validate: |binding, old| {
        let reference = binding.get("roleRef");
        match old {
            Some(old) if old.get("roleRef") != reference => {
                vec![Cause::invalid("roleRef", reference.unwrap_or(&Value::Null), "cannot change roleRef")]
            }
            _ => Vec::new(),
        }
    },
    admit_sent: escalation::binding,
    ..CREATED_ON_UPDATE
};

/// What a secret of a known type lacks.
fn missing_data(secret: &Value) -> Vec<Cause> {
    let has = |key: &str| secret.get("data").is_some_and(|data| data.get(key).is_some());
    let required = |keys: &[&str]| {
        let missing = keys.iter().filter(|key| !has(key));
        missing.map(|key| Cause::required(format!("data[{key}]"), "")).collect()
    };
    match object::text(secret, &["type"]) {
        "kubernetes.io/tls" => required(&["tls.crt", "tls.key"]),
        "kubernetes.io/ssh-auth" => required(&["ssh-privatekey"]),
        "kubernetes.io/dockercfg" => required(&[".dockercfg"]),
        "kubernetes.io/dockerconfigjson" => required(&[".dockerconfigjson"]),
        "kubernetes.io/basic-auth" if !has("username") => {
            // Either will do.
            if has("password") { Vec::new() } else { required(&["username", "password"]) }
        }
        "kubernetes.io/service-account-token" => {
            let account = "kubernetes.io/service-account.name";
            let field = || format!("metadata.annotations[{account}]");
            match object::text(secret, &["metadata", "annotations", account]) {
                "" => vec![Cause::required(field(), "")],
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// An object within another; it is made if there is none. Nothing if there is something else: that is rejected later.
pub(super) fn object_in<'a>(value: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    let slot = value.as_object_mut()?.entry(field).or_insert(Value::Null);
    if slot.is_null() {
        *slot = json!({});
    }
    slot.is_object().then_some(slot)
}

pub(super) fn default_to(value: &mut Value, field: &str, default: Value) {
    if value.get(field).is_none_or(Value::is_null) {
        value[field] = default;
    }
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => drop(to.as_object_mut().and_then(|to| to.shift_remove(field))),
    }
}

fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn data_keys(value: &Value, field: &str) -> Vec<Cause> {
    let fits = |key: &str| {
        !key.is_empty()
            && key.len() <= 253
            && key != "."
            && !key.starts_with("..")
            && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
                  'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let wrong = entries(value, field).filter(|(key, _)| !fits(key));
    wrong.map(|(key, _)| Cause::invalid(format!("{field}[{key}]"), &json!(key), detail)).collect()
}

fn immutable(new: &Value, old: &Value, fields: &[&str]) -> Vec<Cause> {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let detail = "field is immutable when `immutable` is set";
    let mut changed: Vec<_> =
        fields.iter().filter(|field| new.get(*field) != old.get(*field)).copied().collect();
    if new.get("immutable") != old.get("immutable") {
        changed.push("immutable");
    }
    changed.into_iter().map(|field| Cause::forbidden(field, detail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_take_plain_text_and_keep_their_type() {
        let mut secret = json!({"data": {"a": "eA=="}, "stringData": {"b": "y"}});
        (SECRET.default)(&mut secret);
        assert_eq!(secret, json!({"data": {"a": "eA==", "b": "eQ=="}, "type": "Opaque"}));
        assert!((SECRET.validate)(&secret, None).is_empty());
        let other = json!({"data": {"..": "???"}, "type": "x"});
        let fields: Vec<_> = (SECRET.validate)(&other, Some(&secret)).into_iter().map(|c| c.field).collect();
        assert_eq!(fields, ["type", "data[..]", "data[..]"]);
    }

    #[test]
    fn secrets_of_known_types_hold_what_these_need() {
        let missing = |kind: &str, data: Value| -> Vec<String> {
            missing_data(&json!({"type": kind, "data": data})).into_iter().map(|c| c.field).collect()
        };
        assert_eq!(missing("kubernetes.io/tls", json!({"tls.crt": ""})), ["data[tls.key]"]);
        assert_eq!(missing("kubernetes.io/basic-auth", json!({"password": ""})), [""; 0]);
        assert_eq!(missing("kubernetes.io/basic-auth", json!({})), ["data[username]", "data[password]"]);
        assert_eq!(missing("Opaque", json!({})), [""; 0]);
        let account = "metadata.annotations[kubernetes.io/service-account.name]";
        assert_eq!(missing("kubernetes.io/service-account-token", json!({})), [account]);
    }

    #[test]
    fn immutable_maps_stay() {
        let old = json!({"data": {"a": "1"}, "immutable": true});
        let new = json!({"data": {"a": "2"}});
        assert_eq!((CONFIG_MAP.validate)(&new, Some(&old)).len(), 2);
        assert_eq!((CONFIG_MAP.validate)(&old, Some(&old)), []);
    }
}
