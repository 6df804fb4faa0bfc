//! Hands Machines to another MachineSet to be updated in place, and receives them. See [`super::super::names::in_place`].

use capstan_api::core::{Machine, MachineSet};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_api::runtime::annotations::PENDING_HOOKS;
use capstan_controller::error::Doing as _;
use capstan_controller::{Error, Result, in_place as marks, owners};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::super::MachineSetReconciler;
use super::super::decide::desired;
use super::super::decide::hand_over::{hand_over_patch, is_received};
use super::super::decide::scale::annotation;
use super::super::names::in_place;
use super::super::observe::Templates;

impl MachineSetReconciler {
    /// Gives the Machines of these names to the MachineSet `to`, which must expect them. They are removed from `machines`.
    pub(in crate::machineset) async fn hand_over(
        &self,
        set: &MachineSet,
        to: &str,
        machines: &mut Vec<Machine>,
        names: &[String],
    ) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let namespace = set.namespace().unwrap_or_default();
        let sets: Api<MachineSet> = self.core.api(&namespace);
        let target = sets.get(to).await.doing(|| format!("cannot read MachineSet {namespace}/{to}"))?;
        let accepted = annotation(&target, in_place::RECEIVE_MACHINES_FROM).unwrap_or_default();
        if !accepted.split(',').any(|name| name == set.name_any()) {
            let why = format!("does not accept Machines from {} yet, only from {accepted:?}", set.name_any());
            return Err(Error::transient(format!("cannot hand Machines to MachineSet {to}"), why));
        }
        let api: Api<Machine> = self.core.api(&namespace);
        for name in names {
            let Some(place) = machines.iter().position(|machine| machine.name_any() == *name) else {
                continue;
            };
            let patch = hand_over_patch(&machines[place], set, &target).ok_or_else(|| {
                let field = format!("MachineSet {to} metadata.labels");
                Error::user(field, format!("has no label {}", labels::MACHINE_TEMPLATE_HASH))
            })?;
            api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .doing(|| format!("cannot hand Machine {name} to MachineSet {to}"))?;
            machines.remove(place);
            tracing::info!(from = %set.name_any(), %to, machine = %name, "handed a Machine over");
        }
        Ok(())
    }

    /// Writes what Machines that were handed over should become, and asks for the update that makes it so.
    pub(in crate::machineset) async fn receive(
        &self,
        set: &MachineSet,
        templates: &Templates,
        machines: &mut [Machine],
    ) -> Result<()> {
        let api: Api<Machine> = self.core.api(&set.namespace().unwrap_or_default());
        for machine in machines.iter_mut().filter(|machine| is_received(set, machine)) {
            let name = machine.name_any();
            self.update_clones(set, templates, machine).await?;
            let wanted = desired::updated(set, machine);
            if let Some(applied) = self.spec.apply(&api, Some(&*machine), &wanted).await? {
                *machine = applied;
            }
            // Last, because from here on the update runs.
            let patch = json!({"metadata": {
                "resourceVersion": machine.resource_version(),
                "annotations": {
                    in_place::PENDING_ACKNOWLEDGE_MOVE: null,
                    PENDING_HOOKS: marks::with_hook(&machine.metadata),
                },
            }});
            *machine = api
                .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .doing(|| format!("cannot begin the update of Machine {name}"))?;
            tracing::info!(machine_set = %set.name_any(), machine = %name, "begins to change a Machine in place");
        }
        Ok(())
    }

    /// Brings what was cloned for a Machine to the templates of its MachineSet, the infrastructure first: that is where
    /// a change is likeliest to be refused.
    async fn update_clones(&self, set: &MachineSet, templates: &Templates, machine: &Machine) -> Result<()> {
        let spec = &set.spec.template.spec;
        let infrastructure = (&machine.spec.infrastructure_ref, &spec.infrastructure_ref);
        self.update_clone(set, infrastructure, templates.infrastructure.as_ref()).await?;
        if let (Some(config), Some(template)) =
            (&machine.spec.bootstrap.config_ref, &spec.bootstrap.config_ref)
        {
            self.update_clone(set, (config, template), templates.bootstrap.as_ref()).await?;
        }
        Ok(())
    }

    async fn update_clone(
        &self,
        set: &MachineSet,
        (reference, template_reference): (
            &ContractVersionedObjectReference,
            &ContractVersionedObjectReference,
        ),
        template: Option<&DynamicObject>,
    ) -> Result<()> {
        let namespace = set.namespace().unwrap_or_default();
        let missing = |missing: &ContractVersionedObjectReference| {
            let doing = format!("cannot change {} {namespace}/{} in place", reference.kind, reference.name);
            Error::transient(doing, format!("there is no {} {}", missing.kind, missing.name))
        };
        let current = self.core.externals.get(reference, &namespace).await?;
        let current = current.ok_or_else(|| missing(reference))?;
        let template = template.ok_or_else(|| missing(template_reference))?;
        // Still the MachineSet's own if the Machine controller has not taken it over.
        let owner = owners::of_kind(&current.metadata, "Machine", crate::names::GROUP).is_none();
        let owner = owners::plain(set).filter(|_| owner);
        let clone = desired::cloned(template, template_reference, set, &reference.name, owner);
        let mut wanted = desired::without_handed_down(&clone, set);
        wanted.metadata.uid = current.uid();
        // Without this mark on all that belongs to the Machine its update does not begin.
        wanted.annotations_mut().insert(in_place::UPDATE_IN_PROGRESS.to_owned(), String::new());
        let api = self.core.externals.api(reference, &namespace).await?;
        self.spec.apply(&api, Some(&current), &wanted).await?;
        Ok(())
    }
}
