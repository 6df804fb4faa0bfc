//! Ingresses. They are only stored: no controller routes traffic by them.

use serde_json::{Value, json};

use super::super::Rules;
use crate::{object, status::Cause};

pub(crate) const INGRESS: Rules = Rules {
    on_create: |ingress, _| ingress["status"] = json!({"loadBalancer": {}}),
    validate: |ingress, _| validate(ingress.get("spec").unwrap_or(&Value::Null)),
    blank: || json!({"spec": {}, "status": {"loadBalancer": {}}}),
    generation: true,
    ..Rules::PLAIN
};

fn validate(spec: &Value) -> Vec<Cause> {
    let rules = spec.get("rules").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let default = spec.get("defaultBackend");
    if rules.is_empty() && default.is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        return vec![Cause::invalid("spec", &Value::Null, detail)];
    }
    let mut causes: Vec<Cause> =
        default.and_then(|backend| invalid_backend(backend, "spec.defaultBackend")).into_iter().collect();
    for (rule, at) in rules.iter().zip(0..) {
        let paths = object::at(rule, &["http", "paths"]).and_then(Value::as_array);
        for (path, index) in paths.into_iter().flatten().zip(0..) {
            causes.extend(invalid_path(path, &format!("spec.rules[{at}].http.paths[{index}]")));
        }
    }
    causes
}

fn invalid_path(path: &Value, at: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (given, kind) = (object::text(path, &["path"]), object::text(path, &["pathType"]));
    match kind {
        "" => causes.push(Cause::required(format!("{at}.pathType"), "pathType must be specified")),
        "Exact" | "Prefix" if !given.starts_with('/') => {
            causes.push(Cause::invalid(format!("{at}.path"), &given.into(), "must be an absolute path"));
        }
        _ if !given.is_empty() && !given.starts_with('/') => {
            causes.push(Cause::invalid(format!("{at}.path"), &given.into(), "must be an absolute path"));
        }
        _ => {}
    }
    let backend = path.get("backend").unwrap_or(&Value::Null);
    causes.extend(invalid_backend(backend, &format!("{at}.backend")));
    causes
}

/// A backend is either an object or a service with a port, which is named or numbered.
fn invalid_backend(backend: &Value, at: &str) -> Option<Cause> {
    let has = |path: &[&str]| object::at(backend, path).is_some_and(|value| !value.is_null());
    match (has(&["resource"]), has(&["service"])) {
        (true, true) => Some(Cause::invalid(at, &"".into(), "cannot set both resource and service backends")),
        (true, false) => None,
        (false, false) => Some(Cause::invalid(at, &"".into(), "resource or service backend is required")),
        (false, true) if object::text(backend, &["service", "name"]).is_empty() => {
            Some(Cause::required(format!("{at}.service.name"), ""))
        }
        (false, true) => {
            let (name, number) = (["service", "port", "name"], ["service", "port", "number"]);
            match (has(&name), has(&number)) {
                (true, true) => {
                    Some(Cause::invalid(at, &"".into(), "cannot set both port name & port number"))
                }
                (false, false) => Some(Cause::required(at, "port name or number is required")),
                _ => None,
            }
        }
    }
}
