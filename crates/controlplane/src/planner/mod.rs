//! The planner: gives every machine of the cluster, control plane and workers alike, the plan it should have, and opens
//! its gate when Kubernetes may be started again.
//!
//! A plan is a function of objects and a renderer; it is written anew when its inputs have changed, and only when the
//! machine may have it: see [`plans::verdict`]. What a machine makes of it comes back in its MachineReport.

mod inputs;
#[cfg(feature = "bench")]
pub(crate) mod pure;
mod software;
mod write;

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{ConditionStatus, NewCondition, has, set};
use capstan_api::core::Machine;
use capstan_controller::drain::{self, Drain};
use capstan_controller::error::{Result, chain};
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, in_place, pause};
use capstan_plan::Revision;
use capstan_planner::facts::{EtcdView, MachineFacts, PlanFacts, Progress};
use capstan_planner::plans::{self, Gate, Outcome, Record, Setup, Verdict, others_serve, runs};
use capstan_planner::wait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use inputs::{Materials, restart_after};
pub(crate) use software::Shelf;
pub use software::Spare;
pub(crate) use write::data_of;

use crate::names::{PLAN_REFUSED, PLANNED, plan_secret};
use crate::observe::Machines;
use crate::scope::Scope;
use crate::workload::Workload;
use inputs::Subject;
use software::{About, Missing};

/// How soon pods that were asked to leave are looked at again.
const UNTIL_PODS_ARE_GONE: Duration = Duration::from_secs(2);
/// For so long a new machine's waits are not told.
const YOUNG: Duration = Duration::from_secs(10);

/// What the planner goes by, beside the machines themselves.
pub(crate) struct Planner<'a, W> {
    pub(crate) scope: &'a Scope<'a>,
    pub(crate) observed: &'a Machines,
    pub(crate) plans: &'a BTreeMap<String, Arc<Secret>>,
    pub(crate) materials: Materials<'a>,
    pub(crate) etcd: &'a EtcdView,
    /// Whether the workload cluster answers.
    pub(crate) answers: bool,
    pub(crate) workload: &'a W,
    /// When to look again.
    pub(crate) next: Next,
}

