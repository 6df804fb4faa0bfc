//! Writes the plans of machines, drains Nodes and opens gates.

use capstan_api::bootstrap::{CapstanConfig, CapstanConfigPlanStatus};
use capstan_api::conditions::{has, set};
use capstan_api::core::Machine;
use capstan_controller::Next;
use capstan_controller::drain::{self, Drain};
use capstan_controller::error::{Result, chain};
use capstan_controller::patch::Patcher;
use capstan_distro::Endpoint;
use capstan_planner::facts::{EtcdView, MachineFacts, PlanFacts, Progress};
use capstan_planner::plans::{Gate, Outcome, View, cancel, gate, is_to_be_uncordoned};
use capstan_planner::wait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::decide::{self, Begun, Decision, Written};
use super::inputs::Materials;
use super::software::{self, Shelf};
use super::{observe, status, write};
use crate::Tools;
use crate::certificates::Keys;
use crate::marks::Marks;
use crate::names::{CORDONED, PLANNED, plan_secret};
use crate::observe::{Machines, Observed};
use crate::scope::Scope;
use crate::workload::Workload;

/// Pause before the pods of a drain are read again.
const UNTIL_PODS_ARE_GONE: Duration = Duration::from_secs(2);
/// Longest pause until closed maintenance windows are evaluated again.
const UNTIL_WINDOW: Duration = Duration::from_secs(600);
/// The waits of a new machine are not written during this time.
const YOUNG: Duration = Duration::from_secs(10);

/// Gives every machine of the cluster its plan, or records what it waits for.
pub(crate) async fn plan(
    seen: &mut Observed<'_>,
    endpoint: &Endpoint,
    keys: &Keys,
    tools: &Tools,
    workload: &impl Workload,
) -> Result<()> {
    let scope = seen.scope;
    let catalog = tools.software.catalog();
    let network = scope.network();
    let mut planner = Planner {
        scope,
        objects: &seen.objects,
        plans: &seen.secrets.plans,
        materials: Materials {
            owner: scope.owner,
            endpoint,
            network: &network,
            keys,
            shelf: Shelf { catalog: &catalog, spare: tools.spare.as_ref() },
            budgets: &seen.objects.budgets,
            now: scope.now,
        },
        etcd: &seen.etcd,
        api_responds: seen.api_responds,
        workload,
        next: seen.next,
    };
    seen.plans = planner.all(&mut seen.facts).await?;
    seen.next = planner.next;
    seen.agents = Some(software::upgrades(&catalog, scope.owner, &seen.facts));
    Ok(())
}

/// Signs plans again that an earlier key has signed.
pub(crate) async fn sign_again(seen: &mut Observed<'_>, keys: &Keys) -> Result<()> {
    for name in seen.objects.machines.keys() {
        let secret = plan_secret(name);
        let Some(read) = seen.secrets.plans.get(&secret) else { continue };
        if let Some(written) = write::sign_again(seen.scope, read, name, keys).await? {
            seen.secrets.plans.insert(secret, Arc::new(written));
        }
    }
    Ok(())
}

/// The inputs of the planner besides the machines.
struct Planner<'a, W> {
    scope: &'a Scope<'a>,
    objects: &'a Machines,
    plans: &'a BTreeMap<String, Arc<Secret>>,
    materials: Materials<'a>,
    etcd: &'a EtcdView,
    /// Whether the API server of the workload cluster responds.
    api_responds: bool,
    workload: &'a W,
    /// When to reconcile again.
    next: Next,
}

