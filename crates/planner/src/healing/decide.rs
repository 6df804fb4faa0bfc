//! The next step of healing a machine.

use jiff::Timestamp;

use super::ladder::{HealingStep, Ladder, Rung};
use super::record::{Active, Healed, Record, Tokens};
use crate::annotations::{HOLD, REPLACE_POLICY};
use crate::facts::{MachineFacts, Progress};
use crate::knowledge::Knowledge;
use crate::text::rfc3339;

/// Inputs of a decision about an unhealthy machine.
pub struct Case<'a> {
    /// The machine.
    pub machine: &'a MachineFacts,
    /// The healing steps.
    pub ladder: &'a Ladder,
    /// Number of other machines of the cluster that are being healed.
    pub others: usize,
    /// What the user can do if no step helps, as a sentence.
    pub remedy: &'a str,
    /// The current time.
    pub now: Timestamp,
}

/// The stage of healing, as in the condition of the Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The machine is healthy; no step of healing is under way.
    Healthy,
    /// Healing waits: for another machine, for etcd, or for the time of the next step.
    Waiting,
    /// Kubernetes on the machine is being restarted.
    Restarting,
    /// The whole plan is being applied again.
    Reapplying,
    /// The machine is being rebooted.
    Rebooting,
    /// The agent does not respond, so that no step is possible.
    Silent,
    /// No step has helped.
    Exhausted,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healing {
    /// The new record, if it changes.
    pub record: Option<Record>,
    /// The stage and its message; `None` if the machine is healthy and always was.
    pub progress: Option<(Stage, String)>,
}

impl Healing {
    fn at(stage: Stage, message: impl Into<String>) -> Self {
        Self { record: None, progress: Some((stage, message.into())) }
    }

    /// Whether a step is under way, so that no other machine begins.
    pub fn is_under_way(&self) -> bool {
        let steps = [Stage::Restarting, Stage::Reapplying, Stage::Rebooting];
        self.progress.as_ref().is_some_and(|(stage, _)| steps.contains(stage))
    }

    /// Whether all steps were taken and none has helped.
    pub fn is_exhausted(&self) -> bool {
        self.progress.as_ref().is_some_and(|(stage, _)| *stage == Stage::Exhausted)
    }
}

/// The next step.
pub fn decide(case: &Case<'_>) -> Healing {
    let machine = case.machine;
    if machine.deleting {
        return Healing { record: None, progress: None };
    }
    if let Some(since) = machine.silent_since {
        return silent(case, since);
    }
    if !machine.is_unhealthy {
        return well(case);
    }
    if machine.is_kept_out {
        return Healing::at(
            Stage::Waiting,
            format!("the Machine is not healed, because it has the annotation {HOLD}"),
        );
    }
    if let Knowledge::Unknown(why) = &machine.node
        && machine.has_node
    {
        // The health check cannot know it either: what it has found may be over.
        let message = format!("it is not known whether Node {} is Ready: {why}", machine.node_name());
        return Healing::at(Stage::Waiting, message);
    }
    match &machine.healing.active {
        None => found_ill(case),
        Some(active) => go_on(case, active),
    }
}

/// Nothing can be done on a machine that does not answer, and a plan for it would be carried out at a bad time. If its health
/// check has failed, too, it is given as long as all steps together would take.
fn silent(case: &Case<'_>, since: Timestamp) -> Healing {
    let machine = case.machine;
    let message = format!(
        "the agent has not been heard of since {}: look whether the machine is powered on and reaches the management \
         plane; {}",
        rfc3339(since),
        case.remedy
    );
    if !machine.is_unhealthy || machine.is_kept_out {
        return Healing::at(Stage::Silent, message);
    }
    let Some(active) = &machine.healing.active else {
        return Healing { progress: Some((Stage::Silent, message)), ..found_ill(case) };
    };
    // A manager that is cut off hears neither the agent nor the Node: only a Node that is known to be lost counts.
    let is_lost = !machine.has_node || machine.is_known_lost();
    match is_lost && has_had_its_time(case, active) {
        false => Healing::at(Stage::Silent, message),
        true => Healing::at(Stage::Exhausted, message),
    }
}

