//! The default of `spec.replicas` for kinds that an autoscaler may scale.

use crate::object;
use capstan_api::meta::annotations::{AUTOSCALER_MAX_SIZE, AUTOSCALER_MIN_SIZE};
use capstan_topology::{FieldError, field};
use serde_json::Value;

/// Sets `spec.replicas` if it is missing: to 1, or with both annotations of the autoscaler to what there was before,
/// within the limits of the autoscaler. A user who hands an object over to the autoscaler by removing `replicas` must not
/// lose its machines.
pub(crate) fn default(object: &mut Value, old: Option<&Value>) -> Vec<FieldError> {
    if object::at(object, &["spec", "replicas"]).is_some() {
        return Vec::new();
    }
    let annotation = |key| object::at(object, &["metadata", "annotations", key]).and_then(Value::as_str);
    let replicas = match (annotation(AUTOSCALER_MIN_SIZE), annotation(AUTOSCALER_MAX_SIZE)) {
        (Some(least), Some(most)) => {
            let sizes = [(AUTOSCALER_MIN_SIZE, least), (AUTOSCALER_MAX_SIZE, most)];
            let errors: Vec<FieldError> =
                sizes.into_iter().filter_map(|(key, text)| wrong(key, text)).collect();
            if !errors.is_empty() {
                return errors;
            }
            let [least, most] = sizes.map(|(_, text)| number(text).unwrap_or_default());
            let before = old.and_then(|old| object::at(old, &["spec", "replicas"])).and_then(Value::as_i64);
            within(before, i64::from(least), i64::from(most))
        }
        _ => 1,
    };
    object::set(object, &["spec"], "replicas", replicas);
    Vec::new()
}

/// As upstream: the limit below is tested first, also if the limits contradict each other.
fn within(before: Option<i64>, least: i64, most: i64) -> i64 {
    match before {
        None => least,
        Some(before) if before < least => least,
        Some(before) if before > most => most,
        Some(before) => before,
    }
}

fn number(text: &str) -> Option<i32> {
    text.parse().ok()
}

fn wrong(key: &str, text: &str) -> Option<FieldError> {
    let at = field::child("metadata.annotations", key);
    number(text)
        .is_none()
        .then(|| field::invalid(&at, text, "must be a number, because spec.replicas is derived from it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn replicas_stay_within_the_limits_of_the_autoscaler() {
        let limits = |least: &str, most: &str| json!({AUTOSCALER_MIN_SIZE: least, AUTOSCALER_MAX_SIZE: most});
        for (annotations, replicas, old, expected) in [
            (json!({}), json!(4), None, 4),
            (json!({}), json!(0), None, 0),
            (json!({}), json!(null), None, 1),
            // Without an autoscaler, upstream scales down to 1.
            (json!({}), json!(null), Some(json!(5)), 1),
            (json!({AUTOSCALER_MIN_SIZE: "3"}), json!(null), Some(json!(5)), 1),
            (limits("3", "7"), json!(1), Some(json!(5)), 1),
            (limits("3", "7"), json!(null), None, 3),
            (limits("3", "7"), json!(null), Some(json!(null)), 3),
            (limits("3", "7"), json!(null), Some(json!(1)), 3),
            (limits("3", "7"), json!(null), Some(json!(3)), 3),
            (limits("3", "7"), json!(null), Some(json!(5)), 5),
            (limits("3", "7"), json!(null), Some(json!(7)), 7),
            (limits("3", "7"), json!(null), Some(json!(9)), 7),
            (limits("0", "+7"), json!(null), Some(json!(9)), 7),
        ] {
            let old = old.map(|replicas| json!({"spec": {"replicas": replicas}}));
            let mut new = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": replicas}});
            let shown = format!("{new} after {old:?}");
            assert_eq!(default(&mut new, old.as_ref()), [], "{shown}");
            assert_eq!(new["spec"]["replicas"], json!(expected), "{shown}");
        }
    }

    #[test]
    fn annotations_that_are_no_numbers_are_named() {
        let annotations = json!({AUTOSCALER_MIN_SIZE: "few", AUTOSCALER_MAX_SIZE: "99999999999"});
        let mut new = json!({"metadata": {"annotations": annotations}, "spec": {}});
        let errors = default(&mut new, None);
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert!(paths[0].ends_with("min-size") && paths[1].ends_with("max-size"), "{paths:?}");
    }
}
