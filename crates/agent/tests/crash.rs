//! Killed at every single operation of machine and disk, the engine comes back and ends where it would have ended.

use crate::support::world::{Death, Node, ROOT, State, World};
use crate::support::{
    TestClock, Verbs, artifact, check, file, folder, gate, name, open, path, run, shut, steps, tree, unit,
};
use capstan_agent::journal::{History, OnceRun};
use capstan_agent::{Advance, Clock as _, Engine, EngineError, Journal, Reset};
use capstan_plan::{EnvVar, OpenGates, Phase, Progress, VerifiedPlan};
use std::sync::LazyLock;
use std::time::Duration;

fn before() -> World {
    World::with(&[
        ("/etc/motd", "welcome"),
        ("/usr/bin/sh", ""),
        ("/etc/systemd/system/other.service", "[Unit]"),
    ])
}

/// The same on a machine whose commands outlive the agent.
fn supervised() -> World {
    let world = before();
    world.state().supervises = true;
    world
}

/// Three plans that between them use every kind of step, rule, guard and change. Signed once: that takes its time.
fn plans() -> &'static [VerifiedPlan; 3] {
    static PLANS: LazyLock<[VerifiedPlan; 3]> = LazyLock::new(write_plans);
    &PLANS
}

fn write_plans() -> [VerifiedPlan; 3] {
    let common = |content: &str, version: &str| {
        // What the unit leaves behind is ended by something that leaves the machine with the same plan.
        let stop = format!("/opt/app/{version}/content {version}");
        let program = format!("[Service]\nExecStart=/opt/app/{version}/content\n");
        vec![
            folder("folder", "/etc/app"),
            file("config", "/etc/app/config", content),
            tree("software", &format!("/opt/app/{version}"), version),
            artifact("tool", "/usr/local/bin/tool", version, None),
            run("install", "touch /usr/bin/app").once().creates("/usr/bin/app").undo("rm /usr/bin/app"),
            run("init", "init").once(),
            run("flaky", "flaky 2").retried(5),
            gate("drained"),
            unit("app", "app.service", &program, version).after(&["config"]).ended_by(&stop),
            run("restart", "restart").after(&["config"]),
            check("ready", "ready"),
        ]
    };
    let mut first = common("a=1", "v1");
    first.push(file("motd", "/etc/motd", "managed"));
    first.push(file("deep", "/opt/a/b/c", "x"));
    first.push(unit("side", "side.service", "[Service]\n", "1").ended_by("end-side"));
    let mut second = common("a=1", "v2");
    second.push(run("always", "always").always());
    let mut third = common("a=2", "v2");
    third.push(run("always", "always").always());
    [steps(1, first), steps(2, second), steps(3, third)]
}

type TestEngine = Engine<World, World, TestClock>;

/// The agent has died.
#[derive(Debug)]
struct Died;

impl From<EngineError> for Died {
    fn from(_: EngineError) -> Self {
        Self
    }
}

/// Carries a plan out, until it is done or the agent dies. A dead machine may look like one that cannot be asked what runs
/// on it, which the engine would ask for ever.
async fn apply(engine: &mut TestEngine, plan: &VerifiedPlan, gates: &OpenGates) -> Result<Progress, Died> {
    loop {
        match engine.advance(plan, gates, &mut |_| ()).await? {
            _ if engine.machine().state().dead => return Err(Died),
            Advance::Moved => {}
            Advance::Wait(until) => engine.clock().sleep_until(until).await,
            Advance::Gate(progress) | Advance::Rest(progress) => return Ok(progress),
        }
    }
}

/// One life of the agent: goes as far as it can. Somebody opens the gates when they are waited for.
async fn live(world: &World, clock: &TestClock) -> Result<Vec<Progress>, Died> {
    let journal = Journal::open(world.clone()).await.map_err(|_| Died)?;
    let mut engine = Engine::new(world.clone(), journal, clock.clone());
    let mut ends = Vec::new();
    for plan in plans() {
        // A plan that is behind us is refused; that is how a restarted agent meets an old Secret, too.
        let mut end = apply(&mut engine, plan, &shut(plan)).await?;
        if end.phase == Phase::Waiting {
            end = apply(&mut engine, plan, &open(plan)).await?;
        }
        ends.push(end);
    }
    Ok(ends)
}

