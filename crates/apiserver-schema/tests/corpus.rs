//! Validates the objects of `tests/fixtures/objects` against the CRDs of `config/crd`: the crate accepts what a real
//! API server accepts, and rejects what it rejects with the same field. Another suite runs the same fixtures against a
//! real server.

#![cfg(test)]

use capstan_apiserver_schema::Structural;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Fixture {
    valid: Vec<Value>,
    refused: Vec<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    because: String,
    #[serde(default)]
    when: When,
    #[serde(default)]
    of: usize,
    change: Value,
    field: String,
    says: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum When {
    #[default]
    Create,
    Update,
    Status,
}

struct Served {
    kind: String,
    version: String,
    schema: Structural,
    has_status: bool,
}

impl Served {
    /// What the server makes of a body before it validates it, and the paths it drops.
    fn decode(&self, object: &Value) -> (Value, Vec<String>) {
        let mut object = object.clone();
        let dropped = self.schema.prune(&mut object);
        self.schema.apply_defaults(&mut object);
        (object, dropped)
    }

    /// Path and text of everything wrong.
    fn complaints(&self, object: &Value, old: &Value, when: When) -> Vec<(String, String)> {
        let (mut object, dropped) = self.decode(object);
        let (old, _) = self.decode(old);
        let errors = match when {
            When::Status => self.schema.validate_status(&object, &old, Vec::new()),
            When::Update => {
                if self.has_status {
                    object["status"] = old["status"].clone();
                    self.schema.apply_defaults(&mut object);
                }
                self.schema.validate(&object, Some(&old))
            }
            When::Create => {
                if let Some(fields) = object.as_object_mut().filter(|_| self.has_status) {
                    fields.remove("status");
                }
                self.schema.validate(&object, None)
            }
        };
        let unknown = dropped.into_iter().map(|path| (path, "unknown field".to_string()));
        errors.iter().map(|error| (error.path.clone(), error.body())).chain(unknown).collect()
    }
}

fn workspace() -> PathBuf {
    // At run time, so that the test can be pointed at another checkout.
    let crate_root =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&crate_root).ancestors().nth(2).unwrap().to_path_buf()
}

fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn served() -> Vec<Served> {
    let mut all = Vec::new();
    for (path, text) in files(&workspace().join("config/crd")) {
        let crd: Value = serde_saphyr::from_str(&text).unwrap();
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let schema = Structural::compile(&version["schema"]["openAPIV3Schema"])
                .unwrap_or_else(|errors| panic!("{}: {errors}", path.display()));
            let has_status = !version["subresources"]["status"].is_null();
            let version = version["name"].as_str().unwrap().to_string();
            all.push(Served { kind: kind.into(), version, schema, has_status });
        }
    }
    all
}

/// RFC 7386
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let target = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            target.shift_remove(name);
        } else {
            merge(target.entry(name).or_insert(Value::Null), value);
        }
    }
}

#[test]
fn valid_objects_are_taken_and_wrong_ones_refused() {
    let served = served();
    assert!(served.len() >= 20, "only {} schemas were found", served.len());
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (path, text) in files(&workspace().join("tests/fixtures/objects")) {
        let fixture: Fixture = serde_saphyr::from_str(&text).unwrap();
        let resource = |object: &Value| {
            let version = object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
            let of = |served: &&Served| object["kind"] == served.kind.as_str() && version == served.version;
            served.iter().find(of).unwrap_or_else(|| panic!("{}: no CRD", path.display()))
        };
        for object in &fixture.valid {
            count += 1;
            for when in [When::Create, When::Update, When::Status] {
                let complaints = resource(object).complaints(object, object, when);
                if !complaints.is_empty() {
                    wrong.push(format!("{} is valid: {complaints:?}", path.display()));
                }
            }
        }
        for case in &fixture.refused {
            count += 1;
            let before = &fixture.valid[case.of];
            let mut after = before.clone();
            merge(&mut after, &case.change);
            let complaints = resource(before).complaints(&after, before, case.when);
            let says = case.says.as_deref().unwrap_or_default();
            if !complaints.iter().any(|(field, text)| *field == case.field && text.contains(says)) {
                wrong.push(format!(
                    "{}: {}: expected {} {says:?}, found {complaints:?}",
                    path.display(),
                    case.because,
                    case.field
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
