//! Replaces the program of the agent by the one that the plan names: see [`crate::upgrade`].

use capstan_plan::{
    AgentProgram, Argv, Capabilities, Capability, Digest, MachinePath, RejectedProgram, ReportedCapabilities,
    ReportedProgram, VerifiedPlan, limits,
};
use std::io;
use std::time::Duration;

use super::Engine;
use crate::clock::Clock;
use crate::machine::{Exit, Found, Invocation, Machine, MachineError, Ran};
use crate::redact::Redactor;
use crate::report;
use crate::store::Store;
use crate::upgrade::{CHECK, Places, UpgradeState, UpgradeStep, at_rest};

/// How long fetching a program may take.
const FETCHING: Duration = Duration::from_secs(1800);
/// How long a program may take to check itself.
const CHECKING: Duration = Duration::from_secs(60);
/// How long systemd may take to read its units.
const RELOADING: Duration = Duration::from_secs(90);
/// How long to wait before the next attempt.
const AGAIN: Duration = Duration::from_secs(300);

/// Whether the process must end, so that systemd starts the new program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The program is the same.
    NotNeeded,
    /// The program was replaced.
    Needed,
}

/// What the engine knows of the program that it is part of.
#[derive(Debug)]
pub(super) struct Replacement {
    places: Places,
    own: Digest,
    state: UpgradeState,
    /// Why it is not replaced yet.
    message: Option<String>,
    next: Duration,
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Lets the agent replace its program, which has this digest.
    #[must_use]
    pub fn replacing(mut self, places: Places, own: Digest) -> Self {
        self.replacement =
            Some(Replacement { places, own, state: UpgradeState::Idle, message: None, next: Duration::ZERO });
        self
    }

    /// What this agent understands, for its report.
    pub fn capabilities(&self) -> ReportedCapabilities {
        report::capabilities(self.replacement.is_some())
    }

    /// The program of the agent, for its report.
    pub fn agent_program(&self) -> Option<ReportedProgram> {
        let Replacement { own, state, message, .. } = self.replacement.as_ref()?;
        let rejected = match state {
            UpgradeState::Rejected { program, reason, since } => {
                Some(RejectedProgram { sha256: program.sha256, message: reason.clone(), since: *since })
            }
            _ => None,
        };
        let on_trial = matches!(state, UpgradeState::Trial { to, .. } if to.sha256 == *own);
        Some(ReportedProgram { sha256: *own, on_trial, rejected, message: message.clone() })
    }

    /// Reads how far a replacement is. To be called once, before anything is reported.
    pub async fn look_at_program(&mut self) {
        let Some(replacement) = &mut self.replacement else { return };
        match replacement.places.read(&self.machine).await {
            Ok(state) => replacement.state = state,
            Err(error) => replacement.message = Some(error.to_string()),
        }
    }

    /// Confirms a program on trial: it works, because it has read its plan from the management plane.
    pub async fn confirm_program(&mut self) {
        let Some(replacement) = &mut self.replacement else { return };
        let Replacement { places, own, state, message, .. } = replacement;
        if !matches!(state, UpgradeState::Trial { to, .. } if to.sha256 == *own) {
            return;
        }
        match places.write(&self.machine, &UpgradeState::Idle).await {
            Ok(()) => (*state, *message) = (UpgradeState::Idle, None),
            // It is tried again before the time is over: whenever the plan is looked at.
            Err(error) => *message = Some(format!("the program cannot be confirmed: {error}")),
        }
    }

    /// Replaces the program, if the plan names another one. To be called at rest, with a plan that was accepted and that has just
    /// been read from the management plane: a new program that cannot reach the plane would be taken back.
    pub async fn replace_program(&mut self, plan: &VerifiedPlan) -> Restart {
        let Some(replacement) = &self.replacement else { return Restart::NotNeeded };
        if self.clock.elapsed() < replacement.next {
            return Restart::NotNeeded;
        }
        let tried = Box::pin(self.try_to_replace(plan)).await;
        let elapsed = self.clock.elapsed();
        let Some(replacement) = &mut self.replacement else { return Restart::NotNeeded };
        match tried {
            Ok(turn) => {
                replacement.message = None;
                turn
            }
            Err(error) => {
                replacement.message =
                    Some(format!("the program of the agent is not replaced yet: {error}; it is tried again"));
                replacement.next = elapsed + AGAIN;
                Restart::NotNeeded
            }
        }
    }

