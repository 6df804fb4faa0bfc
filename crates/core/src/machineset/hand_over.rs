//! Handing Machines to another MachineSet to be changed in place, and receiving them. See [`super::names::in_place`].

use capstan_api::core::{Machine, MachineSet};
use capstan_api::meta::{ContractVersionedObjectReference, annotations, labels};
use capstan_controller::error::Doing as _;
use capstan_controller::{Error, Result, owners};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
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

    /// Finishes the hand-over of Machines that the MachineDeployment has counted.
    pub(super) async fn receive(
        &self,
        set: &MachineSet,
        templates: &Templates,
        machines: &mut [Machine],
    ) -> Result<()> {
        let api: Api<Machine> = self.core.api(&set.namespace().unwrap_or_default());
        for machine in machines.iter_mut().filter(|machine| is_received(set, machine)) {
            self.update_clones(set, templates, machine).await?;
            let spec = &set.spec.template.spec;
            let patch = json!({
                "metadata": {"annotations": {in_place::PENDING_ACKNOWLEDGE_MOVE: null}},
                "spec": {"version": spec.version, "failureDomain": spec.failure_domain},
            });
            let name = machine.name_any();
            *machine = api
                .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .doing(|| format!("cannot receive Machine {name}"))?;
        }
        Ok(())
    }

    /// Ends the update of Machines that have become what they should be.
    pub(super) async fn settle(&self, set: &MachineSet, machines: &mut [Machine]) -> Result<()> {
        let api: Api<Machine> = self.core.api(&set.namespace().unwrap_or_default());
        for machine in machines.iter_mut().filter(|machine| is_settled(machine)) {
            let name = machine.name_any();
            let patch = json!({"metadata": {"annotations": {in_place::UPDATE_IN_PROGRESS: null}}});
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            *machine = patched.doing(|| format!("cannot end the update of Machine {name}"))?;
            tracing::info!(machine_set = %set.name_any(), machine = %name, "changed a Machine in place");
        }
        Ok(())
    }

    /// Brings what was cloned for a Machine to the templates of its new MachineSet, if those are others.
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
        let Some(current) = self.core.externals.get(reference, &namespace).await? else { return Ok(()) };
        if current.annotations().get(annotations::CLONED_FROM_NAME) == Some(&template_reference.name) {
            return Ok(());
        }
        let Some(template) = template else { return Ok(()) };
        // Still the MachineSet's own if the Machine controller has not taken it over.
        let owner = owners::of_kind(&current.metadata, "Machine", crate::names::GROUP).is_none();
        let owner = owners::plain(set).filter(|_| owner);
        let clone = desired::cloned(template, template_reference, set, &reference.name, owner);
        let mut wanted = desired::without_handed_down(&clone, set);
        wanted.metadata.uid = current.uid();
        let api = self.core.externals.api(reference, &namespace).await?;
        self.spec.apply(&api, Some(&current.metadata), &wanted).await?;
        Ok(())
    }
}

/// One write, so that a Machine never belongs to one MachineSet and looks like a Machine of the other.
fn hand_over_patch(machine: &Machine, from: &MachineSet, to: &MachineSet) -> Option<Value> {
    let hash = to.labels().get(labels::MACHINE_TEMPLATE_HASH)?;
    let mut metadata = machine.metadata.clone();
    owners::remove(&mut metadata, &owners::plain(from)?);
    owners::ensure(&mut metadata, &desired::controller(to)?);
    let spec = &to.spec.template.spec;
    Some(json!({
        "metadata": {
            // The list of owners is replaced whole, so it must not have changed meanwhile.
            "resourceVersion": machine.resource_version(),
            "ownerReferences": metadata.owner_references,
            "labels": {labels::MACHINE_TEMPLATE_HASH: hash},
            "annotations": {in_place::UPDATE_IN_PROGRESS: "", in_place::PENDING_ACKNOWLEDGE_MOVE: ""},
        },
        "spec": {"version": spec.version, "failureDomain": spec.failure_domain},
    }))
}

/// Whether the Machine has been counted here, or came for a hand-over that nobody wants any more.
fn is_received(set: &MachineSet, machine: &Machine) -> bool {
    let pending = is_annotated(machine, in_place::PENDING_ACKNOWLEDGE_MOVE) && !is_deleting(machine);
    let is_receiving = annotation(set, in_place::RECEIVE_MACHINES_FROM).is_some();
    let counted = annotation(set, in_place::ACKNOWLEDGED_MOVE).unwrap_or_default();
    pending && (!is_receiving || counted.split(',').any(|name| name == machine.name_any()))
}

/// Whether the Node of a Machine that is changed in place says that it runs what the Machine asks for.
fn is_settled(machine: &Machine) -> bool {
    let has = |key| is_annotated(machine, key);
    let info = machine.status.as_ref().and_then(|status| status.node_info.as_ref());
    let kubelet = info.map(|info| info.kubelet_version.as_str());
    let arrived = machine.spec.version.as_deref().is_none_or(|wanted| kubelet == Some(wanted));
    has(in_place::UPDATE_IN_PROGRESS)
        && !has(in_place::PENDING_ACKNOWLEDGE_MOVE)
        && !has(in_place::PENDING_HOOKS)
        && !is_deleting(machine)
        && arrived
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
        assert_eq!(patch["spec"]["version"], "v1.35.0");
        assert!(hand_over_patch(&machine, &from, &machine_set("new", 0, &json!({}))).is_none());
    }

    #[test]
    fn a_machine_is_received_once_it_is_counted() {
        let receiving = |counted: &str| {
            let annotations =
                json!({in_place::RECEIVE_MACHINES_FROM: "old", in_place::ACKNOWLEDGED_MOVE: counted});
            machine_set("new", 1, &json!({"metadata": {"annotations": annotations}}))
        };
        let moved = machine("m").annotated(in_place::PENDING_ACKNOWLEDGE_MOVE).done();
        assert!(!is_received(&receiving("a,b"), &moved));
        assert!(is_received(&receiving("a,m"), &moved));
        assert!(is_received(&machine_set("new", 1, &json!({})), &moved));
        assert!(!is_received(&receiving("m"), &machine("m").done()));
    }

    #[test]
    fn an_update_ends_when_the_kubelet_says_so() {
        let runs = |kubelet: &str, annotations: &[&str]| {
            let making = machine("m").change(|machine| {
                let info = machine.status.get_or_insert_default().node_info.get_or_insert_default();
                kubelet.clone_into(&mut info.kubelet_version);
            });
            annotations.iter().fold(making, |making, key| making.annotated(key)).done()
        };
        let updating = in_place::UPDATE_IN_PROGRESS;
        assert!(is_settled(&runs("v1.34.0", &[updating])));
        assert!(!is_settled(&runs("v1.33.0", &[updating])));
        assert!(!is_settled(&runs("v1.34.0", &[])));
        assert!(!is_settled(&runs("v1.34.0", &[updating, in_place::PENDING_ACKNOWLEDGE_MOVE])));
    }
}
