//! The agent replaces its program. Power is cut at every operation of the machine: afterwards the machine always has a program that can
//! be started, ends with the new one if that works, and with the old one if it does not.

use crate::support::program::{self, digest, installed, places};
use crate::support::world::{Death, World};
use crate::support::{TestClock, file, open, plan, start, verified};
use capstan_agent::upgrade::{Guarded, MOST_STARTS, Occasion, guard};
use capstan_agent::{Clock as _, Engine, Journal, Restart};
use capstan_plan::{Digest, MachinePlan, ReportedProgram, VerifiedPlan};
use std::sync::LazyLock;

/// What a program does when it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    /// It works.
    Works,
    /// It ends at once.
    Crashes,
    /// It runs, and does not contact the management plane.
    Hangs,
    /// Its self-check fails.
    Refuses,
}

impl Behaviour {
    const ALL: [Self; 4] = [Self::Works, Self::Crashes, Self::Hangs, Self::Refuses];
}

/// The same, with what its next program does.
fn machine(behaviour: Behaviour) -> World {
    let world = program::machine();
    if behaviour == Behaviour::Refuses {
        world.state().broken.insert(digest("new"));
    }
    world
}

fn plan_naming(revision: u64, agent: Option<&str>) -> VerifiedPlan {
    let agent = agent.map(program::named);
    verified(MachinePlan { agent, ..plan(revision, vec![file("motd", "/etc/motd", "managed")]) })
}

/// Signed once: that takes its time.
static WANTS_NEW: LazyLock<VerifiedPlan> = LazyLock::new(|| plan_naming(1, Some("new")));

/// Nothing more happens by itself.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    /// The agent runs, and has nothing to do.
    Agent(Option<ReportedProgram>),
    /// The power was cut.
    Dark,
}

/// What systemd does until nothing more happens, from a start of the machine on.
async fn run(world: &World, plan: &VerifiedPlan, behaviour: Behaviour) -> Rest {
    for _ in 0..20 {
        if world.content(places().previous.as_str()).is_some() {
            // systemd ignores how the guard ends.
            let _ = guard(world, &places(), Occasion::Start, start()).await;
        }
        if world.state().dead {
            return Rest::Dark;
        }
        let own = installed(world);
        if own == digest("new") && behaviour == Behaviour::Crashes {
            continue;
        }
        if own == digest("new") && behaviour == Behaviour::Hangs {
            let guarded = guard(world, &places(), Occasion::Expired, start()).await;
            assert!(world.state().dead || guarded.unwrap() == Guarded::Returned);
            continue;
        }
        match agent(world, plan, own).await {
            Some((Restart::Needed, _)) => {}
            Some((Restart::NotNeeded, reported)) => return Rest::Agent(reported),
            None => return Rest::Dark,
        }
    }
    panic!("it does not come to rest");
}

/// One life of an agent that reaches the management plane; none if the power is cut in it.
async fn agent(
    world: &World,
    plan: &VerifiedPlan,
    own: Digest,
) -> Option<(Restart, Option<ReportedProgram>)> {
    let journal = Journal::open(world.clone()).await.ok()?;
    let mut engine = Engine::new(world.clone(), journal, TestClock::new()).replacing(places(), own);
    engine.look_at_program().await;
    engine.confirm_program().await;
    engine.apply(plan, &open(plan), |_| ()).await.ok()?;
    let turn = engine.replace_program(plan).await;
    (!world.state().dead).then(|| (turn, engine.agent_program()))
}

fn check_end(world: &World, rest: &Rest, behaviour: Behaviour, case: &str) {
    let Rest::Agent(Some(reported)) = rest else { panic!("{case}: {rest:?}") };
    let (expected, is_rejected) = match behaviour {
        Behaviour::Works => ("new", false),
        Behaviour::Crashes | Behaviour::Hangs | Behaviour::Refuses => ("old", true),
    };
    assert_eq!((installed(world), reported.sha256), (digest(expected), digest(expected)), "{case}");
    assert!(!reported.on_trial && reported.message.is_none(), "{case}: {reported:?}");
    let rejected = reported.rejected.as_ref().map(|rejected| rejected.sha256);
    assert_eq!(rejected, is_rejected.then(|| digest("new")), "{case}");
    assert_eq!(world.content("/etc/motd").as_deref(), Some("managed"), "{case}: the plan was carried out");
    assert_eq!(world.content(places().next.as_str()), None, "{case}");
    let has_state = world.content(places().state.as_str()).is_some();
    assert_eq!(has_state, is_rejected, "{case}");
    if behaviour != Behaviour::Refuses {
        let old = digest("old").to_string();
        assert_eq!(world.content(places().previous.as_str()), Some(old), "{case}: the old one is kept");
        assert_eq!(world.content(places().unit.as_str()), Some(places().unit_content), "{case}");
    }
}

