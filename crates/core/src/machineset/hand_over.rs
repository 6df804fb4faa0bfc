//! Handing Machines to another MachineSet to be changed in place, and receiving them. See [`super::names::in_place`].

use capstan_api::core::{Machine, MachineSet};
use capstan_api::meta::{ContractVersionedObjectReference, labels};
use capstan_api::runtime::annotations::PENDING_HOOKS;
use capstan_controller::error::Doing as _;
use capstan_controller::merge::difference;
use capstan_controller::{Error, Result, in_place as marks, owners};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ObjectMeta;
use serde_json::{Value, json};

use super::MachineSetReconciler;
use super::desired;
use super::machine::{is_annotated, is_deleting};
use super::names::in_place;
use super::scale::annotation;
use super::templates::Templates;

impl MachineSetReconciler {
    /// Gives Machines to the MachineSet `to`, which must expect them.
    pub(super) async fn hand_over(&self, set: &MachineSet, to: &str, machines: Vec<&Machine>) -> Result<()> {
        let namespace = set.namespace().unwrap_or_default();
        let sets: Api<MachineSet> = self.core.api(&namespace);
        let target = sets.get(to).await.doing(|| format!("cannot read MachineSet {namespace}/{to}"))?;
        let accepted = annotation(&target, in_place::RECEIVE_MACHINES_FROM).unwrap_or_default();
        if !accepted.split(',').any(|name| name == set.name_any()) {
            let why = format!("does not accept Machines from {} yet, only from {accepted:?}", set.name_any());
            return Err(Error::transient(format!("cannot hand Machines to MachineSet {to}"), why));
        }
        let api: Api<Machine> = self.core.api(&namespace);
        for machine in machines {
            let name = machine.name_any();
            let patch = hand_over_patch(machine, set, &target).ok_or_else(|| {
                let field = format!("MachineSet {to} metadata.labels");
                Error::user(field, format!("has no label {}", labels::MACHINE_TEMPLATE_HASH))
            })?;
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .doing(|| format!("cannot hand Machine {name} to MachineSet {to}"))?;
            tracing::info!(from = %set.name_any(), %to, machine = %name, "handed a Machine over");
        }
        Ok(())
    }

    /// Writes what Machines that were handed over should become, and asks for the update that makes it so.
    pub(super) async fn receive(
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

/// One write, so that a Machine never belongs to one MachineSet and looks like a Machine of the other.
fn hand_over_patch(machine: &Machine, from: &MachineSet, to: &MachineSet) -> Option<Value> {
    let after = handed_over(machine, from, to)?;
    let value = |metadata| serde_json::to_value(metadata).ok();
    let mut patch = difference(&value(&machine.metadata)?, &value(&after)?)?;
    // The list of owners is replaced whole, so it must not have changed meanwhile.
    patch["resourceVersion"] = json!(machine.resource_version());
    Some(json!({ "metadata": patch }))
}

/// What a Machine's metadata is once it belongs to the other MachineSet.
pub(crate) fn handed_over(machine: &Machine, from: &MachineSet, to: &MachineSet) -> Option<ObjectMeta> {
    let hash = to.labels().get(labels::MACHINE_TEMPLATE_HASH)?;
    let mut metadata = machine.metadata.clone();
    owners::remove(&mut metadata, &owners::plain(from)?);
    owners::ensure(&mut metadata, &desired::controller(to)?);
    metadata.labels.get_or_insert_default().insert(labels::MACHINE_TEMPLATE_HASH.to_owned(), hash.clone());
    for mark in [in_place::UPDATE_IN_PROGRESS, in_place::PENDING_ACKNOWLEDGE_MOVE] {
        metadata.annotations.get_or_insert_default().insert(mark.to_owned(), String::new());
    }
    Some(metadata)
}

/// Whether the update of a Machine is to begin: it has been counted here, or came for a hand-over that nobody wants any
/// more and becomes what its MachineSet says like any other.
pub(crate) fn is_received(set: &MachineSet, machine: &Machine) -> bool {
    let is_waiting = is_annotated(machine, in_place::PENDING_ACKNOWLEDGE_MOVE)
        && annotation(set, in_place::RECEIVE_MACHINES_FROM).is_some();
    let counted = annotation(set, in_place::ACKNOWLEDGED_MOVE).unwrap_or_default();
    let is_counted = counted.split(',').any(|name| name == machine.name_any());
    marks::is_being_written(&machine.metadata) && !is_deleting(machine) && (!is_waiting || is_counted)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{machine, machine_set};
    use super::*;

    #[test]
    fn a_machine_changes_hands_in_one_write() {
        let from = machine_set("old", 2, &json!({}));
        let to = machine_set(
            "new",
            0,
            &json!({"metadata": {"labels": {labels::MACHINE_TEMPLATE_HASH: "7-abcde"}},
                "spec": {"template": {"spec": {"version": "v1.35.0"}}}}),
        );
        let machine = machine("m")
            .change(|machine| {
                owners::ensure(&mut machine.metadata, &desired::controller(&from).expect("a test value"));
            })
            .done();
        let patch = hand_over_patch(&machine, &from, &to).expect("a test value");
        let owners = patch["metadata"]["ownerReferences"].as_array().expect("a test value");
        assert_eq!(owners.len(), 1);
        assert_eq!((&owners[0]["name"], &owners[0]["controller"]), (&json!("new"), &json!(true)));
        assert_eq!(patch["metadata"]["labels"][labels::MACHINE_TEMPLATE_HASH], "7-abcde");
        assert!(patch.get("spec").is_none(), "what it should become is written by the new MachineSet");
        assert!(hand_over_patch(&machine, &from, &machine_set("new", 0, &json!({}))).is_none());
    }

    #[test]
    fn an_update_begins_once_the_machine_is_counted() {
        let receiving = |counted: &str| {
            let annotations =
                json!({in_place::RECEIVE_MACHINES_FROM: "old", in_place::ACKNOWLEDGED_MOVE: counted});
            machine_set("new", 1, &json!({"metadata": {"annotations": annotations}}))
        };
        let plain = || machine_set("new", 1, &json!({}));
        let marked = || machine("m").annotated(in_place::UPDATE_IN_PROGRESS);
        let moved = || marked().annotated(in_place::PENDING_ACKNOWLEDGE_MOVE);
        let running = marked().change(|machine| {
            machine.annotations_mut().insert(PENDING_HOOKS.to_owned(), "UpdateMachine".to_owned());
        });
        for (case, set, machine, expected) in [
            ("others are counted", receiving("a,b"), moved(), false),
            ("counted", receiving("a,m"), moved(), true),
            ("nobody wants it any more", plain(), moved(), true),
            ("never handed over", receiving("a"), marked(), true),
            ("not updating", receiving("m"), machine("m"), false),
            ("begun already", receiving("m"), running, false),
            ("on its way out", receiving("m"), moved().deleting(), false),
        ] {
            assert_eq!(is_received(&set, &machine.done()), expected, "{case}");
        }
    }
}
