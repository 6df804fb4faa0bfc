//! Core events and those of `events.k8s.io`: one stored object, two ways to write it down. Stored is the
//! core form.

use serde_json::{Map, Value};

/// The core name of each field beside its name in `events.k8s.io`.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
];

/// From the form of `events.k8s.io`.
pub fn to_core(event: &Value) -> Value {
    rename(event, "v1", |name| FIELDS.iter().find(|(_, new)| *new == name).map(|(old, _)| *old))
}

/// Into the form of `events.k8s.io`.
pub fn from_core(event: &Value) -> Value {
    rename(event, "events.k8s.io/v1", |name| FIELDS.iter().find(|(old, _)| *old == name).map(|(_, new)| *new))
}

fn rename(event: &Value, api_version: &str, other: impl Fn(&str) -> Option<&'static str>) -> Value {
    let mut out = Map::new();
    for (name, value) in event.as_object().into_iter().flatten() {
        let value = if name == "apiVersion" { api_version.into() } else { value.clone() };
        out.insert(other(name).unwrap_or(name).to_owned(), value);
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn there_and_back() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {"name": "x"},
            "message": "m", "reportingComponent": "c", "count": 2, "reason": "r",
        });
        let new = super::from_core(&core);
        assert_eq!(new["regarding"]["name"], "x");
        assert_eq!(new["note"], "m");
        assert_eq!(super::to_core(&new), core);
    }
}
