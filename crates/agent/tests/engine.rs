//! What the engine does with a plan, on a machine in memory.

use crate::support;
use crate::support::world::{Death, Node, World};
use crate::support::{
    TestClock, Verbs, check, file, folder, gate, open, path, plan, run, shut, steps, unit, verified,
};
use capstan_agent::journal::{Entry, archived, decode, joined};
use capstan_agent::{Engine, Journal, Reset};
use capstan_plan::{Epoch, Phase, Progress, VerifiedPlan};
use std::collections::BTreeMap;

type TestEngine = Engine<World, World, TestClock>;

async fn engine(world: &World) -> TestEngine {
    Engine::new(world.clone(), Journal::open(world.clone()).await.unwrap(), TestClock::new())
}

async fn apply(engine: &mut TestEngine, plan: &VerifiedPlan) -> Progress {
    engine.apply(plan, &shut(plan), |_| ()).await.unwrap()
}

fn message(progress: &Progress) -> &str {
    progress.message.as_deref().unwrap_or_default()
}

#[tokio::test]
async fn a_plan_is_carried_out_and_reported_step_by_step() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let plan = steps(
        1,
        vec![
            folder("folder", "/etc/app"),
            file("config", "/etc/app/config", "a=1"),
            run("init", "init").once(),
            check("ready", "ready"),
        ],
    );
    let mut reported = Vec::new();
    let end = engine.apply(&plan, &shut(&plan), |progress| reported.push(progress.clone())).await.unwrap();
    assert_eq!(end.phase, Phase::Applied);
    assert_eq!(end.plan, plan.id());
    assert_eq!(engine.history().applied, Some(plan.id()));
    assert_eq!(world.content("/etc/app/config").as_deref(), Some("a=1"));
    let init: Vec<&Progress> = reported
        .iter()
        .filter(|p| p.step.as_ref().is_some_and(|step| step.name.as_str() == "init"))
        .collect();
    let step = init[0].step.as_ref().unwrap();
    assert_eq!(
        (step.index, step.total, step.exit_code, step.finished),
        (3, 4, None, None),
        "told before it runs"
    );
    let step = init[1].step.as_ref().unwrap();
    assert_eq!((step.exit_code, step.finished.is_some(), init[1].attempts), (Some(0), true, Some(1)));

    // Once more: nothing is done, and the same is told.
    let operations = world.state().journal.len();
    assert_eq!(apply(&mut engine, &plan).await, end);
    assert_eq!(world.state().journal.len(), operations);
    assert_eq!(world.started("init"), 1);
}

#[tokio::test]
async fn steps_are_repeated_as_their_rules_say() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let at = |revision, content: &str| {
        steps(
            revision,
            vec![
                file("config", "/etc/config", content),
                run("once", "once").once().after(&["config"]),
                run("always", "always").always(),
                run("restart", "restart").after(&["config"]),
                run("plain", "plain"),
            ],
        )
    };
    let counts = |world: &World| ["once", "always", "restart", "plain"].map(|command| world.started(command));
    apply(&mut engine, &at(1, "a")).await;
    assert_eq!(counts(&world), [1, 1, 1, 1]);
    apply(&mut engine, &at(2, "a")).await;
    assert_eq!(counts(&world), [1, 2, 1, 1], "nothing but `always` changed");
    apply(&mut engine, &at(3, "b")).await;
    assert_eq!(counts(&world), [2, 3, 2, 1], "the file is an input of two of them");
    apply(&mut engine, &at(4, "a")).await;
    assert_eq!(counts(&world), [2, 4, 3, 1], "back again: a restart is needed, `once` has had these inputs");
}

#[tokio::test]
async fn transient_failures_are_retried_within_the_budget() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let end = apply(&mut engine, &steps(1, vec![run("a", "flaky 2").retried(3)])).await;
    assert_eq!((end.phase, world.started("flaky 2")), (Phase::Applied, 3));
    let end = apply(&mut engine, &steps(2, vec![run("b", "flaky 5").retried(3), run("c", "never")])).await;
    assert_eq!(end.phase, Phase::Failed);
    assert_eq!(message(&end), "step b: it failed 3 times, the last time because the command exited with 1");
    let step = end.step.as_ref().unwrap();
    assert_eq!((step.name.as_str(), step.index, step.total, step.exit_code), ("b", 1, 2, Some(1)));
    assert_eq!((world.started("flaky 5"), world.started("never")), (3, 0));

    // A failure stays told, also after a restart, until there is another plan; then it is tried anew.
    let mut engine = support_restart(engine).await;
    assert_eq!(
        apply(&mut engine, &steps(2, vec![run("b", "flaky 5").retried(3), run("c", "never")])).await,
        end
    );
    assert_eq!(world.started("flaky 5"), 3);
    let end = apply(&mut engine, &steps(3, vec![run("b", "flaky 5").retried(3)])).await;
    assert_eq!((end.phase, world.started("flaky 5")), (Phase::Applied, 6));
    assert_eq!(end.message, None);
}

