//! Plans that are cancelled: while a command runs, between steps, after a restart, and killed at every operation.

#![cfg(test)]

mod support;

use capstan_agent::journal::{Entry, decode};
use capstan_agent::obey::{Identity, obey};
use capstan_agent::store::DiskStore;
use capstan_agent::{Engine, Journal, SystemClock};
use capstan_plan::{
    Epoch, MachinePlan, OpenGates, Phase, Progress, Report, Revision, SecretData, SigningKey, Standing, Step,
    Successions,
};
use std::time::Duration;
use support::process::{self, Yard, eventually};
use support::world::{Death, World};
use support::{TestClock, Verbs, file, machine, run, shell, verified};
use tokio::sync::watch;

#[test]
fn supervisor() {
    process::supervisor();
}

fn key() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

/// The Secret of a plan, with plans up to this revision cancelled.
fn secret(plan: &MachinePlan, cancel: Option<u64>) -> SecretData {
    signed(plan, cancel, &key())
}

fn signed(plan: &MachinePlan, cancel: Option<u64>, by: &SigningKey) -> SecretData {
    let sealed = plan.clone().seal().unwrap();
    let mut data = sealed.sign(by).to_secret_data();
    if let Some(cancel) = cancel {
        let gates = OpenGates::none(sealed.id()).cancelling(Revision::new(cancel).unwrap());
        data.extend(gates.seal(by).to_secret_data());
    }
    data
}

/// A machine whose commands outlive the agent.
fn world() -> World {
    let world = World::default();
    world.state().supervises = true;
    world
}

struct Agent {
    plans: watch::Sender<Option<SecretData>>,
    reports: watch::Receiver<Report>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    async fn on(world: &World) -> Self {
        let journal = Journal::open(world.clone()).await.unwrap();
        let mut engine = Engine::new(world.clone(), journal, SystemClock);
        let (plans, mut seen) = watch::channel(None);
        let (sender, reports) = watch::channel(Report::default());
        let identity = Identity {
            machine: machine(),
            plan_key: key().public(),
            successions: Successions::default(),
            epoch: Epoch(1),
        };
        let task = tokio::spawn(async move {
            let _ = obey(&mut engine, &identity, &mut seen, &sender, |_, _| ()).await;
        });
        Self { plans, reports, task }
    }

    async fn until(&mut self, what: &str, is: impl Fn(&Progress) -> bool) -> Progress {
        let of = |report: &Report| match &report.standing {
            Standing::Plan(progress) => Some(progress.clone()),
            _ => None,
        };
        let reported = self.reports.wait_for(|report| of(report).is_some_and(|progress| is(&progress)));
        let reported = tokio::time::timeout(Duration::from_secs(30), reported).await;
        of(&reported.unwrap_or_else(|_| panic!("no report said: {what}")).unwrap()).unwrap()
    }
}

/// The commands that were ended.
fn ended(world: &World) -> Vec<String> {
    world.state().ended.clone()
}

async fn running(world: &World, command: &str) {
    while world.started(command) == 0 {
        tokio::task::yield_now().await;
    }
}

/// A plan for this day, whichever it is.
fn plan(revision: u64, steps: Vec<Step>) -> MachinePlan {
    let mut plan = support::plan(revision, steps);
    plan.expires = "2100-01-01T00:00:00Z".parse().unwrap();
    plan
}

fn hanging() -> MachinePlan {
    plan(1, vec![file("before", "/before", "x"), run("wait", "hang"), run("after", "after")])
}

