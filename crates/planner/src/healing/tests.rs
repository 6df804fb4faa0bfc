//! Illnesses, step by step.

use super::*;
use crate::facts::fixtures::ready;
use crate::facts::{MachineFacts, NodeView, Progress};
use crate::knowledge::Knowledge;
use jiff::Timestamp;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn ill() -> MachineFacts {
    MachineFacts::worker("w").up().with(|m| {
        m.is_unhealthy = true;
        m.node = Knowledge::Known(NodeView { boot_id: Some("boot-1".to_owned()), ..NodeView::default() });
    })
}

fn healing(machine: &MachineFacts, second: i64) -> Healing {
    healing_beside(machine, 0, second)
}

fn healing_beside(machine: &MachineFacts, others: usize, second: i64) -> Healing {
    let ladder = Ladder::default();
    decide(&Case { machine, ladder: &ladder, others, remedy: "delete the Machine", now: at(second) })
}

/// Takes what was decided as written, and gives how far it is.
fn step(machine: &mut MachineFacts, second: i64) -> Stage {
    let healing = healing(machine, second);
    if let Some(record) = healing.record {
        machine.healing = record;
    }
    healing.progress.expect("something is told").0
}

#[test]
fn an_ill_machine_climbs_the_ladder_and_then_asks() {
    let mut machine = ill();
    assert_eq!(step(&mut machine, 0), Stage::Waiting);
    assert_eq!(step(&mut machine, 1), Stage::Restarting);
    assert_eq!(machine.healing.tokens.restart.as_deref(), Some("1970-01-01T00:00:01Z"));
    assert_eq!(step(&mut machine, 300), Stage::Restarting);
    assert_eq!(step(&mut machine, 301), Stage::Reapplying);
    assert_eq!(step(&mut machine, 901), Stage::Rebooting);
    assert_eq!(machine.healing.tokens.reboot.as_deref(), Some("boot-1"));
    assert_eq!(step(&mut machine, 1800), Stage::Rebooting);
    assert_eq!(step(&mut machine, 1801), Stage::Exhausted);
    assert_eq!(step(&mut machine, 99_999), Stage::Exhausted);
    let healed = healing(&machine, 99_999);
    assert!(healed.is_exhausted());
    let (_, message) = healed.progress.expect("a message");
    assert!(message.contains("capstan why machine/w") && message.contains("delete the Machine"), "{message}");
}

#[test]
fn what_had_no_effect_is_taken_back_when_the_machine_recovers() {
    let mut machine = ill();
    step(&mut machine, 0);
    step(&mut machine, 1);
    // The plan of the step waits at its gate when the health check succeeds.
    let mut early = machine.clone().says(Progress::AtGate).with(|m| m.is_unhealthy = false);
    assert_eq!(step(&mut early, 10), Stage::Healthy);
    assert_eq!(early.healing.tokens, Tokens::default());
    assert_eq!(early.healing.healed.as_ref().map(|healed| healed.steps), Some(0));
    // What was carried out before the step began says nothing about it.
    let mut old = machine.clone().with(|m| m.is_unhealthy = false);
    assert_eq!(step(&mut old, 10), Stage::Healthy);
    assert_eq!(old.healing.tokens, Tokens::default());
    // It was let through: another plan would only do it once more.
    let mut late = machine.with(|m| {
        m.is_unhealthy = false;
        let plan = m.plan.as_mut().expect("a plan");
        (plan.is_open, plan.record.written) = (true, Some(at(1)));
    });
    assert_eq!(step(&mut late, 10), Stage::Healthy);
    assert!(late.healing.tokens.restart.is_some() && late.healing.active.is_none());
}

#[test]
fn what_does_not_last_is_no_cure() {
    let mut machine = ill();
    step(&mut machine, 0);
    step(&mut machine, 1);
    machine.plan.as_mut().expect("a plan").record.written = Some(at(1));
    machine.is_unhealthy = false;
    step(&mut machine, 100);
    machine.is_unhealthy = true;
    assert_eq!(step(&mut machine, 200), Stage::Waiting);
    assert_eq!(step(&mut machine, 201), Stage::Reapplying, "it was restarted before");
    machine.is_unhealthy = false;
    step(&mut machine, 300);
    machine.is_unhealthy = true;
    step(&mut machine, 300 + 3600);
    assert_eq!(step(&mut machine, 301 + 3600), Stage::Restarting, "it was well for an hour");
}

