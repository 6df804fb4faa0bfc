//! The next action of the engine: a pure function of the plan, the journal, and the time.
//!
//! All decisions of the engine are here. Nothing in here does I/O.

use capstan_plan::{
    Action, Digest, Epoch, MachineIdentity, MachinePath, OpenGates, PlanId, Repeat, Retry, Revision, Step,
    StepName, VerifiedPlan,
};
use jiff::{SignedDuration, Timestamp};

use crate::drift::{Sight, Sights};
use crate::journal::{Class, Current, End, History, OnceRun, Tries};
use crate::ledger::{After, Stage};

/// A step that was interrupted more often than this may be the cause of the interruptions.
pub const MOST_INTERRUPTIONS: u32 = 10;

/// Why a plan is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The machine is being reset.
    #[error("this machine is being reset, and obeys no plan until it is clean")]
    Resetting,
    /// The plan is for another machine, or for an earlier claim of this host.
    #[error("the plan is for {theirs}, and this is {ours}")]
    OtherMachine {
        /// The machine of the plan.
        theirs: MachineIdentity,
        /// This machine.
        ours: MachineIdentity,
    },
    /// The plan is from a manager of an earlier epoch.
    #[error("the plan is from manager epoch {theirs}, and this machine has obeyed epoch {known}")]
    OldManager {
        /// The epoch of the plan.
        theirs: Epoch,
        /// The later epoch that was accepted.
        known: Epoch,
    },
    /// The agent knows a later revision.
    #[error("the plan is revision {theirs}, and this machine knows {known}")]
    OldRevision {
        /// The revision of the plan.
        theirs: Revision,
        /// The later revision.
        known: PlanId,
    },
    /// The agent knows another plan of the same revision.
    #[error("the plan says it is revision {}, but so did another one, {known}", known.revision())]
    OtherPlan {
        /// The plan that was accepted.
        known: PlanId,
    },
    /// The plan has expired.
    #[error("the plan expired at {at}; a later revision is needed")]
    Expired {
        /// The expiry.
        at: Timestamp,
    },
    /// The plan would write to a folder of the agent.
    #[error("step {step} would write {path}, which is the agent's own")]
    Protected {
        /// The step.
        step: StepName,
        /// The path.
        path: MachinePath,
    },
}

/// The next action of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Reject the plan.
    Refuse(Refusal),
    /// Record in the journal that this plan is accepted.
    Accept,
    /// Restore a path that is no longer in the plan.
    GiveBack(MachinePath),
    /// Check whether the effect of a step still exists. The step has succeeded before with the same inputs.
    Look {
        /// Index of the step, from 0.
        step: usize,
    },
    /// Try a step.
    Try {
        /// Index of the step, from 0.
        step: usize,
    },
    /// A command that must not run twice was interrupted: run its guard to find out whether it is done.
    ResolveAttempt {
        /// Index of the step, from 0.
        step: usize,
        /// Revision of the plan in which it was interrupted.
        revision: Revision,
    },
    /// Record in the journal that a gate is open.
    Pass {
        /// Index of the step, from 0.
        step: usize,
    },
    /// Wait until a gate is opened.
    Await {
        /// Index of the step, from 0.
        step: usize,
    },
    /// Wait before the next attempt.
    Wait {
        /// Index of the step, from 0.
        step: usize,
        /// Time of the next attempt.
        until: Timestamp,
    },
    /// Record in the journal that the plan has failed.
    Stop {
        /// Index of the step, from 0.
        step: usize,
        /// The cause.
        reason: String,
    },
    /// Record in the journal that the plan is cancelled, after an attempt that is open has ended.
    Cancel {
        /// Index of the step that is open or would be next, from 0.
        step: usize,
    },
    /// Record in the journal that all steps are done.
    Finish,
    /// Nothing: the plan has ended.
    Rest(End),
}

/// The next action for this plan. `sights` is the result of checks of its steps, and `protected` are folders that only
/// the agent may write to.
pub fn decide(
    plan: &VerifiedPlan,
    gates: &OpenGates,
    history: &History,
    sights: &Sights,
    protected: &[MachinePath],
    now: Timestamp,
) -> Decision {
    if let Err(refusal) = is_in_order(plan, history) {
        return Decision::Refuse(refusal);
    }
    let current = history.current.as_ref().filter(|current| current.plan == plan.id());
    if let Some(end) = current.and_then(|current| current.end.clone()) {
        return Decision::Rest(end);
    }
    if let Err(refusal) = is_acceptable(plan, protected, now) {
        return Decision::Refuse(refusal);
    }
    let Some(current) = current else { return Decision::Accept };
    if let Some(step) = cancelled_at(plan, gates, history, current) {
        return Decision::Cancel { step };
    }
    let surplus = |stage| {
        let holding = history.ledger.surplus(plan.plan(), &current.stays, stage)?;
        Some(Decision::GiveBack(holding.path.clone()))
    };
    let is_closed =
        |step: &Step| matches!(step.action, Action::Gate(_)) && !current.done.contains(&step.name);
    let gate = plan.plan().steps.iter().position(is_closed);
    let mut steps = 0..plan.plan().steps.len();
    surplus(gate.map_or(Stage::BeforeSteps, Stage::BeforeGate))
        .or_else(|| steps.find_map(|step| about(step, plan, gates, history, sights, current, now)))
        .or_else(|| surplus(Stage::AfterSteps))
        .unwrap_or(Decision::Finish)
}