/// Units that were not there before us.
fn ours(state: &State) -> Vec<&str> {
    state.units.keys().map(String::as_str).filter(|name| *name != "other.service").collect()
}

async fn undo(world: &World) -> Result<Reset, Died> {
    let journal = Journal::open(world.clone()).await.map_err(|_| Died)?;
    Ok(Engine::new(world.clone(), journal, TestClock::new()).reset(None).await?)
}

fn once_is_open(world: &World) -> bool {
    let decoded = capstan_agent::journal::decode(&world.state().journal).unwrap();
    let mut history = History::default();
    decoded.entries.into_iter().for_each(|entry| history.record(entry));
    history.once.values().flat_map(|runs| runs.values()).any(|run| matches!(run, OnceRun::Open { .. }))
}

/// What must hold however often it was killed.
fn check_end(world: &World, ends: &[Progress], once_was_open: bool, case: &str) {
    let last = ends.last().unwrap();
    for command in ["init", "touch /usr/bin/app"] {
        assert!(world.started(command) <= 1, "{case}: `{command}` ran {} times", world.started(command));
    }
    match last.phase {
        Phase::Applied => {
            assert_eq!((world.started("init"), world.started("touch /usr/bin/app")), (1, 1), "{case}");
            assert!(world.started("restart") >= 2 && world.started("always") >= 1, "{case}");
            assert_eq!(world.content("/etc/app/config").as_deref(), Some("a=2"), "{case}");
            assert_eq!(world.content("/etc/motd").as_deref(), Some("welcome"), "{case}");
            assert_eq!(world.content("/opt/a/b/c"), None, "{case}");
            assert!(!world.state().nodes.contains_key(&path("/opt/app/v1")), "{case}");
            let state = world.state();
            assert!(state.kept.is_empty(), "{case}: nothing is left to restore");
            // Started, restarted for the version, restarted for the file that is its input; never once more.
            assert_eq!((ours(&state), state.units["app.service"].runs), (vec!["app.service"], 3), "{case}");
            assert_eq!(state.fetched.len(), 1, "{case}: what this plan has, and nothing else");
        }
        Phase::Failed => {
            // Only where nobody can know whether a command that must not run twice has run.
            assert!(once_was_open, "{case}: {last:?}");
            assert!(last.message.as_deref().unwrap().contains("may have had its effect"), "{case}: {last:?}");
        }
        other => panic!("{case}: {other:?}"),
    }
}

async fn check_undo(world: &World, case: &str) {
    let reset = undo(world).await.unwrap();
    assert_eq!(reset, Reset::Clean, "{case}");
    assert_eq!(world.state().nodes, before().state().nodes, "{case}");
    let state = world.state();
    assert!(state.journal.is_empty() && state.kept.is_empty() && state.fetched.is_empty(), "{case}");
    assert_eq!(state.plan, None, "{case}");
    assert_eq!(ours(&state), [""; 0], "{case}");
}

#[tokio::test]
async fn killed_at_every_operation_it_ends_where_it_would_have_ended() {
    let whole = before();
    let ends = live(&whole, &TestClock::new()).await.unwrap();
    assert!(ends.iter().all(|end| end.phase == Phase::Applied), "{ends:?}");
    let operations = whole.state().operations;
    let tree = whole.state().nodes.clone();
    let units = whole.state().units.clone();
    assert!(operations > 200, "{operations}");

    let mut failed = 0;
    for death in Death::ALL {
        for at in 1..=operations {
            let case = format!("killed {death:?} operation {at}");
            let (world, clock) = (before(), TestClock::new());
            world.revive(Some((at, death)));
            assert!(live(&world, &clock).await.is_err(), "{case}: it should have died");
            let once_was_open = once_is_open(&world);
            world.revive(None);
            let ends = live(&world, &clock).await.unwrap();
            check_end(&world, &ends, once_was_open, &case);
            if ends.last().unwrap().phase == Phase::Applied {
                assert_eq!(world.state().nodes, tree, "{case}");
                assert_eq!(world.state().units, units, "{case}");
            } else {
                failed += 1;
            }
            check_undo(&world, &case).await;
        }
    }
    // For each of the two: when it was said to begin but not begun (twice), and in its middle; and for the one
    // without a guard also when it had run but its end was not written down.
    assert!((4..=12).contains(&failed), "{failed} of {} ended in doubt", 3 * operations);
}

