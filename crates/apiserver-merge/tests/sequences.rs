//! Replays sequences of writes that were recorded from a real kube-apiserver, and compares the results. The test does
//! not need the server; it imitates what the server does around a write (defaults, the reset of status, uid).

#![cfg(test)]

use capstan_apiserver_merge::{
    Applied, ApplyError, Shape, Write, apply, json_patch, keep_unchanged_times, merge_patch, track_update,
};
use capstan_apiserver_schema::Structural;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const API_VERSION: &str = "ssa.capstan.dev/v1";

#[derive(Deserialize)]
struct Table {
    schema: Value,
    sequences: Vec<Sequence>,
}

#[derive(Deserialize)]
struct Sequence {
    name: String,
    steps: Vec<SequenceStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceStep {
    r#do: String,
    r#as: String,
    #[serde(default)]
    force: bool,
    at: Option<String>,
    body: Value,
    gives: Option<Value>,
    stored: Option<bool>,
    conflict: Option<Value>,
    failed: Option<Value>,
    managers: Option<Vec<Value>>,
}

struct Server {
    shape: Shape,
    schema: Structural,
    live: Option<Value>,
}

#[derive(Debug)]
enum Refused {
    Conflict(Value),
    Invalid(Vec<String>),
}

impl Server {
    /// Whether the write was stored.
    fn write(&mut self, number: usize, step: &SequenceStep) -> Result<bool, Refused> {
        let now = time(number);
        let reset: &[&str] = if step.at.is_some() { &["metadata", "spec"] } else { &["status"] };
        let write = Write {
            shape: &self.shape,
            manager: &step.r#as,
            api_version: API_VERSION,
            subresource: step.at.as_deref(),
            now: &now,
            reset,
            blank: &Value::Null,
        };
        let mut object = match step.r#do.as_str() {
            "apply" => match apply(self.live.as_ref(), &named(&step.body), &write, step.force) {
                Ok(Applied { mut object, .. }) => {
                    self.schema.fill_defaults(&mut object);
                    object
                }
                Err(ApplyError::Conflicts(conflicts)) => {
                    let causes: Vec<_> = conflicts.0.iter().map(|c| json!([c.field, c.message()])).collect();
                    return Err(Refused::Conflict(
                        json!({"message": conflicts.to_string(), "causes": causes}),
                    ));
                }
                Err(other) => panic!("{other}"),
            },
            other => {
                let mut object = self.live.clone().unwrap_or_default();
                match other {
                    "create" | "put" => object = named(&step.body),
                    "merge" => merge_patch(&mut object, &step.body).unwrap(),
                    "json" => json_patch(&mut object, &step.body).unwrap(),
                    _ => panic!("no such write: {other}"),
                }
                self.schema.prune(&mut object);
                self.schema.apply_defaults(&mut object);
                track_update(self.live.as_ref(), &mut object, &write);
                object
            }
        };
        let errors: Vec<String> =
            self.schema.validate(&object, self.live.as_ref()).iter().map(ToString::to_string).collect();
        if !errors.is_empty() {
            return Err(Refused::Invalid(errors));
        }
        self.reset(&mut object, step.at.is_some());
        if let Some(live) = &self.live {
            keep_unchanged_times(live, &mut object);
        }
        let stored = self.live.as_ref() != Some(&object);
        self.live = Some(object);
        Ok(stored)
    }

    /// Fields that the server does not change through this subresource.
    fn reset(&self, object: &mut Value, status_only: bool) {
        let Some(live) = &self.live else {
            object["metadata"]["uid"] = json!("u");
            object.as_object_mut().unwrap().remove("status");
            return;
        };
        object["metadata"]["uid"] = live["metadata"]["uid"].clone();
        let (kept, other) =
            if status_only { (live.clone(), object.clone()) } else { (object.clone(), live.clone()) };
        let managed = object["metadata"].get("managedFields").cloned();
        *object = kept;
        let fields = object.as_object_mut().unwrap();
        match other.get("status") {
            Some(status) => fields.insert("status".into(), status.clone()),
            None => fields.remove("status"),
        };
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        metadata.extend(managed.map(|managed| ("managedFields".to_string(), managed)));
    }
}

fn time(step: usize) -> String {
    format!("2026-01-01T00:00:{step:02}Z")
}

fn named(body: &Value) -> Value {
    let mut object = body.clone();
    object["apiVersion"] = json!(API_VERSION);
    object["kind"] = json!("KIND");
    object["metadata"]["name"] = json!("thing");
    object
}

/// The object in the form of the table.
fn seen(object: &Value) -> Value {
    let mut seen = object.as_object().unwrap().clone();
    seen.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    let mut metadata = object["metadata"].as_object().cloned().unwrap_or_default();
    metadata.retain(|name, _| {
        matches!(name.as_str(), "labels" | "annotations" | "finalizers" | "ownerReferences")
    });
    if !metadata.is_empty() {
        seen.insert("metadata".into(), Value::Object(metadata));
    }
    Value::Object(seen)
}

fn managers(object: &Value) -> Vec<Value> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let entry = |entry: Value| {
        let mut entry: Map<String, Value> = entry.as_object().unwrap().clone();
        assert_eq!(entry.remove("apiVersion"), Some(json!(API_VERSION)));
        assert_eq!(entry.remove("fieldsType"), Some(json!("FieldsV1")));
        if let Some(written) = entry.get_mut("time") {
            *written = json!((0..60).find(|step| *written == time(*step).as_str()));
        }
        Value::Object(entry)
    };
    entries.into_iter().map(entry).collect()
}

#[test]
fn every_sequence_ends_as_it_did_upstream() {
    let table: Table = serde_saphyr::from_str(include_str!("sequences.yaml")).unwrap();
    let mut steps = 0;
    for sequence in &table.sequences {
        let mut server = Server {
            shape: Shape::new(Some(&table.schema)),
            schema: Structural::compile(&table.schema).unwrap(),
            live: None,
        };
        for (number, step) in sequence.steps.iter().enumerate() {
            steps += 1;
            let at = format!("{}, step {number}: {} as {}", sequence.name, step.r#do, step.r#as);
            match (server.write(number, step), &step.conflict, &step.failed) {
                (Ok(stored), None, None) => {
                    let live = server.live.as_ref().unwrap();
                    assert_eq!(Some(seen(live)), step.gives, "{at}");
                    assert_eq!(Some(managers(live)), step.managers, "{at}");
                    assert_eq!(Some(stored), step.stored, "{at}");
                }
                (Err(Refused::Conflict(conflict)), Some(expected), None) => {
                    assert_eq!(conflict, *expected, "{at}");
                }
                (Err(Refused::Invalid(errors)), None, Some(expected)) => {
                    let message = expected["message"].as_str().unwrap();
                    assert!(
                        errors.iter().all(|error| message.contains(error)),
                        "{at}: {errors:?}, not {message}"
                    );
                }
                (outcome, ..) => {
                    panic!("{at}: {outcome:?}, but upstream {:?} {:?}", step.conflict, step.failed)
                }
            }
        }
    }
    assert!(steps > 90, "only {steps} steps");
}
