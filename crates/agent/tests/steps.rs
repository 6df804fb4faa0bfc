//! Artifacts, units and gates: what the engine makes of them.

use crate::support::world::{Node, ROOT, World};
use crate::support::{
    TestClock, Verbs, artifact, file, folder, gate, name, open, path, run, shut, steps, tree, unit,
};
use capstan_agent::{Advance, Clock as _, Engine, Journal, Reset};
use capstan_plan::{OpenGates, Phase, Progress, Step, VerifiedPlan};

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

fn is_there(world: &World, at: &str) -> bool {
    world.state().nodes.contains_key(&path(at))
}

fn runs(world: &World, unit: &str) -> usize {
    world.state().units.get(unit).map_or(0, |unit| unit.runs)
}

fn software(revision: u64, version: &str, then: Step) -> VerifiedPlan {
    steps(revision, vec![tree("software", &format!("/opt/app/{version}"), version), then])
}

#[tokio::test]
async fn software_that_leaves_the_plan_stays_until_its_successor_stands() {
    let world = World::default();
    let mut engine = engine(&world).await;
    assert_eq!(apply(&mut engine, &software(1, "v1", run("a", "a"))).await.phase, Phase::Applied);
    assert_eq!(world.state().fetched.len(), 1);
    // The plan fails: what ran before can go on to run.
    let failed = apply(&mut engine, &software(2, "v2", run("a", "false"))).await;
    assert_eq!(failed.phase, Phase::Failed);
    assert!(is_there(&world, "/opt/app/v1/content") && is_there(&world, "/opt/app/v2/content"));
    assert_eq!(apply(&mut engine, &software(3, "v2", run("a", "a"))).await.phase, Phase::Applied);
    assert!(!is_there(&world, "/opt/app/v1") && is_there(&world, "/opt/app/v2/content"));
    assert_eq!(world.state().fetched.len(), 1, "what was fetched for the old one is gone, too");
    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert!(world.state().nodes.is_empty() && world.state().fetched.is_empty());
}

#[tokio::test]
async fn software_gives_way_at_once_where_something_else_must_go() {
    let world = World::default();
    let mut engine = engine(&world).await;
    for (revision, step) in [
        (1, tree("a", "/opt/app", "1")),
        (2, file("a", "/opt/app", "a file")),
        (3, artifact("a", "/opt/app", "2", None)),
        (4, folder("a", "/opt/app/deeper")),
        (5, tree("a", "/opt/app", "1")),
        (6, file("a", "/opt/app/deeper/file", "x")),
        (7, artifact("a", "/opt/app/deeper", "x", None)),
    ] {
        let end = apply(&mut engine, &steps(revision, vec![step])).await;
        assert_eq!(end.phase, Phase::Applied, "{revision}: {}", message(&end));
    }
    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert!(world.state().nodes.is_empty());
}

#[tokio::test]
async fn what_others_put_there_is_kept_or_left_alone() {
    let world = World::with(&[("/opt/theirs/file", "x"), ("/usr/bin/tool", "theirs")]);
    let before = world.state().nodes.clone();
    let mut engine = engine(&world).await;
    let end = apply(&mut engine, &steps(1, vec![tree("a", "/opt/theirs", "1").retried(5)])).await;
    assert_eq!(message(&end), "step a: /opt/theirs is a folder, not free for the folder of an artifact");
    let end = apply(&mut engine, &steps(2, vec![artifact("a", "/opt/theirs", "1", None)])).await;
    assert_eq!(message(&end), "step a: /opt/theirs is a folder, not a file");
    // Also not where a plan had a folder that others have filled.
    let end = apply(&mut engine, &steps(3, vec![folder("a", "/data")])).await;
    assert_eq!(end.phase, Phase::Applied);
    world.state().nodes.insert(path("/data/theirs"), Node::File(b"precious".to_vec(), ROOT));
    let end = apply(&mut engine, &steps(4, vec![tree("a", "/data", "1")])).await;
    assert_eq!(end.phase, Phase::Failed, "{}", message(&end));
    assert_eq!(world.content("/data/theirs").as_deref(), Some("precious"));
    world.state().nodes.remove(&path("/data/theirs"));

    let end = apply(&mut engine, &steps(5, vec![artifact("a", "/usr/bin/tool", "ours", None)])).await;
    assert_eq!(end.phase, Phase::Applied, "{}", message(&end));
    assert_ne!(world.content("/usr/bin/tool").as_deref(), Some("theirs"));
    assert_eq!(apply(&mut engine, &steps(6, vec![run("a", "a")])).await.phase, Phase::Applied);
    assert_eq!(world.state().nodes, before);
    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert_eq!(world.state().nodes, before);
}

