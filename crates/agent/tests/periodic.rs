//! Commands that run again and again while a plan is applied.

use crate::obey::{Agent, Wall, identity, secret};
use crate::support::world::{Death, World};
use crate::support::{TestClock, argv, file, gate, name, plan, run, verified};
use capstan_agent::journal::{Class, Outcome};
use capstan_agent::obey::obey;
use capstan_agent::periodic::Timetable;
use capstan_agent::{Clock as _, Engine, Journal};
use capstan_plan::{
    MachinePlan, OpenGates, Periodic, PeriodicResult, Phase, Probe, Report, SecretText, Target,
};
use std::time::Duration;
use tokio::sync::watch;

const HOUR: Duration = Duration::from_secs(3600);

fn hourly(command: &str, words: &str) -> Periodic {
    Periodic { name: name(command), argv: argv(words), interval_seconds: 3600, timeout_seconds: 60 }
}

fn with(mut plan: MachinePlan, periodic: Vec<Periodic>) -> MachinePlan {
    plan.periodic = periodic;
    plan
}

fn following(periodic: Vec<Periodic>, kept: Option<&[u8]>, clock: &TestClock) -> Timetable {
    let mut timetable = Timetable::default();
    timetable.follow(&verified(with(plan(1, vec![run("a", "a")]), periodic)), kept, clock);
    timetable
}

fn failed() -> Outcome {
    Outcome::failure(Class::Transient, "it does not work")
}

/// Runs everything that is due, and returns how many runs that were.
fn run_due(timetable: &mut Timetable, outcome: &Outcome, clock: &TestClock) -> usize {
    let mut runs = 0;
    while let Some(begun) = timetable.begin(clock) {
        timetable.end(&begun, outcome, clock);
        runs += 1;
    }
    runs
}

#[test]
fn each_command_runs_at_once_and_then_in_its_interval() {
    let clock = TestClock::new();
    let quick = Periodic { interval_seconds: 60, ..hourly("quick", "quick") };
    let mut timetable = following(vec![hourly("slow", "slow"), quick], None, &clock);
    assert!(timetable.results().is_empty());
    assert_eq!(run_due(&mut timetable, &Outcome::success(), &clock), 2);
    let mut runs = 0;
    for _ in 0..120 {
        clock.pass(Duration::from_secs(30));
        runs += run_due(&mut timetable, &Outcome::success(), &clock);
    }
    // In an hour: the slow one once more, and the quick one in every minute.
    assert_eq!(runs, 1 + 60);
    // What was missed is not made up for.
    clock.pass(5 * HOUR);
    assert_eq!(run_due(&mut timetable, &Outcome::success(), &clock), 2);
}