async fn support_restart(engine: TestEngine) -> TestEngine {
    let clock = engine.clock().clone();
    let (machine, store) = engine.into_parts();
    Engine::new(machine, Journal::open(store).await.unwrap(), clock)
}

#[tokio::test]
async fn what_runs_once_is_not_run_again_after_a_failure() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let end = apply(&mut engine, &steps(1, vec![run("init", "flaky 1").once().retried(5)])).await;
    assert_eq!((end.phase, world.started("flaky 1")), (Phase::Failed, 1));
    assert_eq!(message(&end), "step init: the command exited with 1");
    let end = apply(&mut engine, &steps(2, vec![run("init", "flaky 1").once().retried(5)])).await;
    assert_eq!((end.phase, world.started("flaky 1")), (Phase::Failed, 1));
    assert!(
        message(&end).contains("it ran in revision 1 with the same inputs and failed"),
        "{}",
        message(&end)
    );
    let end = apply(&mut engine, &steps(3, vec![run("init", "flaky 0").once()])).await;
    assert_eq!(end.phase, Phase::Applied, "other inputs, another run");
}

#[tokio::test]
async fn guards_say_what_is_done() {
    let world = World::with(&[("/usr/bin/app", "")]);
    let mut engine = engine(&world).await;
    let plan = steps(
        1,
        vec![
            run("a", "touch /usr/bin/app").creates("/usr/bin/app").undo("rm /usr/bin/app"),
            run("b", "touch /usr/bin/b").unless("true"),
            run("c", "touch /usr/bin/c").unless("false"),
        ],
    );
    assert_eq!(apply(&mut engine, &plan).await.phase, Phase::Applied);
    let counts = ["a", "b", "c"].map(|name| world.started(&format!("touch /usr/bin/{name}")));
    assert_eq!(counts, [0, 0, 1]);
    // What was there before us is not ours to undo.
    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert!(world.content("/usr/bin/app").is_some());
}

#[tokio::test]
async fn a_file_that_leaves_the_plan_leaves_the_machine() {
    let world = World::with(&[("/etc/motd", "welcome")]);
    let before = world.state().nodes.clone();
    let mut engine = engine(&world).await;
    let both = steps(1, vec![file("motd", "/etc/motd", "managed"), file("deep", "/opt/a/b/c", "x")]);
    assert_eq!(apply(&mut engine, &both).await.phase, Phase::Applied);
    assert_eq!(world.content("/etc/motd").as_deref(), Some("managed"));
    assert_eq!(world.state().kept.len(), 1);

    let other = steps(2, vec![file("deep", "/opt/a/other", "x")]);
    assert_eq!(apply(&mut engine, &other).await.phase, Phase::Applied);
    assert_eq!(world.content("/etc/motd").as_deref(), Some("welcome"));
    assert_eq!(world.content("/opt/a/b/c"), None);
    assert!(!world.state().nodes.contains_key(&path("/opt/a/b")), "its folder was ours too");
    assert!(world.state().kept.is_empty(), "nothing is left to restore");

    // It comes back with the step, although the step has succeeded with these inputs before.
    let back = steps(3, vec![file("motd", "/etc/motd", "managed")]);
    assert_eq!(apply(&mut engine, &back).await.phase, Phase::Applied);
    assert_eq!(world.content("/etc/motd").as_deref(), Some("managed"));

    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert_eq!(world.state().nodes, before);
    assert!(world.state().journal.is_empty());
}