#[tokio::test]
async fn a_unit_is_restarted_for_its_inputs_and_for_nothing_else() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let at = |revision, config: &str, content: &str, restart: &str| {
        let app = unit("app", "app.service", content, restart).after(&["config"]);
        steps(revision, vec![file("config", "/etc/app", config), app])
    };
    for (revision, config, content, restart, expected, why) in [
        (1, "a", "[Unit]\n", "1", 1, "it is started"),
        (2, "a", "[Unit]\n", "1", 1, "nothing has changed"),
        (3, "a", "[Unit]\n# a comment\n", "1", 1, "another content is written and restarts nothing"),
        (4, "a", "[Unit]\n# a comment\n", "2", 2, "another token"),
        (5, "b", "[Unit]\n# a comment\n", "2", 3, "a file that it names as its input"),
        (6, "b", "[Unit]\n", "1", 4, "back again"),
    ] {
        let end = apply(&mut engine, &at(revision, config, content, restart)).await;
        assert_eq!(end.phase, Phase::Applied, "{}", message(&end));
        assert_eq!(runs(&world, "app.service"), expected, "{why}");
        let state = world.state();
        let unit = &state.units["app.service"];
        assert!(unit.enabled && unit.active);
        assert_eq!(unit.loaded.as_deref(), Some(content.as_bytes()), "systemd has read it");
    }
    // Somebody has stopped it: a plan that looks at it again starts it, and restarts nothing.
    world.state().units.get_mut("app.service").unwrap().active = false;
    let again = steps(7, vec![unit("app", "app.service", "[Unit]\n", "1").after(&[]).always()]);
    assert_eq!(apply(&mut engine, &again).await.phase, Phase::Applied);
    assert!(world.state().units["app.service"].active);

    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert!(world.state().nodes.is_empty() && world.state().units.is_empty());
}

#[tokio::test]
async fn a_unit_that_leaves_the_plan_is_ended_with_all_it_left_behind() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let both = vec![
        unit("one", "one.service", "[Unit]\n", "1").ended_by("end-one"),
        unit("two", "two.timer", "[Unit]\n", "1"),
    ];
    assert_eq!(apply(&mut engine, &steps(1, both)).await.phase, Phase::Applied);
    let other = steps(2, vec![unit("two", "two.timer", "[Unit]\n", "1")]);
    assert_eq!(apply(&mut engine, &other).await.phase, Phase::Applied);
    assert_eq!(world.started("end-one"), 1);
    assert!(!is_there(&world, "/etc/systemd/system/one.service"));
    assert!(!world.state().units.contains_key("one.service"));
    // It comes back as if it had never been there.
    let back = steps(3, vec![unit("one", "one.service", "[Unit]\n", "1")]);
    assert_eq!(apply(&mut engine, &back).await.phase, Phase::Applied);
    assert!(world.state().units["one.service"].active);
    // What does not end is told, and stays known.
    let stubborn = steps(4, vec![unit("one", "one.service", "[Unit]\n", "1").ended_by("false")]);
    assert_eq!(apply(&mut engine, &stubborn).await.phase, Phase::Applied);
    let end = apply(&mut engine, &steps(5, vec![run("a", "a")])).await;
    assert!(message(&end).contains("cannot be taken back: cannot end the unit: its `stop` exited with 1"));
    let Reset::Left(left) = engine.reset(None).await.unwrap() else { panic!("it cannot be clean") };
    // With the folders it is in.
    assert_eq!(left.len(), 4, "{left:?}");
    let expected = "/etc/systemd/system/one.service: cannot end the unit: its `stop` exited with 1";
    assert_eq!(left[0].to_string(), expected);
}

#[tokio::test]
async fn units_of_others_are_left_alone() {
    let world = World::with(&[("/etc/systemd/system/sshd.service", "theirs")]);
    let before = world.state().nodes.clone();
    let mut engine = engine(&world).await;
    let plan = steps(1, vec![unit("a", "sshd.service", "[Unit]\n", "1").retried(3)]);
    let end = apply(&mut engine, &plan).await;
    assert_eq!(
        message(&end),
        "step a: /etc/systemd/system/sshd.service is a file, not free for a unit of the plan"
    );
    assert_eq!(engine.reset(None).await.unwrap(), Reset::Clean);
    assert_eq!(world.state().nodes, before);
}

#[tokio::test]
async fn a_unit_that_does_not_start_is_reported_with_its_last_lines_and_tried_again() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let plan = steps(1, vec![unit("app", "app.service", "[Service]\nExecStart=Broken\n", "1").retried(3)]);
    let end = apply(&mut engine, &plan).await;
    assert_eq!(end.phase, Phase::Failed);
    assert_eq!(
        message(&end),
        "step app: it failed 3 times, the last time because systemctl start exited with 1"
    );
    let said = end.output.stdout.unwrap().head.unwrap();
    assert!(said.contains("app.service: it printed this"), "{said}");
    assert_eq!(end.step.unwrap().exit_code, Some(1));
}

