//! What is done about a command that an earlier process of the agent has started: the pure function, and the engine on a
//! machine in memory.

use crate::support;
use crate::support::world::{Death, World};
use crate::support::{TestClock, Verbs, file, gate, name, run, shut, start, steps, unit};
use capstan_agent::journal::{Entry, History, Outcome};
use capstan_agent::ledger::{After, Before, Holding};
use capstan_agent::machine::CommandKey;
use capstan_agent::running::CommandFate;
use capstan_agent::{Advance, Engine, Journal, Reset};
use capstan_plan::{Action, Digest, OpenGates, Phase, VerifiedPlan};

fn accepted(plan: &VerifiedPlan) -> Entry {
    Entry::Accepted { plan: plan.id(), machine: support::machine(), epoch: plan.plan().epoch }
}

fn began(plan: &VerifiedPlan, step: usize) -> Entry {
    let step = &plan.plan().steps[step];
    let inputs = plan.inputs(step);
    Entry::Began { step: step.name.clone(), inputs, once: false, undo: None, at: start() }
}

fn key(plan: &VerifiedPlan, step: usize, attempt: u32) -> CommandKey {
    let step = &plan.plan().steps[step];
    CommandKey::Step { plan: plan.id(), step: step.name.clone(), inputs: plan.inputs(step), attempt }
}

fn history(entries: impl IntoIterator<Item = Entry>) -> History {
    let mut history = History::default();
    entries.into_iter().for_each(|entry| history.record(entry));
    history
}

/// The fate of a command while no plan is cancelled.
fn fate(key: &CommandKey, plan: &VerifiedPlan, history: &History) -> CommandFate {
    capstan_agent::running::fate(key, plan, &OpenGates::none(plan.id()), history)
}

#[test]
fn the_command_of_a_cancelled_plan_is_ended() {
    let (old, new) = (steps(1, vec![run("a", "a")]), steps(2, vec![run("a", "a")]));
    let open = history([accepted(&old), began(&old, 0)]);
    let cancelling = |plan: &VerifiedPlan, last: &VerifiedPlan| {
        let gates = OpenGates::none(plan.id()).cancelling(last.id().revision());
        capstan_agent::running::fate(&key(&old, 0, 1), plan, &gates, &open)
    };
    assert_eq!(cancelling(&old, &old), CommandFate::Cancel);
    assert_eq!(cancelling(&new, &old), CommandFate::Cancel, "though the newer plan has it as well");
    assert_eq!(cancelling(&new, &new), CommandFate::Cancel);
    let newer = history([accepted(&new), began(&new, 0)]);
    let gates = OpenGates::none(new.id()).cancelling(old.id().revision());
    let fate = capstan_agent::running::fate(&key(&new, 0, 1), &new, &gates, &newer);
    assert_eq!(fate, CommandFate::TakeOver { step: 0 }, "only the earlier plan is cancelled");
}

#[test]
fn the_command_of_the_open_attempt_is_taken_over_and_no_other() {
    let plan = steps(1, vec![file("config", "/config", "a"), run("a", "a"), run("b", "b")]);
    let open = history([accepted(&plan), began(&plan, 1)]);
    assert_eq!(fate(&key(&plan, 1, 1), &plan, &open), CommandFate::TakeOver { step: 1 });
    // Another attempt, another step, another plan.
    assert_eq!(fate(&key(&plan, 1, 2), &plan, &open), CommandFate::Dismiss);
    assert_eq!(fate(&key(&plan, 2, 1), &plan, &open), CommandFate::Dismiss);
    let other = steps(1, vec![run("x", "x"), run("a", "a")]);
    assert_eq!(fate(&key(&other, 1, 1), &plan, &open), CommandFate::Dismiss);

    // A second attempt, after one that was interrupted.
    let again = history([accepted(&plan), began(&plan, 1), began(&plan, 1)]);
    assert_eq!(fate(&key(&plan, 1, 1), &plan, &again), CommandFate::Dismiss);
    assert_eq!(fate(&key(&plan, 1, 2), &plan, &again), CommandFate::TakeOver { step: 1 });

    // One whose result is journaled.
    let CommandKey::Step { step, inputs, .. } = key(&plan, 1, 1) else { panic!("a step") };
    let ended = Entry::Ended { step, inputs, outcome: Outcome::success(), at: start() };
    let ended = history([accepted(&plan), began(&plan, 1), ended]);
    assert_eq!(fate(&key(&plan, 1, 1), &plan, &ended), CommandFate::Dismiss);
    assert_eq!(fate(&key(&plan, 1, 1), &plan, &History::default()), CommandFate::Dismiss);
}

#[test]
fn a_newer_plan_takes_over_what_it_has_as_well() {
    let old = steps(1, vec![run("a", "a"), run("b", "b")]);
    let open = history([accepted(&old), began(&old, 0)]);
    let running = key(&old, 0, 1);
    assert_eq!(
        fate(&running, &steps(2, vec![run("b", "b"), run("a", "a")]), &open),
        CommandFate::TakeOver { step: 1 }
    );
    for other in [run("a", "other"), run("b", "a"), file("a", "/a", "a")] {
        assert_eq!(fate(&running, &steps(2, vec![other]), &open), CommandFate::Dismiss);
    }
}

