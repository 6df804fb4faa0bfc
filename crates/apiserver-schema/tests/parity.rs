//! Compares recorded responses of a real kube-apiserver with those of this crate. The test does not need the server.

use capstan_apiserver_schema::{FieldError, Structural};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    root: Map<String, Value>,
    schema: Value,
    old: Option<Value>,
    spec: Value,
    #[serde(default)]
    loosely: bool,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    schema_says: Vec<String>,
    #[serde(default)]
    reasons: Vec<String>,
    becomes: Option<Value>,
    #[serde(default)]
    drops: Vec<String>,
}

impl Case {
    fn whole_schema(&self) -> Value {
        let mut schema = self.root.clone();
        schema.insert("type".into(), json!("object"));
        schema.insert("properties".into(), json!({"spec": self.schema}));
        Value::Object(schema)
    }

    fn check(&self) -> Result<(), String> {
        let schema = match Structural::compile_at(&self.whole_schema(), "spec.validation.openAPIV3Schema") {
            Ok(schema) => schema,
            Err(errors) => return self.same(&errors.0, &self.schema_says),
        };
        if !self.schema_says.is_empty() {
            return Err(format!("the schema was accepted, upstream says {:?}", self.schema_says));
        }
        let (mut object, mut old) = (object(&self.spec), self.old.as_ref().map(object));
        let dropped = prepare(&schema, &mut object);
        if let Some(old) = &mut old {
            prepare(&schema, old);
        }
        if dropped != self.drops && self.becomes.is_some() {
            return Err(format!("dropped {dropped:?}, upstream drops {:?}", self.drops));
        }
        self.same(&schema.validate(&object, old.as_ref()), &self.says)?;
        match &self.becomes {
            Some(becomes) if whole(becomes) != whole(&object["spec"]) => {
                Err(format!("became {}, upstream makes it {becomes}", object["spec"]))
            }
            _ => Ok(()),
        }
    }

    fn same(&self, errors: &[FieldError], upstream: &[String]) -> Result<(), String> {
        let mut ours: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let mut reasons: Vec<&str> = errors.iter().map(FieldError::reason).collect();
        ours.sort();
        reasons.sort_unstable();
        let same = if self.loosely {
            let field = |text: &String| text.split(": ").next().map(String::from);
            ours.iter().map(field).collect::<BTreeSet<_>>() == upstream.iter().map(field).collect()
        } else {
            ours == upstream && reasons == self.reasons
        };
        if same {
            Ok(())
        } else {
            Err(format!("said {ours:#?} {reasons:?}, upstream says {upstream:#?} {:?}", self.reasons))
        }
    }
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "parity.capstan.dev/v1", "kind": "Thing", "metadata": {"name": "thing"}, "spec": spec})
}

fn prepare(schema: &Structural, object: &mut Value) -> Vec<String> {
    let dropped = schema.prune(object);
    schema.apply_defaults(object);
    dropped
}

/// Upstream writes whole floats without a fraction.
fn whole(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                json!(float as i64)
            }
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(whole).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), whole(value))).collect(),
        other => other.clone(),
    }
}

#[test]
fn everything_upstream_said_we_say() {
    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("parity.yaml")).unwrap();
    assert!(cases.len() > 100, "only {} cases", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| case.check().err().map(|why| format!("{}: {why}", case.name)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