#[tokio::test]
async fn a_start_that_takes_long_is_waited_for_and_not_begun_anew() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let plan = |revision, restart: &str| {
        steps(revision, vec![unit("app", "app.service", "[Service]\nSlow\n", restart).retried(3)])
    };
    // systemctl is given up, the unit goes on to start; the next attempt waits for the same start.
    assert_eq!(apply(&mut engine, &plan(1, "1")).await.phase, Phase::Applied);
    assert_eq!(runs(&world, "app.service"), 1);
    assert_eq!(apply(&mut engine, &plan(2, "2")).await.phase, Phase::Applied);
    assert_eq!(runs(&world, "app.service"), 2);
}

#[tokio::test]
async fn a_plan_waits_at_a_gate_until_it_is_opened_for_it() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let at = |revision| steps(revision, vec![run("a", "a"), gate("go"), run("b", "b").always()]);
    let first = at(1);
    let mut reported = Vec::new();
    let waits =
        engine.apply(&first, &shut(&first), |progress| reported.push(progress.clone())).await.unwrap();
    assert_eq!(waits.phase, Phase::Waiting);
    assert_eq!(reported.last(), Some(&waits));
    let step = waits.step.clone().unwrap();
    assert_eq!((step.name.as_str(), step.index, step.total), ("go", 2, 3));
    assert!(message(&waits).contains("the gate is closed"));
    assert_eq!((world.started("a"), world.started("b")), (1, 0));
    // Waiting writes nothing down, however long it takes.
    let journal = world.state().journal.len();
    assert_eq!(apply(&mut engine, &first).await, waits);
    let wrong = OpenGates::new(first.id(), [name("other")]);
    assert_eq!(engine.apply(&first, &wrong, |_| ()).await.unwrap(), waits);
    let others = OpenGates::new(at(2).id(), [name("go")]);
    assert_eq!(engine.apply(&first, &others, |_| ()).await.unwrap(), waits);
    assert_eq!(world.state().journal.len(), journal);

    let end = engine.apply(&first, &open(&first), |_| ()).await.unwrap();
    assert_eq!((end.phase, world.started("b")), (Phase::Applied, 1));
    assert_eq!(apply(&mut engine, &first).await.phase, Phase::Applied, "passed is passed");
    // In the next plan it is closed again.
    assert_eq!(apply(&mut engine, &at(2)).await.phase, Phase::Waiting);
    // A plan whose time is over is not gone on with.
    engine.clock().set("2027-01-01T00:00:00Z".parse().unwrap());
    let refused = apply(&mut engine, &at(2)).await;
    assert_eq!(refused.phase, Phase::Refused, "{}", message(&refused));
    let turn = engine.advance(&at(2), &open(&at(2)), &mut |_| ()).await.unwrap();
    assert!(matches!(turn, Advance::Rest(progress) if progress.phase == Phase::Refused));
}

#[tokio::test]
async fn an_artifact_may_not_swallow_what_is_the_agents_own() {
    let world = World::default();
    let mut engine = engine(&world).await.protecting(path("/opt/capstan/capstan-agent"));
    for step in [
        tree("a", "/opt/capstan", "1"),
        tree("a", "/opt", "1"),
        artifact("a", "/opt/capstan/capstan-agent", "1", None),
        unit("a", "a.service", "x", "1").edit(|_| ()),
    ] {
        let is_unit = matches!(step.action, capstan_plan::Action::Unit(_));
        let plan =
            steps(engine.history().current.as_ref().map_or(1, |c| c.plan.revision().get() + 1), vec![step]);
        let end = apply(&mut engine, &plan).await;
        let expected = if is_unit { Phase::Applied } else { Phase::Refused };
        assert_eq!(end.phase, expected, "{}", message(&end));
    }
}