#[tokio::test]
async fn a_running_command_is_ended_and_the_plan_fails_as_cancelled() {
    let world = world();
    let mut agent = Agent::on(&world).await;
    agent.plans.send_replace(Some(secret(&hanging(), None)));
    running(&world, "hang").await;
    agent.plans.send_replace(Some(secret(&hanging(), Some(1))));
    let failed = agent.until("failed", |progress| progress.phase == Phase::Failed).await;
    assert_eq!(failed.message.as_deref(), Some("step wait: the plan was cancelled"));
    assert_eq!(failed.output.stdout.unwrap().head.as_deref(), Some("last words"));
    assert_eq!((ended(&world), world.started("after")), (vec!["hang".to_owned()], 0));
    assert!(world.state().commands.is_empty(), "what was journaled is not kept");
    // A later plan continues.
    let next = plan(2, vec![file("before", "/before", "x"), run("after", "after")]);
    agent.plans.send_replace(Some(secret(&next, None)));
    agent.until("applied", |progress| progress.phase == Phase::Applied).await;
    assert_eq!(world.started("after"), 1);
}

/// A command that hangs does not keep the machine from the order of the next key.
#[tokio::test]
async fn a_key_that_follows_while_a_command_runs_cancels_its_plan() {
    let world = world();
    let mut agent = Agent::on(&world).await;
    agent.plans.send_replace(Some(secret(&hanging(), None)));
    running(&world, "hang").await;
    let next = SigningKey::from_seed(&[2; 32]);
    let mut data = signed(&hanging(), Some(1), &next);
    data.extend(Successions::default().followed_by(&key(), next.public()).to_secret_data());
    agent.plans.send_replace(Some(data));
    let failed = agent.until("failed", |progress| progress.phase == Phase::Failed).await;
    assert_eq!(failed.message.as_deref(), Some("step wait: the plan was cancelled"));
    assert_eq!(ended(&world), ["hang"]);
}

/// The usual case: the user has corrected the command already, and the machine still runs the old one.
#[tokio::test]
async fn a_later_plan_that_cancels_earlier_ones_ends_their_command_and_begins() {
    let world = world();
    let mut agent = Agent::on(&world).await;
    agent.plans.send_replace(Some(secret(&hanging(), None)));
    running(&world, "hang").await;
    let next = plan(2, vec![run("wait", "quick").once(), run("after", "after")]);
    // Without that, it waits for the end of the step.
    agent.plans.send_replace(Some(secret(&next, None)));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!((ended(&world).len(), world.started("quick")), (0, 0));
    agent.plans.send_replace(Some(secret(&next, Some(1))));
    agent
        .until("applied", |progress| progress.phase == Phase::Applied && progress.plan.revision().get() == 2)
        .await;
    assert_eq!((ended(&world), world.started("quick")), (vec!["hang".to_owned()], 1));
    let entries = decode(&world.state().journal).unwrap().entries;
    let said = entries.into_iter().find_map(|entry| match entry {
        Entry::Ended { outcome, .. } => outcome.failure.map(|failure| failure.message),
        _ => None,
    });
    assert_eq!(said.as_deref(), Some("its command was ended, because the plan was cancelled"));
}

#[tokio::test]
async fn others_cancel_nothing() {
    let world = world();
    let agent = Agent::on(&world).await;
    let plan = hanging();
    agent.plans.send_replace(Some(secret(&plan, None)));
    running(&world, "hang").await;
    let id = plan.clone().seal().unwrap().id();
    let beside = |gates: OpenGates, by: &SigningKey| {
        let mut data = secret(&plan, None);
        data.extend(gates.seal(by).to_secret_data());
        data
    };
    let mut old = hanging();
    old.epoch = Epoch(0);
    old.revision = Revision::new(9).unwrap();
    for data in [
        // Another key, a plan that is another one, a revision that is later, and a management plane of before.
        beside(OpenGates::none(id).cancelling(Revision::FIRST), &SigningKey::from_seed(&[9; 32])),
        beside(OpenGates::none(old.clone().seal().unwrap().id()).cancelling(Revision::FIRST), &key()),
        beside(OpenGates::none(id).cancelling(Revision::new(2).unwrap()), &key()),
        secret(&old, Some(9)),
    ] {
        agent.plans.send_replace(Some(data));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(ended(&world).len(), 0);
    }
}

