//! The planner: gives every machine of the cluster, control plane and workers alike, the plan it should have.
//!
//! A plan is a function of objects and a renderer; it is written anew when its inputs have changed, and only when the
//! machine may have it: see [`decide`]. What a machine makes of it comes back in its MachineReport.

mod decide;
mod election;
mod inputs;
mod write;

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::conditions::{ConditionStatus, NewCondition, set};
use capstan_api::core::Machine;
use capstan_controller::error::Result;
use capstan_controller::patch::Patcher;
use capstan_controller::{in_place, pause};
use capstan_distro::Endpoint;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

pub(crate) use election::{Elected, Election, decide as elect};

use crate::certificates::Keys;
use crate::facts::{MachineFacts, PlanFacts, Progress};
use crate::names::{PLAN_REFUSED, PLANNED, plan_secret};
use crate::observe::Machines;
use crate::scope::Scope;
use decide::Verdict;

/// What became of a machine's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has the plan it should have.
    Planned(u64),
    /// Not yet, and why.
    Waiting(String),
    /// It cannot have one until the user changes this field.
    Refused {
        /// Kind, name and path.
        field: String,
        /// What is wrong with it, and the remedy.
        message: String,
    },
}

/// Gives each machine its plan, or says why not. `facts` are brought up to date with what is written, so that one
/// plan in flight holds up the next within the same round, too.
pub(crate) async fn plan(
    scope: &Scope<'_>,
    observed: &Machines,
    plans: &BTreeMap<String, Secret>,
    facts: &mut [MachineFacts],
    endpoint: &Endpoint,
    keys: &Keys,
) -> Result<BTreeMap<String, Outcome>> {
    facts.sort_by(|a, b| (!a.control_plane, a.age()).cmp(&(!b.control_plane, b.age())));
    let mut outcomes = BTreeMap::new();
    for index in 0..facts.len() {
        let name = facts[index].name.clone();
        let (Some(machine), Some(config)) = (observed.machines.get(&name), observed.configs.get(&name))
        else {
            continue;
        };
        let outcome =
            one(scope, machine, config, plans.get(&plan_secret(&name)), facts, index, endpoint, keys).await?;
        tell(scope, config, &outcome).await?;
        outcomes.insert(name, outcome);
    }
    Ok(outcomes)
}

#[expect(
    clippy::too_many_arguments,
    reason = "one machine among all of them, and what its plan is made from"
)]
async fn one(
    scope: &Scope<'_>,
    machine: &Machine,
    config: &CapstanConfig,
    read: Option<&Secret>,
    facts: &mut [MachineFacts],
    index: usize,
    endpoint: &Endpoint,
    keys: &Keys,
) -> Result<Outcome> {
    if let Some(reason) = pause::reason(None, "Machine", &machine.metadata) {
        return Ok(Outcome::Waiting(reason));
    }
    if in_place::is_being_written(&machine.metadata) {
        // Its config may be the new one already and its version still the old one.
        return Ok(Outcome::Waiting("waits for its MachineSet to write what it should become".to_owned()));
    }
    let own = &facts[index];
    let role = match decide::role(own, scope.elected().as_ref(), scope.is_initialized()) {
        Ok(role) => role,
        Err(wait) => return Ok(Outcome::Waiting(wait)),
    };
    let files = inputs::secret_files(scope, config).await?;
    let rendered = match inputs::rendered(machine, config, own, role, endpoint, keys, &files) {
        Ok(rendered) => rendered,
        Err(error) => {
            let field = format!("CapstanConfig {} {}", config.name_any(), error.field);
            return Ok(Outcome::Refused { field, message: error.message });
        }
    };
    let revision = match decide::verdict(own, facts, &rendered.fingerprint, scope.now) {
        Verdict::Keep => {
            write::stands_for(scope, read, machine, config).await?;
            let revision = own.plan.as_ref().map(|plan| plan.id.revision().get());
            return Ok(Outcome::Planned(revision.unwrap_or_default()));
        }
        Verdict::Wait(wait) => return Ok(Outcome::Waiting(wait)),
        Verdict::Write(revision) => revision,
    };
    // A role is only given to a machine that has its identity.
    let id = own.id.clone().unwrap_or_default();
    let sealed = write::seal(&rendered, &own.name, &id, revision, keys, scope.now)?;
    write::plan(scope, machine, config, &id, &rendered, &sealed, keys, read).await?;
    facts[index].plan = Some(PlanFacts {
        id: sealed.id(),
        inputs: rendered.fingerprint.whole.to_string(),
        expires: sealed.plan().expires,
        sound: true,
        progress: Progress::InFlight,
    });
    Ok(Outcome::Planned(revision.get()))
}

/// Says on the CapstanConfig how it stands, for workers have no other place that is ours.
async fn tell(scope: &Scope<'_>, config: &CapstanConfig, outcome: &Outcome) -> Result<()> {
    let condition = match outcome {
        Outcome::Planned(revision) => {
            NewCondition::new(PLANNED, ConditionStatus::True, PLANNED).message(format!("Revision {revision}"))
        }
        Outcome::Waiting(why) => {
            NewCondition::new(PLANNED, ConditionStatus::False, "Waiting").message(why.clone())
        }
        Outcome::Refused { field, message } => {
            NewCondition::new(PLANNED, ConditionStatus::False, PLAN_REFUSED)
                .message(format!("{field}: {message}"))
        }
    };
    let mut told = config.clone();
    if set(&mut told, condition, scope.now) {
        Patcher::new(scope.api(), config).finish(&told, &[PLANNED]).await?;
    }
    Ok(())
}
