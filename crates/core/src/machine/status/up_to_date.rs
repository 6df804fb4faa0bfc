//! Whether a Machine matches its MachineDeployment.
//!
//! Compares the templates of MachineSet and MachineDeployment, not the Machine: a rollout is decided by the templates,
//! and the condition must agree with it. Control plane providers set the condition of their own Machines.

use capstan_api::conditions::{ConditionStatus, NewCondition, get, reasons};
use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::machinedeployment::select::differences;
use crate::names::machine::{reasons as machine_reasons, types};

pub(super) fn up_to_date(
    machine: &Machine,
    set: &MachineSet,
    deployment: &MachineDeployment,
    now: Timestamp,
) -> NewCondition {
    let not = |reason: &str, lines: &[String]| {
        let lines: Vec<String> = lines.iter().map(|line| format!("* {line}")).collect();
        NewCondition::new(types::UP_TO_DATE, ConditionStatus::False, reason).message(lines.join("\n"))
    };
    let mut differences = differences(&set.spec.template, &deployment.spec.template).summary;
    if is_restarted(set, deployment, now) {
        differences.push("MachineDeployment spec.rolloutAfter expired".to_owned());
    }
    if !differences.is_empty() {
        return not(reasons::NOT_UP_TO_DATE, &differences);
    }
    if let Some(updating) = get(machine, types::UPDATING).filter(|it| it.status == ConditionStatus::True) {
        let message = match updating.message.as_str() {
            "" => "In-place update in progress",
            message => message,
        };
        return not(machine_reasons::UPDATING, &[message.to_owned()]);
    }
    let info = machine.status.as_ref().and_then(|status| status.node_info.as_ref());
    let kubelet = info.map_or("", |info| info.kubelet_version.as_str());
    let wanted = machine.spec.version.as_deref().unwrap_or_default();
    if !kubelet.is_empty() && kubelet != wanted {
        let line = format!("Node.status.nodeInfo.kubeletVersion {kubelet}, {wanted} required");
        return not(machine_reasons::UPDATING, &[line]);
    }
    NewCondition::new(types::UP_TO_DATE, ConditionStatus::True, reasons::UP_TO_DATE)
}

/// A rollout was requested (`rollout.after`) after this MachineSet was created.
fn is_restarted(set: &MachineSet, deployment: &MachineDeployment, now: Timestamp) -> bool {
    let after = deployment.spec.rollout.as_ref().and_then(|rollout| rollout.after.as_ref());
    let created = set.creation_timestamp();
    after.is_some_and(|after| after.0 < now && created.is_some_and(|created| created.0 < after.0))
}