#[tokio::test]
async fn what_leaves_the_plan_stays_until_the_gate_is_passed() {
    let world = World::with(&[("/etc/motd", "welcome")]);
    let mut engine = engine(&world).await;
    let first = steps(
        1,
        vec![
            file("motd", "/etc/motd", "managed"),
            file("registries", "/etc/app/registries", "x"),
            file("turned", "/srv/turned", "x"),
            file("later", "/etc/app/later", "x"),
            unit("side", "side.service", "[Service]\n", "1"),
        ],
    );
    assert_eq!(apply(&mut engine, &first).await.phase, Phase::Applied);
    let second = steps(
        2,
        vec![
            file("early", "/srv/turned/early", "x"),
            gate("drained"),
            file("late", "/etc/app/later/late", "x"),
            run("restart", "restart"),
        ],
    );
    assert_eq!(apply(&mut engine, &second).await.phase, Phase::Waiting);
    // What waits at the gate may reboot: everything is still as the former plan left it, but for what was in the way
    // of a step before the gate.
    assert_eq!(world.content("/etc/motd").as_deref(), Some("managed"));
    assert_eq!(world.content("/etc/app/registries").as_deref(), Some("x"));
    assert_eq!(world.content("/etc/app/later").as_deref(), Some("x"));
    assert!(world.state().units["side.service"].active);
    assert_eq!(world.content("/srv/turned/early").as_deref(), Some("x"));
    // The same after a crash.
    let mut engine = support_restart(engine).await;
    assert_eq!(apply(&mut engine, &second).await.phase, Phase::Waiting);
    assert_eq!(world.content("/etc/motd").as_deref(), Some("managed"));

    let mut seen = Vec::new();
    let passed = engine.apply(&second, &open(&second), |progress| seen.push(progress.clone())).await.unwrap();
    assert_eq!(passed.phase, Phase::Applied, "{seen:?}");
    assert_eq!(world.content("/etc/motd").as_deref(), Some("welcome"));
    assert_eq!(world.content("/etc/app/registries"), None);
    assert_eq!(world.content("/etc/app/later/late").as_deref(), Some("x"));
    assert!(!world.state().units.get("side.service").is_some_and(|unit| unit.active));
    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
}

#[tokio::test]
async fn a_folder_that_others_use_stays_and_is_reported_on_reset() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let first = steps(1, vec![folder("data", "/data"), run("fill", "touch /data/x").undo("nothing")]);
    assert_eq!(apply(&mut engine, &first).await.phase, Phase::Applied);
    assert_eq!(apply(&mut engine, &steps(2, vec![run("a", "a")])).await.phase, Phase::Applied);
    let Reset::Left(left) = engine.reset(None).await.unwrap() else { panic!("it cannot be clean") };
    assert_eq!(left.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/data: /data is not empty"]);
    let refused = apply(&mut engine, &steps(3, vec![run("a", "a")])).await;
    assert_eq!(refused.phase, Phase::Refused, "{}", message(&refused));
    // Somebody cleans up; the next reset finds it clean.
    world.state().nodes.remove(&path("/data/x"));
    let mut engine = support_restart(engine).await;
    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert!(world.state().nodes.is_empty());
}

#[tokio::test]
async fn what_an_undo_keeps_does_not_make_a_machine_dirty() {
    let data = |undo: &str| {
        let fill = run("fill", "touch /var/lib/app/storage/x").undo(undo);
        steps(
            1,
            vec![
                file("config", "/var/lib/app/config/a", "x"),
                folder("storage", "/var/lib/app/storage"),
                fill,
            ],
        )
    };
    for (undo, expected) in [
        ("echo keeps /var/lib/app/storage\n", None),
        ("echo keeps /elsewhere\nkeeps /var/lib/app\n", None),
        ("echo keeps /var/lib/app/other\n", Some("/var/lib/app/storage")),
        ("echo keeps /var/lib/app/storage", Some("/var/lib/app/storage")),
        ("echo keeps ../storage\n", Some("/var/lib/app/storage")),
        ("echo kept /var/lib/app/storage\n", Some("/var/lib/app/storage")),
    ] {
        let world = World::default();
        let mut engine = engine(&world).await;
        let plan = data(undo);
        assert_eq!(apply(&mut engine, &plan).await.phase, Phase::Applied);
        match engine.reset(None).await.unwrap() {
            Reset::Clean => assert_eq!(expected, None, "{undo}"),
            Reset::Left(left) => {
                let left: Vec<&str> = left.iter().map(|left| left.what.as_str()).collect();
                assert!(left.contains(&expected.unwrap()), "{undo}: {left:?}");
            }
        }
        assert!(world.content("/var/lib/app/storage/x").is_some());
        assert!(!world.state().nodes.contains_key(&path("/var/lib/app/config")), "the rest goes");
    }
}