/// What must not run more often than it would have run. Neither guards nor checks nor `systemctl` are commands.
const COMMANDS: [&str; 9] = [
    "touch /usr/bin/app",
    "init",
    "flaky 2",
    "restart",
    "always",
    "end-side",
    "/opt/app/v1/content v1",
    "/opt/app/v2/content v2",
    "rm /usr/bin/app",
];

fn counts(world: &World) -> [usize; COMMANDS.len()] {
    COMMANDS.map(|command| world.started(command))
}

#[tokio::test]
async fn where_commands_outlive_the_agent_none_is_run_twice() {
    let whole = supervised();
    live(&whole, &TestClock::new()).await.unwrap();
    let operations = whole.state().operations;
    let tree = whole.state().nodes.clone();
    let expected = counts(&whole);
    check_undo(&whole, "uninterrupted").await;
    let undone = counts(&whole);
    let mut failed = 0;
    for death in Death::ALL {
        for at in 1..=operations {
            let case = format!("killed {death:?} operation {at}");
            let (world, clock) = (supervised(), TestClock::new());
            world.revive(Some((at, death)));
            assert!(live(&world, &clock).await.is_err(), "{case}: it should have died");
            let once_was_open = once_is_open(&world);
            world.revive(None);
            let ends = live(&world, &clock).await.unwrap();
            check_end(&world, &ends, once_was_open, &case);
            if ends.last().unwrap().phase == Phase::Applied {
                assert_eq!(world.state().nodes, tree, "{case}");
                assert_eq!(counts(&world), expected, "{case}: {COMMANDS:?}");
                assert!(world.state().commands.is_empty(), "{case}: {:?}", world.state().commands);
                check_undo(&world, &case).await;
                assert_eq!(counts(&world), undone, "{case}: {COMMANDS:?}");
            } else {
                failed += 1;
                check_undo(&world, &case).await;
            }
            assert_eq!(world.state().ended, [""; 0], "{case}: nothing was ended");
        }
    }
    // For each of the two: when it was said to begin but was not begun (twice). What was begun is found.
    assert_eq!(failed, 4, "of {} ended in doubt", 3 * operations);
}

#[tokio::test]
async fn where_commands_outlive_a_reset_none_is_run_twice() {
    let whole = supervised();
    live(&whole, &TestClock::new()).await.unwrap();
    let applied = whole.state().operations;
    check_undo(&whole, "uninterrupted").await;
    let operations = whole.state().operations - applied;
    let expected = counts(&whole);
    for death in Death::ALL {
        for at in 1..=operations {
            let case = format!("reset killed {death:?} operation {at}");
            let world = supervised();
            live(&world, &TestClock::new()).await.unwrap();
            world.revive(Some((at, death)));
            let _ = undo(&world).await;
            world.revive(None);
            check_undo(&world, &case).await;
            assert_eq!(counts(&world), expected, "{case}: {COMMANDS:?}");
            assert!(world.state().commands.is_empty(), "{case}: {:?}", world.state().commands);
        }
    }
}

#[tokio::test]
async fn killed_at_every_operation_of_a_reset_it_still_ends_clean() {
    let whole = before();
    live(&whole, &TestClock::new()).await.unwrap();
    let applied = whole.state().operations;
    check_undo(&whole, "uninterrupted").await;
    let operations = whole.state().operations - applied;
    assert!(operations > 10, "{operations}");
    for death in Death::ALL {
        for at in 1..=operations {
            let case = format!("reset killed {death:?} operation {at}");
            let world = before();
            live(&world, &TestClock::new()).await.unwrap();
            world.revive(Some((at, death)));
            // At the very end it may die and yet have told.
            let _ = undo(&world).await;
            world.revive(None);
            check_undo(&world, &case).await;
        }
    }
}

const SECRET: &str = "undo-s3cret-value";