/// Whether a machine on which no step can be taken was given as long as all of them together would take.
fn has_had_its_time(case: &Case<'_>, active: &Active) -> bool {
    let ladder = case.ladder;
    let patience = ladder.rungs.iter().fold(ladder.wait, |sum, rung| sum.saturating_add(rung.timeout));
    case.now.duration_since(active.since) >= patience
}

/// The machine is well: what was begun and has had no effect is taken back.
fn well(case: &Case<'_>) -> Healing {
    let record = &case.machine.healing;
    let progress = Some((Stage::Healthy, String::new()));
    let Some(active) = &record.active else {
        return Healing { record: None, progress: record.healed.as_ref().and(progress) };
    };
    // Without effect the next illness begins with the same step.
    let (tokens, steps) = match has_had_effect(case.machine, active) {
        true => (record.tokens.clone(), active.begun),
        false => (active.before.clone(), active.begun.saturating_sub(1)),
    };
    let healed = Some(Healed { at: case.now, steps });
    Healing { record: Some(Record { tokens, active: None, healed }), progress }
}

/// Whether the plan of the last step may have done something: it was written since the step began, and was let through its
/// gate, or needed none.
fn has_had_effect(machine: &MachineFacts, active: &Active) -> bool {
    machine.plan.as_ref().is_some_and(|plan| {
        let is_of_step = plan.record.written.is_some_and(|written| written >= active.at);
        is_of_step && (plan.is_open || plan.progress == Progress::Applied)
    })
}

fn found_ill(case: &Case<'_>) -> Healing {
    let record = &case.machine.healing;
    // One that falls ill again soon goes on where it was: what did not last is no cure.
    let recent =
        record.healed.as_ref().filter(|healed| case.now.duration_since(healed.at) < case.ladder.min_healthy);
    let active = Active {
        since: case.now,
        begun: recent.map_or(0, |healed| healed.steps),
        at: case.now,
        before: record.tokens.clone(),
    };
    let record = Record { active: Some(active), ..record.clone() };
    let message = "the health check of the Machine has failed";
    Healing { record: Some(record), progress: Some((Stage::Waiting, message.to_owned())) }
}

fn go_on(case: &Case<'_>, active: &Active) -> Healing {
    let (machine, ladder, now) = (case.machine, case.ladder, case.now);
    if machine.plan.is_none() {
        return match has_had_its_time(case, active) {
            true => exhausted(case, active),
            false => Healing::at(Stage::Waiting, "the machine has no plan yet that could be carried out"),
        };
    }
    let under_way = active.begun.checked_sub(1).and_then(|index| ladder.rungs.get(index));
    // The wait counts from the beginning, the time of a step from its own; a step that was taken before the machine fell ill
    // again has had its time.
    let is_first = active.at == active.since;
    let patience = match under_way {
        Some(rung) if !is_first => rung.timeout,
        _ => ladder.wait,
    };
    let lasted = now.duration_since(active.at);
    if lasted < patience {
        return match under_way.filter(|_| !is_first) {
            Some(rung) => Healing::at(stage(rung.what), in_progress(*rung, active, machine)),
            None => Healing::at(
                Stage::Waiting,
                format!("the machine is given {} seconds to recover by itself", patience.as_secs()),
            ),
        };
    }
    let mut next = active.begun;
    // The boot ID comes from the Node: without a Node the reboot step is skipped.
    while ladder.rungs.get(next).is_some_and(|rung| token(rung.what, case).is_none()) {
        next += 1;
    }
    let Some(rung) = ladder.rungs.get(next) else { return exhausted(case, active) };
    if case.others >= ladder.at_once {
        let why = match ladder.at_once {
            0 => "spec.healing.maxInFlight of the control plane is 0".to_owned(),
            most => format!("spec.healing.maxInFlight of the control plane allows {most} machine at a time"),
        };
        return Healing::at(Stage::Waiting, format!("the machine waits for its turn to be healed: {why}"));
    }
    // Whatever it is about to become may be its cure.
    let is_busy = machine.plan.as_ref().is_some_and(|plan| {
        matches!(plan.progress, Progress::InFlight | Progress::AtGate) && active.begun == 0
    });
    if is_busy {
        let message = "the machine carries out another plan, which may be its cure";
        return Healing::at(Stage::Waiting, message);
    }
    let tokens = with_token(&machine.healing.tokens, rung.what, token(rung.what, case));
    let begun = Active { begun: next + 1, at: now, before: machine.healing.tokens.clone(), ..active.clone() };
    let message = in_progress(*rung, &begun, machine);
    let record = Record { tokens, active: Some(begun), ..machine.healing.clone() };
    Healing { record: Some(record), progress: Some((stage(rung.what), message)) }
}

