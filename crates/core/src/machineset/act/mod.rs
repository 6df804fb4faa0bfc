//! Makes, adopts, deletes and hands over Machines, as was decided.

mod clean_up;
mod create;
mod hand_over;
mod remediation;
pub(super) mod sync;
pub(crate) mod templates;

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_controller::error::{Doing as _, chain};
use capstan_controller::events::Tone;
use capstan_controller::{Error, Grounds, Next, Result, destroy, owners};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::decide::preflight::{ControlPlane, Skipped};
use super::decide::scale::Scale;
use super::decide::{self, desired, keep, preflight};
use super::observe::{self, Templates};
use super::status::Seen;
use super::{MachineSetReconciler, Situation};
use crate::names::events;
use crate::step::Steps;

impl MachineSetReconciler {
    /// Makes, deletes or hands over Machines. `machines` are what they are afterwards.
    pub(super) async fn carry_out(
        &self,
        scale: Scale,
        situation: &Situation<'_>,
        machines: &mut Vec<Machine>,
        seen: &mut Seen,
        steps: &mut Steps,
    ) {
        let set = situation.set;
        match scale {
            Scale::Stay => {}
            Scale::Held => tracing::info!(machine_set = %set.name_any(), "may not make Machines"),
            Scale::Create(number) => {
                if self.passes_preflight(situation, seen, steps).await {
                    let (made, result) = self.create(set, situation.templates, number).await;
                    machines.extend(made);
                    steps.check(result);
                }
            }
            Scale::Delete(names) => {
                let names = match decide::kept(set, machines) {
                    false => names,
                    true => {
                        let chosen = self.kept_scale_down(set, situation.owner, machines, names.len()).await;
                        seen.kept_back = chosen.held;
                        if !seen.kept_back.is_empty() {
                            steps.add(Ok(Next::After(preflight::RETRY)));
                        }
                        chosen.delete
                    }
                };
                let grounds = Grounds::asked("spec.replicas of the MachineSet is lower");
                steps.check(self.delete(set, machines, &names, &grounds).await);
            }
            Scale::HandOver { to, hand_over, delete } => {
                let grounds = Grounds::asked("the rollout replaces Machines that are asked to be remediated");
                steps.check(self.delete(set, machines, &delete, &grounds).await);
                steps.check(self.hand_over(set, &to, machines, &hand_over).await);
            }
        }
    }

    /// Whether Machines may be created now. Says so where they may not.
    pub(super) async fn passes_preflight(
        &self,
        situation: &Situation<'_>,
        seen: &mut Seen,
        steps: &mut Steps,
    ) -> bool {
        let Situation { cluster, set, templates, .. } = situation;
        match self.preflight(cluster, set, templates).await {
            Ok(failures) if failures.is_empty() => return true,
            Ok(failures) => {
                seen.preflight_failures = failures;
                steps.add(Ok(Next::After(preflight::RETRY)));
            }
            Err(problem) => {
                seen.preflight_failures = vec![chain(&problem)];
                steps.check(Err(problem));
            }
        }
        false
    }

    /// Adopts the Machines without a controller.
    pub(super) async fn adopt(&self, set: &MachineSet, machines: &mut [Machine]) -> Result<()> {
        let api: Api<Machine> = self.core.api(&set.namespace().unwrap_or_default());
        for machine in machines.iter_mut().filter(|m| owners::controller_of(&m.metadata).is_none()) {
            let Some(owner) = desired::controller(set) else { continue };
            owners::ensure(&mut machine.metadata, &owner);
            let name = machine.name_any();
            let patch = json!({"metadata": {
                "resourceVersion": machine.resource_version(),
                "ownerReferences": machine.metadata.owner_references,
            }});
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            *machine = patched.doing(|| format!("cannot adopt Machine {name}"))?;
            tracing::info!(machine_set = %set.name_any(), machine = %name, "adopted a Machine");
        }
        Ok(())
    }

    /// Why no Machine may be made now; empty if one may.
    async fn preflight(
        &self,
        cluster: &Cluster,
        set: &MachineSet,
        templates: &Templates,
    ) -> Result<Vec<String>> {
        let skipped = Skipped::of(set, templates.bootstrap.as_ref());
        let Some(reference) = cluster.spec.control_plane_ref.as_ref().filter(|_| !skipped.is_all()) else {
            return Ok(vec![]);
        };
        let object = observe::control_plane(&self.core, set, reference).await?;
        let Some(control_plane) = ControlPlane::read(&object) else { return Ok(vec![]) };
        preflight::failures(cluster, &control_plane, set, &skipped).map_err(|problem| {
            let namespace = set.namespace().unwrap_or_default();
            Error::transient(
                format!("cannot check {} {namespace}/{}", reference.kind, reference.name),
                problem,
            )
        })
    }

    /// Which of its kept machines a MachineSet may give up, by a live read of the workload cluster.
    async fn kept_scale_down(
        &self,
        set: &MachineSet,
        owner: Option<&MachineDeployment>,
        machines: &[Machine],
        number: usize,
    ) -> keep::ScaleDown {
        let namespace = set.namespace().unwrap_or_default();
        let volumes = self.core.remotes.local_volumes(&namespace, &set.spec.cluster_name).await;
        keep::choose(set, owner, machines, number, &volumes, self.core.now())
    }

    /// Asks for the deletion of Machines, by name. Those that are already terminating are left alone.
    pub(super) async fn delete(
        &self,
        set: &MachineSet,
        machines: &mut [Machine],
        names: &[String],
        grounds: &Grounds,
    ) -> Result<()> {
        let asked = |machine: &&mut Machine| {
            names.contains(&machine.name_any()) && !decide::machine::is_deleting(machine)
        };
        for machine in machines.iter_mut().filter(asked) {
            let api: Api<Machine> = self.core.api(&machine.namespace().unwrap_or_default());
            destroy::delete(&api, &machine.metadata, grounds).await?;
            machine.metadata.deletion_timestamp = Some(Time(self.core.now()));
            let message = format!("deleted Machine {}: {grounds}", machine.name_any());
            self.core.publish_event(set, Tone::Normal, events::DELETED, &message).await;
        }
        Ok(())
    }
}