/// The step at which a plan is cancelled: the one that is open, or else the first that is not done. None if it is not cancelled, or
/// everything is done.
fn cancelled_at(
    plan: &VerifiedPlan,
    gates: &OpenGates,
    history: &History,
    current: &Current,
) -> Option<usize> {
    let open = history.open_attempt();
    let is_open = |step: &Step| open.is_some_and(|attempt| attempt.is_at(&step.name));
    let steps = || plan.plan().steps.iter();
    let step =
        steps().position(is_open).or_else(|| steps().position(|step| !current.done.contains(&step.name)));
    step.filter(|_| gates.cancels(plan.id()))
}

/// Whether the plan is for this machine and not older than what the agent has accepted.
fn is_in_order(plan: &VerifiedPlan, history: &History) -> Result<(), Refusal> {
    let (id, plan) = (plan.id(), plan.plan());
    if history.resetting {
        return Err(Refusal::Resetting);
    }
    if let Some(ours) = history.machine.as_ref().filter(|ours| **ours != plan.machine) {
        return Err(Refusal::OtherMachine { theirs: plan.machine.clone(), ours: ours.clone() });
    }
    let known = history.current.as_ref().map(|current| current.plan);
    // What was accepted before another manager took over is no order of the old one: it is where the machine stands,
    // and the new manager has the same plan.
    if plan.epoch < history.epoch && known != Some(id) {
        return Err(Refusal::OldManager { theirs: plan.epoch, known: history.epoch });
    }
    match known {
        Some(known) if plan.revision < known.revision() => {
            Err(Refusal::OldRevision { theirs: plan.revision, known })
        }
        Some(known) if plan.revision == known.revision() && id != known => Err(Refusal::OtherPlan { known }),
        _ => Ok(()),
    }
}

fn is_acceptable(plan: &VerifiedPlan, protected: &[MachinePath], now: Timestamp) -> Result<(), Refusal> {
    let plan = plan.plan();
    if plan.expires <= now {
        return Err(Refusal::Expired { at: plan.expires });
    }
    for step in &plan.steps {
        if let Some(path) = step.path()
            && protected.iter().any(|own| path == *own || path.is_within(own) || is_tree_above(step, own))
        {
            return Err(Refusal::Protected { step: step.name.clone(), path });
        }
    }
    Ok(())
}

/// Whether the step would replace a folder that contains this path.
fn is_tree_above(step: &Step, path: &MachinePath) -> bool {
    matches!(&step.action, Action::Artifact(artifact) if path.is_within(&artifact.path))
}

/// The action for a step; `None` if the step is done.
fn about(
    index: usize,
    plan: &VerifiedPlan,
    gates: &OpenGates,
    history: &History,
    sights: &Sights,
    current: &Current,
    now: Timestamp,
) -> Option<Decision> {
    let step = &plan.plan().steps[index];
    let inputs = plan.inputs(step);
    if current.done.contains(&step.name) {
        return None;
    }
    if matches!(step.action, Action::Gate(_)) {
        let is_open = gates.is_open(plan.id(), &step.name);
        return Some(if is_open { Decision::Pass { step: index } } else { Decision::Await { step: index } });
    }
    if must_run_once(step) {
        match history.once(&step.name, &inputs) {
            Some(OnceRun::Succeeded) => return None,
            Some(OnceRun::Open { revision }) => {
                return Some(Decision::ResolveAttempt { step: index, revision: *revision });
            }
            Some(OnceRun::Failed { revision, message }) => {
                return Some(Decision::Stop { step: index, reason: ran_before(*revision, message, current) });
            }
            None => {}
        }
    } else if step.repeat != Repeat::Always && is_still_done(step, &inputs, history) {
        match sights.of(plan.id(), &step.name) {
            _ if step.path().is_none() => return None,
            None => return Some(Decision::Look { step: index }),
            Some(Sight::AsMade) => return None,
            Some(Sight::Drifted) => {}
        }
    }
    Some(match current.tries.get(&step.name) {
        None => Decision::Try { step: index },
        Some(tries) => again(index, step, tries, &plan.id(), now),
    })
}

/// Whether a step must not run twice with the same inputs.
pub fn must_run_once(step: &Step) -> bool {
    step.repeat == Repeat::Once && !step.action.is_idempotent()
}

fn ran_before(revision: Revision, message: &str, current: &Current) -> String {
    if revision == current.plan.revision() {
        return message.to_owned();
    }
    format!(
        "it ran in revision {revision} with the same inputs and failed: {message}; it is not run twice, change its \
         inputs to run it again"
    )
}

