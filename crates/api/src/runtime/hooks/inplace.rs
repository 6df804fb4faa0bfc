//! Updates in place: core asks whether an extension could make a change without a new machine, and then to
//! make it.

use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::{Body, CommonRequest, CommonResponse, Hook};
use crate::core::{Machine, MachineSet};

/// Could a control plane machine be changed in place?
#[derive(Clone, Copy, Debug)]
pub enum CanUpdateMachine {}

impl Hook for CanUpdateMachine {
    const NAME: &'static str = "CanUpdateMachine";
    type Request = CanUpdateMachineRequest;
    type Response = CanUpdateMachineResponse;
}

/// Could the machines of a MachineSet be changed in place?
#[derive(Clone, Copy, Debug)]
pub enum CanUpdateMachineSet {}

impl Hook for CanUpdateMachineSet {
    const NAME: &'static str = "CanUpdateMachineSet";
    type Request = CanUpdateMachineSetRequest;
    type Response = CanUpdateMachineSetResponse;
}

/// Change a machine in place. Called again and again until the extension says that it is done.
#[derive(Clone, Copy, Debug)]
pub enum UpdateMachine {}

impl Hook for UpdateMachine {
    const NAME: &'static str = "UpdateMachine";
    type Request = UpdateMachineRequest;
    type Response = UpdateMachineResponse;
}

/// Asks which changes to one machine the extension could make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CanUpdateMachineRequest {
    /// Settings from the ExtensionConfig.
    #[serde(flatten)]
    pub common: CommonRequest,

    /// The machine as it is.
    pub current: MachineObjects,

    /// The machine as it should become.
    pub desired: MachineObjects,
}

impl Body for CanUpdateMachineRequest {
    const KIND: &'static str = "CanUpdateMachineRequest";
}

/// A machine and the two objects it refers to, without status.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineObjects {
    /// The Machine.
    pub machine: Machine,

    /// Its infrastructure machine, whatever kind that is.
    pub infrastructure_machine: Value,

    /// Its bootstrap object, if it has one.
    pub bootstrap_config: Option<Value>,
}

/// Says which changes to one machine the extension could make: patches that lead from current towards
/// desired. Only specs count. What remains different after the patches cannot be done in place.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanUpdateMachineResponse {
    /// How the call went.
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

/// Asks which changes to the machines of a MachineSet the extension could make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CanUpdateMachineSetRequest {
    /// Settings from the ExtensionConfig.
    #[serde(flatten)]
    pub common: CommonRequest,

    /// The MachineSet that the machines are in.
    pub current: MachineSetObjects,

    /// The MachineSet that they should move to.
    pub desired: MachineSetObjects,
}

impl Body for CanUpdateMachineSetRequest {
    const KIND: &'static str = "CanUpdateMachineSetRequest";
}

/// A MachineSet and the two templates it refers to, without status.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetObjects {
    /// The MachineSet.
    pub machine_set: MachineSet,

    /// Its infrastructure machine template, whatever kind that is.
    pub infrastructure_machine_template: Value,

    /// Its bootstrap template, if it has one.
    pub bootstrap_config_template: Option<Value>,
}

/// Says which changes to the machines of a MachineSet the extension could make. Only what stands under
/// `spec.template.spec` counts.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanUpdateMachineSetResponse {
    /// How the call went.
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

/// Asks to make a machine what it should become.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpdateMachineRequest {
    /// Settings from the ExtensionConfig.
    #[serde(flatten)]
    pub common: CommonRequest,

    /// The machine as it should become.
    pub desired: MachineObjects,
}

impl Body for UpdateMachineRequest {
    const KIND: &'static str = "UpdateMachineRequest";
}

/// Says how far the update is. Success with a time to come back: it is under way. Success without: it is
/// done. Failure: it went wrong, and will be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateMachineResponse {
    /// How the call went.
    #[serde(flatten)]
    pub common: CommonResponse,

    /// When to call again. 0 when there is no need to.
    #[serde(default)]
    pub retry_after_seconds: i32,
}

impl Body for UpdateMachineResponse {
    const KIND: &'static str = "UpdateMachineResponse";
}

/// One change to one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Patch {
    /// How the patch is written.
    pub patch_type: PatchType,

    /// The patch, as JSON. On the wire it is in base64.
    pub patch: ByteString,
}

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PatchType {
    /// A list of operations, as in RFC 6902.
    JSONPatch,
    /// An object whose fields replace others, as in RFC 7386.
    JSONMergePatch,
}
