//! What plans have put on a machine is changed by others: it is seen, put right and told, at rest, between plans and during one.

use crate::support::world::{Node, ROOT, State, Unit, World};
use crate::support::{
    TestClock, Verbs, artifact, check, file, folder, gate, name, open, path, plan as unsigned, run, shut,
    steps, tree, unit, verified,
};
use capstan_agent::drift::MOST_RESTARTS;
use capstan_agent::{Advance, Engine, Journal, Reset};
use capstan_plan::{Drift, MachinePlan, OnDrift, Phase, Progress, Step, VerifiedPlan};
use std::collections::BTreeMap;
use std::time::Duration;

type TestEngine = Engine<World, World, TestClock>;

const APP: &str = "app.service";
const HOUR: Duration = Duration::from_hours(1);

async fn engine(world: &World) -> TestEngine {
    Engine::new(world.clone(), Journal::open(world.clone()).await.unwrap(), TestClock::new())
}

async fn apply(engine: &mut TestEngine, plan: &VerifiedPlan) -> Progress {
    engine.apply(plan, &open(plan), |_| ()).await.unwrap()
}

/// Software, its configuration, and what runs it, as in a plan for k3s.
fn app(revision: u64) -> Vec<Step> {
    let program = "[Service]\nExecStart=/opt/app/bin\n";
    let mut steps = vec![
        file("motd", "/etc/motd", "managed"),
        artifact("program", "/opt/app/bin", "v1", None),
        tree("tools", "/opt/tools", "v1"),
        gate("drained"),
        folder("folder", "/etc/app.d"),
        file("config", "/etc/app", "right"),
        unit("app", APP, program, "1"),
    ];
    steps.push(run("note", &format!("echo {revision}")));
    steps
}

fn plan(revision: u64) -> VerifiedPlan {
    steps(revision, app(revision))
}

fn put(state: &mut State, at: &str, content: &str) {
    let metadata = match state.nodes.get(&path(at)) {
        Some(Node::File(_, metadata)) => *metadata,
        _ => ROOT,
    };
    state.nodes.insert(path(at), Node::File(content.as_bytes().to_vec(), metadata));
}

fn chmod(state: &mut State, at: &str, bits: u32) {
    match state.nodes.get_mut(&path(at)).unwrap() {
        Node::File(_, metadata) | Node::Directory(metadata) => metadata.mode = bits,
    }
}

fn app_of(state: &mut State) -> &mut Unit {
    state.units.get_mut(APP).unwrap()
}

type Sabotage = (&'static str, fn(&mut State), &'static str, &'static str);

/// What others do, the step it is found at, and what is said of it.
const SABOTAGE: [Sabotage; 15] = [
    ("a deleted file", |s| drop(s.nodes.remove(&path("/etc/app"))), "config", "/etc/app is missing"),
    ("a changed file", |s| put(s, "/etc/app", "wrong"), "config", "/etc/app has other content"),
    ("a longer file", |s| put(s, "/etc/app", "right, but"), "config", "/etc/app has other content"),
    ("a changed mode", |s| chmod(s, "/etc/app", 0o777), "config", "/etc/app has mode 0777"),
    ("a file of no unit", |s| put(s, "/etc/motd", "wrong"), "motd", "/etc/motd has other content"),
    ("a removed folder", |s| drop(s.nodes.remove(&path("/etc/app.d"))), "folder", "/etc/app.d is missing"),
    ("a folder's mode", |s| chmod(s, "/etc/app.d", 0o700), "folder", "/etc/app.d has mode 0700"),
    ("a removed program", |s| drop(s.nodes.remove(&path("/opt/app/bin"))), "program", "is missing"),
    ("a changed program", |s| put(s, "/opt/app/bin", "wrong"), "program", "/opt/app/bin has other content"),
    ("a changed tree", |s| put(s, "/opt/tools/content", "x"), "tools", "/opt/tools has other content"),
    (
        "a removed tree",
        |s| s.nodes.retain(|at, _| !at.as_str().starts_with("/opt/tools")),
        "tools",
        "missing",
    ),
    ("a stopped unit", |s| (app_of(s).active, app_of(s).running) = (false, None), "app", "is inactive"),
    ("a disabled unit", |s| app_of(s).enabled = false, "app", "is not enabled"),
    (
        "a masked unit",
        |s| {
            s.nodes.remove(&path("/etc/systemd/system/app.service"));
            (app_of(s).masked, app_of(s).loaded) = (true, None);
        },
        "app",
        "is masked",
    ),
    (
        "a changed unit file",
        |s| {
            put(s, "/etc/systemd/system/app.service", "[Service]\nExecStart=/bin/false\n");
            app_of(s).loaded = Some(b"[Service]\nExecStart=/bin/false\n".to_vec());
        },
        "app",
        "/etc/systemd/system/app.service has other content",
    ),
];

/// What is to be the same afterwards: all but how often the unit was started, and what was running when it was.
fn whole(world: &World) -> (BTreeMap<capstan_plan::MachinePath, Node>, Option<Unit>) {
    let state = world.state();
    let unit = state.units.get(APP).map(|unit| Unit { runs: 0, running: None, ..unit.clone() });
    (state.nodes.clone(), unit)
}

fn runs(world: &World) -> usize {
    world.state().units[APP].runs
}

fn reported<'a>(drift: &'a [Drift], step: &str) -> &'a Drift {
    drift.iter().find(|drift| drift.step == name(step)).unwrap_or_else(|| panic!("{step} in {drift:?}"))
}