#[tokio::test]
async fn power_is_cut_at_every_operation_of_a_replacement() {
    for behaviour in Behaviour::ALL {
        let whole = machine(behaviour);
        let rest = run(&whole, &WANTS_NEW, behaviour).await;
        check_end(&whole, &rest, behaviour, &format!("{behaviour:?}"));
        let operations = whole.state().operations;
        assert!(operations > 15, "{behaviour:?}: {operations}");
        for death in Death::ALL {
            for at in 1..=operations {
                let case = format!("{behaviour:?}, power cut {death:?} operation {at}");
                let world = machine(behaviour);
                world.revive(Some((at, death)));
                let mut rest = run(&world, &WANTS_NEW, behaviour).await;
                // Whatever has happened, there is a program that can be started.
                assert!([digest("old"), digest("new")].contains(&installed(&world)), "{case}");
                world.revive(None);
                if rest == Rest::Dark {
                    rest = run(&world, &WANTS_NEW, behaviour).await;
                }
                check_end(&world, &rest, behaviour, &case);
            }
        }
    }
}

#[tokio::test]
async fn a_program_that_crashes_is_started_a_few_times() {
    let world = machine(Behaviour::Crashes);
    let Some((Restart::Needed, _)) = agent(&world, &WANTS_NEW, digest("old")).await else {
        panic!("replaced")
    };
    for start_number in 1..=MOST_STARTS {
        let guarded = guard(&world, &places(), Occasion::Start, start()).await.unwrap();
        assert_eq!(
            (guarded, installed(&world)),
            (Guarded::OnTrial { starts: start_number }, digest("new")),
            "start {start_number}"
        );
    }
    let guarded = guard(&world, &places(), Occasion::Start, start()).await.unwrap();
    assert_eq!((guarded, installed(&world)), (Guarded::Returned, digest("old")));
    assert_eq!(guard(&world, &places(), Occasion::Start, start()).await.unwrap(), Guarded::Nothing);
}

#[tokio::test]
async fn what_was_rejected_is_not_tried_again_until_the_plan_names_another() {
    let world = machine(Behaviour::Refuses);
    let check = format!("{} check", places().next);
    for _ in 0..3 {
        run(&world, &WANTS_NEW, Behaviour::Refuses).await;
        assert_eq!(world.started(&check), 1);
    }
    // Another revision that names the same program.
    run(&world, &plan_naming(2, Some("new")), Behaviour::Refuses).await;
    assert_eq!(world.started(&check), 1);
    let rest = run(&world, &plan_naming(3, Some("newer")), Behaviour::Works).await;
    assert_eq!((world.started(&check), installed(&world)), (2, digest("newer")));
    assert!(matches!(rest, Rest::Agent(Some(reported)) if reported.rejected.is_none()));
}

#[tokio::test]
async fn a_plan_that_names_no_program_changes_nothing() {
    let world = machine(Behaviour::Works);
    let rest = run(&world, &plan_naming(1, None), Behaviour::Works).await;
    assert!(matches!(rest, Rest::Agent(Some(reported)) if reported.sha256 == digest("old")));
    assert_eq!((installed(&world), world.content(places().previous.as_str())), (digest("old"), None));
    // And an agent that cannot replace itself does nothing about one that does.
    let journal = Journal::open(world.clone()).await.unwrap();
    let mut engine = Engine::new(world.clone(), journal, TestClock::new());
    let named = plan_naming(2, Some("new"));
    engine.apply(&named, &open(&named), |_| ()).await.unwrap();
    assert_eq!(engine.replace_program(&named).await, Restart::NotNeeded);
    assert_eq!((engine.agent_program(), installed(&world)), (None, digest("old")));
}

#[tokio::test]
async fn a_full_disk_is_reported_and_waited_for() {
    let world = machine(Behaviour::Works);
    let journal = Journal::open(world.clone()).await.unwrap();
    let clock = TestClock::new();
    let mut engine = Engine::new(world.clone(), journal, clock.clone()).replacing(places(), digest("old"));
    engine.apply(&WANTS_NEW, &open(&WANTS_NEW), |_| ()).await.unwrap();
    world.state().full = true;
    for _ in 0..2 {
        assert_eq!(engine.replace_program(&WANTS_NEW).await, Restart::NotNeeded);
        let message = engine.agent_program().unwrap().message.expect("a message");
        assert!(message.contains("it is tried again"), "{message}");
    }
    world.state().full = false;
    assert_eq!(engine.replace_program(&WANTS_NEW).await, Restart::NotNeeded, "not at once");
    clock.sleep_until_elapsed(clock.elapsed() + std::time::Duration::from_secs(301)).await;
    assert_eq!(engine.replace_program(&WANTS_NEW).await, Restart::Needed);
    assert_eq!(engine.agent_program().unwrap().message, None);
}