/// As `k3s.sh reboot` is rendered: the step ends by the machine going down, and the guard knows afterwards.
#[tokio::test]
async fn a_reboot_interrupts_its_own_step_and_the_plan_goes_on_afterwards() {
    let world = World::default();
    let plan = |revision| {
        let reboot = run("reboot", "reboot 0").unless("rebooted 0").retried(3);
        steps(revision, vec![gate("drained"), reboot, file("config", "/config", "x"), run("start", "start")])
    };
    let boots = || world.state().boots;
    let (first, second) = (plan(1), plan(2));
    let mut before = engine(&world).await;
    assert_eq!(apply(&mut before, &first).await.phase, Phase::Waiting);
    assert_eq!(boots(), 0, "not before the gate");
    assert!(before.apply(&first, &open(&first), |_| ()).await.is_err(), "the machine goes down");
    assert_eq!((boots(), world.content("/config")), (1, None));

    world.revive(None);
    let mut after = engine(&world).await;
    let end = after.apply(&first, &open(&first), |_| ()).await.unwrap();
    assert_eq!(end.phase, Phase::Applied, "{}", message(&end));
    assert_eq!((boots(), world.started("reboot 0"), world.started("start")), (1, 1, 1));
    // The same boot ID in a later revision reboots nothing.
    assert_eq!(after.apply(&second, &open(&second), |_| ()).await.unwrap().phase, Phase::Applied);
    assert_eq!(boots(), 1);
}

/// systemd may end the command before it ends the agent: that is a failure, and must not fail the plan.
#[tokio::test]
async fn a_reboot_whose_command_was_ended_first_is_asked_about_again() {
    let world = World::default();
    let reboot = run("reboot", "false").unless("rebooted 0").retried(3);
    let plan = steps(1, vec![reboot, run("start", "start")]);
    let mut before = engine(&world).await;
    while world.started("false") == 0 {
        assert_eq!(before.advance(&plan, &shut(&plan), &mut |_| ()).await.unwrap(), Advance::Moved);
    }
    world.state().boots = 1;
    let mut after = engine(&world).await;
    let end = apply(&mut after, &plan).await;
    assert_eq!((end.phase, world.started("false")), (Phase::Applied, 1), "{}", message(&end));
}

#[tokio::test]
async fn steps_that_are_always_done_put_right_what_drifted_and_restart_a_unit_once() {
    let world = World::default();
    let mut engine = engine(&world).await;
    let plan = |revision, token: &str, is_reapplied: bool| {
        let mut all = vec![
            file("config", "/etc/app", "right"),
            artifact("program", "/opt/app", "v1", None),
            folder("folder", "/srv/app"),
            run("once", "once"),
            unit("app", "app.service", "[Service]\n", token),
        ];
        if is_reapplied {
            let is_command = |step: &Step| matches!(step.action, capstan_plan::Action::Command(_));
            all = all.into_iter().map(|step| if is_command(&step) { step } else { step.always() }).collect();
        }
        steps(revision, all)
    };
    assert_eq!(apply(&mut engine, &plan(1, "1", false)).await.phase, Phase::Applied);
    let right = world.state().nodes.clone();
    let drift = || {
        let theirs = |bytes: &[u8]| Node::File(bytes.to_vec(), ROOT);
        let mut state = world.state();
        state.nodes.insert(path("/etc/app"), theirs(b"wrong"));
        state.nodes.insert(path("/opt/app"), theirs(b"wrong"));
        state.nodes.insert(path("/etc/systemd/system/app.service"), theirs(b"wrong"));
        state.nodes.remove(&path("/srv/app"));
    };
    drift();
    // With the same inputs, too, and without a restart.
    assert_eq!(apply(&mut engine, &plan(2, "1", false)).await.phase, Phase::Applied);
    assert_eq!(world.state().nodes, right);
    assert_eq!(runs(&world, "app.service"), 1);
    for (revision, reason) in [(3, "asked for"), (4, "the same token in a later revision")] {
        drift();
        let end = apply(&mut engine, &plan(revision, "2", true)).await;
        assert_eq!(end.phase, Phase::Applied, "{}", message(&end));
        assert_eq!(world.state().nodes, right, "{reason}");
        assert_eq!(runs(&world, "app.service"), 2, "{reason}");
        assert_eq!(world.started("once"), 1, "{reason}");
    }
}

/// It says that it is tried again, so it is: also where the plan has one attempt.
#[tokio::test]
async fn a_full_disk_is_waited_for_until_there_is_room() {
    for step in [file("config", "/etc/app", "x"), artifact("program", "/opt/app", "v1", None).retried(2)] {
        let world = World::default();
        let mut engine = engine(&world).await;
        let plan = steps(1, vec![step]);
        world.state().full = true;
        let mut waits = 0;
        let end = loop {
            match engine.advance(&plan, &shut(&plan), &mut |_| ()).await.unwrap() {
                Advance::Moved => {}
                Advance::Wait(until) => {
                    waits += 1;
                    world.state().full = waits < 20;
                    let left = until.duration_since(engine.clock().now()).as_secs();
                    assert!((0..=375).contains(&left), "{left} s");
                    engine.clock().sleep_until(until).await;
                }
                Advance::Gate(progress) | Advance::Rest(progress) => break progress,
            }
        };
        assert_eq!((end.phase, waits), (Phase::Applied, 20), "{}", message(&end));
    }
}
