//! The parts of a Secret that a bundle may contain: its name, its type, its keys and the lengths of their values; for a
//! plan, also the names of its steps. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use capstan_plan::{SECRET_TYPE, SealedPlan, keys};
use serde_json::{Map, Value, json};

/// The Secret without its data, and without annotations, which may repeat the data.
pub(super) fn summary(secret: &Value) -> Value {
    let metadata = &secret["metadata"];
    let kept =
        ["name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp", "ownerReferences"];
    let metadata: Map<String, Value> = kept
        .iter()
        .filter_map(|key| metadata.get(*key).map(|value| ((*key).to_owned(), value.clone())))
        .collect();
    let length = |text: &str, is_encoded: bool| match is_encoded {
        true => STANDARD.decode(text).map_or(text.len(), |bytes| bytes.len()),
        false => text.len(),
    };
    let sizes = |field: &str| {
        let values = secret[field].as_object().into_iter().flatten();
        let is_encoded = field == "data";
        values
            .map(move |(key, value)| {
                (key.clone(), json!(length(value.as_str().unwrap_or_default(), is_encoded)))
            })
            .collect::<Vec<_>>()
    };
    let bytes: Map<String, Value> = sizes("data").into_iter().chain(sizes("stringData")).collect();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": secret["type"], "dataBytes": bytes})
}

/// The plan of a machine by the names of its steps; `None` for any other Secret.
pub(super) fn plan(secret: &Value) -> Option<Value> {
    if secret["type"] != SECRET_TYPE {
        return None;
    }
    let data = |key: &str| secret["data"][key].as_str().and_then(|text| STANDARD.decode(text).ok());
    let text = |key: &str| data(key).and_then(|bytes| String::from_utf8(bytes).ok());
    let mut summary = json!({
        "secret": secret["metadata"]["name"],
        "namespace": secret["metadata"]["namespace"],
        "revision": text(keys::REVISION),
        "digest": text(keys::DIGEST),
        "signedBy": text(keys::KEY),
    });
    match SealedPlan::parse(&data(keys::PLAN).unwrap_or_default()) {
        Ok(sealed) => {
            let plan = sealed.plan();
            // No digest of a step: a weak password could be guessed from the digest of the step that writes it.
            let steps = plan.steps.iter().map(|step| json!({"name": step.name}));
            summary["machine"] = json!(plan.machine);
            summary["expires"] = json!(plan.expires.to_string());
            summary["steps"] = Value::Array(steps.collect());
        }
        // The error may quote what it cannot read.
        Err(_) => summary["steps"] = json!("this version of capstan cannot read the plan"),
    }
    Some(summary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::{
        Action, Content, Epoch, File, MachineIdentity, MachinePath, MachinePlan, Mode, Revision, SecretText,
        Step,
    };

    #[test]
    fn a_secret_is_shown_as_its_keys_and_their_sizes() {
        let secret = json!({
            "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "s", "labels": {"a": "b"}, "annotations": {"x": "hunter2"}, "managedFields": []},
            "data": {"password": "aHVudGVyMg=="}, "stringData": {"plain": "hunter2"},
        });
        let summarized = summary(&secret);
        assert_eq!(summarized["dataBytes"], json!({"password": 7, "plain": 7}));
        assert_eq!(summarized["metadata"], json!({"name": "s", "labels": {"a": "b"}}));
        assert!(
            !summarized.to_string().contains("hunter2") && !summarized.to_string().contains("aHVudGVyMg")
        );
        assert_eq!(plan(&secret), None);
    }

    #[test]
    fn a_plan_is_shown_as_its_steps() {
        let machine = MachineIdentity { name: "m".parse().unwrap(), machine_id: "i".parse().unwrap() };
        let mut sealed = MachinePlan::new(machine, Revision::FIRST, Epoch(1), jiff::Timestamp::UNIX_EPOCH);
        let file = File {
            path: MachinePath::new("/etc/token").unwrap(),
            content: Content::from("hunter2"),
            mode: Mode::new(0o600).unwrap(),
            owner: 0,
            group: 0,
            secret: true,
        };
        sealed.steps.push(Step::new("write".parse().unwrap(), Action::File(file)));
        sealed.redact.push(SecretText::new("hunter2"));
        let bytes = sealed.seal().unwrap().bytes().to_vec();
        let secret = json!({"type": SECRET_TYPE, "metadata": {"name": "m-plan"}, "data": {"plan": STANDARD.encode(bytes)}});
        let summarized = plan(&secret).unwrap();
        assert_eq!(summarized["steps"], json!([{"name": "write"}]));
        let text = summarized.to_string();
        assert!(!text.contains("hunter2") && !text.contains(&STANDARD.encode("hunter2")), "{text}");
    }

    #[test]
    fn a_plan_that_cannot_be_read_is_not_quoted() {
        let encoded = STANDARD.encode(r#"{"token":"hunter2"}"#);
        let secret = json!({"type": SECRET_TYPE, "metadata": {"name": "m-plan"}, "data": {"plan": encoded, "revision": "Mw=="}});
        let summarized = plan(&secret).unwrap();
        assert_eq!((&summarized["revision"], &summarized["secret"]), (&json!("3"), &json!("m-plan")));
        assert!(
            !summarized.to_string().contains("hunter2") && summarized["steps"].is_string(),
            "{summarized}"
        );
    }
}
