//! Requests of core to the runtime extension.

use capstan_api::runtime::hooks::{
    Body, CanUpdateMachineRequest, CanUpdateMachineSetRequest, CommonResponse, Message, Patch, PatchType,
    UpdateMachineRequest,
};
use capstan_hooks::capstan::{can_update, progress};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Debug;

/// The body of each request, and for the progress of an update the objects on the management plane.
pub(crate) fn hooks(input: &[u8]) {
    if let Some(request) = read::<CanUpdateMachineRequest>(input) {
        let answer = can_update::machine(&request);
        check_message(&answer.common);
        apply(request.current.bootstrap_config.as_ref(), answer.bootstrap_config_patch.as_ref());
        apply(Some(&value(&request.current.machine)), answer.machine_patch.as_ref());
        _ = write(&answer);
    }
    if let Some(request) = read::<CanUpdateMachineSetRequest>(input) {
        let answer = can_update::machine_set(&request);
        check_message(&answer.common);
        let template = request.current.bootstrap_config_template.as_ref();
        apply(template, answer.bootstrap_config_template_patch.as_ref());
        apply(Some(&value(&request.current.machine_set)), answer.machine_set_patch.as_ref());
        _ = write(&answer);
    }
    if let Some(request) = read::<UpdateMachineRequest>(input) {
        let seen = serde_json::from_slice(input).unwrap_or_default();
        let answer = progress::answer(&request.desired, &objects(seen));
        check_message(&answer.common);
        _ = write(&answer);
    }
}

/// What is on the management plane: each field an object as JSON.
#[derive(Default, Deserialize)]
struct OnPlane {
    #[serde(default)]
    machine: Value,
    #[serde(default)]
    set: Value,
    #[serde(default)]
    config: Value,
    #[serde(default)]
    report: Value,
}

fn objects(seen: OnPlane) -> progress::Seen {
    fn typed<K: DeserializeOwned>(object: Value) -> Option<K> {
        serde_json::from_value(object).ok()
    }
    progress::Seen {
        machine: typed(seen.machine),
        set: typed(seen.set),
        config: typed(seen.config),
        report: typed(seen.report),
    }
}

/// A request that was read is written in a form that is read as the same.
fn read<B: Body + Serialize + DeserializeOwned + Clone + PartialEq + Debug>(input: &[u8]) -> Option<B> {
    let Message(request) = serde_json::from_slice::<Message<B>>(input).ok()?;
    let written = write(&request);
    let again =
        serde_json::from_slice::<Message<B>>(&written).expect("a request that was written can be read");
    assert_eq!(again.0, request);
    Some(request)
}

fn write<B: Body + Serialize + Clone>(body: &B) -> Vec<u8> {
    serde_json::to_vec(&Message(body.clone())).expect("a message can be written")
}

fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("an object can be written")
}

/// A failure says why.
fn check_message(answer: &CommonResponse) {
    let is_told = answer.message.as_ref().is_some_and(|message| !message.is_empty());
    assert!(is_told || *answer == CommonResponse::success(), "a failure without a message");
}

/// A patch fits the object that it is for.
fn apply(object: Option<&Value>, patch: Option<&Patch>) {
    let Some(patch) = patch else { return };
    let mut object = object.expect("a patch is for an object that was sent").clone();
    match patch.patch_type {
        PatchType::JSONPatch => {
            let patch: json_patch::Patch = serde_json::from_slice(&patch.patch.0).expect("a JSON patch");
            json_patch::patch(&mut object, &patch).expect("the patch fits");
        }
        PatchType::JSONMergePatch => {
            let patch: Value = serde_json::from_slice(&patch.patch.0).expect("a merge patch");
            json_patch::merge(&mut object, &patch);
        }
    }
}