/// The steps of an accepted plan whose effect is on the machine: all of an applied plan; in another plan, those before
/// the first step that is not done. The plan itself carries out the later ones.
pub fn made(plan: &VerifiedPlan, history: &History) -> std::ops::Range<usize> {
    let steps = &plan.plan().steps;
    let current = history.current.as_ref().filter(|current| current.plan == plan.id() && !history.resetting);
    let Some(current) = current else { return 0..0 };
    if current.end == Some(End::Applied) {
        return 0..steps.len();
    }
    let is_done = |step: &Step| {
        let inputs = plan.inputs(step);
        // A gate that was passed in an earlier plan is closed in this one.
        let is_gate = matches!(step.action, Action::Gate(_));
        current.done.contains(&step.name)
            || (must_run_once(step) && history.once(&step.name, &inputs) == Some(&OnceRun::Succeeded))
            || (!is_gate && step.repeat != Repeat::Always && is_still_done(step, &inputs, history))
    };
    0..steps.iter().position(|step| !is_done(step)).unwrap_or(steps.len())
}

/// Whether all gates of an accepted plan were passed, so that it may restart what it runs.
pub fn has_passed_gates(plan: &VerifiedPlan, history: &History) -> bool {
    let current = history.current.as_ref().filter(|current| current.plan == plan.id());
    current.is_some_and(|current| {
        let is_passed =
            |step: &Step| !matches!(step.action, Action::Gate(_)) || current.done.contains(&step.name);
        current.end == Some(End::Applied) || plan.plan().steps.iter().all(is_passed)
    })
}

/// Whether it has succeeded with these inputs, and its effect was not reverted since.
fn is_still_done(step: &Step, inputs: &Digest, history: &History) -> bool {
    let held = || match (After::of(step), step.path()) {
        (Some(after), Some(path)) => {
            history.ledger.holding(&path).is_some_and(|holding| holding.after == after)
        }
        _ => true,
    };
    history.succeeded.get(&step.name) == Some(inputs) && held()
}

fn again(index: usize, step: &Step, tries: &Tries, plan: &PlanId, now: Timestamp) -> Decision {
    let stop = |reason: String| Decision::Stop { step: index, reason };
    if tries.open {
        return if tries.interrupted >= MOST_INTERRUPTIONS {
            stop(format!("it was interrupted {} times and may be what ends the agent", tries.interrupted + 1))
        } else {
            Decision::Try { step: index }
        };
    }
    let Some(failure) = &tries.failure else { return Decision::Try { step: index } };
    let attempts = step.retry.map_or(1, |retry| retry.attempts);
    if failure.is_full {
        return wait_or_try(index, step, tries, plan, &FULL, tries.full, now);
    }
    if failure.class == Class::Permanent {
        return stop(failure.message.clone());
    }
    let Some(retry) = step.retry.filter(|_| tries.failed < attempts) else {
        return stop(if attempts == 1 {
            failure.message.clone()
        } else {
            format!("it failed {} times, the last time because {}", tries.failed, failure.message)
        });
    };
    wait_or_try(index, step, tries, plan, &retry, tries.failed, now)
}

/// Pause before a step is retried whose disk was full.
const FULL: Retry = Retry { attempts: u32::MAX, delay_seconds: 5, max_delay_seconds: 300 };

/// The next attempt, after this number of failures, or the wait for it.
fn wait_or_try(
    index: usize,
    step: &Step,
    tries: &Tries,
    plan: &PlanId,
    retry: &Retry,
    failures: u32,
    now: Timestamp,
) -> Decision {
    let seed = Digest::of(format!("{plan}/{}/{failures}", step.name).as_bytes());
    let until = tries.at.and_then(|at| at.checked_add(pause(retry, failures, &seed)).ok());
    match until {
        // A clock that was set back must not make anybody wait for hours.
        Some(until) if now < until && tries.at.is_some_and(|at| at <= now) => {
            Decision::Wait { step: index, until }
        }
        _ => Decision::Try { step: index },
    }
}

/// The backoff after this number of failures: exponential, with up to a quarter of jitter, so that machines that
/// failed together do not retry together.
pub fn pause(retry: &Retry, failures: u32, seed: &Digest) -> SignedDuration {
    let first = i64::from(retry.delay_seconds) * 1000;
    let longest = i64::from(retry.max_delay_seconds) * 1000;
    let doubled = first.saturating_mul(1_i64 << failures.saturating_sub(1).min(30));
    let steady = doubled.min(longest);
    let spread = if retry.max_delay_seconds > retry.delay_seconds { steady / 4 } else { 0 };
    let [a, b, ..] = seed.as_bytes();
    let share = i64::from(u16::from_be_bytes([*a, *b]));
    SignedDuration::from_millis(steady + spread * share / i64::from(u16::MAX))
}
