//! The plan of a machine, as far as objects determine it, and whether it is written now. Pure.
//!
//! [`capstan_planner::plans::verdict`] decides when a machine may have its plan.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::Machine;
use capstan_controller::{Knowledge, in_place, pause};
use capstan_distro::{HostFacts, InputError, MergedConfig, Rendered, Role, SecretFiles, merge};
use capstan_plan::{Capabilities, Revision};
use capstan_planner::facts::{MachineFacts, Progress};
use capstan_planner::plans::{
    self, Elected, Outcome, Record, Setup, Unsupported, Verdict, others_serve, runs, supports,
};
use capstan_planner::wait;
use kube::ResourceExt as _;

use super::inputs::{self, Materials, Subject};
use super::software::{self, About, Chosen, Missing};
use crate::observe::hosts::provider_id;

/// The beginning of the cluster.
pub(crate) struct Begun {
    /// The machine that initializes, or has initialized, it.
    pub(crate) elected: Option<Elected>,
    /// Whether it is initialized.
    pub(crate) initialized: bool,
}

/// The desired state of a machine, before the Secrets for its files are read.
pub(crate) struct Prepared {
    role: Role,
    software: Chosen,
}

/// The decision about the plan of a machine.
pub(crate) enum Decision {
    /// No plan is written: the machine waits, its config is rejected, or its plan has failed.
    Tell(Outcome),
    /// The machine has the right plan.
    Keep {
        revision: Revision,
        /// What is left out of it.
        without: Option<String>,
    },
    /// A new plan is written.
    Write(Box<Written>),
}

/// A plan to write.
pub(crate) struct Written {
    pub(crate) rendered: Rendered,
    pub(crate) record: Record,
    pub(crate) revision: Revision,
    /// What is left out of it.
    pub(crate) without: Option<String>,
}

/// The desired state of the machine at `index`, or what it waits for.
pub(crate) fn prepare(
    materials: &Materials<'_>,
    cluster: &Begun,
    (machine, config): (&Machine, &CapstanConfig),
    facts: &[MachineFacts],
    index: usize,
) -> Result<Prepared, Outcome> {
    let own = &facts[index];
    if let Some(reason) = pause::reason(None, "Machine", &machine.metadata) {
        return Err(Outcome::Waiting(reason));
    }
    if own.is_kept_out {
        return Err(Outcome::Waiting(wait::kept_out()));
    }
    if in_place::is_being_written(&machine.metadata) {
        // Its config may be the new one already and its version still the old one.
        return Err(Outcome::Waiting(wait::machine_set()));
    }
    let is_to_come_back = plans::is_to_come_back(own, facts);
    let role = plans::role(own, cluster.elected.as_ref(), cluster.initialized, is_to_come_back)
        .map_err(Outcome::Waiting)?;
    let version = own.version.as_deref().unwrap_or_default();
    let installed = own.plan.as_ref().map(|plan| plan.programs.as_slice()).unwrap_or_default();
    let about = About { architecture: own.architecture.as_deref(), os_image: own.os_image.as_deref() };
    let software = software::choose(materials.shelf, config.spec.distro, version, about, installed);
    let software = software.map_err(|missing| match missing {
        Missing::Wait(wait) => Outcome::Waiting(wait),
        Missing::Unknown(message) => {
            Outcome::Refused { field: format!("Machine {} spec.version", own.name), message }
        }
    })?;
    Ok(Prepared { role, software })
}

/// The configuration of a machine with that of its Host, or what it waits for. A machine that is on no Host of Capstan has
/// only its own configuration.
pub(crate) fn merged(
    machine: &Machine,
    config: &CapstanConfig,
    host: Option<&Knowledge<HostFacts>>,
) -> Result<MergedConfig, Outcome> {
    let host = match host {
        None => None,
        Some(Knowledge::Known(host)) => Some(host),
        Some(Knowledge::Unknown(why)) => {
            let name = provider_id(machine).map(|id| id.host).unwrap_or_default();
            return Err(Outcome::Waiting(wait::host(name, why)));
        }
    };
    merge(&config.spec, host).map_err(|error| refused(config, error))
}

/// The decision about the plan of the machine at `index`. `merged` is its configuration with that of its Host.
pub(crate) fn decide(
    materials: &Materials<'_>,
    prepared: &Prepared,
    (machine, config): (&Machine, &CapstanConfig),
    merged: &MergedConfig,
    facts: &[MachineFacts],
    index: usize,
    files: &SecretFiles,
) -> Decision {
    let own = &facts[index];
    let Prepared { role, software } = prepared;
    let others_serve = others_serve(own, facts);
    let offered = software::agent(materials.shelf.catalog, own.architecture.as_deref(), materials.owner);
    let agent = plans::agent_program(own, facts, offered.as_ref());
    let agent = agent.as_ref();
    let subject =
        Subject { machine, config: merged, facts: own, role: *role, others_serve, files, software, agent };
    let ran = runs(own);
    let current = own.plan.as_ref().map_or(Revision::FIRST, |plan| plan.id.revision());
    let render = |revision| {
        let rendered = inputs::rendered(materials, &subject, ran.as_ref(), revision);
        rendered.map_err(|error| refused(config, merged.locate(error)))
    };
    let mut rendered = match render(current) {
        Ok(rendered) => rendered,
        Err(refused) => return Decision::Tell(refused),
    };
    let (epoch, now) = (materials.keys.epoch, materials.now);
    let verdict = plans::verdict(own, facts, materials.budgets, &rendered.fingerprint, epoch, now);
    let (revision, attempt) = match verdict {
        Verdict::Keep => {
            return Decision::Keep { revision: current, without: plans::without(own, &rendered.left_out) };
        }
        Verdict::Wait(wait) => return Decision::Tell(Outcome::Waiting(wait)),
        Verdict::Failed { again } => {
            let plan = own.plan.as_ref();
            let why = match plan.map(|plan| &plan.progress) {
                Some(Progress::Failed(why)) => why.clone(),
                _ => String::new(),
            };
            let attempts = plan.map_or(1, |plan| plan.record.attempt);
            return Decision::Tell(Outcome::Failed { revision: current.get(), why, attempts, again });
        }
        Verdict::Write { revision, attempt } => (revision, attempt),
    };
    let needed = Capabilities::needed_by(
        &rendered.steps,
        &rendered.probes,
        &rendered.periodic,
        &rendered.host_windows,
        rendered.agent.as_ref(),
    );
    if let Err(unsupported) = supports(own, &needed) {
        return Decision::Tell(match unsupported {
            Unsupported::Unknown(wait) => Outcome::Waiting(wait),
            Unsupported::Lacking(wait) => Outcome::Unsupported(wait),
        });
    }
    if own.plan.is_some() && current != revision {
        // What is saved before an upgrade is bound to the revision.
        rendered = match render(revision) {
            Ok(rendered) => rendered,
            Err(refused) => return Decision::Tell(refused),
        };
    }
    let version = own.version.as_deref().unwrap_or_default();
    let setup = Setup::new(version, &rendered.fingerprint);
    let first = plans::is_first(own);
    let (retry, earlier) = (own.retry.clone(), plans::earlier(own));
    let record = Record { setup, ran, first, attempt, written: Some(now), retry, earlier };
    let without = plans::without(own, &rendered.left_out);
    Decision::Write(Box::new(Written { rendered, record, revision, without }))
}

fn refused(config: &CapstanConfig, error: InputError) -> Outcome {
    let field = match error.host {
        Some(_) => error.place(),
        None => format!("CapstanConfig {} {}", config.name_any(), error.field),
    };
    Outcome::Refused { field, message: error.message }
}
