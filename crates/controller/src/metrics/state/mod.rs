//! The state of objects as metrics, for the kinds that controllers of this process reconcile. Names are those of
//! kube-state-metrics with Cluster API's configuration.
//!
//! Written from memory at each scrape. Pure: objects in, text out.

mod kinds;

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineHealthCheck, MachinePool, MachineSet};
use capstan_text::exposition::{declare, escape};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::any::Any;
use std::fmt::Write as _;

use super::caches::AnyObject;
use kinds::{KINDS, MeteredKind, Shape};

/// Writes the metrics of all objects whose kind has some.
pub(super) fn write(text: &mut String, objects: &[AnyObject]) {
    let mut samples: Vec<Vec<String>> =
        KINDS.iter().map(|kind| vec![String::new(); kind.families().count()]).collect();
    for object in objects {
        let Some((kind, object)) = read(object.as_ref()) else { continue };
        let own = own_labels(&KINDS[kind], &object);
        for (family, samples) in KINDS[kind].families().zip(&mut samples[kind]) {
            let name = format!("{}_{}", KINDS[kind].prefix, family.name);
            sample(&family.shape, &object, &mut |labels, value| {
                // Writing to a String cannot fail.
                _ = writeln!(samples, "{name}{{{own}{labels}}} {value}");
            });
        }
    }
    for (kind, samples) in KINDS.iter().zip(samples) {
        for (family, samples) in kind.families().zip(samples).filter(|(_, samples)| !samples.is_empty()) {
            let help = family.help.replace("{}", kind.noun);
            declare(text, &format!("{}_{}", kind.prefix, family.name), "gauge", &help);
            text.push_str(&samples);
        }
    }
}

/// Which kind an object is, and its fields.
fn read(object: &(dyn Any + Send + Sync)) -> Option<(usize, Value)> {
    fn fields<K: Serialize + 'static>(object: &(dyn Any + Send + Sync)) -> Option<Value> {
        serde_json::to_value(object.downcast_ref::<K>()?).ok()
    }
    // In the order of `KINDS`.
    let readers = [
        fields::<Cluster>,
        fields::<Machine>,
        fields::<MachineSet>,
        fields::<MachineDeployment>,
        fields::<MachineHealthCheck>,
        fields::<MachinePool>,
    ];
    readers.iter().enumerate().find_map(|(kind, fields)| Some((kind, fields(object)?)))
}

/// The labels that every sample of an object has.
fn own_labels(kind: &MeteredKind, object: &Value) -> String {
    let mut labels = String::new();
    if kind.belongs_to_cluster {
        label(&mut labels, "cluster_name", object, "/spec/clusterName");
    }
    for name in ["name", "namespace", "uid"] {
        label(&mut labels, name, object, &format!("/metadata/{name}"));
    }
    labels
}

/// Adds a label, if the field is there.
fn label(labels: &mut String, name: &str, object: &Value, pointer: &str) {
    let Some(value) = object.pointer(pointer) else { return };
    let value = match value {
        Value::Null => return,
        Value::String(value) => value.clone(),
        other => other.to_string(),
    };
    add(labels, name, &value);
}

fn add(labels: &mut String, name: &str, value: &str) {
    if !labels.is_empty() {
        labels.push(',');
    }
    labels.extend([name, "=\""]);
    escape(labels, value);
    labels.push('"');
}

/// The samples of a family that one object has: further labels, and the value.
fn sample(shape: &Shape, object: &Value, give: &mut dyn FnMut(&str, f64)) {
    // After the labels that the object has in any case.
    let mut give = |labels: &str, value| match labels {
        "" => give("", value),
        labels => give(&format!(",{labels}"), value),
    };
    match *shape {
        Shape::Info(fields) => {
            let mut labels = String::new();
            for (name, pointer) in fields {
                label(&mut labels, name, object, pointer);
            }
            give(&labels, 1.0);
        }
        Shape::InfoIf(needed, fields) => {
            if object.pointer(needed).is_some() {
                sample(&Shape::Info(fields), object, &mut |labels, value| {
                    give(labels.trim_start_matches(','), value);
                });
            }
        }
        Shape::InfoOfEach(list, fields) => {
            for entry in entries(object, list) {
                sample(&Shape::Info(fields), entry, &mut |labels, value| {
                    give(labels.trim_start_matches(','), value);
                });
            }
        }
        Shape::Number(pointer) => {
            if let Some(value) = object.pointer(pointer).and_then(number) {
                give("", value);
            }
        }
        Shape::NumberOrZero(pointer) => give("", object.pointer(pointer).and_then(number).unwrap_or(0.0)),
        Shape::Shortfall(all, part) => {
            let count = |pointer| object.pointer(pointer).and_then(number).unwrap_or(0.0);
            give("", (count(all) - count(part)).max(0.0));
        }
        Shape::States(name, pointer, states) => {
            let Some(current) = object.pointer(pointer).and_then(Value::as_str) else { return };
            for state in states {
                let mut labels = String::new();
                add(&mut labels, name, state);
                give(&labels, f64::from(u8::from(*state == current)));
            }
        }
        Shape::Conditions => {
            for condition in entries(object, "/status/conditions") {
                let current = condition["status"].as_str().unwrap_or_default();
                for status in ["True", "False", "Unknown"] {
                    let mut labels = String::new();
                    add(&mut labels, "status", status);
                    label(&mut labels, "type", condition, "/type");
                    give(&labels, f64::from(u8::from(status == current)));
                }
            }
        }
        Shape::Transitions => {
            for condition in entries(object, "/status/conditions") {
                let Some(since) = condition.get("lastTransitionTime").and_then(number) else { continue };
                let mut labels = String::new();
                label(&mut labels, "status", condition, "/status");
                label(&mut labels, "type", condition, "/type");
                give(&labels, since);
            }
        }
    }
}

fn entries<'a>(object: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(list).and_then(Value::as_array).into_iter().flatten()
}

/// A number, whether something is so, or a time in seconds since 1970.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::Bool(is_so) => Some(f64::from(u8::from(*is_so))),
        #[allow(clippy::cast_precision_loss, reason = "exact until the year 285 million")]
        Value::String(text) => Some(text.parse::<Timestamp>().ok()?.as_second() as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
