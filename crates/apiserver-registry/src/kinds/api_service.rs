//! APIServices: which group and version is served where. This server serves all groups itself and does not aggregate others.

use serde_json::{Value, json};

use super::super::Rules;
use crate::{names::NameRule, object, status::Cause};

/// Group and plural.
pub const API_SERVICES: (&str, &str) = ("apiregistration.k8s.io", "apiservices");

pub(crate) const API_SERVICE: Rules = Rules {
    // The core group has no name: `v1.` is no subdomain.
    name: NameRule::PathSegment,
    on_create: |service, env| service["status"] = json!({"conditions": [available(&object::time(env.now))]}),
    validate: |service, _| validate(service),
    ..Rules::PLAIN
};

/// The condition of every group that this server serves.
fn available(now: &str) -> Value {
    json!({
        "type": "Available", "status": "True", "lastTransitionTime": now, "reason": "Local",
        "message": "Local APIServices are always available",
    })
}

fn validate(service: &Value) -> Vec<Cause> {
    let text = |field: &str| object::text(service, &["spec", field]);
    let (group, version) = (text("group"), text("version"));
    let mut causes = Vec::new();
    if object::name(service) != format!("{version}.{group}") {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {:?}", format!("{version}.{group}"));
        causes.push(Cause::invalid("metadata.name", &object::name(service).into(), &detail));
    }
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = object::at(service, &["spec", field]).and_then(Value::as_i64).unwrap_or(0);
        if !(1..=most).contains(&number) {
            let detail =
                format!("must be positive and less than {}", most + i64::from(field == "versionPriority"));
            causes.push(Cause::invalid(format!("spec.{field}"), &number.into(), &detail));
        }
    }
    if object::at(service, &["spec", "service"]).is_some_and(|service| !service.is_null()) {
        let detail = "this API server does not aggregate others; omit it for a group that is served here";
        causes.push(Cause::forbidden("spec.service", detail));
    }
    causes
}
