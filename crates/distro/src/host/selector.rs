//! Decides which entries of `spec.hostConfig` count for a Host. Pure.

use capstan_api::bootstrap::HostConfigEntry;
use std::collections::BTreeMap;

use crate::error::InputError;

/// Whether the entry selects Hosts with these labels.
pub(super) fn selects(
    entry: &HostConfigEntry,
    labels: &BTreeMap<String, String>,
) -> Result<bool, InputError> {
    let selector = &entry.selector;
    let mut is_selected =
        selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    for expression in selector.match_expressions.iter().flatten() {
        let field = |name: &str| {
            format!("spec.hostConfig[{}].selector.matchExpressions[{}].{name}", entry.name, expression.key)
        };
        let value = labels.get(&expression.key);
        let values = expression.values.as_deref().unwrap_or_default();
        let is_listed = value.is_some_and(|value| values.contains(value));
        // Every expression is read, so that an error does not depend on the labels of the Host.
        is_selected &= match expression.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                return Err(InputError::new(
                    field("values"),
                    "must not be empty with In and NotIn: add a value",
                ));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                return Err(InputError::new(
                    field("values"),
                    "must be empty with Exists and DoesNotExist: take the values out",
                ));
            }
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => {
                return Err(InputError::new(
                    field("operator"),
                    "must be In, NotIn, Exists or DoesNotExist: use one of them",
                ));
            }
        };
    }
    Ok(is_selected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn answer(selector: &Value) -> Result<bool, String> {
        let entry = json!({"name": "nics", "selector": selector, "config": {}});
        let entry: HostConfigEntry = serde_json::from_value(entry).expect("an entry");
        let labels = BTreeMap::from([("rack".to_owned(), "a".to_owned())]);
        selects(&entry, &labels).map_err(|error| error.field)
    }

    #[test]
    fn selectors_read_labels_as_kubernetes_does() {
        let one = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"rack": "a"}}), true),
            (json!({"matchLabels": {"rack": "b"}}), false),
            (json!({"matchLabels": {"rack": "a", "disk": "nvme"}}), false),
            (one("rack", "In", &["a", "b"]), true),
            (one("rack", "In", &["b"]), false),
            (one("disk", "In", &["a"]), false),
            (one("rack", "NotIn", &["a"]), false),
            (one("disk", "NotIn", &["a"]), true),
            (one("rack", "Exists", &[]), true),
            (one("disk", "Exists", &[]), false),
            (one("disk", "DoesNotExist", &[]), true),
            (one("rack", "DoesNotExist", &[]), false),
        ] {
            assert_eq!(answer(&selector), Ok(expected), "{selector}");
        }
        for (selector, field) in [
            (one("rack", "Like", &["a"]), "operator"),
            (one("rack", "In", &[]), "values"),
            (one("rack", "Exists", &["a"]), "values"),
        ] {
            let field = format!("spec.hostConfig[nics].selector.matchExpressions[rack].{field}");
            assert_eq!(answer(&selector), Err(field), "{selector}");
        }
    }
}