/// The undo is not run a second time: what it kept must be known from the journal.
#[tokio::test]
async fn what_an_undo_keeps_is_known_after_a_crash() {
    let world = World::default();
    let mut first = engine(&world).await;
    let keep = run("fill", "touch /data/x").undo("echo keeps /data\n");
    let stuck = run("stuck", "a").undo("flaky 1");
    let plan = steps(1, vec![folder("data", "/data"), stuck, keep]);
    assert_eq!(apply(&mut first, &plan).await.phase, Phase::Applied);
    let Reset::Left(left) = first.reset(None).await.unwrap() else { panic!("one undo fails") };
    assert_eq!(left.len(), 1, "{left:?}");
    let mut second = support_restart(first).await;
    assert_eq!(second.reset(None).await.unwrap(), Reset::Clean);
    assert_eq!(world.started("echo keeps /data\n"), 1);
}

#[tokio::test]
async fn reset_undoes_commands_in_reverse_and_reports_what_fails() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let plan = steps(
        1,
        vec![
            run("install", "touch /app").undo("rm /app"),
            run("broken", "x").undo("false"),
            run("unrun", "false").undo("never"),
        ],
    );
    assert_eq!(apply(&mut engine, &plan).await.phase, Phase::Failed);
    let Reset::Left(left) = engine.reset(Some(&plan)).await.unwrap() else { panic!("it cannot be clean") };
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].to_string(), "step broken: its undo exited with 1");
    assert_eq!(world.content("/app"), None);
    assert_eq!(world.started("never"), 1, "a command that failed may have had half its effect");
}

#[tokio::test]
async fn plans_that_must_not_be_obeyed_are_refused_and_touch_nothing() {
    let world = World::default();
    let mut engine = engine(&world).await.protecting(path("/var/lib/capstan-agent"));
    let good = steps(5, vec![run("a", "a")]);
    assert_eq!(apply(&mut engine, &good).await.phase, Phase::Applied);
    let journal = world.state().journal.clone();

    let older = steps(4, vec![run("x", "x")]);
    let same = steps(5, vec![run("x", "x")]);
    let mut other = plan(6, vec![run("x", "x")]);
    other.machine.machine_id = "life-2".parse().unwrap();
    let mut fenced = plan(6, vec![run("x", "x")]);
    fenced.epoch = Epoch(0);
    let mut expired = plan(6, vec![run("x", "x")]);
    expired.expires = support::start();
    let own = steps(6, vec![file("x", "/var/lib/capstan-agent/journal", "")]);
    for (plan, said) in [
        (older, "the plan is revision 4, and this machine knows revision 5"),
        (same, "but so did another one"),
        (verified(other), "the plan is for machine web-0 (life-2)"),
        (verified(fenced), "the plan is from manager epoch 0, and this machine has obeyed epoch 1"),
        (verified(expired), "expired at"),
        (own, "which is the agent's own"),
    ] {
        let end = apply(&mut engine, &plan).await;
        assert_eq!((end.phase, end.plan), (Phase::Refused, plan.id()));
        assert!(message(&end).contains(said), "{}", message(&end));
    }
    assert_eq!(world.started("x"), 0);
    assert_eq!(world.state().journal, journal);
    // A plan that was carried out stays so when its time is over; one that was not is not begun.
    engine.clock().set("2027-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(apply(&mut engine, &good).await.phase, Phase::Applied);
    assert_eq!(apply(&mut engine, &steps(6, vec![run("x", "x")])).await.phase, Phase::Refused);
}

#[tokio::test]
async fn what_is_there_already_is_not_written_again_and_what_drifted_is() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let at = |revision| steps(revision, vec![file("config", "/config", "a").always()]);
    apply(&mut engine, &at(1)).await;
    let node = world.state().nodes[&path("/config")].clone();
    apply(&mut engine, &at(2)).await;
    world.state().nodes.insert(path("/config"), Node::File(b"longer".to_vec(), support::world::ROOT));
    apply(&mut engine, &at(3)).await;
    assert_eq!(world.state().nodes[&path("/config")], node);
    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert!(world.state().nodes.is_empty());
}

#[tokio::test]
async fn a_file_in_the_way_of_a_folder_fails_for_good() {
    let world = World::with(&[("/opt", "a file")]);
    let mut engine = engine(&world).await;
    let end = apply(&mut engine, &steps(1, vec![file("a", "/opt/a", "x").retried(5)])).await;
    assert_eq!(message(&end), "step a: /opt is a file, not a folder");
    let end = apply(&mut engine, &steps(2, vec![folder("a", "/opt")])).await;
    assert_eq!(message(&end), "step a: /opt is a file, not a folder");
    // A path may change from folder to file between two plans.
    assert_eq!(apply(&mut engine, &steps(3, vec![folder("a", "/b")])).await.phase, Phase::Applied);
    assert_eq!(apply(&mut engine, &steps(4, vec![file("a", "/b", "x")])).await.phase, Phase::Applied);
    assert_eq!(apply(&mut engine, &steps(5, vec![folder("a", "/b")])).await.phase, Phase::Applied);
}

