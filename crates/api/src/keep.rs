//! Kept machines: which machines they are, and whether they may be replaced. No I/O.
//!
//! One policy covers every way of losing a machine: a change that cannot be made in place, a failed health check,
//! `rollout.after`, a restart of a rollout, and scaling down that would delete a machine with data. Machines of other
//! providers are not kept: the rules of Cluster API apply to them.

use kube::core::ObjectMeta;
use std::collections::BTreeMap;

use crate::core::{Machine, MachineSpec};
use crate::meta::ContractVersionedObjectReference;
use crate::runtime::annotations::REPLACE_POLICY;

/// Annotation of a Machine that excludes it from changes by Capstan: new plans, restarts, drains and healing. When
/// scaling down, the Machine is deleted last. The value is for people, such as the reason.
pub const HOLD: &str = "capstan.dev/hold";

/// Condition of a Machine whose health check has failed: the progress of healing in place.
pub const HEALED_IN_PLACE: &str = "HealedInPlace";

/// Reasons of [`HEALED_IN_PLACE`].
pub mod healing {
    /// The Machine is healthy, and healing is not in progress.
    pub const HEALTHY: &str = "Healthy";
    /// Healing waits for another machine, for etcd, or for the time of the next step.
    pub const WAITING: &str = "Waiting";
    /// Kubernetes on the machine is being restarted.
    pub const RESTARTING: &str = "RestartingKubernetes";
    /// All steps of the plan are run again.
    pub const REAPPLYING: &str = "ReapplyingPlan";
    /// The machine is being rebooted.
    pub const REBOOTING: &str = "Rebooting";
    /// The agent of the machine is silent, so no step can run on the machine.
    pub const SILENT: &str = "MachineSilent";
    /// All steps have failed: a person must act, or the policy must allow a replacement.
    pub const EXHAUSTED: &str = "NeedsAttention";
}

/// Whether a kept machine may be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplacePolicy {
    /// No. Capstan refuses changes that cannot be made in place. Machines that cannot be healed wait for a person.
    #[default]
    Never,
    /// Yes, if there is no way in place.
    WhenNeeded,
}

impl ReplacePolicy {
    /// The policy in the annotations of an object, if there is one.
    ///
    /// # Errors
    /// If the annotation has an unknown value: a misspelt value must not cause replacements.
    pub fn said(annotations: &BTreeMap<String, String>) -> Result<Option<Self>, String> {
        match annotations.get(REPLACE_POLICY).map(String::as_str) {
            None => Ok(None),
            Some("Never") => Ok(Some(Self::Never)),
            Some("WhenNeeded") => Ok(Some(Self::WhenNeeded)),
            Some(_) => Err(format!("annotation {REPLACE_POLICY}: must be Never or WhenNeeded")),
        }
    }

    /// The policy in the annotations of an object. Default: [`Never`](Self::Never).
    ///
    /// # Errors
    /// As [`said`](Self::said).
    pub fn of(annotations: &BTreeMap<String, String>) -> Result<Self, String> {
        Self::said(annotations).map(Option::unwrap_or_default)
    }

    /// The policy of the first object that has one: the Machine takes precedence over its MachineSet, and the
    /// MachineSet over its MachineDeployment.
    ///
    /// # Errors
    /// If that annotation has an unknown value.
    pub fn first<'a>(objects: impl IntoIterator<Item = &'a ObjectMeta>) -> Result<Self, String> {
        for object in objects {
            let Some(annotations) = &object.annotations else { continue };
            if let Some(policy) = Self::said(annotations)? {
                return Ok(policy);
            }
        }
        Ok(Self::Never)
    }
}

/// Whether a reference is to this kind or to its template.
fn refers(reference: &ContractVersionedObjectReference, group: &str, kind: &str) -> bool {
    let named = reference.kind.strip_suffix("Template").unwrap_or(&reference.kind);
    reference.api_group == group && named == kind
}

/// Whether machines with this spec are kept: they are managed by Capstan's agent, or use a Host.
pub fn is_kept(spec: &MachineSpec) -> bool {
    is_healed(spec) || refers(&spec.infrastructure_ref, "infrastructure.cluster.x-k8s.io", "HostMachine")
}

/// Whether machines with this spec are managed by Capstan's agent, so that they can be healed in place.
pub fn is_healed(spec: &MachineSpec) -> bool {
    let config = spec.bootstrap.config_ref.as_ref();
    config.is_some_and(|config| refers(config, "bootstrap.cluster.x-k8s.io", "CapstanConfig"))
}

/// Whether the Machine has the annotation [`HOLD`].
pub fn is_held(machine: &Machine) -> bool {
    machine.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(HOLD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn annotated(value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(REPLACE_POLICY.to_owned(), value.to_owned())])
    }

    #[test]
    fn machines_are_kept_unless_an_object_allows_their_replacement() {
        assert_eq!(ReplacePolicy::of(&BTreeMap::new()), Ok(ReplacePolicy::Never));
        assert_eq!(ReplacePolicy::of(&annotated("Never")), Ok(ReplacePolicy::Never));
        assert_eq!(ReplacePolicy::of(&annotated("WhenNeeded")), Ok(ReplacePolicy::WhenNeeded));
        for misspelt in ["", "whenneeded", "Always"] {
            let policy = ReplacePolicy::of(&annotated(misspelt));
            assert!(policy.is_err_and(|error| error.contains(REPLACE_POLICY)), "{misspelt:?}");
        }
    }

    #[test]
    fn the_nearest_object_decides() {
        let meta =
            |value: Option<&str>| ObjectMeta { annotations: value.map(annotated), ..ObjectMeta::default() };
        let first = |values: [Option<&str>; 3]| ReplacePolicy::first(&values.map(meta));
        assert_eq!(first([None, None, None]), Ok(ReplacePolicy::Never));
        assert_eq!(first([None, None, Some("WhenNeeded")]), Ok(ReplacePolicy::WhenNeeded));
        assert_eq!(first([Some("Never"), None, Some("WhenNeeded")]), Ok(ReplacePolicy::Never));
        assert!(first([None, Some("sometimes"), Some("WhenNeeded")]).is_err());
    }

    #[test]
    fn machines_of_capstan_are_kept_and_others_are_not() {
        for (bootstrap, infrastructure, kept, healed) in [
            ("CapstanConfig", "HostMachine", true, true),
            ("CapstanConfigTemplate", "HostMachineTemplate", true, true),
            ("CapstanConfig", "DevMachine", true, true),
            ("KubeadmConfig", "HostMachine", true, false),
            ("KubeadmConfig", "DevMachine", false, false),
        ] {
            let spec: MachineSpec = serde_json::from_value(json!({
                "clusterName": "c",
                "bootstrap": {"configRef": {
                    "kind": bootstrap, "name": "n", "apiGroup": "bootstrap.cluster.x-k8s.io"}},
                "infrastructureRef": {
                    "kind": infrastructure, "name": "n", "apiGroup": "infrastructure.cluster.x-k8s.io"},
            }))
            .expect("a spec");
            assert_eq!((is_kept(&spec), is_healed(&spec)), (kept, healed), "{bootstrap} {infrastructure}");
        }
    }
}
