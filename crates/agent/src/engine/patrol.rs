//! Drift: checks what steps have created on the machine, repairs what differs from the plan, and reports it.
//!
//! A plan checks each step that it would skip ([`Engine::look_before`]), and repeats the step if its effect is missing
//! or changed. Between steps and at rest, [`Engine::patrol`] checks all steps that are done. It never runs beside a
//! step, and does nothing during a reset. It starts and restarts units only if all gates of the plan were passed, as
//! often as [`budget`](crate::drift) allows, and does not wait for them: the next check finds the result.
//!
//! Only starts of units are recorded: an interrupted repair is found by the next check. A unit that runs with a changed
//! file and must be restarted is recorded before the file is repaired, because nothing shows it afterwards.

use capstan_plan::{Action, Drift, OnDrift, Step, Unit, VerifiedPlan};
use std::time::Duration;

use super::look::Different;
use super::unit::State;
use super::{Engine, EngineError, StepError};
use crate::clock::Clock;
use crate::decide::{has_passed_gates, made};
use crate::drift::{Allowance, Sight, is_open, may_repair};
use crate::journal::Entry;
use crate::ledger::UNIT_FILE;
use crate::machine::{Machine, MachineError};
use crate::redact::Redactor;
use crate::store::Store;

/// Interval of the checks.
pub(super) const PATROL: Duration = Duration::from_mins(5);

/// Pause between the start of the agent and the first check, if there is no plan to apply.
pub(super) const AFTER_START: Duration = Duration::from_mins(1);

/// Interval of the checks while a plan is being applied, or while a finding is not repaired.
const SOON: Duration = Duration::from_secs(30);

/// Timeout of a repair, because a newer plan waits for it. A partial download is kept.
const PATIENCE: Duration = Duration::from_mins(2);

/// The repair of a unit.
#[derive(Debug, Default)]
struct UnitDrift {
    /// Findings for users, the most severe last.
    found: Vec<String>,
    is_file_wrong: bool,
    is_masked: bool,
    is_disabled: bool,
    needs_reload: bool,
    is_down: bool,
    /// It runs with files that have changed since, and must be restarted.
    is_outdated: bool,
    /// It is neither starting nor stopping.
    is_stable: bool,
    /// Its invocation ID.
    invocation: String,
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Sets the average interval of the checks.
    #[must_use]
    pub fn patrolling(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self.next_patrol = self.next_patrol.min(self.patrolled + interval);
        self
    }

    /// The findings, newest first.
    pub fn drift(&self) -> Vec<Drift> {
        self.findings.reported()
    }

    /// When to [`patrol`](Self::patrol) next, by [`Clock::elapsed`].
    pub fn next_patrol(&self) -> Duration {
        self.next_patrol
    }

    /// When to patrol next while a plan is carried out.
    pub fn next_patrol_of_running_plan(&self) -> Duration {
        self.patrolled + SOON.min(self.interval)
    }

    /// Makes the next check due soon.
    pub(super) fn patrol_soon(&mut self) {
        self.next_patrol = self.next_patrol.min(self.clock.elapsed() + SOON.min(self.interval));
    }

    /// Checks the effect of a step that this plan would skip, because the step has succeeded before with its inputs.
    pub(super) async fn look_before(&mut self, plan: &VerifiedPlan, index: usize) -> Result<(), EngineError> {
        let step = &plan.plan().steps[index];
        self.wall_clock.read(self.clock.now(), self.clock.elapsed());
        let found = match self.look(plan, step).await {
            Ok(found) => found,
            // It may be there or not. The attempt at it finds that out.
            Err(error) => Some(Different::unknown(&error)),
        };
        let sight = self.note(plan, step, found.as_ref()).await?;
        self.sights.saw(plan.id(), step.name.clone(), sight);
        Ok(())
    }