#[tokio::test]
async fn a_plan_that_is_cancelled_between_its_steps_begins_no_other() {
    let plan = verified(plan(1, vec![file("before", "/before", "x"), run("after", "after")]));
    let world = world();
    let journal = Journal::open(world.clone()).await.unwrap();
    let mut engine = Engine::new(world.clone(), journal, TestClock::new());
    let gates = OpenGates::none(plan.id());
    while world.content("/before").is_none() {
        engine.advance(&plan, &gates, &mut |_| ()).await.unwrap();
    }
    let end = engine.apply(&plan, &gates.cancelling(plan.id().revision()), |_| ()).await.unwrap();
    assert_eq!(
        (end.phase, end.message.as_deref()),
        (Phase::Failed, Some("step after: the plan was cancelled"))
    );
    assert_eq!((world.started("after"), world.content("/before").as_deref()), (0, Some("x")));
}

/// The agent is killed while the command runs, and again at every operation that ends it.
#[tokio::test]
async fn killed_at_every_operation_a_cancelled_plan_ends_as_cancelled() {
    let plan = verified(hanging());
    let gates = OpenGates::none(plan.id());
    let cancelled = gates.clone().cancelling(plan.id().revision());
    let begin = async || {
        let world = world();
        let journal = Journal::open(world.clone()).await.unwrap();
        let mut engine = Engine::new(world.clone(), journal, TestClock::new());
        tokio::select! {
            biased;
            ended = engine.apply(&plan, &gates, |_| ()) => panic!("{ended:?}"),
            () = running(&world, "hang") => {}
        }
        world
    };
    let end = async |world: &World| {
        let journal = Journal::open(world.clone()).await.ok()?;
        let mut engine = Engine::new(world.clone(), journal, TestClock::new());
        loop {
            match engine.advance(&plan, &cancelled, &mut |_| ()).await.ok()? {
                _ if world.state().dead => return None,
                capstan_agent::Advance::Rest(progress) => return Some(progress),
                _ => {}
            }
        }
    };
    let whole = begin().await;
    let before = whole.state().operations;
    assert_eq!(end(&whole).await.unwrap().phase, Phase::Failed);
    let operations = whole.state().operations - before;
    assert!(operations > 5, "{operations}");
    for death in Death::ALL {
        for at in 1..=operations {
            let case = format!("killed {death:?} operation {at}");
            let world = begin().await;
            world.revive(Some((at, death)));
            let _ = end(&world).await;
            world.revive(None);
            let progress = end(&world).await.unwrap();
            assert_eq!(progress.message.as_deref(), Some("step wait: the plan was cancelled"), "{case}");
            let state = world.state();
            assert_eq!((state.ended.len(), state.commands.len()), (1, 0), "{case}");
            assert_eq!(state.started.get("after"), None, "{case}");
        }
    }
}

/// A real command, which says that it was asked to end.
#[tokio::test]
async fn a_real_command_gets_sigterm_and_its_last_words_are_reported() {
    let yard = Yard::new();
    let script = "trap 'echo asked; exit 0' TERM; touch begun; while :; do sleep 0.02; done";
    let steps = vec![shell("wait", &format!("cd {}; {script}", yard.at("").display()))];
    let plan = verified(plan(1, steps));
    let linux = process::supervising(&yard.commands());
    let journal = Journal::open(DiskStore::open(yard.at("state")).await.unwrap()).await.unwrap();
    let mut engine = Engine::new(linux, journal, SystemClock);
    let (cancel, cancelled) = watch::channel(None);
    engine.heed(cancelled);
    let gates = OpenGates::none(plan.id());
    let begun = yard.at("begun");
    let id = plan.id();
    let canceller = std::thread::spawn(move || {
        eventually("the command to begin", || begun.exists().then_some(()));
        cancel.send_replace(Some(id));
        cancel
    });
    let end = engine.apply(&plan, &gates, |_| ()).await.unwrap();
    drop(canceller.join());
    assert_eq!(end.phase, Phase::Failed);
    let message = "step wait: its command was ended, because the plan was cancelled";
    assert_eq!(end.message.as_deref(), Some(message));
    assert_eq!(end.output.stdout.unwrap().head.as_deref(), Some("asked\n"));
    assert!(yard.records().is_empty());
}
