//! Hands down, in place, what a template changes without a new Machine: labels, annotations, timeouts, taints.

use capstan_api::core::{Machine, MachineSet};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::error::Doing as _;
use capstan_controller::merge::difference;
use capstan_controller::{Error, Result};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Mutex;

use super::super::MachineSetReconciler;
use super::super::decide::desired;
use super::super::decide::machine::is_deleting;

/// After this time clones are compared again, even if there was nothing to change.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_mins(10);

/// Which labels and annotations were handed down to the clones of a Machine, by its UID, and when. Saves two reads
/// for each Machine in each reconcile.
#[derive(Debug, Default)]
pub(in crate::machineset) struct HandedDown(Mutex<HashMap<String, (u64, Timestamp)>>);

impl HandedDown {
    fn is_done(&self, machine: &str, hash: u64, now: Timestamp) -> bool {
        let known = self.lock().get(machine).copied();
        known.is_some_and(|(done, when)| done == hash && now.duration_since(when) < LOOK_AGAIN)
    }

    fn done(&self, machine: String, hash: u64, now: Timestamp) {
        let mut known = self.lock();
        known.retain(|_, (_, when)| now.duration_since(*when) < LOOK_AGAIN);
        known.insert(machine, (hash, now));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (u64, Timestamp)>> {
        // What is inside is a cache: a panic elsewhere has not broken it.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl MachineSetReconciler {
    /// Updates all Machines and their clones to the template, as far as that is possible in place.
    pub(in crate::machineset) async fn sync(&self, set: &MachineSet, machines: &mut [Machine]) -> Result<()> {
        let api: Api<Machine> = self.core.api(&set.namespace().unwrap_or_default());
        for machine in machines {
            if is_deleting(machine) {
                sync_deleting(&api, set, machine).await?;
                continue;
            }
            let wanted = desired::synced(set, machine);
            if let Some(applied) = self.spec.apply(&api, Some(&*machine), &wanted).await? {
                *machine = applied;
            }
            self.sync_clones(set, machine).await?;
        }
        Ok(())
    }

    async fn sync_clones(&self, set: &MachineSet, machine: &Machine) -> Result<()> {
        let (labels, annotations) = (desired::machine_labels(set), desired::machine_annotations(set));
        let mut hasher = DefaultHasher::new();
        (&labels, &annotations).hash(&mut hasher);
        let (hash, now) = (hasher.finish(), self.core.now());
        let uid = machine.uid().unwrap_or_default();
        if self.handed_down.is_done(&uid, hash, now) {
            return Ok(());
        }
        self.sync_clone(set, machine, &machine.spec.infrastructure_ref).await?;
        if let Some(config) = &machine.spec.bootstrap.config_ref {
            self.sync_clone(set, machine, config).await?;
        }
        self.handed_down.done(uid, hash, now);
        Ok(())
    }

    async fn sync_clone(
        &self,
        set: &MachineSet,
        machine: &Machine,
        reference: &ContractVersionedObjectReference,
    ) -> Result<()> {
        let namespace = set.namespace().unwrap_or_default();
        let Some(clone) = self.core.externals.get(reference, &namespace).await? else {
            // The Machine says so in its own conditions, and the other Machines must not suffer.
            tracing::warn!(machine = %machine.name_any(), kind = %reference.kind, "is gone");
            return Ok(());
        };
        let api = self.core.externals.api(reference, &namespace).await?;
        self.metadata.apply(&api, Some(&clone), &desired::only_metadata(&clone, set)).await?;
        Ok(())
    }
}

async fn sync_deleting(api: &Api<Machine>, set: &MachineSet, machine: &mut Machine) -> Result<()> {
    let wanted = desired::synced_while_deleting(set, machine);
    let value = |machine: &Machine| {
        serde_json::to_value(machine).map_err(|error| Error::transient("cannot serialise a Machine", error))
    };
    if let Some(patch) = difference(&value(machine)?, &value(&wanted)?) {
        let name = machine.name_any();
        let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        *machine = patched.doing(|| format!("cannot hand timeouts down to Machine {name}"))?;
    }
    Ok(())
}
