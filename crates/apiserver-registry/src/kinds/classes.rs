//! RuntimeClasses, PriorityClasses and CSINodes. They are only stored: no kubelet and no scheduler reads them.

use serde_json::{Value, json};

use super::{
    super::Rules,
    core::{default_to, object_in},
};
use crate::{
    names::{NameRule, name_error},
    object,
    status::Cause,
};

const SYSTEM_PREFIX: &str = "system-";
/// The only PriorityClasses with the prefix, with their values.
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

pub(crate) const RUNTIME_CLASS: Rules = Rules {
    validate: |class, old| {
        let handler = class.get("handler").unwrap_or(&Value::Null);
        if let Some(old) = old {
            let has_changed = old.get("handler") != Some(handler);
            let changed = || Cause::invalid("handler", handler, "field is immutable");
            return has_changed.then(changed).into_iter().collect();
        }
        let wrong = match object::text(class, &["handler"]) {
            "" => Some(Cause::required("handler", "")),
            name => {
                name_error(NameRule::Label, name).map(|detail| Cause::invalid("handler", handler, detail))
            }
        };
        wrong.into_iter().collect()
    },
    blank: || json!({"handler": ""}),
    create_on_update: true,
    unconditional_update: false,
    ..Rules::PLAIN
};

pub(crate) const PRIORITY_CLASS: Rules = Rules {
    default: |class| default_to(class, "preemptionPolicy", "PreemptLowerPriority".into()),
    // It has a generation, which does not count anything.
    on_create: |class, _| drop(object::metadata_mut(class).insert("generation".to_owned(), 1.into())),
    validate: |class, old| {
        let mut causes: Vec<Cause> = invalid_priority(class).into_iter().collect();
        let has_changed = |field: &str| old.is_some_and(|old| old.get(field) != class.get(field));
        if has_changed("value") {
            causes.push(Cause::forbidden("value", "may not be changed in an update."));
        }
        if has_changed("preemptionPolicy") {
            let policy = class.get("preemptionPolicy").unwrap_or(&Value::Null);
            causes.push(Cause::invalid("preemptionPolicy", policy, "field is immutable"));
        }
        causes
    },
    blank: || json!({"value": 0}),
    ..Rules::PLAIN
};

fn invalid_priority(class: &Value) -> Option<Cause> {
    let (name, value) = (object::name(class), class.get("value").and_then(Value::as_i64).unwrap_or(0));
    if !name.starts_with(SYSTEM_PREFIX) {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        return (value > HIGHEST_PRIORITY).then(|| Cause::forbidden("value", &detail));
    }
    let reason = match SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name) {
        None => format!("{name} is not a known system priority class"),
        Some((_, expected)) if *expected != value => {
            format!("value of {name} PriorityClass must be {expected}")
        }
        Some(_) if class.get("globalDefault") == Some(&Value::Bool(true)) => {
            format!("globalDefault of {name} PriorityClass must be false")
        }
        Some(_) => return None,
    };
    let detail = format!(
        "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {reason}"
    );
    Some(Cause::forbidden("metadata.name", &detail))
}

pub(crate) const CSI_NODE: Rules = Rules {
    // Clients send null if there are none.
    default: |node| {
        if let Some(spec) = object_in(node, "spec") {
            default_to(spec, "drivers", json!([]));
        }
    },
    validate: |node, old| {
        let mut causes = invalid_drivers(drivers(node));
        // Only how many volumes fit may change: it is found out later, and again.
        let fixed = |driver: &Value| {
            let mut driver = driver.clone();
            driver.as_object_mut().map(|driver| driver.shift_remove("allocatable"));
            driver
        };
        for before in old.map(drivers).unwrap_or_default() {
            let after = drivers(node).iter().find(|driver| driver.get("name") == before.get("name"));
            if let Some(after) = after.filter(|after| fixed(after) != fixed(before)) {
                causes.push(Cause::invalid("spec.drivers", &fixed(after), "field is immutable"));
            }
        }
        causes
    },
    blank: || json!({"spec": {"drivers": null}}),
    unconditional_update: false,
    returned: true,
    ..Rules::PLAIN
};

fn drivers(node: &Value) -> &[Value] {
    object::at(node, &["spec", "drivers"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn invalid_drivers(drivers: &[Value]) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (index, driver) in drivers.iter().enumerate() {
        let at = |field: &str| format!("spec.drivers[{index}].{field}");
        let name = object::text(driver, &["name"]);
        if name.is_empty() {
            causes.push(Cause::required(at("name"), ""));
        } else if drivers[..index].iter().any(|other| object::text(other, &["name"]) == name) {
            causes.push(Cause::duplicate(at("name"), &name.into()));
        }
        if object::text(driver, &["nodeID"]).is_empty() {
            causes.push(Cause::required(at("nodeID"), ""));
        }
    }
    causes
}