impl<W: Workload> Planner<'_, W> {
    /// Gives each machine its plan, or says why not. `facts` are brought up to date with what is written, so that one
    /// plan in flight holds up the next within the same round, too.
    pub(crate) async fn plan(&mut self, facts: &mut [MachineFacts]) -> Result<BTreeMap<String, Outcome>> {
        facts.sort_by(|a, b| (!a.control_plane, a.age()).cmp(&(!b.control_plane, b.age())));
        let mut outcomes = BTreeMap::new();
        for index in 0..facts.len() {
            let name = facts[index].name.clone();
            let (Some(machine), Some(config)) =
                (self.observed.machines.get(&name), self.observed.configs.get(&name))
            else {
                continue;
            };
            if plans::is_to_be_uncordoned(&facts[index]) {
                self.uncordon(&mut facts[index]).await;
            }
            let mut outcome = self.one(machine, config, facts, index).await?;
            if let Some(wait) = self.gate(machine, facts, index).await? {
                outcome = Outcome::Waiting(wait);
            }
            self.tell(config, &outcome).await?;
            outcomes.insert(name, outcome);
        }
        Ok(outcomes)
    }

    async fn one(
        &mut self,
        machine: &Machine,
        config: &CapstanConfig,
        facts: &mut [MachineFacts],
        index: usize,
    ) -> Result<Outcome> {
        let scope = self.scope;
        if let Some(reason) = pause::reason(None, "Machine", &machine.metadata) {
            return Ok(Outcome::Waiting(reason));
        }
        if facts[index].is_kept_out {
            return Ok(Outcome::Waiting(wait::kept_out()));
        }
        if in_place::is_being_written(&machine.metadata) {
            // Its config may be the new one already and its version still the old one.
            return Ok(Outcome::Waiting(wait::machine_set()));
        }
        let own = &facts[index];
        let is_to_come_back = plans::is_to_come_back(own, facts);
        let elected = scope.elected();
        let role = match plans::role(own, elected.as_ref(), scope.is_initialized(), is_to_come_back) {
            Ok(role) => role,
            Err(wait) => return Ok(Outcome::Waiting(wait)),
        };
        let version = own.version.as_deref().unwrap_or_default();
        let installed = own.plan.as_ref().map(|plan| plan.programs.as_slice()).unwrap_or_default();
        let about = About { architecture: own.architecture.as_deref(), os_image: own.os_image.as_deref() };
        let software = software::choose(self.materials.shelf, config.spec.distro, version, about, installed);
        let software = match software {
            Ok(software) => software,
            Err(Missing::Wait(wait)) => return Ok(Outcome::Waiting(wait)),
            Err(Missing::Unknown(message)) => {
                let field = format!("Machine {} spec.version", own.name);
                return Ok(Outcome::Refused { field, message });
            }
        };
        let files = inputs::secret_files(scope, config).await?;
        let others_serve = others_serve(own, facts);
        let subject =
            Subject { machine, config, facts: own, role, others_serve, files: &files, software: &software };
        let ran = runs(own);
        let revision = own.plan.as_ref().map_or(Revision::FIRST, |plan| plan.id.revision());
        let refused = |error: capstan_distro::InputError| Outcome::Refused {
            field: format!("CapstanConfig {} {}", config.name_any(), error.field),
            message: error.message,
        };
        let mut rendered = match inputs::rendered(&self.materials, &subject, ran.as_ref(), revision) {
            Ok(rendered) => rendered,
            Err(error) => return Ok(refused(error)),
        };
        let epoch = self.materials.keys.epoch;
        let budgets = &self.observed.budgets;
        let (revision, attempt) =
            match plans::verdict(own, facts, budgets, &rendered.fingerprint, epoch, scope.now) {
                Verdict::Keep => {
                    let read = self.plans.get(&plan_secret(&own.name));
                    write::stands_for(scope, read.map(Arc::as_ref), machine, config).await?;
                    return Ok(Outcome::Planned(revision.get()));
                }
                Verdict::Wait(wait) => return Ok(Outcome::Waiting(wait)),
                Verdict::Failed { again } => {
                    let plan = own.plan.as_ref();
                    let why = match plan.map(|plan| &plan.progress) {
                        Some(Progress::Failed(why)) => why.clone(),
                        _ => String::new(),
                    };
                    let attempts = plan.map_or(1, |plan| plan.record.attempt);
                    self.next = self.next.or(after(again, scope.now));
                    return Ok(Outcome::Failed { revision: revision.get(), why, attempts, again });
                }
                Verdict::Write { revision, attempt } => (revision, attempt),
            };
        if own.plan.as_ref().is_some_and(|plan| plan.id.revision() != revision) {
            // What is saved before an upgrade is bound to the revision.
            rendered = match inputs::rendered(&self.materials, &subject, ran.as_ref(), revision) {
                Ok(rendered) => rendered,
                Err(error) => return Ok(refused(error)),
            };
        }
        let record = Record {
            setup: Setup::new(version, &rendered.fingerprint),
            ran,
            attempt,
            written: Some(scope.now),
            retry: own.retry.clone(),
        };
        // A role is only given to a machine that has its identity.
        let id = own.id.clone().unwrap_or_default();
        let sealed = write::seal(&rendered, &own.name, &id, revision, self.materials.keys, scope.now)?;
        let is_open = !record.restarts();
        let plan = write::NewPlan {
            id: &id,
            config,
            rendered: &rendered,
            sealed: &sealed,
            record: &record,
            is_open,
        };
        write::plan(
            scope,
            machine,
            &plan,
            self.materials.keys,
            self.plans.get(&plan_secret(&own.name)).map(Arc::as_ref),
        )
        .await?;
        facts[index].plan = Some(PlanFacts {
            id: sealed.id(),
            epoch: sealed.plan().epoch,
            inputs: rendered.fingerprint.whole.to_string(),
            expires: sealed.plan().expires,
            sound: true,
            is_open,
            drain_since: None,
            record,
            programs: capstan_distro::programs(sealed.plan()).cloned().collect(),
            progress: Progress::InFlight,
        });
        Ok(Outcome::Planned(revision.get()))
    }

    /// Opens the gate of a machine's plan when it may be opened. Gives what it waits for, if it does.
    async fn gate(
        &mut self,
        machine: &Machine,
        facts: &mut [MachineFacts],
        index: usize,
    ) -> Result<Option<String>> {
        let scope = self.scope;
        // What was written in this round is looked at in the next.
        let Some(secret) = self.plans.get(&plan_secret(&facts[index].name)) else { return Ok(None) };
        let read = facts[index].plan.as_ref().is_some_and(|plan| write::is_of(secret, plan.id));
        if !read {
            return Ok(None);
        }
        let budgets = &self.observed.budgets;
        let view = plans::View {
            etcd: self.etcd,
            budgets,
            begun: scope.is_initialized(),
            answers: self.answers,
            now: scope.now,
        };
        match plans::gate(&facts[index], facts, &view) {
            Gate::Leave => return Ok(None),
            Gate::Wait(why) => {
                self.next = self.next.or(Next::After(UNTIL_PODS_ARE_GONE));
                return Ok(Some(why));
            }
            Gate::Open => {}
            Gate::Drain => {
                let since = facts[index].plan.as_ref().and_then(|plan| plan.drain_since);
                let Some(since) = since else {
                    // Since when is written down first: a drain may outlive the manager.
                    write::drain_since(scope, secret).await?;
                    if let Some(plan) = &mut facts[index].plan {
                        plan.drain_since = Some(scope.now);
                    }
                    self.next = Next::After(Duration::ZERO);
                    return Ok(Some(wait::drain()));
                };
                let (namespace, cluster) = (scope.namespace, scope.cluster_name());
                let drain = Drain {
                    node: facts[index].node_name(),
                    mark: Some((crate::names::CORDONED, "")),
                    since,
                    now: scope.now,
                };
                let left = match self.workload.drain(namespace, &cluster, drain).await {
                    Ok(drain::Outcome::Drained) => None,
                    Ok(drain::Outcome::Waiting { message, .. }) => Some(message),
                    // The others go on meanwhile.
                    Err(error) => Some(chain(&error)),
                };
                if left.is_some() {
                    self.next = self.next.or(Next::After(UNTIL_PODS_ARE_GONE));
                    return Ok(left);
                }
            }
        }
        let plan = facts[index].plan.as_mut().filter(|plan| !plan.is_open);
        if let Some(plan) = plan {
            write::open_gate(scope, secret, plan.id, self.materials.keys).await?;
            tracing::info!(machine = machine.name_any(), plan = %plan.id, "gate opened");
            plan.is_open = true;
        }
        Ok(None)
    }

    async fn uncordon(&mut self, machine: &mut MachineFacts) {
        let (namespace, cluster) = (self.scope.namespace, self.scope.cluster_name());
        match self.workload.uncordon(namespace, &cluster, machine.node_name()).await {
            Ok(()) => machine.note_uncordoned(),
            Err(error) => {
                tracing::warn!(machine = machine.name, error = chain(&error), "cannot let pods in again yet");
                self.next = self.next.or(Next::After(UNTIL_PODS_ARE_GONE));
            }
        }
    }

    /// Says on the CapstanConfig how it stands, for workers have no other place that is ours.
    async fn tell(&mut self, config: &CapstanConfig, outcome: &Outcome) -> Result<()> {
        if matches!(outcome, Outcome::Waiting(_)) && is_young(config, self.scope.now) {
            // A machine that comes up waits for many things, each for a moment: only one that lasts is told.
            self.next = self.next.or(Next::After(YOUNG));
            return Ok(());
        }
        let not = |reason: &str| NewCondition::new(PLANNED, ConditionStatus::False, reason);
        let condition = match outcome {
            Outcome::Planned(revision) => NewCondition::new(PLANNED, ConditionStatus::True, PLANNED)
                .message(format!("Revision {revision}")),
            Outcome::Waiting(why) => not("Waiting").message(why.clone()),
            Outcome::Refused { field, message } => not(PLAN_REFUSED).message(format!("{field}: {message}")),
            Outcome::Failed { .. } => not("Failed").message(outcome.failure().unwrap_or_default()),
        };
        let mut told = config.clone();
        if set(&mut told, condition, self.scope.now) {
            Patcher::new(self.scope.api(), config).finish(&told, &[PLANNED]).await?;
        }
        Ok(())
    }
}

/// Whether nothing is told yet of what the machine waits for.
fn is_young(config: &CapstanConfig, now: Timestamp) -> bool {
    let made = config.metadata.creation_timestamp.as_ref();
    let age = made.map(|made| now.duration_since(made.0));
    let is_young = age.is_some_and(|age| Duration::try_from(age).is_ok_and(|age| age < YOUNG));
    is_young && !has(config, PLANNED)
}

fn after(again: Option<Timestamp>, now: Timestamp) -> Next {
    match again.map(|again| again.duration_since(now)).and_then(|pause| Duration::try_from(pause).ok()) {
        Some(pause) => Next::After(pause),
        None => Next::Changed,
    }
}
