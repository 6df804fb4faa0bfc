//! Reverts everything that plans have done to the machine, and verifies it.

use capstan_plan::{MachinePath, StepName, Undo, VerifiedPlan};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::{Engine, EngineError};
use crate::clock::Clock;
use crate::journal::Entry;
use crate::ledger::{After, Before, Holding, Item};
use crate::machine::{CommandKey, Exit, Invocation, Machine, MachineError, Ran};
use crate::redact::Redactor;
use crate::report;
use crate::store::Store;

/// The result of a reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reset {
    /// The machine is in its state before the first plan, and the journal is empty.
    Clean,
    /// Something is left. The ledger is kept, and the next reset retries all of it.
    Left(Vec<Leftover>),
}

/// Something that could not be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// A path, or a step.
    pub what: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.reason)
    }
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Reverts all effects of plans, units first and then in reverse order, and verifies all of them at the end,
    /// because one may restore another. From the beginning of a reset until the machine is clean, no plan is accepted.
    /// After a crash it continues: a command that was undone is not undone again, because the programs it needs may be
    /// removed by then. An undo command that outlives the crash is waited for. It runs twice only if the machine cannot
    /// supervise it or has lost its result. Commands of steps and periodic commands are ended first.
    ///
    /// An undo command may keep user data on purpose: it prints a line `keeps PATH` for each such path. Parent folders
    /// that plans have created are kept, too, and the machine counts as clean.
    ///
    /// The plan, if it is available, contains the values that must not be reported. Without it, the output of undo
    /// commands is not reported.
    ///
    /// # Errors
    /// If the journal fails.
    pub async fn reset(&mut self, plan: Option<&VerifiedPlan>) -> Result<Reset, EngineError> {
        if !self.history().resetting {
            self.journal.append(Entry::ResetBegan).await?;
        }
        // Before anything else: whatever happens from here on, no start of the agent finds it and carries it out again.
        self.journal.forget_plan().await?;
        if let Err(error) = self.dismiss_steps().await {
            // It would go on to change what is about to be taken back.
            let what = "commands of the plan".to_owned();
            return Ok(Reset::Left(vec![Leftover { what, reason: error.to_string() }]));
        }
        // Units first: what still runs must not lose what it runs from, or what ends it.
        let is_unit = |item: &&Item| matches!(item, Item::Path(Holding { after: After::Unit { .. }, .. }));
        let known = self.history().ledger.items();
        let (units, others): (Vec<&Item>, Vec<&Item>) = known.iter().rev().partition(is_unit);
        let items: Vec<Item> = units.into_iter().chain(others).cloned().collect();
        let mut left = Vec::new();
        let mut troubles: BTreeMap<&MachinePath, String> = BTreeMap::new();
        for item in &items {
            match item {
                Item::Path(holding) => {
                    // Whether it worked is looked at below, for all of them.
                    match self.restore(holding).await {
                        Ok(()) if matches!(holding.after, After::Unit { .. }) => {
                            let path = holding.path.clone();
                            self.journal.append(Entry::Released { path }).await?;
                        }
                        Ok(()) => {}
                        Err(error) => _ = troubles.insert(&holding.path, error.to_string()),
                    }
                    self.forget_stop(holding).await;
                }
                Item::Command { step, undo: owed, timeout_seconds } => {
                    let undo = match self.journal.undo(owed).await {
                        Ok(undo) => undo,
                        Err(error) => {
                            let reason = format!("the variables of its undo cannot be read: {error}");
                            left.push(Leftover { what: format!("step {step}"), reason });
                            continue;
                        }
                    };
                    let key = CommandKey::undo(step, &undo);
                    match self.undo(step, &undo, *timeout_seconds, plan).await {
                        Err(failed) => left.push(failed),
                        Ok(keeps) => {
                            let (step, undo) = (step.clone(), owed.clone());
                            self.journal.append(Entry::Undone { step, undo, keeps }).await?;
                        }
                    }
                    // What stays by mistake is the agent's own, and goes with it.
                    let _ = self.machine.dismiss(&key).await;
                }
            }
        }
        for item in &items {
            if let Item::Path(holding) = item
                && !self.holds_kept(holding)
                && let Err(error) = self.is_restored(holding).await
            {
                let reason = troubles.remove(&holding.path).unwrap_or_else(|| error.to_string());
                left.push(Leftover { what: holding.path.to_string(), reason });
            }
        }
        if !left.is_empty() {
            return Ok(Reset::Left(left));
        }
        // What stays by mistake is the agent's own, and goes with it.
        let _ = self.machine.keep_fetched(&BTreeSet::new()).await;
        let _ = self.dismiss_all().await;
        self.journal.append(Entry::ResetEnded).await?;
        self.journal.forget().await?;
        Ok(Reset::Clean)
    }

    /// Whether it is a folder of a plan that contains, or belongs to, a path that an undo command has kept on purpose.
    fn holds_kept(&self, holding: &Holding) -> bool {
        let path = &holding.path;
        let is_here = |kept: &MachinePath| kept == path || kept.is_within(path) || path.is_within(kept);
        matches!((&holding.before, &holding.after), (Before::Nothing, After::Directory { .. }))
            && self.history().keeps.iter().any(is_here)
    }

    /// Runs the undo of a command. Returns the paths that it has kept on purpose.
    async fn undo(
        &self,
        step: &StepName,
        undo: &Undo,
        timeout_seconds: u32,
        plan: Option<&VerifiedPlan>,
    ) -> Result<Vec<MachinePath>, Leftover> {
        let timeout = Duration::from_secs(timeout_seconds.into());
        let key = CommandKey::undo(step, undo);
        let invocation = Invocation { argv: &undo.argv, env: &undo.env, timeout, key: None };
        let secrets = undo.env.iter().filter(|variable| variable.secret).map(|v| v.value.expose().as_bytes());
        let known = plan.map(|plan| plan.plan().secrets()).unwrap_or_default();
        let redactor = Redactor::new(secrets.chain(known));
        let reason = match self.run_or_resume(&key, invocation).await {
            Ok(ran) if ran.exit == Exit::Code(0) => return Ok(keeps(&ran)),
            Ok(ran) => {
                let said = plan.and_then(|_| report::last_words(&redactor.output(&ran)));
                let ending = report::ending(ran.exit);
                said.map_or_else(|| format!("its undo {ending}"), |said| format!("its undo {ending}: {said}"))
            }
            Err(error @ MachineError::Lost) => format!("its undo: {error}"),
            Err(error) => redactor.text(&format!("its undo was not started: {error}")),
        };
        Err(Leftover { what: format!("step {step}"), reason })
    }
}

/// The paths in lines `keeps PATH` of the output of an undo command. Lines in the omitted part of the output are
/// ignored.
fn keeps(ran: &Ran) -> Vec<MachinePath> {
    let mut printed = ran.stdout.head.clone();
    if ran.stdout.omitted == 0 {
        printed.extend_from_slice(&ran.stdout.tail);
    }
    let text = String::from_utf8_lossy(&printed);
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    whole.filter_map(|line| MachinePath::new(line.strip_prefix("keeps ")?).ok()).collect()
}
