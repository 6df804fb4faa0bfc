//! MachineHealthCheck: says which Machines are sick, and whether something may be done about them.
//!
//! Reads: the MachineHealthCheck, its Cluster, the Machines it selects and their Nodes. Writes: `HealthCheckSucceeded`
//! of those Machines, a first `OwnerRemediated` that asks their owner to act, requests to somebody else's
//! remediation, and of the MachineHealthCheck owner, label and status.

mod external;
pub mod health;
pub mod names;
pub mod node;
pub mod trigger;
mod triggers;

use capstan_api::conditions::{ConditionStatus, NewCondition, get, is_true, set, types as shared};
use capstan_api::core::{Cluster, Machine, MachineHealthCheck};
use capstan_api::meta::{annotations, labels};
use capstan_controller::events::Tone;
use capstan_controller::patch::Patcher;
use capstan_controller::{Error, Next, Reconciler, Result, owners, pause};
use kube::ResourceExt as _;
use kube::api::Api;
use kube::core::SelectorExt as _;
use std::sync::Arc;

use crate::Core;
use crate::machineset::status::whole;
use crate::machineset::{cluster_of, selector};
use crate::names::cluster::types as cluster_types;
use crate::names::events;
use crate::names::machine::types as machine_types;
use crate::step::Steps;
use health::Health;
use names::{reasons, types};
use trigger::Allowed;

pub use triggers::run;

const OWNED: [&str; 2] = [shared::PAUSED, types::REMEDIATION_ALLOWED];

/// Reconciles MachineHealthChecks.
pub struct MachineHealthCheckReconciler {
    core: Core,
}

impl MachineHealthCheckReconciler {
    /// A reconciler on these clients.
    pub fn new(core: Core) -> Self {
        Self { core }
    }
}

impl Reconciler for MachineHealthCheckReconciler {
    type Object = MachineHealthCheck;

    fn name(&self) -> &'static str {
        "machinehealthcheck"
    }

    async fn reconcile(&self, object: Arc<MachineHealthCheck>) -> Result<Next> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<MachineHealthCheck> = self.core.api(&namespace);
        let cluster = cluster_of(&self.core, &namespace, &object.spec.cluster_name).await?;
        if !pause::allows(&api, object.as_ref(), Some(&cluster), self.core.now()).await? {
            return Ok(Next::Changed);
        }
        let mut check = object.as_ref().clone();
        let label = check.metadata.labels.get_or_insert_default();
        label.insert(labels::CLUSTER_NAME.to_owned(), object.spec.cluster_name.clone());
        if let Some(owner) = owners::plain(&cluster) {
            owners::ensure(&mut check.metadata, &owner);
        }

        let mut steps = Steps::new();
        let checked = self.check(&cluster, &mut check).await;
        steps.add(checked);
        if steps.succeeded() {
            check.status.get_or_insert_default().observed_generation = check.metadata.generation;
        }
        pause::lifted(&mut check, self.core.now());
        steps.check(Patcher::new(api, &object).finish(&check, &OWNED).await);
        steps.end()
    }
}

/// A Machine with what was found.
struct Target {
    machine: Machine,
    health: Health,
}

impl MachineHealthCheckReconciler {
    async fn check(&self, cluster: &Cluster, check: &mut MachineHealthCheck) -> Result<Next> {
        let targets = self.targets(cluster, check).await?;
        let healthy = targets.iter().filter(|target| target.health == Health::Healthy).count();
        let unhealthy =
            targets.iter().filter(|target| matches!(target.health, Health::Unhealthy { .. })).count();
        let (expected, healthy) = (whole(targets.len()), whole(healthy));
        let remediation = check.spec.remediation.clone().unwrap_or_default();
        let allowed =
            trigger::judge(&remediation.trigger_if.unwrap_or_default(), expected, healthy, unhealthy)
                .map_err(|problem| {
                    let field = format!("MachineHealthCheck {} spec.remediation.triggerIf", check.name_any());
                    Error::user(field, problem.to_string())
                })?;

        let status = check.status.get_or_insert_default();
        status.expected_machines = Some(expected);
        status.current_healthy = Some(healthy);
        status.targets = targets.iter().map(|target| target.machine.name_any()).collect();
        status.targets.sort();
        let (more, condition) = match &allowed {
            Allowed::Yes(more) => {
                (*more, NewCondition::new(types::REMEDIATION_ALLOWED, true, reasons::REMEDIATION_ALLOWED))
            }
            Allowed::No(why) => (
                0,
                NewCondition::new(types::REMEDIATION_ALLOWED, false, reasons::TOO_MANY_UNHEALTHY)
                    .message(why),
            ),
        };
        status.remediations_allowed = Some(more);
        let is_news = set(check, condition, self.core.now());
        if let (Allowed::No(why), true) = (&allowed, is_news) {
            self.core.tell(&*check, Tone::Warning, events::RESTRICTED, why).await;
        }

        let mut steps = Steps::new();
        for target in &targets {
            if let Health::Waiting(Some(after)) = target.health {
                steps.add(Ok(Next::After(after)));
            }
            steps.check(self.tell(cluster, check, target, matches!(allowed, Allowed::Yes(_))).await);
        }
        steps.end()
    }

