//! Units of systemd, through `systemctl`.
//!
//! A restart of a unit with certain inputs cannot be recorded at the same moment as it happens. So the invocation ID of
//! the unit is recorded before, and another ID afterwards proves the restart. That also covers a start that takes too
//! long, a crash of the agent and a boot: after the record, every start of the unit uses everything that comes before
//! it in the plan.

use capstan_plan::{Argv, Digest, MachinePath, Stop, Unit, UnitName};
use std::time::Duration;

use super::files::wrong;
use super::{Engine, StepError};
use crate::clock::Clock;
use crate::journal::{Entry, Outcome};
use crate::ledger::{After, Before, UNIT_FILE};
use crate::machine::{CommandKey, Exit, Found, Invocation, Machine, MachineError, Ran};
use crate::redact::Redactor;
use crate::report;
use crate::store::Store;

/// Timeout for systemd to stop a unit that is being removed. systemd has its own timeouts, after which it kills the
/// unit.
const STOPPING: Duration = Duration::from_secs(300);

/// Timeout of queries, and of orders that start nothing.
const ASKING: Duration = Duration::from_secs(90);

/// The properties of a unit. Missing properties are empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    /// `active`, `inactive`, `failed`, `activating`, `deactivating` and others.
    pub(super) active: String,
    /// The invocation ID of its current or last run; empty if it has not run since the boot.
    pub(super) invocation: String,
    /// `enabled`, `disabled`, `static`, `masked` and others.
    enabled: String,
    /// `loaded`, `masked`, `not-found` and others.
    loaded: String,
    needs_reload: bool,
    /// It is a oneshot unit: it becomes inactive after it has succeeded.
    ends_by_itself: bool,
}

impl State {
    fn read(printed: &[u8]) -> Self {
        let text = String::from_utf8_lossy(printed);
        let value = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            value.unwrap_or_default().trim().to_owned()
        };
        Self {
            active: value("ActiveState"),
            invocation: value("InvocationID"),
            enabled: value("UnitFileState"),
            loaded: value("LoadState"),
            needs_reload: value("NeedDaemonReload") == "yes",
            ends_by_itself: value("Type") == "oneshot" && value("RemainAfterExit") == "no",
        }
    }

    pub(super) fn is_masked(&self) -> bool {
        self.loaded == "masked" || self.enabled.starts_with("masked")
    }

    /// Whether it is not started at boot. A unit without an `[Install]` section is `static`.
    pub(super) fn is_disabled(&self) -> bool {
        matches!(self.enabled.as_str(), "disabled" | "enabled-runtime")
    }

    /// Whether its file has changed since systemd read it.
    pub(super) const fn needs_reload(&self) -> bool {
        self.needs_reload
    }

    /// Whether it is neither starting nor stopping.
    pub(super) fn is_stable(&self) -> bool {
        matches!(self.active.as_str(), "active" | "reloading" | "inactive" | "failed")
    }

    /// Whether it should run and does not.
    pub(super) fn is_down(&self) -> bool {
        match self.active.as_str() {
            "inactive" => !self.ends_by_itself,
            other => other == "failed",
        }
    }

    /// Whether none of its processes runs.
    pub(super) fn is_ended(&self) -> bool {
        matches!(self.active.as_str(), "inactive" | "failed" | "")
    }
}

const PROPERTIES: &str =
    "--property=ActiveState,InvocationID,UnitFileState,LoadState,NeedDaemonReload,Type,RemainAfterExit";