/// A plan whose undo needs a secret.
fn secretive() -> &'static VerifiedPlan {
    static PLAN: LazyLock<VerifiedPlan> = LazyLock::new(|| {
        let join = run("join", "join").undo("leave").command(|command| {
            let undo = command.undo.as_mut().unwrap();
            undo.env = vec![EnvVar::new("MODE", "all"), EnvVar::secret("TOKEN", SECRET)];
        });
        steps(1, vec![file("motd", "/etc/motd", "managed"), join, run("ready", "ready")])
    });
    &PLAN
}

/// Carries the plan out, and takes it back. Whatever happens, the secret is not in the journal.
async fn live_secretly(world: &World) -> Result<(), Died> {
    let journal = Journal::open(world.clone()).await.map_err(|_| Died)?;
    let mut engine = Engine::new(world.clone(), journal, TestClock::new());
    let progress = apply(&mut engine, secretive(), &shut(secretive())).await;
    let is_told = world.state().journal.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    assert!(!is_told, "the secret is in the journal");
    // A reset that was interrupted refuses plans.
    assert!(matches!(progress?.phase, Phase::Applied | Phase::Refused));
    match engine.reset(None).await? {
        Reset::Clean => Ok(()),
        Reset::Left(_) if world.state().dead => Err(Died),
        Reset::Left(left) => panic!("{left:?}"),
    }
}

#[tokio::test]
async fn killed_at_every_operation_secrets_of_an_undo_are_kept_until_it_is_done() {
    let whole = supervised();
    live_secretly(&whole).await.unwrap();
    let operations = whole.state().operations;
    assert!(operations > 30, "{operations}");
    for death in Death::ALL {
        for at in 1..=operations {
            let case = format!("killed {death:?} operation {at}");
            let world = supervised();
            world.revive(Some((at, death)));
            let died = live_secretly(&world).await;
            world.revive(None);
            if died.is_err() {
                live_secretly(&world).await.unwrap();
            }
            let state = world.state();
            let variables = [("MODE", "all"), ("TOKEN", SECRET)].map(|(a, b)| (a.to_owned(), b.to_owned()));
            assert_eq!(state.variables["leave"], variables, "{case}");
            assert!(state.kept.is_empty() && state.journal.is_empty(), "{case}");
            assert_eq!(state.nodes, before().state().nodes, "{case}");
        }
    }
}

/// Others change everything that the last plan has put there.
fn sabotage(world: &World) {
    let mut state = world.state();
    let theirs = |bytes: &[u8]| Node::File(bytes.to_vec(), ROOT);
    state.nodes.insert(path("/etc/app/config"), theirs(b"wrong"));
    state.nodes.insert(path("/opt/app/v2/content"), theirs(b"wrong"));
    state.nodes.insert(path("/etc/systemd/system/app.service"), theirs(b"wrong"));
    state.nodes.remove(&path("/usr/local/bin/tool"));
    let unit = state.units.get_mut("app.service").unwrap();
    (unit.active, unit.enabled, unit.running) = (false, false, None);
}

/// An agent that is started anew looks after the machine, for a while.
async fn look_after(world: &World, clock: &TestClock) -> Result<(), Died> {
    let journal = Journal::open(world.clone()).await.map_err(|_| Died)?;
    let mut engine = Engine::new(world.clone(), journal, clock.clone());
    for _ in 0..3 {
        engine.patrol(&plans()[2]).await?;
        if engine.machine().state().dead {
            return Err(Died);
        }
        clock.pass(Duration::from_hours(1));
    }
    Ok(())
}

#[tokio::test]
async fn killed_at_every_operation_of_a_repair_the_next_one_ends_it() {
    let whole = before();
    live(&whole, &TestClock::new()).await.unwrap();
    let tree = whole.state().nodes.clone();
    let mut units = whole.state().units.clone();
    let applied = whole.state().operations;
    sabotage(&whole);
    look_after(&whole, &TestClock::new()).await.unwrap();
    units.get_mut("app.service").unwrap().runs += 1;
    assert_eq!(whole.state().nodes, tree);
    assert_eq!(whole.state().units, units);
    let operations = whole.state().operations - applied;
    assert!(operations > 30, "{operations}");
    for death in Death::ALL {
        for at in 1..=operations {
            let case = format!("repair killed {death:?} operation {at}");
            let (world, clock) = (before(), TestClock::new());
            live(&world, &clock).await.unwrap();
            sabotage(&world);
            world.revive(Some((at, death)));
            assert!(look_after(&world, &clock).await.is_err(), "{case}: it should have died");
            world.revive(None);
            look_after(&world, &clock).await.unwrap();
            assert_eq!(world.state().nodes, tree, "{case}");
            assert_eq!(world.state().units, units, "{case}: started once");
            check_undo(&world, &case).await;
        }
    }
}