#[tokio::test]
async fn at_rest_everything_is_put_right_and_reported() {
    for (case, sabotage, step, said) in SABOTAGE {
        let world = World::default();
        let mut engine = engine(&world).await;
        assert_eq!(apply(&mut engine, &plan(1)).await.phase, Phase::Applied);
        let right = whole(&world);
        assert!(!engine.patrol(&plan(1)).await.unwrap(), "{case}: nothing has happened yet");
        sabotage(&mut world.state());
        assert!(engine.patrol(&plan(1)).await.unwrap(), "{case}");
        assert_eq!(whole(&world), right, "{case}");
        let is_down = case == "a stopped unit";
        assert_eq!(runs(&world), 1 + usize::from(is_down), "{case}: what runs is not restarted");
        let drift = engine.drift();
        assert!(reported(&drift, step).found.contains(said), "{case}: {drift:?}");
        // A start is looked at again before it is called a success.
        assert_eq!(reported(&drift, step).repaired.is_some(), !is_down, "{case}: {drift:?}");
        engine.patrol(&plan(1)).await.unwrap();
        assert!(engine.drift().iter().all(|drift| drift.repaired.is_some()), "{case}");
        assert_eq!(whole(&world), right, "{case}");
        assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean, "{case}");
        assert!(world.state().nodes.is_empty(), "{case}");
    }
}

#[tokio::test]
async fn between_plans_no_step_is_skipped_whose_effect_is_gone() {
    for (case, sabotage, step, said) in SABOTAGE {
        let world = World::default();
        let mut engine = engine(&world).await;
        assert_eq!(apply(&mut engine, &plan(1)).await.phase, Phase::Applied);
        let right = whole(&world);
        sabotage(&mut world.state());
        // Also by an agent that was started in between.
        let (machine, store) = engine.into_parts();
        let mut engine = Engine::new(machine, Journal::open(store).await.unwrap(), TestClock::new());
        assert_eq!(apply(&mut engine, &plan(2)).await.phase, Phase::Applied);
        assert_eq!(whole(&world), right, "{case}");
        assert_eq!(runs(&world), 1 + usize::from(case == "a stopped unit"), "{case}");
        let drift = engine.drift();
        let found = reported(&drift, step);
        assert!(found.found.contains(said) && found.repaired.is_some(), "{case}: {drift:?}");
    }
}

/// `ready` waits for what somebody takes away meanwhile.
#[tokio::test]
async fn during_a_plan_what_a_step_waits_for_is_put_right() {
    for (case, sabotage, ..) in SABOTAGE {
        let world = World::default();
        let mut engine = engine(&world).await;
        let mut all = app(1);
        all.push(check("ready", "flaky 3").retried(9));
        let plan = steps(1, all);
        let mut right = None;
        let end = loop {
            match engine.advance(&plan, &open(&plan), &mut |_| ()).await.unwrap() {
                Advance::Moved => {}
                Advance::Wait(_) => {
                    if right.is_none() {
                        right = Some(whole(&world));
                        sabotage(&mut world.state());
                    }
                    engine.patrol(&plan).await.unwrap();
                    assert_eq!(Some(whole(&world)), right, "{case}");
                    engine.clock().pass(Duration::from_mins(1));
                }
                Advance::Gate(progress) | Advance::Rest(progress) => break progress,
            }
        };
        assert_eq!(end.phase, Phase::Applied, "{case}");
        assert!(right.is_some() && !engine.drift().is_empty(), "{case}");
    }
}