pub(crate) fn systemctl(words: &[&str]) -> Argv {
    Argv::new([&["systemctl"], words].concat()).expect("some short words without a zero byte")
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Ensures that a unit runs with these inputs.
    pub(super) async fn run_unit(
        &mut self,
        unit: &Unit,
        inputs: Digest,
        timeout: Duration,
        redactor: &Redactor,
    ) -> Result<Outcome, StepError> {
        let name = unit.name.as_str();
        if self.state(&unit.name).await?.is_masked() {
            self.unmask(&unit.name).await?;
        }
        self.put_unit_file(unit).await?;
        // Also if the file was right: nobody knows whether systemd has read it since it was written.
        for words in [&["daemon-reload"][..], &["enable", "--", name]] {
            let ran = self.systemctl(words, ASKING).await?;
            if ran.exit != Exit::Code(0) {
                return Ok(refused(words[0], &ran, redactor));
            }
        }
        let state = self.state(&unit.name).await?;
        let known = self.history().units.get(&unit.name);
        let was_started =
            known.is_some_and(|start| start.inputs == inputs && start.instead_of != state.invocation);
        if was_started && state.active == "active" {
            return Ok(Outcome::success());
        }
        if state.active == "failed" {
            // One that failed often is not started again before somebody says that it is forgiven.
            self.systemctl(&["reset-failed", "--", name], ASKING).await?;
        }
        if !was_started {
            let instead_of = state.invocation;
            if known.is_none_or(|start| start.inputs != inputs || start.instead_of != instead_of) {
                let (unit, repair) = (unit.name.clone(), None);
                let entry = Entry::Starting { unit, inputs, instead_of, repair };
                self.journal.append(entry).await?;
            }
        }
        // What it is started from now was not looked at.
        self.good_runs.remove(&unit.name);
        // Starting what is starting waits for it.
        let order = if was_started { "start" } else { "restart" };
        let ran = self.systemctl(&[order, "--", name], timeout).await?;
        if ran.exit != Exit::Code(0) {
            return self.why_not_started(&unit.name, order, &ran, redactor).await;
        }
        Ok(report::outcome(&ran, redactor))
    }

    /// Removes the mask (a link to `/dev/null`) of a unit of the plan.
    pub(super) async fn unmask(&self, name: &UnitName) -> Result<(), MachineError> {
        let path = Unit::path_of(name);
        let is_ours = self.history().ledger.holding(&path).is_some();
        if is_ours {
            self.order(&["unmask", "--", name.as_str()], ASKING).await?;
        }
        Ok(())
    }

    pub(super) async fn put_unit_file(&mut self, unit: &Unit) -> Result<(), StepError> {
        let path = unit.path();
        self.make_parents(&path).await?;
        let found = self.machine.inspect(&path).await?;
        let held = self.history().ledger.holding(&path);
        let is_ours = held.is_some_and(|holding| matches!(holding.after, After::Unit { .. }));
        let content = unit.content.as_bytes();
        let is_right = match found {
            Found::Nothing => false,
            Found::File { metadata, size } if is_ours => {
                metadata == UNIT_FILE
                    && size == content.len() as u64
                    && self.machine.read(&path, size).await? == content
            }
            // Whatever it runs was running before us, and nobody knows how to bring it back.
            _ => return Err(wrong(&path, found, "free for a unit of the plan")),
        };
        self.take(&path, Before::Nothing, After::from(unit)).await?;
        if !is_right {
            self.machine.write(&path, content, UNIT_FILE).await?;
        }
        Ok(())
    }

    /// Stops and disables a unit, and ends the processes that it leaves behind.
    pub(super) async fn end_unit(
        &self,
        name: &UnitName,
        path: &MachinePath,
        stop: Option<&Stop>,
    ) -> Result<(), MachineError> {
        if !self.state(name).await?.is_ended() {
            self.order(&["stop", "--", name.as_str()], STOPPING).await?;
        }
        if let Some(stop @ Stop { argv, timeout_seconds }) = stop {
            let timeout = Duration::from_secs((*timeout_seconds).into());
            let invocation = Invocation { argv, env: &[], timeout, key: None };
            let ran = self.run_or_resume(&CommandKey::stop(name, stop), invocation).await?;
            if ran.exit != Exit::Code(0) {
                return Err(unwilling("end", format!("its `stop` {}", report::ending(ran.exit))));
            }
        }
        // Without its file it is not enabled either: that goes first.
        if self.machine.inspect(path).await? != Found::Nothing {
            self.order(&["disable", "--", name.as_str()], ASKING).await?;
        }
        Ok(())
    }

    /// Makes systemd notice that the file of a unit was removed.
    pub(super) async fn forget_unit(&self, name: &UnitName) -> Result<(), MachineError> {
        self.order(&["daemon-reload"], ASKING).await?;
        // Says no if it knows no such unit, which is what we want.
        self.systemctl(&["reset-failed", "--", name.as_str()], ASKING).await?;
        Ok(())
    }

    /// Verifies that no process of a unit runs.
    pub(super) async fn is_ended(&self, name: &UnitName, path: &MachinePath) -> Result<(), MachineError> {
        let state = self.state(name).await?;
        if state.is_ended() {
            return Ok(());
        }
        Err(MachineError::WrongKind {
            path: path.clone(),
            found: "a unit that still runs",
            wanted: "what was there before",
        })
    }

    pub(super) async fn state(&self, name: &UnitName) -> Result<State, MachineError> {
        let words = ["show", PROPERTIES, "--", name.as_str()];
        let ran = self.order(&words, ASKING).await?;
        Ok(State::read(&ran.stdout.head))
    }

    async fn systemctl(&self, words: &[&str], timeout: Duration) -> Result<Ran, MachineError> {
        self.machine.run(Invocation { argv: &systemctl(words), env: &[], timeout, key: None }).await
    }

    /// Runs a systemctl command that starts nothing, or that does not wait for the start.
    pub(super) async fn order_systemd(&self, words: &[&str]) -> Result<(), MachineError> {
        self.order(words, ASKING).await.map(drop)
    }

    /// Runs a systemctl command. Any exit code except 0 is an error.
    async fn order(&self, words: &[&str], timeout: Duration) -> Result<Ran, MachineError> {
        let ran = self.systemctl(words, timeout).await?;
        if ran.exit == Exit::Code(0) {
            return Ok(ran);
        }
        Err(unwilling(words[0], format!("systemctl {} {}", words[0], report::ending(ran.exit))))
    }

    /// The error of systemctl with the last lines of the unit's journal, which say more.
    async fn why_not_started(
        &self,
        name: &UnitName,
        order: &str,
        ran: &Ran,
        redactor: &Redactor,
    ) -> Result<Outcome, StepError> {
        let mut outcome = refused(order, ran, redactor);
        let words = ["status", "--no-pager", "--full", "--lines=30", "--", name.as_str()];
        let status = self.systemctl(&words, ASKING).await?;
        outcome.output.stdout = redactor.output(&status).stdout;
        Ok(outcome)
    }
}