    /// Records a finding for the report, and in the journal which unit must be restarted for it.
    async fn note(
        &mut self,
        plan: &VerifiedPlan,
        step: &Step,
        found: Option<&Different>,
    ) -> Result<Sight, EngineError> {
        let now = self.clock.now();
        let Some(found) = found else {
            self.findings.repaired(&step.name, now);
            return Ok(Sight::AsMade);
        };
        self.findings.found(&step.name, &Redactor::of(plan.plan()).text(&found.what), now);
        if let Err(why) = self.is_to_be_repaired(plan, step) {
            self.findings.explain(&step.name, why);
            return Ok(Sight::AsMade);
        }
        if found.is_content {
            self.outdate(plan, step).await?;
        }
        Ok(Sight::Drifted)
    }

    /// Whether drift of a step is repaired now. Otherwise why not, for users.
    fn is_to_be_repaired(&self, plan: &VerifiedPlan, step: &Step) -> Result<(), String> {
        match step.on_drift {
            OnDrift::Repair => Ok(()),
            OnDrift::Report => Err("the plan says that it is only reported".to_owned()),
            OnDrift::RepairInWindow => is_open(plan, &self.wall_clock),
        }
    }

    /// Checks all steps of the current plan that are done, and repairs what differs. Returns whether there is anything
    /// new to report.
    ///
    /// # Errors
    ///
    /// If the journal fails.
    pub async fn patrol(&mut self, plan: &VerifiedPlan) -> Result<bool, EngineError> {
        let before = self.findings.reported();
        self.wall_clock.read(self.clock.now(), self.clock.elapsed());
        self.rounds = self.rounds.wrapping_add(1);
        let steps = made(plan, self.history());
        // A command of an interrupted attempt may run: the plan deals with it first.
        if self.history().open_attempt().is_none() {
            self.journal.tidy().await?;
            for index in steps {
                self.look_after(plan, &plan.plan().steps[index]).await?;
            }
        }
        self.patrolled = self.clock.elapsed();
        let pause = if self.findings.are_open() { SOON.min(self.interval) } else { self.jittered(plan) };
        self.next_patrol = self.patrolled + pause;
        Ok(self.findings.reported() != before)
    }

    /// The interval with jitter, so that machines that were switched on together do not check together.
    fn jittered(&self, plan: &VerifiedPlan) -> Duration {
        let seed = format!("{}/{}", plan.plan().machine.machine_id, self.rounds);
        let [share, ..] = *capstan_plan::Digest::of(seed.as_bytes()).as_bytes();
        self.interval * (205 + u32::from(share) * 2 / 5) / 256
    }

    async fn look_after(&mut self, plan: &VerifiedPlan, step: &Step) -> Result<(), EngineError> {
        if step.path().is_none() {
            return Ok(());
        }
        if let Action::Unit(unit) = &step.action {
            return self.look_after_unit(plan, step, unit).await;
        }
        let found = match self.look(plan, step).await {
            Ok(found) => found,
            Err(error) => {
                // It may be there or not: nothing is done about what is not known.
                let redacted = Redactor::of(plan.plan()).text(&error.to_string());
                self.findings.found(&step.name, &redacted, self.clock.now());
                return Ok(());
            }
        };
        if self.note(plan, step, found.as_ref()).await? == Sight::AsMade
            || !self.findings.is_due(&step.name, self.clock.elapsed())
        {
            return Ok(());
        }
        let patience = Duration::from_secs(step.timeout_seconds.into()).min(PATIENCE);
        let repaired = match &step.action {
            Action::File(file) => self.put_file(file).await,
            Action::Directory(folder) => self.put_directory(folder).await,
            Action::Artifact(artifact) => self.put_artifact(artifact, patience).await,
            Action::Unit(_) | Action::Command(_) | Action::Check(_) | Action::Gate(_) => return Ok(()),
        };
        self.conclude(plan, step, repaired)
    }

    /// Records the result of a repair.
    fn conclude(
        &mut self,
        plan: &VerifiedPlan,
        step: &Step,
        repaired: Result<(), StepError>,
    ) -> Result<(), EngineError> {
        match repaired {
            Ok(()) => self.findings.repaired(&step.name, self.clock.now()),
            Err(StepError::Journal(error)) => return Err(error.into()),
            Err(StepError::Machine(error)) => {
                let message = Redactor::of(plan.plan()).text(&format!("cannot repair it: {error}"));
                self.findings.failed(&step.name, message, self.clock.elapsed());
            }
        }
        Ok(())
    }

