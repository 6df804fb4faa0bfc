//! Facts from a Machine and its CapstanConfig.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{self, types};
use capstan_api::core::{Machine, MachineAddress, MachineAddressType, MachineDeletionStatus};
use capstan_api::keep;
use capstan_api::meta::{annotations, labels};
use capstan_controller::identity;
use capstan_plan::Revision;
use capstan_planner::facts::{Hook, MachineFacts};
use capstan_planner::healing::Record;
use capstan_planner::plans::drain_timeout;
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::names::{CANCEL, HEALING, LEAVE_ETCD_HOOK, RETRY};

/// Condition of a Machine with the result of its health check.
pub(crate) const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";

/// Condition of a Machine by which its health check requests action from its owner.
pub(crate) const OWNER_REMEDIATED: &str = "OwnerRemediated";

/// Reason of a Machine's deletion that waits for hooks.
const WAITING_FOR_PRE_TERMINATE_HOOK: &str = "WaitingForPreTerminateHook";

/// The facts in a Machine and its CapstanConfig. Facts from other objects are added later.
pub(crate) fn of(machine: &Machine, config: Option<&CapstanConfig>) -> MachineFacts {
    let status = machine.status.clone().unwrap_or_default();
    let deletion = machine.spec.deletion.as_ref();
    MachineFacts {
        name: machine.name_any(),
        deleting: machine.metadata.deletion_timestamp.is_some(),
        created: machine.metadata.creation_timestamp.as_ref().map(|time| time.0),
        delete_first: machine.annotations().contains_key(annotations::DELETE_MACHINE),
        is_unhealthy: conditions::is_false(machine, HEALTH_CHECK_SUCCEEDED),
        is_ill: conditions::is_false(machine, HEALTH_CHECK_SUCCEEDED)
            && conditions::is_false(machine, OWNER_REMEDIATED),
        has_recovered: conditions::is_true(machine, HEALTH_CHECK_SUCCEEDED)
            && conditions::is_false(machine, OWNER_REMEDIATED),
        is_kept_out: keep::is_held(machine),
        group: group(machine),
        healing: healing(machine),
        id: config.and_then(identity::of).map(str::to_owned),
        provider_id: machine.spec.provider_id.clone().filter(|id| !id.is_empty()),
        version: machine.spec.version.clone(),
        failure_domain: machine.spec.failure_domain.clone(),
        addresses: addresses(&status.addresses),
        has_node: status.node_ref.is_some(),
        never_drained: machine.annotations().contains_key(annotations::EXCLUDE_NODE_DRAINING),
        drain_timeout: drain_timeout(deletion.and_then(|deletion| deletion.node_drain_timeout_seconds)),
        kubelet_version: status
            .node_info
            .map(|info| info.kubelet_version)
            .filter(|version| !version.is_empty()),
        hook: hook(machine),
        awaited_since: awaited_since(status.deletion.as_ref()),
        retry: machine.annotations().get(RETRY).cloned(),
        cancel: machine.annotations().get(CANCEL).and_then(|text| Revision::new(text.parse().ok()?).ok()),
        ..MachineFacts::default()
    }
}

/// The progress of healing. An annotation that cannot be read counts as none: the next step writes it again.
fn healing(machine: &Machine) -> Record {
    let text = machine.annotations().get(HEALING);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The group that shares a budget: the machines of a MachineDeployment, or else of a MachineSet.
fn group(machine: &Machine) -> Option<String> {
    [labels::DEPLOYMENT_NAME, labels::SET_NAME].iter().find_map(|label| machine.labels().get(*label).cloned())
}

/// Addresses that a connection can be made to.
fn addresses(all: &[MachineAddress]) -> Vec<String> {
    let usable = |address: &&MachineAddress| {
        matches!(address.type_, MachineAddressType::InternalIP | MachineAddressType::ExternalIP)
    };
    all.iter().filter(usable).map(|address| address.address.clone()).collect()
}

fn hook(machine: &Machine) -> Hook {
    let hooks =
        machine.annotations().keys().filter(|key| key.starts_with(annotations::PRE_TERMINATE_HOOK_PREFIX));
    let hooks: Vec<&str> = hooks.map(String::as_str).collect();
    if !hooks.contains(&LEAVE_ETCD_HOOK) {
        return Hook::None;
    }
    let deleting = conditions::get(machine, types::DELETING);
    let waits = deleting.is_some_and(|condition| condition.reason == WAITING_FOR_PRE_TERMINATE_HOOK);
    // The hook of this controller is the last: other hooks may need the machine unchanged.
    if waits && hooks.len() == 1 { Hook::Awaited } else { Hook::Set }
}

fn awaited_since(deletion: Option<&MachineDeletionStatus>) -> Option<Timestamp> {
    deletion?.wait_for_pre_terminate_hook_start_time.as_ref().map(|time| time.0)
}
