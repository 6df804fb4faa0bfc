//! Checks whether an object is already as desired, so that a start need not apply it again: a write that changes
//! nothing costs nearly as much as any other.

use capstan_plan::Digest;
use serde_json::Value;

/// A word for everything that was applied last.
const APPLIED: &str = "capstan.dev/applied";

/// The object, with an annotation that contains the digest of its content.
pub(super) fn marked(mut object: Value) -> Value {
    let digest = Digest::of(object.to_string().as_bytes()).to_string();
    object["metadata"]["annotations"][APPLIED] = digest.into();
    object
}

/// Whether a forced apply of `wanted`, which must be [`marked`], would change nothing: all its fields have these
/// values, and the digest shows that it was applied last, so that no field of an earlier version is left.
pub(super) fn is_there(wanted: &Value, there: &Value) -> bool {
    // The word is in what is wanted.
    holds(there, wanted)
}

/// Whether one has everything that the other has. The server adds defaults to what it is given, but no items to lists.
fn holds(all: &Value, part: &Value) -> bool {
    match (all, part) {
        (Value::Object(all), Value::Object(part)) => {
            part.iter().all(|(name, part)| all.get(name).is_some_and(|all| holds(all, part)))
        }
        (Value::Array(all), Value::Array(part)) => {
            all.len() == part.len() && all.iter().zip(part).all(|(all, part)| holds(all, part))
        }
        // A server may write 1 where it was given 1.0.
        (Value::Number(all), Value::Number(part)) if all.is_f64() != part.is_f64() => {
            all.as_f64() == part.as_f64()
        }
        (all, part) => all == part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(spec: &Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn what_was_applied_last_is_there_whatever_the_server_has_added() {
        let wanted = marked(object(&json!({"a": 1.0, "list": [{"b": 2}, {"b": 3}]})));
        let mut there = wanted.clone();
        there["spec"]["a"] = 1.into();
        there["metadata"]["uid"] = "1".into();
        there["spec"]["default"] = true.into();
        there["spec"]["list"][1]["default"] = 4.into();
        assert!(is_there(&wanted, &there));
    }

    #[test]
    fn what_somebody_has_changed_is_not() {
        let wanted = marked(object(&json!({"a": 1, "list": [{"b": 2}, {"b": 3}]})));
        let changes: [fn(&mut Value); 5] = [
            |there| there["spec"]["a"] = 2.into(),
            |there| drop(there["spec"].as_object_mut().unwrap().remove("a")),
            |there| there["spec"]["list"][0]["b"] = 3.into(),
            |there| there["spec"]["list"].as_array_mut().unwrap().push(json!({"b": 4})),
            |there| drop(there["spec"]["list"].as_array_mut().unwrap().pop()),
        ];
        for change in changes {
            let mut there = wanted.clone();
            change(&mut there);
            assert!(!is_there(&wanted, &there), "{there}");
        }
    }

    #[test]
    fn what_said_more_when_it_was_applied_is_not() {
        let there = marked(object(&json!({"a": 1, "b": 2})));
        assert!(!is_there(&marked(object(&json!({"a": 1}))), &there));
        assert!(!is_there(&marked(object(&json!({"a": 1, "b": 2}))), &object(&json!({"a": 1, "b": 2}))));
    }
}