/// What runs was started from a changed file: that is written down before the file is put right.
#[tokio::test]
async fn killed_at_every_operation_a_needed_restart_is_done_once_or_not_begun() {
    let prepare = async |world: &World, clock: &TestClock| {
        live(world, clock).await.unwrap();
        let journal = Journal::open(world.clone()).await.unwrap();
        let mut engine = Engine::new(world.clone(), journal, clock.clone());
        engine.patrol(&plans()[2]).await.unwrap();
        let mut state = world.state();
        state.nodes.insert(path("/etc/app/config"), Node::File(b"wrong".to_vec(), ROOT));
        state.units.get_mut("app.service").unwrap().runs += 1;
        drop(state);
        engine
    };
    let mut restarted = 0;
    for death in Death::ALL {
        for at in 1.. {
            let case = format!("killed {death:?} operation {at}");
            let (world, clock) = (before(), TestClock::new());
            let mut engine = prepare(&world, &clock).await;
            let runs = world.state().units["app.service"].runs;
            world.revive(Some((at, death)));
            let _ = engine.patrol(&plans()[2]).await;
            let is_whole = !world.state().dead;
            drop(engine);
            world.revive(None);
            look_after(&world, &clock).await.unwrap();
            assert_eq!(world.content("/etc/app/config").as_deref(), Some("a=2"), "{case}");
            let more = world.state().units["app.service"].runs - runs;
            assert!(more <= 1, "{case}: {more} restarts");
            restarted += more;
            if is_whole {
                assert_eq!(more, 1, "{case}");
                break;
            }
        }
    }
    assert!(restarted > 20, "{restarted}");
}

/// A small generator, so that a seed says everything.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most as u64).unwrap()
    }
}

/// `CAPSTAN_SEED=n cargo test -p capstan-agent --test agent_crate crash` replays one case.
#[tokio::test]
async fn killed_again_and_again_it_ends_where_it_would_have_ended() {
    let replayed = std::env::var("CAPSTAN_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    let seeds = replayed.map_or(1..301, |seed| seed..seed + 1);
    let mut restarts = 0;
    for seed in seeds {
        let case = format!("CAPSTAN_SEED={seed}");
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (world, clock) = (before(), TestClock::new());
        let mut once_was_open = false;
        let ends = loop {
            let death = Death::ALL[random.below(3)];
            // Long enough to get anywhere, short enough to be killed often; never for ever.
            let fuse = (random.below(8) > 0).then(|| (10 + random.below(60), death));
            world.revive(fuse);
            if let Ok(ends) = live(&world, &clock).await {
                break ends;
            }
            restarts += 1;
            once_was_open |= once_is_open(&world);
        };
        world.revive(None);
        check_end(&world, &ends, once_was_open, &case);
        check_undo(&world, &case).await;
    }
    assert!(replayed.is_some() || restarts > 300, "{restarts} restarts");
}

#[tokio::test]
async fn a_step_that_always_interrupts_the_agent_is_given_up() {
    let plan = steps(1, vec![run("crash", "crash")]);
    let (world, clock) = (World::default(), TestClock::new());
    let mut lives = 0;
    let end = loop {
        lives += 1;
        assert!(lives < 50);
        world.revive(None);
        let journal = Journal::open(world.clone()).await.unwrap();
        let mut engine = Engine::new(world.clone(), journal, clock.clone());
        // Dies in the middle of the command, whenever it comes to that.
        let fuse = if lives == 1 { 3 } else { 2 };
        world.revive(Some((fuse, Death::Middle)));
        if let Ok(end) = engine.apply(&plan, &shut(&plan), |_| ()).await {
            break end;
        }
    };
    assert_eq!(end.phase, Phase::Failed, "{end:?}");
    assert!(end.message.as_deref().unwrap().contains("interrupted 11 times"), "{end:?}");
    assert_eq!(end.step.unwrap().name, name("crash"));
}
