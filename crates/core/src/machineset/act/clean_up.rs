//! Deletes clones for which no Machine was made: what is left when a process dies between the two, or when the API server
//! rejects a Machine and the deletion of its clones fails as well.
//!
//! They are looked for in memory, at every reconcile. Memory may be a moment old, so they are deleted only after live
//! reads of the clone and of the Machines.

use capstan_api::core::{Machine, MachineSet};
use capstan_controller::error::Doing as _;
use capstan_controller::{Grounds, Result, destroy};
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::super::MachineSetReconciler;
use super::super::decide::leftovers::{OwnedClone, is_named, is_still_owned};
use super::super::observe;

impl MachineSetReconciler {
    /// Clones for which there is no Machine in memory.
    pub(in crate::machineset) async fn leftovers(&self, set: &MachineSet) -> Result<Vec<OwnedClone>> {
        let mut clones = observe::clones(&self.core, set).await?;
        clones.retain(|clone| is_still_owned(set, &clone.metadata));
        if clones.is_empty() {
            return Ok(clones);
        }
        // All Machines of the cluster: one that was handed over may still have a clone that this MachineSet owns.
        let namespace = set.namespace().unwrap_or_default();
        let machines = self.core.caches.of::<Machine>();
        let machines = machines.of_cluster(&namespace, &set.spec.cluster_name).await?;
        clones.retain(|clone| !is_named(&clone.reference, machines.iter().map(AsRef::as_ref)));
        Ok(clones)
    }

    /// Deletes those of the `suspects` that are leftovers by live reads, too.
    pub(in crate::machineset) async fn clean_up(
        &self,
        set: &MachineSet,
        suspects: &[OwnedClone],
    ) -> Result<()> {
        if suspects.is_empty() {
            return Ok(());
        }
        let namespace = set.namespace().unwrap_or_default();
        let mut live = vec![];
        for OwnedClone { reference, .. } in suspects {
            let api = self.core.externals.api(reference, &namespace).await?;
            let found = api.get_metadata_opt(&reference.name).await;
            let found =
                found.doing(|| format!("cannot read {} {namespace}/{}", reference.kind, reference.name))?;
            let found = found.filter(|found| is_still_owned(set, &found.metadata));
            live.extend(found.map(|found| (reference, api, found.metadata)));
        }
        // After the clones: a Machine is made after them.
        let listed = self.core.api::<Machine>(&namespace).list(&ListParams::default()).await;
        let machines = listed.doing(|| "cannot list Machines".to_owned())?.items;
        for (reference, api, metadata) in live {
            if !is_named(reference, &machines) {
                let grounds = Grounds::asked("no Machine was made for it");
                // Not if it has changed: the Machine controller may have taken it over.
                destroy::delete_unchanged(&api, &metadata, &grounds).await?;
            }
        }
        Ok(())
    }
}
