//! Updates a Machine in place: calls the hook until it reports that the machine matches its objects.
//!
//! The owner of the Machine has written those objects and marked each of them before it marks the hook as pending. When
//! the hook is done, the marks are removed, first the one of the Machine. If the hook is pending and the Machine has no
//! mark, only the other marks are left to remove.

use capstan_api::core::Machine;
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_api::runtime::annotations::PENDING_HOOKS;
use capstan_api::runtime::annotations::in_place::UPDATE_IN_PROGRESS;
use capstan_api::runtime::hooks::{Hook as _, UpdateMachine, UpdateMachineResponse};
use capstan_controller::error::{Doing as _, chain};
use capstan_controller::{Error, Next, Result, in_place};
use jiff::SignedDuration;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::MachineReconciler;
use super::super::decide::update::{Stage, UpdateProgress, request, stage};
use super::super::observe::Observed;
use crate::external::Reading;

impl MachineReconciler {
    /// Continues the update of a Machine, if there is one. When it is done, the marks are also removed from `machine`
    /// and from the copy that the patch is computed against.
    pub(in crate::machine) async fn update(
        &self,
        before: &mut Machine,
        machine: &mut Machine,
        observed: &Observed,
    ) -> (Result<Next>, Option<UpdateProgress>) {
        match stage(machine, &observed.infrastructure, &observed.bootstrap) {
            Stage::Nothing => (Ok(Next::Changed), None),
            Stage::NoInfrastructure => {
                let problem = Error::transient(
                    format!("cannot change Machine {} in place", machine.name_any()),
                    "its infrastructure machine does not exist",
                );
                let progress = UpdateProgress::failed("In-place update not possible: InfraMachine not found");
                (Err(problem), Some(progress))
            }
            Stage::CleanUp => (self.complete(before, machine, observed).await, None),
            Stage::Call => self.advance(before, machine, observed).await,
        }
    }

    async fn advance(
        &self,
        before: &mut Machine,
        machine: &mut Machine,
        observed: &Observed,
    ) -> (Result<Next>, Option<UpdateProgress>) {
        let (uid, now) = (machine.uid().unwrap_or_default(), self.core.now());
        if let Some((left, said)) = self.calls.waits(&uid, now) {
            return (Ok(Next::After(left.unsigned_abs())), Some(UpdateProgress::updating(said.as_deref())));
        }
        match self.call(machine, observed).await {
            Ok(Some(answer)) if answer.retry_after_seconds > 0 => {
                let wait = SignedDuration::from_secs(answer.retry_after_seconds.into());
                let said = answer.common.message;
                let progress = Some(UpdateProgress::updating(said.as_deref()));
                self.calls.answered(&uid, now + wait, said, now);
                (Ok(Next::After(wait.unsigned_abs())), progress)
            }
            Ok(_) => {
                self.calls.forget(&uid);
                (self.complete(before, machine, observed).await, None)
            }
            Err(problem) => {
                let message = format!("{} hook failed: {}", UpdateMachine::NAME, chain(&problem));
                (Err(problem), Some(UpdateProgress::failed(message)))
            }
        }
    }

    /// Calls the hook. `None` means that the ExtensionConfig allows the update to continue without a response.
    async fn call(&self, machine: &Machine, observed: &Observed) -> Result<Option<UpdateMachineResponse>> {
        let name = machine.name_any();
        let doing = || format!("cannot change Machine {name} in place");
        let namespace = machine.namespace().unwrap_or_default();
        let handler = self.core.extensions.serving::<UpdateMachine>(&namespace).await?;
        let handler = handler.ok_or_else(|| {
            Error::transient(doing(), format!("no runtime extension serves {}", UpdateMachine::NAME))
        })?;
        let request = request(machine, &observed.infrastructure, &observed.bootstrap)
            .ok_or_else(|| Error::transient(doing(), "its infrastructure machine does not exist"))?;
        let answer = self.core.extensions.call::<UpdateMachine>(&handler, request).await;
        answer.map_err(|problem| Error::transient(format!("{} says that it", handler.name), problem))
    }

    /// Removes all marks. Can be interrupted at any point; the next reconcile continues.
    async fn complete(
        &self,
        before: &mut Machine,
        machine: &mut Machine,
        observed: &Observed,
    ) -> Result<Next> {
        let (namespace, name) = (machine.namespace().unwrap_or_default(), machine.name_any());
        let api: Api<Machine> = self.core.api(&namespace);
        let doing = || format!("cannot end the update of Machine {name}");
        if in_place::is_marked(&machine.metadata) {
            // What was read may be old: by now another update may have been announced, whose mark this is.
            let patch = unmarked(machine.resource_version());
            api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.doing(doing)?;
        }
        let belongings = [
            (Some(&machine.spec.infrastructure_ref), &observed.infrastructure),
            (machine.spec.bootstrap.config_ref.as_ref(), &observed.bootstrap),
        ];
        for (reference, reading) in belongings {
            if let (Some(reference), Reading::Found(object)) = (reference, reading)
                && in_place::is_marked(&object.metadata)
            {
                self.unmark(reference, &namespace).await?;
            }
        }
        let hooks = in_place::without_hook(&machine.metadata);
        let patch = json!({"metadata": {"annotations": {PENDING_HOOKS: hooks}}});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.doing(doing)?;
        for machine in [before, machine] {
            let annotations = machine.annotations_mut();
            annotations.remove(UPDATE_IN_PROGRESS);
            match &hooks {
                Some(hooks) => _ = annotations.insert(PENDING_HOOKS.to_owned(), hooks.clone()),
                None => _ = annotations.remove(PENDING_HOOKS),
            }
        }
        tracing::info!(machine = %name, "changed a Machine in place");
        Ok(Next::Changed)
    }

    async fn unmark(&self, reference: &ContractVersionedObjectReference, namespace: &str) -> Result<()> {
        let api = self.core.externals.api(reference, namespace).await?;
        let patched =
            api.patch(&reference.name, &PatchParams::default(), &Patch::Merge(&unmarked(None))).await;
        patched
            .map(|_| ())
            .doing(|| format!("cannot end the update of {} {namespace}/{}", reference.kind, reference.name))
    }
}

fn unmarked(version: Option<String>) -> Value {
    let mut patch = json!({"metadata": {"annotations": {UPDATE_IN_PROGRESS: null}}});
    if let Some(version) = version {
        patch["metadata"]["resourceVersion"] = json!(version);
    }
    patch
}