fn refused(order: &str, ran: &Ran, redactor: &Redactor) -> Outcome {
    let mut outcome = report::outcome(ran, redactor);
    if let Some(failure) = &mut outcome.failure {
        failure.message = format!("systemctl {order} {}", report::ending(ran.exit));
    }
    outcome
}

/// Whether a retry may succeed, because a new call does the same work again.
fn unwilling(what: &str, why: String) -> MachineError {
    MachineError::io(format!("{what} the unit"), std::io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_unit_is_read() {
        let state = |text: &str| State::read(text.as_bytes());
        let runs = state("ActiveState=active\nInvocationID=0123abcd\n");
        assert_eq!((runs.active.as_str(), runs.invocation.as_str()), ("active", "0123abcd"));
        assert!(!runs.is_ended() && !state("ActiveState=activating\n").is_ended());
        assert!(state("InvocationID=\nActiveState=inactive\n").is_ended());
        assert!(state("ActiveState=failed\nInvocationID=1").is_ended());
        assert!(state("").is_ended());
        // What is not said is not judged.
        let plain = state("ActiveState=active");
        assert!(!plain.is_masked() && !plain.is_disabled() && !plain.needs_reload() && !plain.is_down());
        assert!(state("ActiveState=inactive").is_down() && state("ActiveState=failed").is_down());
        let ends = "Type=oneshot\nRemainAfterExit=no\nActiveState=";
        assert!(!state(&format!("{ends}inactive")).is_down() && state(&format!("{ends}failed")).is_down());
        assert!(state("LoadState=masked").is_masked() && state("UnitFileState=masked-runtime").is_masked());
        assert!(
            state("UnitFileState=disabled").is_disabled() && !state("UnitFileState=static").is_disabled()
        );
    }
}