#[test]
fn the_clock_may_be_set_and_the_interval_stays() {
    let clock = TestClock::new();
    let mut timetable = following(vec![hourly("a", "a")], None, &clock);
    run_due(&mut timetable, &Outcome::success(), &clock);
    clock.set("2036-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(run_due(&mut timetable, &Outcome::success(), &clock), 0);
    clock.pass(HOUR);
    assert_eq!(run_due(&mut timetable, &Outcome::success(), &clock), 1);
    // An agent that starts after the clock was set back cannot know how long it is ago.
    let kept = timetable.to_bytes();
    clock.set("2026-01-01T00:00:00Z".parse().unwrap());
    let mut timetable = following(vec![hourly("a", "a")], Some(&kept), &clock);
    assert_eq!(run_due(&mut timetable, &Outcome::success(), &clock), 1);
}

#[test]
fn failures_are_counted_until_a_success() {
    let clock = TestClock::new();
    let mut timetable = following(vec![hourly("a", "a")], None, &clock);
    let mut seen = Vec::new();
    for outcome in [failed(), failed(), Outcome::success(), failed()] {
        assert_eq!(run_due(&mut timetable, &outcome, &clock), 1);
        let result = timetable.results().remove(0);
        assert_eq!(result.message.is_some(), result.failures > 0);
        seen.push(result.failures);
        clock.pass(HOUR);
    }
    assert_eq!(seen, [1, 2, 0, 1]);
}

#[test]
fn an_agent_that_starts_again_knows_what_has_run() {
    let clock = TestClock::new();
    let all = || vec![hourly("a", "a"), hourly("b", "b")];
    let mut timetable = following(all(), None, &clock);
    run_due(&mut timetable, &failed(), &clock);
    let kept = timetable.to_bytes();
    clock.pass(HOUR / 2);
    let mut timetable = following(all(), Some(&kept), &clock);
    assert_eq!(timetable.results().len(), 2);
    assert_eq!(run_due(&mut timetable, &failed(), &clock), 0);
    clock.pass(HOUR / 2);
    assert_eq!(run_due(&mut timetable, &failed(), &clock), 2);
    assert!(timetable.results().iter().all(|result| result.failures == 2));

    // Another command of that name has not run; a shorter interval counts from the last run.
    let kept = timetable.to_bytes();
    let shorter = Periodic { interval_seconds: 600, ..hourly("b", "b") };
    clock.pass(Duration::from_secs(500));
    let mut timetable = following(vec![hourly("a", "another"), shorter], Some(&kept), &clock);
    assert_eq!(timetable.results().len(), 1);
    assert_eq!(run_due(&mut timetable, &failed(), &clock), 1);
    clock.pass(Duration::from_secs(100));
    assert_eq!(run_due(&mut timetable, &failed(), &clock), 1);
    // Nobody's writing: everything runs.
    let mut timetable = following(all(), Some(b"{\"a\":1}"), &clock);
    assert_eq!(run_due(&mut timetable, &failed(), &clock), 2);
}

#[test]
fn another_plan_with_the_same_command_does_not_run_it_earlier() {
    let clock = TestClock::new();
    let mut timetable = following(vec![hourly("a", "a")], None, &clock);
    run_due(&mut timetable, &Outcome::success(), &clock);
    timetable.stop();
    clock.pass(HOUR / 2);
    assert_eq!((timetable.next(), timetable.results().len()), (None, 1));
    let next = with(plan(2, vec![run("b", "b")]), vec![hourly("a", "a"), hourly("new", "new")]);
    timetable.follow(&verified(next), None, &clock);
    assert_eq!(timetable.next(), Some(clock.elapsed()));
    assert_eq!(run_due(&mut timetable, &Outcome::success(), &clock), 1, "only the new one");
    clock.pass(HOUR / 2);
    assert_eq!(run_due(&mut timetable, &Outcome::success(), &clock), 1, "only the old one");
}

fn result(report: &Report, command: &str) -> Option<PeriodicResult> {
    report.periodic.iter().find(|result| result.name == name(command)).cloned()
}

#[tokio::test]
async fn results_are_reported_without_secrets_and_outlive_the_agent() {
    let mut agent = Agent::start().await;
    let periodic = vec![hourly("fine", "echo the-password and more"), hourly("bad", "complain the-password")];
    let mut wanted = with(plan(1, vec![run("a", "a")]), periodic);
    wanted.redact = vec![SecretText::new("the-password")];
    agent.plans.send_replace(Some(secret(&wanted)));
    let both = |report: &Report| report.periodic.iter().filter(|run| run.finished.is_some()).count() == 2;
    let report = agent.until("both results", both).await;
    let (fine, bad) = (result(&report, "fine").unwrap(), result(&report, "bad").unwrap());
    assert_eq!((fine.exit_code, fine.failures, fine.message), (Some(0), 0, None));
    assert_eq!(fine.stdout.as_deref(), Some("[redacted] and more"));
    assert_eq!((bad.exit_code, bad.failures), (Some(1), 1));
    assert_eq!(bad.message.as_deref(), Some("the command exited with 1"));
    assert_eq!(bad.stdout.as_deref(), Some("[redacted]"));
    let world = agent.world.clone();
    assert!(!String::from_utf8(world.state().runs.clone().unwrap()).unwrap().contains("the-password"));
    drop(agent);

    // Also without the management plane.
    let mut agent = Agent::on(world.clone()).await;
    let again = agent.until("both results", both).await;
    let text = |report: &Report| serde_json::to_string(&report.periodic).unwrap();
    assert_eq!(text(&again), text(&report));
    drop(agent);
    let mut agent = Agent::after(world.clone(), 2).await;
    agent
        .until("a second failure", |report| result(report, "bad").is_some_and(|bad| bad.failures == 2))
        .await;
    assert_eq!(world.started("echo the-password and more"), 2);
}

#[tokio::test]
async fn commands_run_only_while_their_plan_is_applied() {
    let mut agent = Agent::start().await;
    agent
        .plans
        .send_replace(Some(secret(&with(plan(1, vec![run("a", "false")]), vec![hourly("one", "one")]))));
    agent.phase(Phase::Failed).await;
    agent.plans.send_replace(Some(secret(&plan(2, vec![gate("go"), run("b", "b")]))));
    agent.phase(Phase::Waiting).await;
    let second = with(plan(3, vec![run("c", "c")]), vec![hourly("two", "two")]);
    agent.plans.send_replace(Some(secret(&second)));
    agent.until("its result", |report| result(report, "two").is_some_and(|two| two.finished.is_some())).await;
    let third = plan(4, vec![run("d", "d")]);
    agent.plans.send_replace(Some(secret(&third)));
    let applied = |report: &Report| report.applied().is_some_and(|plan| plan.revision().get() == 4);
    agent.until("the last plan", |report| applied(report) && report.periodic.is_empty()).await;
    assert_eq!((agent.world.started("one"), agent.world.started("two")), (0, 1));
}

#[tokio::test]
async fn probes_go_on_beside_a_command_and_an_interrupted_one_is_told() {
    let mut agent = Agent::start().await;
    let mut wanted = with(plan(1, vec![run("a", "a")]), vec![hourly("long", "hang")]);
    wanted.probes =
        vec![Probe { interval_seconds: 1, ..Probe::new(name("kubelet"), Target::Exec(argv("kubelet"))) }];
    agent.plans.send_replace(Some(secret(&wanted)));
    let world = agent.world.clone();
    let report =
        agent.until("a run", |report| !report.probes.is_empty() && !report.periodic.is_empty()).await;
    let long = result(&report, "long").unwrap();
    assert_eq!((long.finished, long.message, long.failures), (None, None, 0));
    let before = world.started("kubelet");
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while world.started("kubelet") < before + 2 {
        assert!(std::time::Instant::now() < deadline, "its probes go on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(agent);
    let mut agent = Agent::on(world.clone()).await;
    let told = |report: &Report| result(report, "long").is_some_and(|long| long.message.is_some());
    let report = agent.until("what happened", told).await;
    let long = result(&report, "long").unwrap();
    assert!(long.message.unwrap().contains("the agent ended while the command ran"));
    assert_eq!((long.failures, world.started("hang")), (1, 1));
}

#[tokio::test]
async fn a_plan_that_arrives_waits_for_no_further_command() {
    let mut agent = Agent::start().await;
    let many = (0..30).map(|number| hourly(&format!("c{number}"), &format!("tidy {number}"))).collect();
    agent.plans.send_replace(Some(secret(&with(plan(1, vec![run("a", "a")]), many))));
    let runs = |world: &World| {
        let state = world.state();
        state.started.iter().filter(|(command, _)| command.starts_with("tidy")).count()
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while runs(&agent.world) == 0 {
        assert!(std::time::Instant::now() < deadline, "no command has run");
        tokio::task::yield_now().await;
    }
    let before = runs(&agent.world);
    agent.plans.send_replace(Some(secret(&plan(2, vec![run("b", "b")]))));
    agent
        .until("the next plan", |report| report.applied().is_some_and(|plan| plan.revision().get() == 2))
        .await;
    assert!(before < 30 && runs(&agent.world) == before, "{before}, {}", runs(&agent.world));
}

/// A machine whose agent was killed while its periodic command ran: no agent is there to end the command, so its supervisor has it.
async fn orphaned() -> World {
    let world = World::default();
    world.state().supervises = true;
    let mut agent = Agent::on(world.clone()).await;
    let wanted = with(plan(1, vec![run("a", "a")]), vec![hourly("long", "hang")]);
    agent.plans.send_replace(Some(secret(&wanted)));
    agent.until("a run", |report| result(report, "long").is_some()).await;
    drop(agent);
    let runs = |world: &World| world.state().commands.iter().filter(|(.., ran)| ran.is_none()).count();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while runs(&world) != 1 {
        assert!(std::time::Instant::now() < deadline, "the command was not started with a key");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world
}

#[tokio::test]
async fn a_command_that_outlives_its_agent_is_ended_by_the_next_one() {
    let world = orphaned().await;
    let mut agent = Agent::on(world.clone()).await;
    let told = |report: &Report| result(report, "long").is_some_and(|long| long.message.is_some());
    agent.until("what happened", told).await;
    assert_eq!(world.state().ended, ["hang"]);
    assert!(world.state().commands.is_empty());
    drop(agent);

    // When the interval has passed, it is not started beside an earlier run: the machine of this suite would panic.
    let mut agent = Agent::after(world.clone(), 2).await;
    let again = |report: &Report| result(report, "long").is_some_and(|long| long.message.is_none());
    agent.until("another run", again).await;
    assert_eq!(world.started("hang"), 2);
}

#[tokio::test]
async fn a_reset_ends_a_command_that_outlives_its_agent() {
    let world = orphaned().await;
    let journal = Journal::open(world.clone()).await.unwrap();
    let mut engine = Engine::new(world.clone(), journal, TestClock::new());
    engine.reset(None).await.unwrap();
    assert_eq!(world.state().ended, ["hang"]);
    assert!(world.state().commands.is_empty());
}

/// The power fails at each operation of a plan with a periodic command: it never runs twice in its interval, and it runs in the end.
#[tokio::test]
async fn after_a_crash_a_command_does_not_run_twice() {
    let wanted = with(plan(1, vec![file("config", "/config", "x")]), vec![hourly("tidy", "tidy")]);
    let mut deaths = 0;
    let mut again = 0;
    for at in 1.. {
        let mut survived = true;
        for death in Death::ALL {
            let world = World::default();
            world.revive(Some((at, death)));
            until_run(&world, &wanted).await;
            if !world.state().dead {
                continue;
            }
            survived = false;
            deaths += 1;
            let before = world.started("tidy");
            world.revive(None);
            let mut agent = Agent::on(world.clone()).await;
            agent.plans.send_replace(Some(secret(&wanted)));
            agent.until("its result", |report| result(report, "tidy").is_some()).await;
            let is_over = |report: &Report| {
                result(report, "tidy").is_some_and(|run| run.finished.is_some() || run.message.is_some())
            };
            agent.until("its end", is_over).await;
            again += usize::from(before == 0 && world.started("tidy") == 1);
            assert!(world.started("tidy") <= 1, "{death:?} at operation {at}");
        }
        if survived {
            break;
        }
    }
    assert!(deaths > 20 && again > 10, "{deaths} deaths, {again} of them before it ran");
}

/// An agent with this plan, until its command has run or the machine is dead.
async fn until_run(world: &World, wanted: &MachinePlan) {
    let Ok(journal) = Journal::open(world.clone()).await else { return };
    let mut engine = Engine::new(world.clone(), journal, Wall::new());
    let (plans, mut seen) = watch::channel(Some(secret(wanted)));
    let (sender, mut reports) = watch::channel(Report::default());
    let has_run = async {
        let ended = |report: &Report| result(report, "tidy").is_some_and(|run| run.finished.is_some());
        reports.wait_for(ended).await.map(drop)
    };
    let identity = identity();
    tokio::select! {
        biased;
        _ = has_run => {}
        _ = obey(&mut engine, &identity, &mut seen, &sender, |_, _| ()) => {}
    }
    drop(plans);
}

#[tokio::test]
async fn a_reset_removes_the_record_and_a_full_disk_stops_nothing() {
    let world = World::default();
    let mut agent = Agent::on(world.clone()).await;
    let wanted = with(plan(1, vec![run("a", "a")]), vec![hourly("tidy", "tidy")]);
    agent.plans.send_replace(Some(secret(&wanted)));
    let has_run = |report: &Report| result(report, "tidy").is_some_and(|run| run.finished.is_some());
    agent.until("its result", has_run).await;
    drop(agent);
    let journal = Journal::open(world.clone()).await.unwrap();
    let mut engine = Engine::new(world.clone(), journal, TestClock::new());
    assert!(world.state().runs.is_some());
    engine.reset(None).await.unwrap();
    assert_eq!(world.state().runs, None);

    let clock = TestClock::new();
    let mut timetable = following(vec![hourly("tidy", "tidy")], None, &clock);
    let verified = verified(wanted);
    let world = World::default();
    let mut engine = Engine::new(world.clone(), Journal::open(world.clone()).await.unwrap(), clock.clone());
    engine.apply(&verified, &OpenGates::none(verified.id()), |_| ()).await.unwrap();
    world.state().full = true;
    // Nor does it when there is no room for the record of the command.
    world.state().supervises = true;
    let begun = timetable.begin(&clock).unwrap();
    let outcome = begun.run(&world, timetable.redactor()).await;
    timetable.end(&begun, &outcome, &clock);
    assert_eq!(timetable.results()[0].exit_code, Some(0));
}