#[test]
fn silent_held_and_departing_machines_are_left_alone() {
    let mut silent = ill().with(|m| m.silent_since = Some(at(5)));
    assert_eq!(step(&mut silent, 1000), Stage::Silent);
    assert_eq!(step(&mut silent, 1000 + 1799), Stage::Silent);
    assert_eq!(silent.healing.tokens, Tokens::default(), "nothing is to be carried out when it comes back");
    assert_eq!(step(&mut silent, 1000 + 1800), Stage::Exhausted, "all steps would have had their time");
    for not_lost in [Knowledge::unknown("no answer"), ready(true)] {
        let mut cut_off = silent.clone().with(|m| m.node = not_lost);
        assert_eq!(step(&mut cut_off, 99_999), Stage::Silent, "the manager may be cut off");
    }
    let only_silent = silent.with(|m| (m.is_unhealthy, m.healing) = (false, Record::default()));
    let left_alone = healing(&only_silent, 99_999);
    assert_eq!(
        (left_alone.record.is_none(), left_alone.progress.as_ref().map(|(stage, _)| *stage)),
        (true, Some(Stage::Silent))
    );
    let held = ill().with(|m| m.is_kept_out = true);
    assert!(healing(&held, 1000).record.is_none());
    let unknown = ill().with(|m| m.node = Knowledge::unknown("no answer"));
    let left_alone = healing(&unknown, 1000);
    assert_eq!(
        (left_alone.record.is_none(), left_alone.progress.map(|(stage, _)| stage)),
        (true, Some(Stage::Waiting))
    );
    assert_eq!(healing(&ill().leaving(), 1000), Healing { record: None, progress: None });
    let well = MachineFacts::worker("w").up();
    assert_eq!(healing(&well, 1000), Healing { record: None, progress: None });
}

#[test]
fn one_machine_is_healed_at_a_time() {
    let mut machine = ill();
    step(&mut machine, 0);
    let waits = healing_beside(&machine, 1, 10);
    assert_eq!(
        (waits.record.is_none(), waits.progress.map(|(stage, _)| stage)),
        (true, Some(Stage::Waiting))
    );
    assert!(healing_beside(&machine, 0, 10).is_under_way());
}

#[test]
fn a_step_that_is_impossible_is_passed_over() {
    let mut machine = ill().lost();
    for second in [0, 1, 301] {
        step(&mut machine, second);
    }
    assert_eq!(step(&mut machine, 901), Stage::Exhausted);
}

#[test]
fn a_machine_without_a_plan_is_given_time() {
    let mut machine = ill().with(|m| m.plan = None);
    step(&mut machine, 0);
    assert_eq!(step(&mut machine, 1799), Stage::Waiting);
    assert_eq!(machine.healing.tokens, Tokens::default());
    assert_eq!(step(&mut machine, 1800), Stage::Exhausted);
}

#[test]
fn another_plan_may_be_the_cure() {
    let mut machine = ill().says(Progress::InFlight);
    step(&mut machine, 0);
    assert_eq!(step(&mut machine, 1), Stage::Waiting);
    let mut machine = machine.says(Progress::Failed("no".to_owned()));
    assert_eq!(step(&mut machine, 2), Stage::Restarting);
}

#[test]
fn what_is_under_way_goes_on_first() {
    let begun = |machine: MachineFacts, begun: usize| {
        machine.with(|m| {
            let (since, before) = (at(0), Tokens::default());
            m.healing.active = Some(Active { since, begun, at: since, before });
        })
    };
    let machine = |name: &str, second| MachineFacts::worker(name).up().born(second);
    let machines = [machine("a", 2), begun(machine("b", 3), 0), begun(machine("c", 4), 1), machine("d", 1)];
    assert_eq!(order(&machines), [2, 3, 0, 1]);
}

#[test]
fn the_remedy_names_what_to_set() {
    let (server, worker) = (MachineFacts::server("a"), MachineFacts::worker("w"));
    assert!(remedy(&server, "cp", true).starts_with("it is replaced once"));
    assert!(remedy(&server, "cp", false).contains("CapstanControlPlane cp to InPlaceOrReplace, or delete"));
    assert!(remedy(&worker, "cp", true).contains("capstan.dev/replace-policy of its Machine to WhenNeeded"));
    let grouped = worker.with(|m| m.group = Some("md".to_owned()));
    assert!(remedy(&grouped, "cp", true).contains("of its MachineDeployment md to WhenNeeded"));
}