/// What the attempts at each step have printed, as far as it is kept.
fn printed(world: &World) -> BTreeMap<String, Vec<String>> {
    let state = world.state();
    let journal = decode(&state.journal).unwrap().entries;
    let mut printed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in joined(archived(state.archive.as_deref().unwrap_or_default()), journal) {
        if let Entry::Ended { step, outcome, .. } = entry {
            printed
                .entry(step.to_string())
                .or_default()
                .extend(outcome.output.stdout.and_then(|text| text.head));
        }
    }
    printed
}

/// An agent that is killed while it replaces the journal by its summary loses no attempt and has none twice.
#[tokio::test]
async fn killed_while_a_journal_is_written_anew_its_attempts_are_there_once() {
    let text = "x".repeat(4000);
    let plan = steps(1, (0..130).map(|i| run(&format!("s{i}"), &format!("echo {i}{text}"))).collect());
    let large = World::default();
    let mut first = engine(&large).await;
    while large.state().journal.len() <= 512 * 1024 {
        first.advance(&plan, &shut(&plan), &mut |_| ()).await.unwrap();
    }
    let journal = large.state().journal.clone();
    let before = large.state().operations;
    assert!(large.state().archive.is_none(), "it is about to be replaced");
    first.advance(&plan, &shut(&plan), &mut |_| ()).await.unwrap();
    let operations = large.state().operations - before;
    assert!(large.state().archive.is_some() && operations > 4, "{operations}");
    for death in [Death::Before, Death::After] {
        // One more reads the journal.
        for at in 1..=operations + 1 {
            let world = World::default();
            world.state().journal.clone_from(&journal);
            world.revive(Some((at, death)));
            if let Ok(journal) = Journal::open(world.clone()).await {
                let mut engine = Engine::new(world.clone(), journal, TestClock::new());
                // A dead machine looks like a step that fails.
                let _ = engine.advance(&plan, &shut(&plan), &mut |_| ()).await;
            }
            world.revive(None);
            engine(&world).await.advance(&plan, &shut(&plan), &mut |_| ()).await.unwrap();
            let found = printed(&world);
            for number in 0..100 {
                let once = vec![format!("{number}{text}")];
                assert_eq!(found[&format!("s{number}")], once, "killed {death:?} operation {at}");
            }
        }
    }
}

#[tokio::test]
async fn a_large_journal_is_written_anew_and_says_the_same() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let text = "x".repeat(4000);
    let commands =
        || -> Vec<_> { (0..100).map(|i| run(&format!("s{i}"), &format!("echo {i}{text}")).once()).collect() };
    apply(&mut engine, &steps(1, commands())).await;
    apply(&mut engine, &steps(2, commands().into_iter().map(Verbs::always).collect())).await;
    let mut again = support_restart(engine).await;
    assert!(world.state().journal.len() < 900_000, "{}", world.state().journal.len());
    assert_eq!(apply(&mut again, &steps(3, commands())).await.phase, Phase::Applied);
    assert_eq!(world.started(&format!("echo 7{text}")), 2, "what ran once is still known");
    // What each attempt has printed is archived, and goes with a reset.
    assert_eq!(printed(&world)["s7"], [format!("7{text}"), format!("7{text}")]);
    let archive = world.state().archive.as_ref().map(Vec::len).unwrap();
    assert!(archive < 100_000, "{archive} bytes");
    assert_eq!(again.reset(None).await.unwrap(), Reset::Clean);
    assert_eq!(world.state().archive, None);
}

/// Does not run: it is enough that it compiles.
#[allow(dead_code)]
fn futures_can_be_sent_to_another_thread(world: World, mut engine: TestEngine, plan: VerifiedPlan) {
    fn is_send(_: impl Send) {}
    is_send(async move {
        engine.apply(&plan, &shut(&plan), |_| ()).await.unwrap();
        engine.advance(&plan, &shut(&plan), &mut |_| ()).await.unwrap();
        engine.reset(Some(&plan)).await.unwrap();
    });
    is_send(Journal::open(world));
}