    async fn try_to_replace(&mut self, plan: &VerifiedPlan) -> Result<Restart, MachineError> {
        let Some(Replacement { places, own, .. }) = &self.replacement else { return Ok(Restart::NotNeeded) };
        let (places, own) = (places.clone(), *own);
        let state = places.read(&self.machine).await?;
        let step = at_rest(&state, plan.plan().agent.as_ref(), own);
        self.know(state);
        match step {
            UpgradeStep::Rest => Ok(Restart::NotNeeded),
            UpgradeStep::Forget => {
                self.write_state(&places, UpgradeState::Idle).await?;
                Ok(Restart::NotNeeded)
            }
            UpgradeStep::Switch(to) => self.switch(&places, &to).await,
            UpgradeStep::Replace(to) => {
                if let Some(reason) = self.check(&places, &to, plan).await? {
                    let since = self.clock.now();
                    self.write_state(&places, UpgradeState::Rejected { program: to, reason, since }).await?;
                    return Ok(Restart::NotNeeded);
                }
                let program = self.machine.read(&places.program, limits::AGENT_BYTES).await?;
                places.put(&self.machine, &places.previous, &program).await?;
                self.install_guard(&places).await?;
                let trial = UpgradeState::Trial { to: to.clone(), from: Digest::of(&program), starts: 0 };
                self.write_state(&places, trial).await?;
                self.switch(&places, &to).await
            }
        }
    }

    fn know(&mut self, state: UpgradeState) {
        if let Some(replacement) = &mut self.replacement {
            replacement.state = state;
        }
    }

    async fn write_state(&mut self, places: &Places, state: UpgradeState) -> Result<(), MachineError> {
        places.write(&self.machine, &state).await?;
        self.know(state);
        Ok(())
    }

    async fn switch(&self, places: &Places, to: &AgentProgram) -> Result<Restart, MachineError> {
        self.machine.install(&places.artifact(to, &places.program), FETCHING).await?;
        Ok(Restart::Needed)
    }

    /// Fetches a program and lets it check itself. Gives what is wrong with it.
    async fn check(
        &self,
        places: &Places,
        to: &AgentProgram,
        plan: &VerifiedPlan,
    ) -> Result<Option<String>, MachineError> {
        self.machine.install(&places.artifact(to, &places.next), FETCHING).await?;
        let argv = check_words(&places.next);
        let invocation = Invocation { argv: &argv, env: &[], timeout: CHECKING, key: None };
        let wrong = match self.machine.run(invocation).await {
            Ok(Ran { exit: Exit::Code(0), .. }) => None,
            Ok(ran) => {
                let output = Redactor::of(plan.plan()).output(&ran);
                let said = report::last_words(&output).map(|said| format!(": {said}")).unwrap_or_default();
                Some(format!("its self-check {}{said}", report::ending(ran.exit)))
            }
            Err(error) if is_passing(&error) => return Err(error),
            Err(error) => Some(format!("its self-check does not start: {error}")),
        };
        self.machine.remove_file(&places.next).await?;
        Ok(wrong)
    }

    /// Makes systemd start the previous program before the new one.
    async fn install_guard(&self, places: &Places) -> Result<(), MachineError> {
        let wanted = places.unit_content.as_bytes();
        let is_right = match self.machine.inspect(&places.unit).await? {
            Found::File { size, .. } if size == wanted.len() as u64 => {
                self.machine.read(&places.unit, size).await? == wanted
            }
            _ => false,
        };
        if !is_right {
            self.machine.write(&places.unit, wanted, places.metadata(0o644)).await?;
        }
        // Also if it was right: it is not known whether systemd has read it.
        let argv = Argv::new(["systemctl", "daemon-reload"]).expect("two short words");
        let invocation = Invocation { argv: &argv, env: &[], timeout: RELOADING, key: None };
        match self.machine.run(invocation).await?.exit {
            Exit::Code(0) => Ok(()),
            exit => {
                let why = format!("systemctl daemon-reload {}", report::ending(exit));
                Err(MachineError::io("install the guard of the agent", io::Error::other(why)))
            }
        }
    }
}

fn check_words(program: &MachinePath) -> Argv {
    Argv::new([program.as_str(), CHECK]).expect("a path and a short word, without a zero byte")
}

/// Whether a program could not be started for a reason that says nothing about the program.
fn is_passing(error: &MachineError) -> bool {
    use io::ErrorKind as K;
    let MachineError::Io { source, .. } = error else { return true };
    let is_busy = matches!(
        source.kind(),
        K::OutOfMemory | K::WouldBlock | K::ResourceBusy | K::ExecutableFileBusy | K::Interrupted
    );
    is_busy || error.is_full()
}

/// What this agent understands.
pub(crate) fn understood(replaces_itself: bool) -> Capabilities {
    let all = Capabilities::all();
    if replaces_itself { all } else { all.without(Capability::ReplaceAgent) }
}
