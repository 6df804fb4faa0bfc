//! In-place updates: core asks an extension which changes it can make without a new machine, and then requests them.

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::{Body, CommonRequest, CommonResponse, Hook};
use crate::core::{Machine, MachineSet};

/// Hook: which changes of a control plane machine can be made in place.
#[derive(Clone, Copy, Debug)]
pub enum CanUpdateMachine {}

impl Hook for CanUpdateMachine {
    const NAME: &'static str = "CanUpdateMachine";
    type Request = CanUpdateMachineRequest;
    type Response = CanUpdateMachineResponse;
}

/// Hook: which changes of the machines of a MachineSet can be made in place.
#[derive(Clone, Copy, Debug)]
pub enum CanUpdateMachineSet {}

impl Hook for CanUpdateMachineSet {
    const NAME: &'static str = "CanUpdateMachineSet";
    type Request = CanUpdateMachineSetRequest;
    type Response = CanUpdateMachineSetResponse;
}

/// Hook: update a machine in place. Core calls it until the extension reports that the update is done.
#[derive(Clone, Copy, Debug)]
pub enum UpdateMachine {}

impl Hook for UpdateMachine {
    const NAME: &'static str = "UpdateMachine";
    type Request = UpdateMachineRequest;
    type Response = UpdateMachineResponse;
}

/// Request: which changes of one machine the extension can make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CanUpdateMachineRequest {
    /// Settings from the ExtensionConfig of the extension.
    #[serde(flatten)]
    pub common: CommonRequest,

    /// The current state of the machine.
    pub current: MachineObjects,

    /// The desired state of the machine.
    pub desired: MachineObjects,
}

impl Body for CanUpdateMachineRequest {
    const KIND: &'static str = "CanUpdateMachineRequest";
}

/// A Machine and the two objects that it refers to, without status.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineObjects {
    /// The Machine.
    pub machine: Machine,

    /// Its infrastructure machine, of any kind.
    pub infrastructure_machine: Value,

    /// Its bootstrap object, if it has one.
    pub bootstrap_config: Option<Value>,
}

/// Response: which changes of one machine the extension can make, as patches from the current to the desired state.
/// Only spec is compared. Differences that remain after the patches cannot be made in place.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanUpdateMachineResponse {
    /// Result of the call.
    #[serde(flatten)]
    pub common: CommonResponse,

    /// Changes to the Machine.
    pub machine_patch: Option<Patch>,

    /// Changes to the infrastructure machine.
    pub infrastructure_machine_patch: Option<Patch>,

    /// Changes to the bootstrap object.
    pub bootstrap_config_patch: Option<Patch>,
}

impl Body for CanUpdateMachineResponse {
    const KIND: &'static str = "CanUpdateMachineResponse";
}

/// Request: which changes of the machines of a MachineSet the extension can make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CanUpdateMachineSetRequest {
    /// Settings from the ExtensionConfig of the extension.
    #[serde(flatten)]
    pub common: CommonRequest,

    /// The MachineSet to which the machines belong now.
    pub current: MachineSetObjects,

    /// The MachineSet to which they are to be moved.
    pub desired: MachineSetObjects,
}

impl Body for CanUpdateMachineSetRequest {
    const KIND: &'static str = "CanUpdateMachineSetRequest";
}

/// A MachineSet and the two templates that it refers to, without status.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetObjects {
    /// The MachineSet.
    pub machine_set: MachineSet,

    /// Its infrastructure machine template, of any kind.
    pub infrastructure_machine_template: Value,

    /// Its bootstrap template, if it has one.
    pub bootstrap_config_template: Option<Value>,
}

/// Response: which changes of the machines of a MachineSet the extension can make. Only `spec.template.spec` is
/// compared.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanUpdateMachineSetResponse {
    /// Result of the call.
    #[serde(flatten)]
    pub common: CommonResponse,

    /// Changes to the MachineSet.
    pub machine_set_patch: Option<Patch>,

    /// Changes to the infrastructure machine template.
    pub infrastructure_machine_template_patch: Option<Patch>,

    /// Changes to the bootstrap template.
    pub bootstrap_config_template_patch: Option<Patch>,
}

impl Body for CanUpdateMachineSetResponse {
    const KIND: &'static str = "CanUpdateMachineSetResponse";
}

/// Request to update a machine to its desired state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdateMachineRequest {
    /// Settings from the ExtensionConfig of the extension.
    #[serde(flatten)]
    pub common: CommonRequest,

    /// The desired state of the machine.
    pub desired: MachineObjects,
}

impl Body for UpdateMachineRequest {
    const KIND: &'static str = "UpdateMachineRequest";
}

/// Progress of the update. Success with a retry time: in progress. Success without a retry time: done. Failure: the
/// update failed and is retried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateMachineResponse {
    /// Result of the call.
    #[serde(flatten)]
    pub common: CommonResponse,

    /// Time until core calls again, in seconds. 0: no further call.
    #[serde(default)]
    pub retry_after_seconds: i32,
}

impl Body for UpdateMachineResponse {
    const KIND: &'static str = "UpdateMachineResponse";
}

/// A patch of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// Format of the patch.
    pub patch_type: PatchType,

    /// The patch as JSON, base64-encoded in the message.
    pub patch: ByteString,
}

/// Formats of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PatchType {
    /// A list of operations (RFC 6902).
    JSONPatch,
    /// A merge patch (RFC 7386).
    JSONMergePatch,
}