#[tokio::test]
async fn at_a_closed_gate_files_are_put_right_and_no_unit_is_started() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let before = |revision| {
        steps(
            revision,
            vec![
                file("motd", "/etc/motd", "managed"),
                unit("app", APP, "[Service]\n", "1"),
                gate("drained"),
                file("config", "/etc/app", "right"),
            ],
        )
    };
    assert_eq!(apply(&mut engine, &before(1)).await.phase, Phase::Applied);
    let second = before(2);
    let waits = engine.apply(&second, &shut(&second), |_| ()).await.unwrap();
    assert_eq!(waits.phase, Phase::Waiting);
    {
        let mut state = world.state();
        put(&mut state, "/etc/motd", "wrong");
        put(&mut state, "/etc/app", "behind the gate");
        app_of(&mut state).active = false;
    }
    for _ in 0..3 {
        engine.patrol(&second).await.unwrap();
        engine.clock().pass(HOUR);
    }
    assert_eq!(world.content("/etc/motd").as_deref(), Some("managed"));
    assert_eq!(world.content("/etc/app").as_deref(), Some("behind the gate"), "that is the plan's to do");
    assert_eq!((runs(&world), world.state().units[APP].active), (1, false));
    let drift = engine.drift();
    let found = reported(&drift, "app");
    assert_eq!(found.repaired, None);
    assert_eq!(
        found.message.as_deref(),
        Some("systemctl start waits until the gates of the plan were passed"),
        "{drift:?}"
    );
    assert_eq!(apply(&mut engine, &second).await.phase, Phase::Applied);
    assert_eq!(world.content("/etc/app").as_deref(), Some("right"));
    engine.patrol(&second).await.unwrap();
    assert_eq!((runs(&world), world.state().units[APP].active), (2, true));
}

#[tokio::test]
async fn a_unit_is_restarted_only_if_it_was_started_from_what_was_changed() {
    let world = World::default();
    let mut engine = engine(&world).await;
    apply(&mut engine, &plan(1)).await;
    engine.patrol(&plan(1)).await.unwrap();
    for (case, restarts, expected) in [
        ("it was running before", false, 1),
        // By itself or by somebody, and then by the agent.
        ("it was started from that", true, 3),
        ("and once more, after a while", true, 5),
    ] {
        {
            let mut state = world.state();
            put(&mut state, "/etc/app", "wrong");
            app_of(&mut state).runs += usize::from(restarts);
        }
        engine.patrol(&plan(1)).await.unwrap();
        assert_eq!(world.content("/etc/app").as_deref(), Some("right"), "{case}");
        assert_eq!(runs(&world), expected, "{case}");
        engine.clock().pass(7 * HOUR);
        engine.patrol(&plan(1)).await.unwrap();
        assert_eq!(runs(&world), expected, "{case}: once");
        assert!(engine.drift().iter().all(|drift| drift.repaired.is_some()), "{case}: {:?}", engine.drift());
    }
    // A file that it does not read is no reason.
    put(&mut world.state(), "/etc/motd", "wrong");
    app_of(&mut world.state()).runs += 1;
    engine.patrol(&plan(1)).await.unwrap();
    assert_eq!((runs(&world), world.content("/etc/motd").as_deref()), (6, Some("managed")));
}

#[tokio::test]
async fn an_agent_that_was_away_does_not_restart_what_it_knows_nothing_of() {
    let world = World::default();
    let mut first = engine(&world).await;
    apply(&mut first, &plan(1)).await;
    drop(first);
    put(&mut world.state(), "/etc/app", "wrong");
    app_of(&mut world.state()).runs += 1;
    let mut second = engine(&world).await;
    second.patrol(&plan(1)).await.unwrap();
    assert_eq!((runs(&world), world.content("/etc/app").as_deref()), (2, Some("right")));
}

#[tokio::test]
async fn restarts_are_few_and_starts_are_seldom() {
    let world = World::default();
    let mut engine = engine(&world).await;
    apply(&mut engine, &plan(1)).await;
    engine.patrol(&plan(1)).await.unwrap();
    // Something changes the file and restarts the unit, again and again.
    let mut others = 0;
    for _ in 0..20 {
        put(&mut world.state(), "/etc/app", "wrong");
        app_of(&mut world.state()).runs += 1;
        others += 1;
        engine.patrol(&plan(1)).await.unwrap();
        engine.clock().pass(Duration::from_mins(10));
        engine.patrol(&plan(1)).await.unwrap();
    }
    assert_eq!(runs(&world), 1 + others + MOST_RESTARTS as usize);
    let drift = engine.drift();
    assert!(reported(&drift, "app").message.as_deref().unwrap().contains("again and again"), "{drift:?}");
    assert_eq!(world.content("/etc/app").as_deref(), Some("right"), "files are put right all the same");

    // Something stops it, again and again, also while the agent is restarted: every minute for four hours.
    let before = runs(&world);
    for _ in 0..240 {
        app_of(&mut world.state()).active = false;
        let clock = engine.clock().clone();
        let (machine, store) = engine.into_parts();
        engine = Engine::new(machine, Journal::open(store).await.unwrap(), clock);
        engine.patrol(&plan(1)).await.unwrap();
        engine.clock().pass(Duration::from_mins(1));
    }
    let starts = runs(&world) - before;
    assert!((4..=12).contains(&starts), "{starts} starts in four hours");
}