    /// The difference between the machine and a step.
    async fn look(&mut self, plan: &VerifiedPlan, step: &Step) -> Result<Option<Different>, MachineError> {
        match &step.action {
            Action::File(file) => self.look_at_file(file).await,
            Action::Directory(folder) => self.look_at_directory(folder).await,
            Action::Artifact(artifact) => self.look_at_artifact(artifact).await,
            Action::Unit(unit) => {
                let drift = self.look_at_unit(plan, step, unit).await?;
                let is_content = drift.is_file_wrong;
                let what = drift.found.join("; ");
                Ok((!what.is_empty()).then_some(Different { what, is_content }))
            }
            Action::Command(_) | Action::Check(_) | Action::Gate(_) => Ok(None),
        }
    }

    async fn look_at_unit(
        &mut self,
        plan: &VerifiedPlan,
        step: &Step,
        unit: &Unit,
    ) -> Result<UnitDrift, MachineError> {
        let mut drift = UnitDrift::default();
        let state = self.state(&unit.name).await?;
        let name = &unit.name;
        if let Some(found) = self.look_at_content(&unit.path(), unit.content.as_bytes(), UNIT_FILE).await? {
            drift.is_file_wrong = true;
            drift.found.push(found.what);
        }
        if state.is_masked() {
            drift.is_masked = true;
            drift.found.push(format!("{name} is masked"));
        }
        if state.is_disabled() {
            drift.is_disabled = true;
            drift.found.push(format!("{name} is not enabled"));
        }
        if state.needs_reload() && !drift.is_file_wrong {
            drift.needs_reload = true;
            drift.found.push(format!("systemd has not read the file of {name} since it was written"));
        }
        if state.is_down() {
            drift.is_down = true;
            drift.found.push(format!("{name} is {}", state.active));
        }
        if self.is_outdated(plan, step, unit, &state) {
            drift.is_outdated = true;
            drift.found.push(format!("{name} was started with something that was changed"));
        }
        drift.is_stable = state.is_stable();
        drift.invocation = state.invocation;
        Ok(drift)
    }

    /// Whether it is recorded that a unit must be restarted, and it was not restarted since.
    fn is_outdated(&self, plan: &VerifiedPlan, step: &Step, unit: &Unit, state: &State) -> bool {
        let start = self.history().units.get(&unit.name);
        !state.is_ended()
            && !state.invocation.is_empty()
            && start.is_some_and(|start| {
                (start.inputs, &start.instead_of) == (plan.inputs(step), &state.invocation)
            })
    }

    async fn look_after_unit(
        &mut self,
        plan: &VerifiedPlan,
        step: &Step,
        unit: &Unit,
    ) -> Result<(), EngineError> {
        let drift = match self.look_at_unit(plan, step, unit).await {
            Ok(drift) => drift,
            Err(error) => {
                self.findings.found(&step.name, &error.to_string(), self.clock.now());
                return Ok(());
            }
        };
        let what = drift.found.join("; ");
        if what.is_empty() {
            // One that comes up may go down again.
            if drift.is_stable {
                self.note(plan, step, None).await?;
                self.trust_run(plan, step, unit, drift.invocation);
            }
            return Ok(());
        }
        let found = Different { what, is_content: drift.is_file_wrong };
        if self.note(plan, step, Some(&found)).await? == Sight::AsMade
            || !self.findings.is_due(&step.name, self.clock.elapsed())
        {
            return Ok(());
        }
        match self.repair_unit(plan, step, unit, &drift).await {
            // The next look tells what came of it.
            Ok(false) => Ok(()),
            Ok(true) => self.conclude(plan, step, Ok(())),
            Err(error) => self.conclude(plan, step, Err(error)),
        }
    }