#[test]
fn a_stop_command_is_left_to_the_plan_that_gives_the_unit_back() {
    let first = steps(1, vec![unit("app", "app.service", "[Service]\n", "1").ended_by("end")]);
    let second = steps(2, vec![run("a", "a")]);
    let Action::Unit(held) = &first.plan().steps[0].action else { panic!("a unit") };
    let stop = CommandKey::stop(&held.name, held.stop.as_ref().unwrap());
    let took =
        || Entry::Took(Holding { path: held.path(), before: Before::Nothing, after: After::from(held) });
    let giving = history([accepted(&first), took(), accepted(&second)]);
    assert_eq!(fate(&stop, &second, &giving), CommandFate::Leave);
    assert_eq!(fate(&stop, &steps(3, vec![run("a", "a")]), &giving), CommandFate::Dismiss);
    let given = [accepted(&first), took(), accepted(&second), Entry::Released { path: held.path() }];
    assert_eq!(fate(&stop, &second, &history(given)), CommandFate::Dismiss);
    let undo = CommandKey::Undo { step: name("a"), undo: Digest::of(b"") };
    assert_eq!(fate(&undo, &second, &giving), CommandFate::Dismiss);
    let begun = jiff::Timestamp::UNIX_EPOCH;
    let periodic = CommandKey::Periodic { name: name("a"), command: Digest::of(b""), begun };
    assert_eq!(fate(&periodic, &second, &giving), CommandFate::Dismiss);
}

/// An agent was killed while the command of this plan's only step ran.
async fn killed(plan: &VerifiedPlan) -> World {
    let world = World::default();
    world.state().supervises = true;
    let mut engine = engine(&world).await;
    // Accept, and look what runs; then the journal, and the command.
    while engine.history().current.is_none() {
        engine.advance(plan, &shut(plan), &mut |_| ()).await.unwrap();
    }
    world.revive(Some((2, Death::Middle)));
    assert!(engine.advance(plan, &shut(plan), &mut |_| ()).await.is_err());
    assert_eq!(world.state().commands.len(), 1);
    world.revive(None);
    world
}

async fn engine(world: &World) -> Engine<World, World, TestClock> {
    Engine::new(world.clone(), Journal::open(world.clone()).await.unwrap(), TestClock::new())
}

#[tokio::test]
async fn nothing_is_started_while_it_is_not_known_what_runs() {
    let plan = steps(1, vec![run("slow", "slow")]);
    let world = killed(&plan).await;
    world.state().blind = true;
    let mut engine = engine(&world).await;
    for plan in [&plan, &steps(2, vec![run("new", "new")])] {
        let mut message = None;
        let turn =
            engine.advance(plan, &shut(plan), &mut |progress| message = progress.message.clone()).await;
        assert!(matches!(turn, Ok(Advance::Wait(_))), "{turn:?}");
        let message = message.unwrap();
        assert!(
            message.contains("may still run") && message.contains("the disk does not answer"),
            "{message}"
        );
    }
    assert!(matches!(engine.reset(None).await.unwrap(), Reset::Left(left) if left.len() == 1));
    assert_eq!((world.started("slow"), world.started("new")), (1, 0));
}

#[tokio::test]
async fn a_plan_that_is_refused_touches_no_command() {
    let plan = steps(5, vec![run("slow", "slow")]);
    let world = killed(&plan).await;
    let mut engine = engine(&world).await;
    let old = steps(4, vec![run("old", "old")]);
    assert_eq!(engine.apply(&old, &shut(&old), |_| ()).await.unwrap().phase, Phase::Refused);
    assert_eq!(world.state().commands.len(), 1);
    assert_eq!(engine.apply(&plan, &shut(&plan), |_| ()).await.unwrap().phase, Phase::Applied);
    let ended = world.state().ended.len();
    assert_eq!((world.started("slow"), ended), (1, 0));
}

#[tokio::test]
async fn a_reset_ends_the_command_of_a_step() {
    let plan = steps(1, vec![run("slow", "slow").undo("undo")]);
    let world = killed(&plan).await;
    assert_eq!(engine(&world).await.reset(None).await.unwrap(), Reset::Clean);
    let ended = world.state().ended.clone();
    assert_eq!((ended, world.started("undo")), (vec!["slow".to_owned()], 1));
}

#[tokio::test]
async fn nothing_is_kept_of_a_command_whose_result_is_journaled() {
    let world = World::default();
    world.state().supervises = true;
    let plan = steps(1, vec![run("a", "a"), gate("closed")]);
    let progress = engine(&world).await.apply(&plan, &shut(&plan), |_| ()).await.unwrap();
    assert_eq!(progress.phase, Phase::Waiting);
    assert!(world.state().commands.is_empty(), "what it printed may be secret");
}

#[tokio::test]
async fn a_newer_plan_ends_the_stop_command_of_an_earlier_one_before_it_begins() {
    let app = || unit("app", "app.service", "[Service]\n", "1").ended_by("end-app");
    let plans = [steps(1, vec![app()]), steps(2, vec![run("a", "a")]), steps(3, vec![app()])];
    // Killed at one operation after the other, until it is the one that ends the unit.
    for at in 1..100 {
        let world = World::default();
        world.state().supervises = true;
        let mut agent = engine(&world).await;
        agent.apply(&plans[0], &shut(&plans[0]), |_| ()).await.unwrap();
        world.revive(Some((at, Death::Middle)));
        while agent.advance(&plans[1], &shut(&plans[1]), &mut |_| ()).await.is_ok() && !world.state().dead {}
        world.revive(None);
        if world.state().commands.iter().all(|(.., ran)| ran.is_some()) {
            continue;
        }
        let mut agent = engine(&world).await;
        assert_eq!(agent.advance(&plans[2], &shut(&plans[2]), &mut |_| ()).await.unwrap(), Advance::Moved);
        assert_eq!(agent.history().current.as_ref().unwrap().plan, plans[2].id(), "it was accepted");
        assert_eq!(world.state().ended, ["end-app"]);
        return;
    }
    panic!("it was never killed in the middle of the stop command");
}