fn exhausted(case: &Case<'_>, active: &Active) -> Healing {
    let steps: Vec<&str> = case.ladder.rungs.iter().map(|rung| rung.what.words()).collect();
    Healing::at(
        Stage::Exhausted,
        format!(
            "the machine has been ill since {} and did not recover ({}): look at it with `capstan why machine/{}`; {}",
            rfc3339(active.since),
            match steps.is_empty() {
                true => "no step of healing is allowed".to_owned(),
                false => format!("tried: {}", steps.join(", ")),
            },
            case.machine.name,
            case.remedy
        ),
    )
}

/// What makes a plan another one for this step; nothing if the step is impossible.
fn token(step: HealingStep, case: &Case<'_>) -> Option<String> {
    match step {
        HealingStep::RestartKubernetes | HealingStep::ReapplyPlan => Some(rfc3339(case.now)),
        HealingStep::Reboot => case.machine.boot_id().map(str::to_owned),
    }
}

fn with_token(tokens: &Tokens, step: HealingStep, token: Option<String>) -> Tokens {
    let mut tokens = tokens.clone();
    match step {
        HealingStep::RestartKubernetes => tokens.restart = token,
        HealingStep::ReapplyPlan => tokens.reapply = token,
        HealingStep::Reboot => tokens.reboot = token,
    }
    tokens
}

fn in_progress(rung: Rung, active: &Active, machine: &MachineFacts) -> String {
    let waits = match machine.plan.as_ref().map(|plan| &plan.progress) {
        Some(Progress::AtGate) => ", which waits for its gate",
        _ => "",
    };
    format!(
        "step {} of healing: {}{waits}, since {}; the next step follows after {} seconds",
        active.begun,
        rung.what.words(),
        rfc3339(active.at),
        rung.timeout.as_secs()
    )
}

const fn stage(step: HealingStep) -> Stage {
    match step {
        HealingStep::RestartKubernetes => Stage::Restarting,
        HealingStep::ReapplyPlan => Stage::Reapplying,
        HealingStep::Reboot => Stage::Rebooting,
    }
}

/// The order in which machines are considered, as indices: those that are being healed come first.
pub fn order(machines: &[MachineFacts]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..machines.len()).collect();
    order.sort_by_key(|index| {
        let machine = &machines[*index];
        (machine.healing.active.as_ref().is_none_or(|active| active.begun == 0), machine.age().0)
    });
    order
}

/// What the user can do about a machine that does not recover, as a sentence. `owner` is the name of the control
/// plane, and `may_replace` whether it may replace its machines.
pub fn remedy(machine: &MachineFacts, owner: &str, may_replace: bool) -> String {
    let allow = match (machine.control_plane, may_replace, &machine.group) {
        (true, true, _) => return "it is replaced once a clean host is free and etcd can bear it".to_owned(),
        (true, false, _) => format!(
            "to have it replaced, set spec.rollout.strategy.type of CapstanControlPlane {owner} to InPlaceOrReplace"
        ),
        (false, _, group) => format!(
            "to have it replaced, set the annotation {REPLACE_POLICY} of its {} to WhenNeeded",
            group.as_ref().map_or_else(|| "Machine".to_owned(), |group| format!("MachineDeployment {group}"))
        ),
    };
    format!("{allow}, or delete the Machine: its host is reset then")
}
