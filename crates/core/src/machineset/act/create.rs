//! Makes Machines: first the clones for one, then the Machine that refers to them.
//!
//! All three share a name. If the process dies in between, what was cloned is still owned by the MachineSet and
//! named by no Machine: [`super::clean_up`] finds it the next time.

use capstan_api::core::{Machine, MachineSet};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::error::chain;
use capstan_controller::events::Tone;
use capstan_controller::{Error, Result, owners};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject};

use super::super::MachineSetReconciler;
use super::super::decide::desired::{self, Clones, clone_reference};
use super::super::decide::machine_name::machine_name;
use super::super::observe::Templates;
use crate::external;
use crate::names::events;

/// So many Machines are made at a time.
const PARALLEL: usize = 8;

impl MachineSetReconciler {
    /// Creates `number` Machines, with one Event for all. If one fails, the others are created anyway.
    /// Gives those that were made, and what has failed.
    pub(in crate::machineset) async fn create(
        &self,
        set: &MachineSet,
        templates: &Templates,
        number: usize,
    ) -> (Vec<Machine>, Result<()>) {
        let tried: Vec<Result<Machine>> = futures::stream::iter(0..number)
            .map(|_| self.create_one(set, templates))
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let (mut made, mut result) = (vec![], Ok(()));
        for tried in tried {
            match tried {
                Ok(machine) => made.push(machine),
                Err(problem) => result = result.and(Err(problem)),
            }
        }
        let mut names: Vec<String> = made.iter().map(kube::ResourceExt::name_any).collect();
        names.sort_unstable();
        let machines = match names.as_slice() {
            [] => None,
            [one] => Some(format!("created Machine {one}")),
            several => Some(format!("created Machines {}", several.join(", "))),
        };
        if let Some(message) = machines {
            self.core.publish_event(set, Tone::Normal, events::CREATED, &message).await;
        }
        (made, result)
    }

    /// Makes one Machine.
    async fn create_one(&self, set: &MachineSet, templates: &Templates) -> Result<Machine> {
        let template = set.spec.machine_naming.as_ref().and_then(|naming| naming.template.as_deref());
        let name = machine_name(template, &set.spec.cluster_name, &set.name_any()).map_err(|problem| {
            let field = format!("MachineSet {} spec.machineNaming.template", set.name_any());
            Error::user(field, problem.to_string())
        })?;
        let mut made = vec![];
        let clones = self.create_clones(set, templates, &name, &mut made).await;
        let is_cloned = clones.is_ok();
        let created = match clones {
            Ok(clones) => self.create_machine(set, &name, clones).await,
            Err(problem) => Err(problem),
        };
        if let Err(error) = &created {
            let message = format!("cannot create Machine {name}: {}", chain(error));
            self.core.publish_event(set, Tone::Warning, events::NOT_CREATED, &message).await;
            let namespace = set.namespace().unwrap_or_default();
            // Without a response the Machine may have been made, and needs its clones. If it was not, they are cleaned up
            // by a live read, like those that a process leaves behind.
            let may_exist = is_cloned && !error.is_rejection();
            for clone in made.iter().filter(|_| !may_exist) {
                external::delete(&self.core, clone, &namespace).await?;
            }
        }
        created
    }

    async fn create_clones(
        &self,
        set: &MachineSet,
        templates: &Templates,
        name: &str,
        made: &mut Vec<ContractVersionedObjectReference>,
    ) -> Result<Clones> {
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
        Ok(Clones { bootstrap, infrastructure })
    }

    async fn create_machine(&self, set: &MachineSet, name: &str, clones: Clones) -> Result<Machine> {
        let machine = desired::new_machine(set, name, clones);
        let api: Api<Machine> = self.core.api(&set.namespace().unwrap_or_default());
        let applied = self.spec.apply(&api, None, &machine).await?;
        tracing::info!(machine_set = %set.name_any(), machine = %name, "made a Machine");
        Ok(applied.unwrap_or(machine))
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
        // Two managers, so that labels and annotations can change later without touching the rest.
        let created = self.spec.apply(&api, None, &desired::without_handed_down(&clone, set)).await?;
        // With the UID, so that an object that was deleted meanwhile is not created again without a spec.
        let mut handed_down = desired::only_metadata(&clone, set);
        handed_down.metadata.uid = created.and_then(|created| created.uid());
        self.metadata.apply(&api, None, &handed_down).await?;
        Ok(clone_reference)
    }
}
