//! Makes Machines: first the clones for one, then the Machine that refers to them.
//!
//! All three share a name. If the process dies in between, what was cloned is still owned by the MachineSet and
//! named by no Machine: [`clean_up`] finds it the next time.

use capstan_api::core::{Machine, MachineSet};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::error::{Doing as _, chain};
use capstan_controller::events::Tone;
use capstan_controller::{Error, Grounds, Result, destroy, owners};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::MachineSetReconciler;
use super::super::decide::desired::{self, Clones, clone_reference};
use super::super::decide::naming::machine_name;
use super::super::observe::{Templates, selector};
use crate::external;
use crate::names::events;

/// So many Machines are made at a time.
const PARALLEL: usize = 8;

impl MachineSetReconciler {
    /// Makes `number` Machines. One that fails does not keep the others from being made.
    pub(in crate::machineset) async fn create(
        &self,
        set: &MachineSet,
        templates: &Templates,
        number: usize,
    ) -> Result<()> {
        let made: Vec<Result<()>> = futures::stream::iter(0..number)
            .map(|_| self.create_one(set, templates))
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        made.into_iter().collect()
    }

    async fn create_one(&self, set: &MachineSet, templates: &Templates) -> Result<()> {
        let naming = set.spec.machine_naming.as_ref().and_then(|naming| naming.template.as_deref());
        let name = machine_name(naming, &set.spec.cluster_name, &set.name_any()).map_err(|problem| {
            let field = format!("MachineSet {} spec.machineNaming.template", set.name_any());
            Error::user(field, problem.to_string())
        })?;
        let mut made = vec![];
        let created = self.create_all(set, templates, &name, &mut made).await;
        match &created {
            Ok(()) => {
                let told = format!("created Machine {name}");
                self.core.tell(set, Tone::Normal, events::CREATED, &told).await;
            }
            Err(error) => {
                let told = format!("cannot create Machine {name}: {}", chain(error));
                self.core.tell(set, Tone::Warning, events::NOT_CREATED, &told).await;
            }
        }
        if created.is_err() {
            let namespace = set.namespace().unwrap_or_default();
            for clone in &made {
                external::delete(&self.core, clone, &namespace).await?;
            }
        }
        created
    }

    async fn create_all(
        &self,
        set: &MachineSet,
        templates: &Templates,
        name: &str,
        made: &mut Vec<ContractVersionedObjectReference>,
    ) -> Result<()> {
        let spec = &set.spec.template.spec;
        let mut bootstrap = None;
        if let Some(reference) = &spec.bootstrap.config_ref {
            let clone = self.create_clone(set, reference, templates.bootstrap.as_ref(), name).await?;
            made.push(clone.clone());
            bootstrap = Some(clone);
        }
        let reference = &spec.infrastructure_ref;
        let infrastructure =
            self.create_clone(set, reference, templates.infrastructure.as_ref(), name).await?;
        made.push(infrastructure.clone());
        let machine = desired::new_machine(set, name, Clones { bootstrap, infrastructure });
        let api: Api<Machine> = self.core.api(&set.namespace().unwrap_or_default());
        self.spec.apply(&api, None, &machine).await?;
        tracing::info!(machine_set = %set.name_any(), machine = %name, "made a Machine");
        Ok(())
    }

    async fn create_clone(
        &self,
        set: &MachineSet,
        reference: &ContractVersionedObjectReference,
        template: Option<&DynamicObject>,
        name: &str,
    ) -> Result<ContractVersionedObjectReference> {
        let namespace = set.namespace().unwrap_or_default();
        let template = template.ok_or_else(|| {
            let doing = format!("cannot make a Machine for MachineSet {namespace}/{}", set.name_any());
            Error::transient(doing, format!("there is no {} {}", reference.kind, reference.name))
        })?;
        let clone_reference = clone_reference(reference, name);
        let api = self.core.externals.api(&clone_reference, &namespace).await?;
        let clone = desired::cloned(template, reference, set, name, owners::plain(set));
        // Two managers, so that labels and annotations can change later without touching the rest: the first holds
        // everything for now, and lets go of all but labels and annotations when it first hands those down.
        let created = self.metadata.apply(&api, None, &clone).await?;
        let mut rest = desired::without_handed_down(&clone, set);
        rest.metadata.uid = created.and_then(|created| created.uid());
        self.spec.apply(&api, None, &rest).await?;
        Ok(clone_reference)
    }

    /// Deletes what was cloned for Machines that were never made.
    pub(in crate::machineset) async fn clean_up(&self, set: &MachineSet, machines: &[Machine]) -> Result<()> {
        let spec = &set.spec.template.spec;
        let infrastructure = machines.iter().map(|machine| machine.spec.infrastructure_ref.name.as_str());
        self.clean_up_kind(set, &spec.infrastructure_ref, infrastructure.collect()).await?;
        if let Some(reference) = &spec.bootstrap.config_ref {
            let configs = machines.iter().filter_map(|machine| machine.spec.bootstrap.config_ref.as_ref());
            self.clean_up_kind(set, reference, configs.map(|config| config.name.as_str()).collect()).await?;
        }
        Ok(())
    }

    async fn clean_up_kind(
        &self,
        set: &MachineSet,
        template: &ContractVersionedObjectReference,
        used: HashSet<&str>,
    ) -> Result<()> {
        let namespace = set.namespace().unwrap_or_default();
        let kind = clone_reference(template, "");
        let api = self.core.externals.api(&kind, &namespace).await?;
        let selector = selector(&set.spec.selector, "MachineSet", &set.name_any())?;
        let doing = || format!("cannot list {} in {namespace}", kind.kind);
        let clones = api.list_metadata(&ListParams::default().labels_from(&selector)).await.doing(doing)?;
        for clone in clones.items {
            // Once the Machine controller owns it, it is no longer ours to clean up.
            let owners = clone.owner_references();
            let ours = owners.iter().any(|owner| Some(&owner.uid) == set.uid().as_ref())
                && owners.iter().all(|owner| owner.kind != "Machine");
            let name = clone.name_any();
            if ours && clone.metadata.deletion_timestamp.is_none() && !used.contains(name.as_str()) {
                let grounds = Grounds::asked("no Machine was made for it");
                destroy::delete(&api, &clone.metadata, &grounds).await?;
            }
        }
        Ok(())
    }
}

/// MachineSets for which nothing is left over that no Machine was made for: this process has looked, and has left nothing
/// since.
#[derive(Default)]
pub(in crate::machineset) struct Cleaned(Mutex<HashSet<String>>);

impl Cleaned {
    pub(in crate::machineset) fn contains(&self, set: &MachineSet) -> bool {
        set.uid().is_some_and(|uid| self.lock().contains(&uid))
    }

    pub(in crate::machineset) fn insert(&self, set: &MachineSet) {
        self.lock().extend(set.uid());
    }

    pub(in crate::machineset) fn remove(&self, set: &MachineSet) {
        if let Some(uid) = set.uid() {
            self.lock().remove(&uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        // Only names are inside: a panic elsewhere has not broken anything.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
