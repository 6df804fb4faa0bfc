//! What the planner thinks about one machine, without what it reads and writes: for the benchmark.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::Machine;
use capstan_distro::{Rendered, SecretFiles};
use capstan_plan::{Epoch, Revision};
use capstan_planner::budget::Budgets;
use capstan_planner::plans::{self, Elected, Gate, Record, Setup, Verdict, runs};
use capstan_planner::{EtcdView, MachineFacts};
use jiff::Timestamp;

pub(crate) use super::write::seal;

use super::inputs::{self, Materials, Subject};
use super::software;
use super::software::About;

/// The plan that a machine should have.
pub(crate) fn rendered(
    materials: &Materials<'_>,
    (machine, config): (&Machine, &CapstanConfig),
    facts: &MachineFacts,
    elected: &Elected,
    files: &SecretFiles,
) -> Result<Rendered, String> {
    let role = plans::role(facts, Some(elected), true, false)?;
    let installed = facts.plan.as_ref().map(|plan| plan.programs.as_slice()).unwrap_or_default();
    let version = facts.version.as_deref().unwrap_or_default();
    let software =
        software::choose(materials.shelf, config.spec.distro, version, About::default(), installed)
            .map_err(|missing| format!("{missing:?}"))?;
    let subject = Subject { machine, config, facts, role, others_serve: false, files, software: &software };
    inputs::rendered(materials, &subject, runs(facts).as_ref(), Revision::FIRST)
        .map_err(|error| error.message)
}

/// Whether anything is to be written for a machine.
pub(crate) fn is_to_be_written(
    all: &[MachineFacts],
    index: usize,
    rendered: &Rendered,
    etcd: &EtcdView,
    now: Timestamp,
) -> bool {
    let verdict = plans::verdict(&all[index], all, &Budgets::default(), &rendered.fingerprint, Epoch(1), now);
    let gate = plans::gate(
        &all[index],
        all,
        &plans::View { etcd, budgets: &Budgets::default(), begun: true, answers: true, now },
    );
    matches!(verdict, Verdict::Write { .. }) || gate != Gate::Leave
}

/// What is written down beside a plan that has been carried out.
pub(crate) fn record(version: &str, rendered: &Rendered) -> Record {
    Record { setup: Setup::new(version, &rendered.fingerprint), attempt: 1, ..Record::default() }
}