    async fn targets(&self, cluster: &Cluster, check: &MachineHealthCheck) -> Result<Vec<Target>> {
        let namespace = check.namespace().unwrap_or_default();
        let selector = selector(&check.spec.selector, "MachineHealthCheck", &check.name_any())?;
        let machines =
            self.core.caches.of::<Machine>().of_cluster(&namespace, &check.spec.cluster_name).await?;
        let machines = machines.iter().filter(|machine| selector.matches(machine.labels()));
        let machines = machines.map(|machine| machine.as_ref().clone());
        let nodes = match is_true(cluster, cluster_types::CONTROL_PLANE_INITIALIZED) {
            true => Some(self.core.remotes.nodes(&namespace, &check.spec.cluster_name).await?),
            // There is no API server that could have Nodes.
            false => None,
        };
        let checks = check.spec.checks.clone().unwrap_or_default();
        let now = self.core.now();
        let mut targets = Vec::new();
        for machine in machines.filter(|machine| !is_skipped(machine)) {
            let seen = node::find(nodes.as_ref(), &machine);
            let mut health = health::check(cluster, &machine, &seen.of(&machine), &checks, now);
            // A finding may cost a machine its life: the API server is asked once more, past all caches.
            if let (Health::Unhealthy { reason, .. }, Some(name)) = (&health, node::name(&machine))
                && node::is_about_node(reason)
            {
                let read = self.core.remotes.node_now(&namespace, &check.spec.cluster_name, name).await;
                health = health::check(cluster, &machine, &node::read(read).of(&machine), &checks, now);
            }
            targets.push(Target { machine, health });
        }
        Ok(targets)
    }

    /// Writes onto a Machine what was found, and asks for a remedy if that is allowed.
    async fn tell(
        &self,
        cluster: &Cluster,
        check: &MachineHealthCheck,
        target: &Target,
        allowed: bool,
    ) -> Result<()> {
        let (before, now) = (&target.machine, self.core.now());
        let mut machine = before.clone();
        let succeeded = machine_types::HEALTH_CHECK_SUCCEEDED;
        let mut remedy = Ok(());
        match &target.health {
            Health::Waiting(_) => return Ok(()),
            Health::Healthy => {
                set(&mut machine, NewCondition::new(succeeded, true, reasons::HEALTH_CHECK_SUCCEEDED), now);
                if allowed {
                    self.withdraw_request(check, before).await?;
                }
            }
            Health::Unhealthy { reason, message } => {
                let told = NewCondition::new(succeeded, ConditionStatus::False, *reason).message(message);
                set(&mut machine, told, now);
                if allowed && cluster.spec.paused != Some(true) {
                    match &check
                        .spec
                        .remediation
                        .as_ref()
                        .and_then(|remediation| remediation.template_ref.clone())
                    {
                        Some(template) => remedy = self.request(template, &mut machine).await,
                        None => ask_owner(&mut machine, now),
                    }
                }
            }
        }
        let api: Api<Machine> = self.core.api(&before.namespace().unwrap_or_default());
        // Not the owner's word: once asked, it is for the owner to say how far it has come.
        Patcher::new(api, before).finish(&machine, &[succeeded]).await?;
        let was_told = get(before, succeeded).is_some_and(|told| told.status == ConditionStatus::False);
        if let (Health::Unhealthy { message, .. }, false) = (&target.health, was_told) {
            self.core.tell(&machine, Tone::Warning, events::UNHEALTHY, message).await;
        }
        remedy
    }
}

/// Asks the owner to act, unless it is at it already or the Machine is on its way out.
fn ask_owner(machine: &mut Machine, now: jiff::Timestamp) {
    let asked = get(machine, machine_types::OWNER_REMEDIATED);
    if machine.metadata.deletion_timestamp.is_none()
        && asked.is_none_or(|asked| asked.status == ConditionStatus::True)
    {
        let type_ = machine_types::OWNER_REMEDIATED;
        let ask = NewCondition::new(type_, ConditionStatus::False, reasons::WAITING_FOR_REMEDIATION);
        set(machine, ask.message("Waiting for remediation"), now);
    }
}

fn is_skipped(machine: &Machine) -> bool {
    [annotations::PAUSED, annotations::SKIP_REMEDIATION]
        .iter()
        .any(|key| machine.annotations().contains_key(*key))
}