#[tokio::test]
async fn what_is_only_to_be_reported_is_left_as_it_is() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let only_reported = |revision| {
        let all = app(revision).into_iter();
        steps(revision, all.map(|step| step.edit(|step| step.on_drift = OnDrift::Report)).collect())
    };
    apply(&mut engine, &only_reported(1)).await;
    {
        let mut state = world.state();
        put(&mut state, "/etc/app", "theirs");
        app_of(&mut state).active = false;
    }
    let sabotaged = whole(&world);
    engine.patrol(&only_reported(1)).await.unwrap();
    assert_eq!(apply(&mut engine, &only_reported(2)).await.phase, Phase::Applied);
    engine.patrol(&only_reported(2)).await.unwrap();
    assert_eq!(whole(&world), sabotaged);
    let drift = engine.drift();
    assert_eq!(drift.len(), 2, "{drift:?}");
    assert!(drift.iter().all(|drift| drift.repaired.is_none() && drift.message.is_some()), "{drift:?}");
}

/// The application, with drift that is repaired from two to three in the afternoon. The clock of the tests begins at noon.
fn in_window(revision: u64) -> VerifiedPlan {
    let all = app(revision).into_iter();
    let all = all.map(|step| step.edit(|step| step.on_drift = OnDrift::RepairInWindow)).collect();
    let repair_windows = vec!["daily 14:00-15:00 UTC".to_owned()];
    verified(MachinePlan { repair_windows, ..unsigned(revision, all) })
}

/// Lets time pass, with the checks of an agent at rest.
async fn patrol_for(engine: &mut TestEngine, plan: &VerifiedPlan, minutes: u64) {
    for _ in 0..minutes {
        engine.clock().pass(Duration::from_mins(1));
        engine.patrol(plan).await.unwrap();
    }
}

fn sabotage(world: &World) {
    let mut state = world.state();
    put(&mut state, "/etc/app", "theirs");
    app_of(&mut state).active = false;
}

/// What the report says of the file, if it was not repaired.
fn waits(engine: &TestEngine) -> Option<String> {
    let drift = engine.drift();
    let found = reported(&drift, "config");
    found.repaired.is_none().then(|| found.message.clone().unwrap_or_default())
}

#[tokio::test]
async fn in_windows_drift_is_repaired_and_otherwise_only_reported() {
    let world = World::default();
    let mut engine = engine(&world).await;
    apply(&mut engine, &in_window(1)).await;
    let right = whole(&world);
    patrol_for(&mut engine, &in_window(1), 20).await;
    sabotage(&world);
    let sabotaged = whole(&world);
    assert!(engine.patrol(&in_window(1)).await.unwrap(), "it is reported at once");
    assert_eq!(
        waits(&engine).as_deref(),
        Some("its repair waits for the maintenance window that opens at 2026-11-15T14:00:00Z")
    );
    // A later plan with the same inputs leaves it as it is, too.
    assert_eq!(apply(&mut engine, &in_window(2)).await.phase, Phase::Applied);
    patrol_for(&mut engine, &in_window(2), 99).await;
    assert_eq!(whole(&world), sabotaged, "the window is not open yet");
    patrol_for(&mut engine, &in_window(2), 3).await;
    assert_eq!(whole(&world), right);
    assert!(engine.drift().iter().all(|drift| drift.repaired.is_some()), "{:?}", engine.drift());

    patrol_for(&mut engine, &in_window(2), 60).await;
    sabotage(&world);
    patrol_for(&mut engine, &in_window(2), 60).await;
    assert_eq!(whole(&world), sabotaged, "the window has closed");
    assert_eq!(
        waits(&engine).as_deref(),
        Some("its repair waits for the maintenance window that opens at 2026-11-16T14:00:00Z")
    );
}

