//! Validates the handlers that an extension reports. Pure.

use capstan_api::runtime::hooks::{API_VERSION, DEFAULT_TIMEOUT_SECONDS, LONGEST_TIMEOUT_SECONDS, NAMES};
use capstan_api::runtime::{ExtensionHandler, FailurePolicy};
use std::collections::BTreeSet;

/// The handlers as they are written into the status of ExtensionConfig `config`: with what they left out filled in, and
/// under names that are unique among all extensions.
pub(crate) fn checked(
    handlers: Vec<ExtensionHandler>,
    config: &str,
) -> Result<Vec<ExtensionHandler>, String> {
    let mut seen = BTreeSet::new();
    let mut faults = vec![];
    for handler in &handlers {
        let name = &handler.name;
        if !seen.insert(name) {
            faults.push(format!("handler {name} is there twice"));
        }
        if !is_label(name) {
            faults.push(format!("handler name {name:?} must be lower case letters, digits and hyphens"));
        }
        if handler.timeout_seconds.is_some_and(|seconds| !(0..=LONGEST_TIMEOUT_SECONDS).contains(&seconds)) {
            faults.push(format!("handler {name} timeoutSeconds must be from 0 to {LONGEST_TIMEOUT_SECONDS}"));
        }
        let hook = &handler.request_hook;
        if hook.api_version != API_VERSION || !NAMES.contains(&hook.hook.as_str()) {
            faults
                .push(format!("handler {name} serves {}/{}, which is unknown", hook.api_version, hook.hook));
        }
    }
    if !faults.is_empty() {
        return Err(format!("its answer is not valid: {}", faults.join(", ")));
    }
    let mut handlers: Vec<ExtensionHandler> = handlers
        .into_iter()
        .map(|handler| ExtensionHandler {
            name: format!("{}.{config}", handler.name),
            timeout_seconds: handler
                .timeout_seconds
                .filter(|seconds| *seconds > 0)
                .or(Some(DEFAULT_TIMEOUT_SECONDS)),
            failure_policy: Some(handler.failure_policy.unwrap_or(FailurePolicy::Fail)),
            ..handler
        })
        .collect();
    // An extension may answer in another order each time, and that is no news.
    handlers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(handlers)
}

/// As DNS has it: at most 63 lower case letters, digits and hyphens, none of the latter at an end.
fn is_label(name: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len()) && name.chars().all(good) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn handlers(values: &[Value]) -> Vec<ExtensionHandler> {
        serde_json::from_value(json!(values)).expect("handlers")
    }

    fn handler(name: &str, hook: &str) -> Value {
        json!({"name": name, "requestHook": {"apiVersion": API_VERSION, "hook": hook}})
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        let found = handlers(&[handler("b", "UpdateMachine"), handler("a", "CanUpdateMachine")]);
        let found = checked(found, "ext").expect("valid");
        assert_eq!(found[0].name, "a.ext");
        assert_eq!(found[1].timeout_seconds, Some(10));
        assert_eq!(found[1].failure_policy, Some(FailurePolicy::Fail));
    }

    #[test]
    fn what_cannot_be_called_is_refused() {
        let mut slow = handler("a", "UpdateMachine");
        slow["timeoutSeconds"] = json!(31);
        let mut other = handler("a", "UpdateMachine");
        other["requestHook"]["apiVersion"] = json!("hooks.runtime.cluster.x-k8s.io/v1");
        for (values, fault) in [
            (vec![handler("a", "UpdateMachine"), handler("a", "CanUpdateMachine")], "twice"),
            (vec![handler("A", "UpdateMachine")], "name \"A\""),
            (vec![handler("a.b", "UpdateMachine")], "name \"a.b\""),
            (vec![handler("a", "UpdateEverything")], "unknown"),
            (vec![other], "unknown"),
            (vec![slow], "timeoutSeconds"),
        ] {
            let error = checked(handlers(&values), "ext").expect_err("not valid");
            assert!(error.contains(fault), "{error}");
        }
    }
}