    /// Repairs the file of a unit, and starts or restarts the unit if that is allowed. Returns whether the unit is as
    /// planned.
    async fn repair_unit(
        &mut self,
        plan: &VerifiedPlan,
        step: &Step,
        unit: &Unit,
        drift: &UnitDrift,
    ) -> Result<bool, StepError> {
        let name = unit.name.as_str();
        if drift.is_masked {
            self.unmask(&unit.name).await?;
        }
        self.put_unit_file(unit).await?;
        if drift.is_file_wrong || drift.is_masked || drift.needs_reload {
            self.order_systemd(&["daemon-reload"]).await?;
        }
        if drift.is_masked || drift.is_disabled {
            self.order_systemd(&["enable", "--", name]).await?;
        }
        // That its file was changed may have made it outdated.
        let state = self.state(&unit.name).await?;
        if !state.is_down() && !self.is_outdated(plan, step, unit, &state) {
            return Ok(state.is_stable());
        }
        let order = if state.is_down() { "start" } else { "restart" };
        if !has_passed_gates(plan, self.history()) {
            let message = format!("systemctl {order} waits until the gates of the plan were passed");
            self.findings.explain(&step.name, message);
            return Ok(false);
        }
        let now = self.clock.now();
        let last = self.history().units.get(&unit.name).and_then(|start| start.repair);
        let message = match may_repair(last, order == "restart", now) {
            Allowance::Now(number) => {
                let (inputs, instead_of) = (plan.inputs(step), state.invocation.clone());
                let repair = Some(crate::drift::Repair { number, at: now });
                let entry = Entry::Starting { unit: unit.name.clone(), inputs, instead_of, repair };
                self.journal.append(entry).await?;
                if state.active == "failed" {
                    self.order_systemd(&["reset-failed", "--", name]).await.ok();
                }
                self.order_systemd(&[order, "--no-block", "--", name]).await?;
                format!("systemctl {order} for the {number}. time")
            }
            Allowance::Later(until) => {
                let until = jiff::Timestamp::from_second(until.as_second()).unwrap_or(until);
                format!("systemctl {order} again at {until}")
            }
            Allowance::Never => format!(
                "it was restarted {} times and is changed again and again: find out by what",
                crate::drift::MOST_RESTARTS
            ),
        };
        self.findings.explain(&step.name, message);
        Ok(false)
    }

    /// The current invocation of a unit started with the planned files, if all files that it reads are as planned.
    fn trust_run(&mut self, plan: &VerifiedPlan, step: &Step, unit: &Unit, run: String) {
        let steps = &plan.plan().steps;
        let is_wrong = |other: &Step| {
            self.findings.is_open(&other.name)
                && Self::readers(plan, other).iter().any(|reader| steps[*reader].name == step.name)
        };
        if !steps.iter().any(is_wrong) {
            self.good_runs.insert(unit.name.clone(), run);
        }
    }

    /// Records which units were started since a file that they read was changed: those must be restarted, at once or in the next
    /// maintenance window. Units that were started before do not read it again.
    async fn outdate(&mut self, plan: &VerifiedPlan, step: &Step) -> Result<(), EngineError> {
        for reader in Self::readers(plan, step) {
            let reader = &plan.plan().steps[reader];
            let Action::Unit(unit) = &reader.action else { continue };
            // Of one that was not looked at while all was right nobody knows what it was started from.
            let (Some(good), Some(start)) =
                (self.good_runs.get(&unit.name), self.history().units.get(&unit.name).cloned())
            else {
                continue;
            };
            let Ok(state) = self.state(&unit.name).await else { continue };
            if reader.on_drift == OnDrift::Report
                || state.is_ended()
                || state.invocation == *good
                || state.invocation == start.instead_of
            {
                continue;
            }
            let (unit, instead_of) = (unit.name.clone(), state.invocation);
            let entry = Entry::Starting { unit, inputs: start.inputs, instead_of, repair: start.repair };
            self.journal.append(entry).await?;
        }
        Ok(())
    }
}
