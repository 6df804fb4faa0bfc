//! Whether the Machines of an old MachineSet are updated in place, replaced, or must not be replaced. Pure.

use capstan_api::core::{MachineDeployment, MachineSet};
use capstan_api::keep::{self, ReplacePolicy};
use capstan_api::runtime::annotations::REPLACE_POLICY;
use capstan_controller::{Error, Result};
use kube::ResourceExt as _;

use super::rollout::Decision;
use crate::runtime::CallError;

/// What is known about the update of an old MachineSet's Machines to what the new one says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::machinedeployment) enum Reply {
    /// No extension serves the hook.
    NoExtension,
    /// Only one of the MachineSets has a bootstrap template, so there is no request to send.
    NothingToAsk,
    /// The extension cannot be called, and its failure policy is `Ignore`.
    NoAnswer { handler: String },
    /// The extension has responded. These fields remain different.
    Remaining(Vec<String>),
}

/// Whether the Machines of the old MachineSet can be updated in place.
///
/// # Errors
/// If they would have to be replaced and the policy forbids that: then nothing may be rolled out.
pub(in crate::machinedeployment) fn is_movable(
    deployment: &MachineDeployment,
    old: &MachineSet,
    reply: &Reply,
) -> Result<bool> {
    let why = match reply {
        Reply::Remaining(fields) if fields.is_empty() => return Ok(true),
        Reply::NoExtension => "no runtime extension is registered that could change them in place".to_owned(),
        Reply::NothingToAsk => "only one of both has a bootstrap template".to_owned(),
        Reply::NoAnswer { handler } => format!("{handler} gave no answer"),
        Reply::Remaining(fields) => {
            format!("these fields cannot be changed in place: {}", fields.join(", "))
        }
    };
    may_be_replaced(deployment, old, &why)?;
    Ok(false)
}

/// Whether a decision makes a MachineSet or lowers one: then Machines may be replaced.
pub(in crate::machinedeployment) fn replaces(sets: &[MachineSet], decision: &Decision) -> bool {
    let replicas = |set: &MachineSet| set.spec.replicas.unwrap_or(1);
    decision.sets.iter().any(|wanted| {
        let current = sets.iter().find(|set| set.name_any() == wanted.name_any());
        current.is_none_or(|current| replicas(wanted) < replicas(current))
    })
}

/// Refuses a rollout that would replace kept machines, unless the policy allows it.
fn may_be_replaced(deployment: &MachineDeployment, old: &MachineSet, why: &str) -> Result<()> {
    if !keep::is_kept(&old.spec.template.spec) {
        return Ok(());
    }
    let name = deployment.name_any();
    let field = format!("MachineDeployment {name} annotation {REPLACE_POLICY}");
    match ReplacePolicy::of(deployment.annotations()) {
        Ok(ReplacePolicy::WhenNeeded) => Ok(()),
        Ok(ReplacePolicy::Never) => Err(Error::user(
            field,
            format!(
                "the change would replace the kept Machines of MachineSet {}, because {why}: set it to WhenNeeded to \
                 allow that, or undo the change",
                old.name_any()
            ),
        )),
        Err(misspelt) => Err(Error::user(format!("MachineDeployment {name}"), misspelt)),
    }
}

/// The error for a call without an answer.
pub(in crate::machinedeployment) fn refused(
    deployment: &MachineDeployment,
    set: &str,
    handler: &str,
    error: CallError,
) -> Error {
    match error {
        // Only the user can change it, so the message is in a condition that users read.
        CallError::Failure(why) => Error::user(
            format!("MachineDeployment {}", deployment.name_any()),
            format!("refused by {handler}: {why}"),
        ),
        other => Error::transient(format!("cannot ask {handler} about MachineSet {set}"), other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machinedeployment::fixtures::deployment;
    use crate::machineset::fixtures::machine_set;
    use serde_json::json;

    #[test]
    fn machines_are_replaced_by_a_new_set_or_a_smaller_one() {
        let sets = [machine_set("new", 1, &json!({})), machine_set("old", 3, &json!({}))];
        for (new, old, expected) in [(1, 3, false), (2, 3, false), (1, 2, true), (0, 3, true)] {
            let sizes = [("new", new), ("old", old)];
            let wanted = sizes.map(|(name, replicas)| machine_set(name, replicas, &json!({})));
            let decision = Decision { sets: wanted.to_vec(), ..Decision::default() };
            assert_eq!(replaces(&sets, &decision), expected, "{new} {old}");
        }
        let decision = Decision { sets: vec![machine_set("next", 1, &json!({}))], ..Decision::default() };
        assert!(replaces(&sets, &decision));
    }

    #[test]
    fn kept_machines_are_replaced_only_where_the_policy_allows_it() {
        let kept =
            json!({"spec": {"template": {"spec": {"infrastructureRef": {"kind": "HostMachineTemplate"}}}}});
        let says = |policy: Option<&str>| match policy {
            Some(policy) => deployment(&json!({"metadata": {"annotations": {REPLACE_POLICY: policy}}})),
            None => deployment(&json!({})),
        };
        for (fields, policy, expected) in [
            (&json!({}), None, None),
            (&kept, Some("WhenNeeded"), None),
            (&kept, None, Some("set it to WhenNeeded")),
            (&kept, Some("Never"), Some("because so")),
            (&kept, Some("sometimes"), Some("must be Never or WhenNeeded")),
        ] {
            let refused = may_be_replaced(&says(policy), &machine_set("old", 3, fields), "so").err();
            let error = refused.map(|error| capstan_controller::error::chain(&error));
            match expected {
                None => assert_eq!(error, None, "{policy:?}"),
                Some(expected) => assert!(error.as_ref().is_some_and(|t| t.contains(expected)), "{error:?}"),
            }
        }
    }
}