impl<W: Workload> Planner<'_, W> {
    /// Writes the plan of each machine, or records what it waits for. `facts` are updated after each write, so that one
    /// plan in flight also blocks the next one in the same reconcile.
    async fn all(&mut self, facts: &mut [MachineFacts]) -> Result<BTreeMap<String, Outcome>> {
        facts.sort_by(|a, b| (!a.control_plane, a.age()).cmp(&(!b.control_plane, b.age())));
        let mut outcomes = BTreeMap::new();
        for index in 0..facts.len() {
            let name = facts[index].name.clone();
            let (Some(machine), Some(config)) =
                (self.objects.machines.get(&name), self.objects.configs.get(&name))
            else {
                continue;
            };
            if is_to_be_uncordoned(&facts[index]) {
                self.uncordon(&mut facts[index]).await;
            }
            let (mut outcome, setup) = self.one(machine, config, facts, index).await?;
            let read = self.plans.get(&plan_secret(&name)).map(Arc::as_ref);
            let plan = status::plan(&facts[index], setup.as_deref(), read);
            if !self.cancel(&mut facts[index]).await?
                && let Some(wait) = self.gate(machine, facts, index).await?
            {
                outcome = Outcome::Waiting(wait);
            }
            self.write_status(config, &outcome, plan).await?;
            outcomes.insert(name, outcome);
        }
        Ok(outcomes)
    }

    /// Writes the plan of one machine, or returns what it waits for. Also returns the setup of the plan, if it is
    /// known.
    async fn one(
        &mut self,
        machine: &Machine,
        config: &CapstanConfig,
        facts: &mut [MachineFacts],
        index: usize,
    ) -> Result<(Outcome, Option<String>)> {
        let scope = self.scope;
        let cluster = Begun { elected: scope.elected(), initialized: scope.is_initialized() };
        let prepared = match decide::prepare(&self.materials, &cluster, (machine, config), facts, index) {
            Ok(prepared) => prepared,
            Err(outcome) => return Ok((outcome, None)),
        };
        let merged = match decide::merged(machine, config, self.objects.hosts.get(&facts[index].name)) {
            Ok(merged) => merged,
            Err(outcome) => return Ok((outcome, None)),
        };
        self.mark(&facts[index], &Marks::of(machine, &merged)).await;
        let files = observe::secret_files(scope, &merged.config).await?;
        let (own, read) = (&facts[index], self.plans.get(&plan_secret(&facts[index].name)).map(Arc::as_ref));
        let (materials, objects) = (&self.materials, (machine, config));
        let new = match decide::decide(materials, &prepared, objects, &merged, facts, index, &files) {
            Decision::Tell(outcome) => {
                if let Outcome::Failed { again, .. } = &outcome {
                    self.next = self.next.or(after(*again, scope.now));
                }
                return Ok((outcome, None));
            }
            Decision::Keep { revision, without } => {
                let setup = write::stands_for(scope, read, machine, config).await?;
                return Ok((Outcome::Planned { revision: revision.get(), without }, Some(setup)));
            }
            Decision::Write(new) => new,
        };
        // A role is only given to a machine that has its identity.
        let id = own.id.clone().unwrap_or_default();
        let Written { rendered, record, revision, without } = *new;
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
        let setup = write::plan(scope, machine, &plan, self.materials.keys, read).await?;
        facts[index].plan = Some(PlanFacts {
            id: sealed.id(),
            epoch: sealed.plan().epoch,
            inputs: rendered.fingerprint.whole.to_string(),
            expires: sealed.plan().expires,
            sound: true,
            is_open,
            cancelled: None,
            drain_since: None,
            record,
            programs: capstan_distro::programs(sealed.plan()).cloned().collect(),
            agent: sealed.plan().agent.clone(),
            progress: Progress::InFlight,
        });
        Ok((Outcome::Planned { revision: revision.get(), without }, Some(setup)))
    }

    /// Opens the gate of a machine's plan if that is allowed. Returns what it waits for, if it is not.
    async fn gate(
        &mut self,
        machine: &Machine,
        facts: &mut [MachineFacts],
        index: usize,
    ) -> Result<Option<String>> {
        let scope = self.scope;
        // A plan that this reconcile has written is checked in the next one.
        let Some(secret) = self.plans.get(&plan_secret(&facts[index].name)) else { return Ok(None) };
        let read = facts[index].plan.as_ref().is_some_and(|plan| observe::is_of(secret, plan.id));
        if !read {
            return Ok(None);
        }
        let budgets = &self.objects.budgets;
        let view = View {
            etcd: self.etcd,
            budgets,
            begun: scope.is_initialized(),
            api_responds: self.api_responds,
            now: scope.now,
        };
        match gate(&facts[index], facts, &view) {
            Gate::Leave => return Ok(None),
            Gate::Wait(why) => {
                self.next = self.next.or(Next::After(UNTIL_PODS_ARE_GONE));
                return Ok(Some(why));
            }
            Gate::Closed { why, opens } => {
                // The windows may be changed, or read again by a later version: not only the opening is waited for.
                let pause = opens.map(|opens| opens.duration_since(scope.now));
                let pause = pause.and_then(|pause| Duration::try_from(pause).ok());
                let pause = pause.map_or(UNTIL_WINDOW, |pause| pause.min(UNTIL_WINDOW));
                self.next = self.next.or(Next::After(pause));
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
                let drained = async {
                    let rules = drain::rules(scope.caches, machine, scope.cluster).await?;
                    let (node, mark) = (facts[index].node_name(), Some((CORDONED, "")));
                    let drain = Drain { node, mark, rules: &rules, since, now: scope.now };
                    self.workload.drain(namespace, &cluster, drain).await
                };
                let left = match drained.await {
                    Ok(drain::Outcome::Drained) => None,
                    Ok(drain::Outcome::Waiting { message, .. }) => Some(message),
                    // The other machines continue meanwhile.
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
            write::open_gate(scope, secret, plan, self.materials.keys).await?;
            tracing::info!(machine = machine.name_any(), plan = %plan.id, "gate opened");
            plan.is_open = true;
        }
        Ok(None)
    }

    /// Tells a machine that its plan is cancelled, if the user says so. Returns whether the plan Secret was written.
    async fn cancel(&mut self, machine: &mut MachineFacts) -> Result<bool> {
        let (Some(revision), Some(plan)) = (cancel(machine), machine.plan.as_mut()) else { return Ok(false) };
        let secret = self.plans.get(&plan_secret(&machine.name));
        let Some(secret) = secret.filter(|secret| observe::is_of(secret, plan.id)) else { return Ok(false) };
        write::cancel(self.scope, secret, plan, revision, self.materials.keys).await?;
        tracing::info!(machine = machine.name, plan = %plan.id, %revision, "plan cancelled");
        plan.cancelled = Some(revision);
        Ok(true)
    }

    /// Sets labels and taints of the Node because of the Host.
    async fn mark(&mut self, machine: &MachineFacts, marks: &Marks) {
        let (namespace, cluster) = (self.scope.namespace, self.scope.cluster_name());
        if !self.api_responds {
            return;
        }
        if let Err(error) = self.workload.mark(namespace, &cluster, machine.node_name(), marks).await {
            // The plan does not depend on it.
            tracing::warn!(machine = machine.name, error = chain(&error), "cannot write to its Node yet");
            self.next = self.next.or(Next::After(UNTIL_PODS_ARE_GONE));
        }
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

    /// Writes the condition to the CapstanConfig, which workers have too. The same write records which plan the machine
    /// has, for clients without the right to read the plan Secret.
    async fn write_status(
        &mut self,
        config: &CapstanConfig,
        outcome: &Outcome,
        plan: Option<CapstanConfigPlanStatus>,
    ) -> Result<()> {
        if matches!(outcome, Outcome::Waiting(_)) && is_young(config, self.scope.now) {
            // A new machine waits for many things, each for a moment: only a wait that lasts is written.
            self.next = self.next.or(Next::After(YOUNG));
            return Ok(());
        }
        let mut updated = config.clone();
        let is_news = set(&mut updated, status::condition(outcome), self.scope.now);
        let told = &mut updated.status.get_or_insert_default().plan;
        if is_news || *told != plan {
            *told = plan;
            let patcher = Patcher::new(self.scope.api(), config).whole(&["plan"]);
            patcher.finish(&updated, &[PLANNED]).await?;
        }
        Ok(())
    }
}

/// Whether the waits of the machine are not written yet.
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
