//! Kinds of which only the selectors are checked here: MachineDrainRules and ClusterResourceSets.

use crate::{object, selector};
use capstan_topology::{FieldError, field};
use serde_json::Value;

pub(crate) fn drain_rule(rule: &Value) -> Vec<FieldError> {
    let lists = [("machines", ["selector", "clusterSelector"]), ("pods", ["selector", "namespaceSelector"])];
    let mut errors = Vec::new();
    for (list, selectors) in lists {
        let entries = object::at(rule, &["spec", list]).and_then(Value::as_array);
        for (i, entry) in entries.into_iter().flatten().enumerate() {
            let at = field::entry(&field::child("spec", list), i);
            for name in selectors {
                errors.extend(selector::errors(&selector::read(entry, &[name]), &field::child(&at, name)));
            }
        }
    }
    errors
}

pub(crate) fn resource_set(set: &Value) -> Vec<FieldError> {
    let path = ["spec", "clusterSelector"];
    selector::errors(&selector::read(set, &path), &path.join("."))
}
