//! The messages of the runtime hooks against golden files in `data/hooks`, one for each kind of message.
//!
//! Upstream's own types read these files strictly and write them back unchanged.

#![cfg(test)]

use capstan_api::runtime::hooks::{
    Body, CanUpdateMachine, CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSet,
    CanUpdateMachineSetRequest, CanUpdateMachineSetResponse, CommonResponse, Discovery, DiscoveryRequest,
    DiscoveryResponse, Hook, Message, PatchType, ResponseStatus, UpdateMachine, UpdateMachineRequest,
    UpdateMachineResponse, path,
};
use capstan_api::runtime::{ExtensionHandler, FailurePolicy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads the golden file of a message and checks that it is written back as it was.
fn golden<B: Body + Serialize + DeserializeOwned>() -> B {
    let file = format!("{}/tests/data/hooks/{}.json", env!("CARGO_MANIFEST_DIR"), B::KIND);
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let message: Message<B> = serde_json::from_value(golden.clone()).unwrap();
    assert_eq!(serde_json::to_value(&message).unwrap(), golden);
    message.0
}

fn read<B: Body + DeserializeOwned>(message: Value) -> Result<B, String> {
    serde_json::from_value(message).map(|Message(body)| body).map_err(|error| error.to_string())
}

#[test]
fn discovery() {
    assert_eq!(golden::<DiscoveryRequest>(), DiscoveryRequest {});
    let response = golden::<DiscoveryResponse>();
    let [first, second] = response.handlers.as_slice() else { panic!("{response:?}") };
    assert_eq!((first.timeout_seconds, first.failure_policy), (Some(20), Some(FailurePolicy::Ignore)));
    assert_eq!(second.request_hook.hook, UpdateMachine::NAME);
    let unset = |h: &ExtensionHandler| h.timeout_seconds.is_none() && h.failure_policy.is_none();
    assert!(unset(second));
}

#[test]
fn can_update_machine() {
    let request = golden::<CanUpdateMachineRequest>();
    assert_eq!(request.common.settings["tier"], "gold");
    assert_eq!(request.desired.machine.spec.version.as_deref(), Some("v1.36.0"));
    let response = golden::<CanUpdateMachineResponse>();
    let patch = response.machine_patch.unwrap();
    assert_eq!(patch.patch_type, PatchType::JSONPatch);
    assert_eq!(patch.patch.0, br#"[{"op":"replace","path":"/spec/version","value":"v1.36.0"}]"#);
}

#[test]
fn can_update_machine_set() {
    let request = golden::<CanUpdateMachineSetRequest>();
    assert_eq!(
        request.current.infrastructure_machine_template["spec"]["template"]["spec"]["backend"]["memoryGiB"],
        4
    );
    let response = golden::<CanUpdateMachineSetResponse>();
    assert_eq!(response.machine_set_patch.unwrap().patch_type, PatchType::JSONMergePatch);
}

#[test]
fn update_machine() {
    assert_eq!(golden::<UpdateMachineRequest>().desired.bootstrap_config, None);
    let response = golden::<UpdateMachineResponse>();
    assert_eq!((response.common.status, response.retry_after_seconds), (ResponseStatus::Success, 15));
}

#[test]
fn a_short_answer_is_enough() {
    let done: UpdateMachineResponse = read(json!({"status": "Success"})).unwrap();
    assert_eq!(done, UpdateMachineResponse { common: CommonResponse::success(), retry_after_seconds: 0 });
    let no: CanUpdateMachineResponse = read(json!({"kind": "", "status": "Success"})).unwrap();
    assert_eq!(
        (no.machine_patch, no.infrastructure_machine_patch, no.bootstrap_config_patch),
        (None, None, None)
    );
}

#[test]
fn empty_parts_are_not_written() {
    let failed = DiscoveryResponse { common: CommonResponse::failure("no"), handlers: vec![] };
    let expected = json!({
        "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1",
        "kind": "DiscoveryResponse",
        "status": "Failure",
        "message": "no",
    });
    assert_eq!(serde_json::to_value(Message(failed)).unwrap(), expected);
}

#[test]
fn a_message_of_another_kind_is_refused() {
    let error = read::<DiscoveryRequest>(json!({"kind": "UpdateMachineRequest"})).unwrap_err();
    assert_eq!(error, r#"kind is "UpdateMachineRequest", expected "DiscoveryRequest""#);
    let error = read::<DiscoveryRequest>(json!({"apiVersion": "v1"})).unwrap_err();
    assert_eq!(error, r#"apiVersion is "v1", expected "hooks.runtime.cluster.x-k8s.io/v1alpha1""#);
    let error = read::<DiscoveryResponse>(json!({"status": "Maybe"})).unwrap_err();
    assert!(error.contains("Maybe"), "{error}");
}

#[test]
fn paths_are_lower_case() {
    let base = "/hooks.runtime.cluster.x-k8s.io/v1alpha1";
    assert_eq!(path(Discovery::NAME, None), format!("{base}/discovery"));
    assert_eq!(path(CanUpdateMachine::NAME, Some("inPlace")), format!("{base}/canupdatemachine/inplace"));
    assert_eq!(path(CanUpdateMachineSet::NAME, Some("x")), format!("{base}/canupdatemachineset/x"));
    assert_eq!(path(UpdateMachine::NAME, Some("x")), format!("{base}/updatemachine/x"));
}
