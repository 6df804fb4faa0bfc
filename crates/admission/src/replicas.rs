//! The default of `spec.replicas` for kinds that an autoscaler may scale.
//!
//! A field that is left out must not delete Machines. What is not known here, the number of Machines that an object has, core
//! knows: it keeps that number, and stays within the limits of the autoscaler.

use crate::object;
use capstan_api::meta::annotations::{AUTOSCALER_MAX_SIZE, AUTOSCALER_MIN_SIZE};
use capstan_topology::{FieldError, field};
use serde_json::Value;

/// Sets `spec.replicas` if it is missing: to what there was before, or for a new object to 1; with both annotations of the
/// autoscaler within its limits.
///
/// Other than upstream, an update without these annotations does not set 1, and nothing is set if the number before is not
/// known: the object had none, or it is new and has owners, because it was moved or restored.
pub(crate) fn default(object: &mut Value, old: Option<&Value>) -> Vec<FieldError> {
    if object::at(object, &["spec", "replicas"]).is_some() {
        return Vec::new();
    }
    let limits = match limits(object) {
        Ok(limits) => limits,
        Err(errors) => return errors,
    };
    let before = old.and_then(|old| object::at(old, &["spec", "replicas"])).and_then(Value::as_i64);
    let replicas = match (old, before) {
        (None, _) if object::at(object, &["metadata", "ownerReferences"]).is_some() => return Vec::new(),
        (None, _) => limits.map_or(1, |(least, _)| least),
        (Some(_), None) => return Vec::new(),
        (Some(_), Some(before)) => limits.map_or(before, |limits| within(before, limits)),
    };
    object::set(object, &["spec"], "replicas", replicas);
    Vec::new()
}

/// The limits of the autoscaler. One annotation without the other is none.
fn limits(object: &Value) -> Result<Option<(i64, i64)>, Vec<FieldError>> {
    let annotation = |key| object::at(object, &["metadata", "annotations", key]).and_then(Value::as_str);
    let (Some(least), Some(most)) = (annotation(AUTOSCALER_MIN_SIZE), annotation(AUTOSCALER_MAX_SIZE)) else {
        return Ok(None);
    };
    match (number(least), number(most)) {
        (Some(least), Some(most)) => Ok(Some((i64::from(least), i64::from(most)))),
        _ => {
            let sizes = [(AUTOSCALER_MIN_SIZE, least), (AUTOSCALER_MAX_SIZE, most)];
            Err(sizes.into_iter().filter_map(|(key, text)| wrong(key, text)).collect())
        }
    }
}

/// As upstream: the limit below is tested first, also if the limits contradict each other.
fn within(before: i64, (least, most): (i64, i64)) -> i64 {
    if before < least { least } else { before.min(most) }
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
            // Upstream scales down to 1 here.
            (json!({}), json!(null), Some(json!(5)), 5),
            (json!({AUTOSCALER_MIN_SIZE: "7"}), json!(null), Some(json!(5)), 5),
            (limits("3", "7"), json!(1), Some(json!(5)), 1),
            (limits("3", "7"), json!(null), None, 3),
            (limits("7", "3"), json!(null), Some(json!(5)), 7),
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
    fn core_decides_what_is_not_known_here() {
        let limits = json!({AUTOSCALER_MIN_SIZE: "3", AUTOSCALER_MAX_SIZE: "7"});
        let owners =
            json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "u"}]);
        let without = json!({"spec": {}});
        for (metadata, old) in [
            (json!({}), Some(&without)),
            (json!({"annotations": limits}), Some(&without)),
            // Moved with its Machines, which come later.
            (json!({"ownerReferences": owners}), None),
            (json!({"ownerReferences": owners, "annotations": limits}), None),
        ] {
            let mut new = json!({"metadata": metadata, "spec": {}});
            assert_eq!(default(&mut new, old), []);
            assert_eq!(new["spec"], json!({}), "{metadata}");
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
