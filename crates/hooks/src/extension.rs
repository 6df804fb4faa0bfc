//! What an extension answers, hook by hook.

use capstan_api::runtime::hooks::{
    API_VERSION, CanUpdateMachine, CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSet,
    CanUpdateMachineSetRequest, CanUpdateMachineSetResponse, Hook, UpdateMachine, UpdateMachineRequest,
    UpdateMachineResponse,
};
use capstan_api::runtime::{ExtensionHandler, FailurePolicy, GroupVersionHook};
use std::future::Future;

/// A runtime extension that updates machines in place.
pub trait Extension: Send + Sync + 'static {
    /// Which changes to a control plane machine it could make.
    fn can_update_machine(
        &self,
        request: CanUpdateMachineRequest,
    ) -> impl Future<Output = CanUpdateMachineResponse> + Send;

    /// Which changes to the machines of a MachineSet it could make.
    fn can_update_machine_set(
        &self,
        request: CanUpdateMachineSetRequest,
    ) -> impl Future<Output = CanUpdateMachineSetResponse> + Send;

    /// Makes a machine what it should become, or says how far that is.
    fn update_machine(
        &self,
        request: UpdateMachineRequest,
    ) -> impl Future<Output = UpdateMachineResponse> + Send;
}

/// Names of the handlers, by which their paths are made.
pub(crate) mod names {
    pub(crate) const CAN_UPDATE_MACHINE: &str = "can-update-machine";
    pub(crate) const CAN_UPDATE_MACHINE_SET: &str = "can-update-machine-set";
    pub(crate) const UPDATE_MACHINE: &str = "update-machine";
}

/// The handlers for the discovery response. Their failure policy is `Fail`: core would replace machines if it
/// continued without the extension.
pub fn handlers() -> Vec<ExtensionHandler> {
    [
        (names::CAN_UPDATE_MACHINE, CanUpdateMachine::NAME),
        (names::CAN_UPDATE_MACHINE_SET, CanUpdateMachineSet::NAME),
        (names::UPDATE_MACHINE, UpdateMachine::NAME),
    ]
    .map(|(name, hook)| ExtensionHandler {
        name: name.to_owned(),
        request_hook: GroupVersionHook { api_version: API_VERSION.to_owned(), hook: hook.to_owned() },
        timeout_seconds: None,
        failure_policy: Some(FailurePolicy::Fail),
    })
    .into()
}