/// The file is repaired at once, and what reads it is restarted in the window only.
#[tokio::test]
async fn a_unit_whose_file_was_repaired_before_the_window_is_restarted_in_it() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let all = app(1).into_iter().map(|step| {
        let is_unit = step.name == name("app");
        step.edit(|step| {
            if is_unit {
                step.on_drift = OnDrift::RepairInWindow;
            }
        })
    });
    let repair_windows = vec!["daily 14:00-15:00 UTC".to_owned()];
    let plan = verified(MachinePlan { repair_windows, ..unsigned(1, all.collect()) });
    apply(&mut engine, &plan).await;
    patrol_for(&mut engine, &plan, 20).await;
    {
        let mut state = world.state();
        put(&mut state, "/etc/app", "wrong");
        app_of(&mut state).runs += 1;
    }
    patrol_for(&mut engine, &plan, 60).await;
    assert_eq!((world.content("/etc/app").as_deref(), runs(&world)), (Some("right"), 2));
    let drift = engine.drift();
    let found = reported(&drift, "app");
    assert!(found.repaired.is_none() && found.message.as_ref().is_some_and(|why| why.contains("window")));
    patrol_for(&mut engine, &plan, 60).await;
    assert_eq!(runs(&world), 3, "the window is open");
    assert!(engine.drift().iter().all(|drift| drift.repaired.is_some()), "{:?}", engine.drift());
}

#[tokio::test]
async fn a_clock_that_was_set_opens_no_window() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let plan = in_window(1);
    apply(&mut engine, &plan).await;
    let right = whole(&world);
    patrol_for(&mut engine, &plan, 20).await;
    sabotage(&world);
    let sabotaged = whole(&world);
    engine.clock().set("2026-11-15T14:10:00Z".parse().unwrap());
    patrol_for(&mut engine, &plan, 10).await;
    assert_eq!(whole(&world), sabotaged);
    assert!(waits(&engine).is_some_and(|why| why.contains("run evenly for ten minutes")));
    patrol_for(&mut engine, &plan, 2).await;
    assert_eq!(whole(&world), right);

    // Nor does one that an agent has just begun to read.
    sabotage(&world);
    let clock = engine.clock().clone();
    let (machine, store) = engine.into_parts();
    let mut engine = Engine::new(machine, Journal::open(store).await.unwrap(), clock);
    patrol_for(&mut engine, &plan, 10).await;
    assert_eq!(whole(&world), sabotaged);
    patrol_for(&mut engine, &plan, 2).await;
    assert_eq!(whole(&world), right);

    // A clock of before the plan was made is wrong.
    sabotage(&world);
    engine.clock().set("2026-01-01T14:10:00Z".parse().unwrap());
    patrol_for(&mut engine, &plan, 20).await;
    assert_eq!(whole(&world), sabotaged);
    assert!(waits(&engine).is_some_and(|why| why.contains("before the plan was made")));
}

#[tokio::test]
async fn what_cannot_be_put_right_is_reported_and_tried_rarely() {
    let world = World::default();
    let mut engine = engine(&world).await;
    apply(&mut engine, &plan(1)).await;
    world.state().nodes.insert(path("/etc/motd"), Node::Directory(ROOT));
    for _ in 0..100 {
        engine.patrol(&plan(1)).await.unwrap();
        engine.clock().pass(Duration::from_secs(30));
    }
    let drift = engine.drift();
    let found = reported(&drift, "motd");
    assert_eq!(found.found, "/etc/motd is a folder");
    assert_eq!(found.message.as_deref(), Some("cannot repair it: /etc/motd is a folder, not a file"));
    assert_eq!((drift.len(), found.times, found.repaired), (1, 1, None));
}

#[tokio::test]
async fn during_a_reset_and_for_a_plan_that_is_not_current_nothing_is_done() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let stubborn = |revision| {
        let mut all = app(revision);
        all.push(run("room", "room").undo("false"));
        steps(revision, all)
    };
    apply(&mut engine, &stubborn(1)).await;
    put(&mut world.state(), "/etc/motd", "wrong");
    engine.patrol(&stubborn(2)).await.unwrap();
    assert_eq!(world.content("/etc/motd").as_deref(), Some("wrong"), "it was never accepted");
    assert!(matches!(engine.reset(None).await.unwrap(), Reset::Left(_)));
    let nodes = world.state().nodes.clone();
    assert!(!engine.patrol(&stubborn(1)).await.unwrap());
    assert_eq!(world.state().nodes, nodes, "a reset has begun");
    assert!(world.state().units.is_empty());
}
