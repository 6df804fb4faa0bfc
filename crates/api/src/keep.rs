//! Machines that people keep: which they are, and whether one of them may be replaced. Pure.
//!
//! One policy covers every way of losing a machine: a change that cannot be made in place, a failed health check,
//! `rollout.after`, a restart of a rollout, and a scale-down that would take a machine with data. Machines of other
//! providers are not kept: for them Cluster API's own rules hold.

use kube::core::ObjectMeta;
use std::collections::BTreeMap;

use crate::core::{Machine, MachineSpec};
use crate::meta::ContractVersionedObjectReference;
use crate::runtime::annotations::REPLACE_POLICY;

/// On a Machine: keeps it out of everything that Capstan would do to it. No new plan, no restart, no drain, no healing,
/// and it is the last that a scale-down takes. The value is for people: why, or who asks.
pub const HOLD: &str = "capstan.dev/hold";

/// Condition of a Machine whose health check has failed: how far Capstan has come with healing it in place.
pub const HEALED_IN_PLACE: &str = "HealedInPlace";

/// Reasons of [`HEALED_IN_PLACE`].
pub mod healing {
    /// The Machine is healthy; no step of healing is under way.
    pub const HEALTHY: &str = "Healthy";
    /// Healing waits: for another machine, for etcd, or for the time of the next step.
    pub const WAITING: &str = "Waiting";
    /// Kubernetes on the machine is being restarted.
    pub const RESTARTING: &str = "RestartingKubernetes";
    /// The whole plan is being carried out again.
    pub const REAPPLYING: &str = "ReapplyingPlan";
    /// The machine is being rebooted.
    pub const REBOOTING: &str = "Rebooting";
    /// The machine does not answer, so nothing can be done on it from here.
    pub const SILENT: &str = "MachineSilent";
    /// No step has helped: a person must look, or the policy must allow a replacement.
    pub const EXHAUSTED: &str = "NeedsAttention";
}

/// Whether a kept machine may be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplacePolicy {
    /// No. What cannot be done in place is refused, and what cannot be healed waits for a person.
    #[default]
    Never,
    /// Where nothing else is possible.
    WhenNeeded,
}

impl ReplacePolicy {
    /// What the annotations of an object say; nothing if they do not.
    ///
    /// # Errors
    /// If they say something else: a misspelt word must not cost machines.
    pub fn said(annotations: &BTreeMap<String, String>) -> Result<Option<Self>, String> {
        match annotations.get(REPLACE_POLICY).map(String::as_str) {
            None => Ok(None),
            Some("Never") => Ok(Some(Self::Never)),
            Some("WhenNeeded") => Ok(Some(Self::WhenNeeded)),
            Some(_) => Err(format!("annotation {REPLACE_POLICY}: must be Never or WhenNeeded")),
        }
    }

    /// What the annotations of an object say: [`Never`](Self::Never) if they do not.
    ///
    /// # Errors
    /// As [`said`](Self::said).
    pub fn of(annotations: &BTreeMap<String, String>) -> Result<Self, String> {
        Self::said(annotations).map(Option::unwrap_or_default)
    }

    /// The first object that says something decides: the Machine before its MachineSet, that before its
    /// MachineDeployment.
    ///
    /// # Errors
    /// If the one that decides is misspelt.
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

/// Whether a reference is to one of these kinds, or to the template of one.
fn refers(reference: &ContractVersionedObjectReference, group: &str, kind: &str) -> bool {
    let named = reference.kind.strip_suffix("Template").unwrap_or(&reference.kind);
    reference.api_group == group && named == kind
}

/// Whether machines of this spec are kept: Capstan's agent looks after them, or they stand on a Host.
pub fn is_kept(spec: &MachineSpec) -> bool {
    is_healed(spec) || refers(&spec.infrastructure_ref, "infrastructure.cluster.x-k8s.io", "HostMachine")
}

/// Whether Capstan's agent looks after machines of this spec, so that they can be healed in place.
pub fn is_healed(spec: &MachineSpec) -> bool {
    let config = spec.bootstrap.config_ref.as_ref();
    config.is_some_and(|config| refers(config, "bootstrap.cluster.x-k8s.io", "CapstanConfig"))
}

/// Whether the user keeps the machine out of everything.
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
