//! The loop around the engine: the newest Secret in, reports out.

use crate::support;
use crate::support::program::{self, digest, installed};
use crate::support::world::{Node, World};
use crate::support::{Verbs, argv, check, file, gate, machine, name, path, plan, run, unit};
use capstan_agent::obey::{Identity, LoopEnd, Orders, obey};
use capstan_agent::{Clock, Engine, Journal};
use capstan_plan::{
    Epoch, MachinePlan, OpenGates, Phase, Probe, Progress, Report, SecretData, SigningKey, Standing,
    Successions, Target,
};
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

pub(crate) fn identity() -> Identity {
    let successions = Successions::default();
    Identity { machine: machine(), plan_key: key().public(), successions, epoch: Epoch(1) }
}

pub(crate) fn secret(plan: &MachinePlan) -> SecretData {
    plan.clone().seal().unwrap().sign(&key()).to_secret_data()
}

/// A clock that began when the plans of this suite were written, goes on as clocks do, and may be set.
#[derive(Clone)]
pub(crate) struct Wall(Instant, Arc<AtomicI64>);

impl Wall {
    pub(crate) fn new() -> Self {
        Self(Instant::now(), Arc::default())
    }

    pub(crate) fn set_forward(&self, hours: i64) {
        self.1.fetch_add(hours, Ordering::SeqCst);
    }
}

impl Clock for Wall {
    fn now(&self) -> Timestamp {
        let set = SignedDuration::from_hours(self.1.load(Ordering::SeqCst));
        let elapsed = SignedDuration::try_from(self.0.elapsed()).unwrap();
        support::start().checked_add(elapsed).unwrap().checked_add(set).unwrap()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep_until_elapsed(&self, moment: Duration) {
        tokio::time::sleep(moment.saturating_sub(self.elapsed())).await;
    }

    async fn sleep_until(&self, time: Timestamp) {
        let left = Duration::try_from(time.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(left.min(Duration::from_secs(60))).await;
    }
}

/// An agent at work.
pub(crate) struct Agent {
    pub(crate) world: World,
    pub(crate) plans: watch::Sender<Option<SecretData>>,
    pub(crate) reports: watch::Receiver<Report>,
    pub(crate) clock: Wall,
    task: JoinHandle<LoopEnd>,
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Agent {
    pub(crate) async fn start() -> Self {
        Self::on(World::default()).await
    }

    pub(crate) async fn on(world: World) -> Self {
        Self::running(world, None).await
    }

    /// An agent that starts when so many hours have passed.
    pub(crate) async fn after(world: World, hours: i64) -> Self {
        let clock = Wall::new();
        clock.set_forward(hours);
        Self::with(world, None, clock).await
    }

    /// The agent as this program, which it can replace.
    async fn running(world: World, program: Option<&str>) -> Self {
        Self::with(world, program, Wall::new()).await
    }

    async fn with(world: World, program: Option<&str>, clock: Wall) -> Self {
        let journal = Journal::open(world.clone()).await.unwrap();
        let engine = Engine::new(world.clone(), journal, clock.clone());
        let mut engine = engine.patrolling(Duration::from_millis(50));
        if let Some(program) = program {
            engine = engine.replacing(program::places(), digest(program));
        }
        let (plans, mut seen) = watch::channel(None);
        let (sender, reports) = watch::channel(Report::default());
        let task = tokio::spawn(async move {
            obey(&mut engine, &identity(), &mut seen, &sender, |_, _| ()).await.unwrap()
        });
        Self { world, plans, reports, clock, task }
    }

    pub(crate) async fn until(&mut self, what: &str, is: impl Fn(&Report) -> bool) -> Report {
        let reported =
            tokio::time::timeout(Duration::from_secs(30), self.reports.wait_for(|report| is(report)));
        let reported = reported.await.unwrap_or_else(|_| panic!("no report said: {what}")).unwrap();
        reported.clone()
    }

    pub(crate) async fn phase(&mut self, phase: Phase) -> Progress {
        let what = format!("{phase:?}");
        let report = self.until(&what, |report| progress(report).is_some_and(|p| p.phase == phase)).await;
        progress(&report).unwrap().clone()
    }
}

pub(crate) fn progress(report: &Report) -> Option<&Progress> {
    match &report.standing {
        Standing::Plan(progress) => Some(progress),
        _ => None,
    }
}

#[tokio::test]
async fn a_gate_is_opened_by_the_secret_of_its_plan() {
    let mut agent = Agent::start().await;
    agent.until("idle", |report| report.facts.is_some() && report.standing == Standing::Idle).await;
    let wanted = plan(1, vec![run("a", "a"), gate("go"), run("b", "b")]);
    let id = wanted.clone().seal().unwrap().id();
    agent.plans.send_replace(Some(secret(&wanted)));
    let waits = agent.phase(Phase::Waiting).await;
    assert_eq!(waits.step.unwrap().name, name("go"));

    // Signed by somebody else, and for another plan: it stays closed, and that is told.
    let stranger = SigningKey::from_seed(&[9; 32]);
    let other = plan(2, vec![run("a", "a")]).seal().unwrap().id();
    for (gates, said) in [
        (OpenGates::new(id, [name("go")]).seal(&stranger), "not signed with a key"),
        (OpenGates::new(other, [name("go")]).seal(&key()), "those of another plan"),
    ] {
        let mut data = secret(&wanted);
        data.extend(gates.to_secret_data());
        agent.plans.send_replace(Some(data));
        let reported = agent.until(said, |report| {
            progress(report).and_then(|p| p.message.as_deref()).is_some_and(|text| text.contains(said))
        });
        assert_eq!(progress(&reported.await).unwrap().phase, Phase::Waiting);
    }
    assert_eq!(agent.world.started("b"), 0);

    let mut data = secret(&wanted);
    data.extend(OpenGates::new(id, [name("go")]).seal(&key()).to_secret_data());
    agent.plans.send_replace(Some(data));
    agent.phase(Phase::Applied).await;
    assert_eq!((agent.world.started("a"), agent.world.started("b")), (1, 1));
}

#[tokio::test]
async fn what_must_not_be_obeyed_is_refused_reported_and_changes_nothing() {
    let mut agent = Agent::start().await;
    let good = plan(5, vec![run("good", "good")]);
    agent.plans.send_replace(Some(secret(&good)));
    agent.phase(Phase::Applied).await;
    let journal = agent.world.state().journal.clone();
    let nodes = agent.world.state().nodes.clone();

    let evil = |revision| plan(revision, vec![run("evil", "evil"), file("file", "/evil", "x")]);
    let mut unsigned = secret(&evil(6));
    unsigned.get_mut("signature").unwrap()[0] ^= 1;
    let mut changed = secret(&evil(6));
    let text = String::from_utf8(changed["plan"].clone()).unwrap().replace("evil", "devil");
    changed.insert("digest".into(), capstan_plan::Digest::of(text.as_bytes()).to_string().into_bytes());
    changed.insert("plan".into(), text.into_bytes());
    let mut field = secret(&evil(6));
    field.insert("surprise".into(), b"x".to_vec());
    let mut neighbour = evil(6);
    neighbour.machine.name = "web-1".parse().unwrap();
    let mut past_life = evil(6);
    past_life.machine.machine_id = "life-0".parse().unwrap();
    let mut expired = evil(6);
    expired.expires = support::start();
    let mut fenced = evil(6);
    fenced.epoch = Epoch(0);
    let stranger = evil(6).seal().unwrap().sign(&SigningKey::from_seed(&[9; 32])).to_secret_data();
    for (data, said) in [
        (unsigned, "the signature does not fit"),
        (changed, "the signature does not fit"),
        (stranger, "which this machine does not trust"),
        (field, "data.surprise is unknown"),
        (secret(&neighbour), "the plan is for machine web-1"),
        (secret(&past_life), "(life-0), and this is"),
        (secret(&evil(4)), "the plan is revision 4, and this machine knows revision 5"),
        (secret(&evil(5)), "but so did another one"),
        (secret(&expired), "expired at"),
        (secret(&fenced), "epoch 0, and this machine has obeyed epoch 1"),
        (SecretData::new(), "data.plan is missing"),
    ] {
        agent.plans.send_replace(Some(data));
        let report = agent
            .until(said, |report| match &report.standing {
                Standing::Unreadable { message } => message.contains(said),
                Standing::Plan(progress) => {
                    progress.phase == Phase::Refused
                        && progress.message.as_deref().is_some_and(|text| text.contains(said))
                }
                Standing::Idle => false,
            })
            .await;
        assert_eq!(report.applied().unwrap().revision().get(), 5, "what was applied stays told");
    }
    assert_eq!(agent.world.started("evil"), 0);
    assert_eq!(agent.world.state().journal, journal);
    assert_eq!(agent.world.state().nodes, nodes);
}

/// Also one that was away while the key was replaced twice. Its plan stays the same, so it has nothing to do.
#[tokio::test]
async fn a_machine_follows_to_the_newest_key_and_never_back() {
    let mut agent = Agent::start().await;
    let wanted = plan(1, vec![run("a", "a"), gate("go"), run("b", "b")]);
    let id = wanted.clone().seal().unwrap().id();
    let signed = |plan: &MachinePlan, by: &SigningKey, links: &Successions| {
        let mut data = plan.clone().seal().unwrap().sign(by).to_secret_data();
        data.extend(links.to_secret_data());
        data
    };
    agent.plans.send_replace(Some(secret(&wanted)));
    agent.phase(Phase::Waiting).await;
    let reported = agent.until("its key", |report| report.plan_key.is_some()).await;
    assert_eq!(reported.plan_key, Some(key().public().id()));

    let [second, third, stranger] = [2, 3, 9].map(|seed| SigningKey::from_seed(&[seed; 32]));
    let links = Successions::default();
    let links = links.followed_by(&key(), second.public()).followed_by(&second, third.public());
    let mut data = signed(&wanted, &third, &links);
    data.extend(OpenGates::new(id, [name("go")]).seal(&third).to_secret_data());
    agent.plans.send_replace(Some(data));
    agent.phase(Phase::Applied).await;
    let reported = agent.until("the new key", |report| report.plan_key == Some(third.public().id())).await;
    assert_eq!(reported.applied(), Some(id));
    assert_eq!((agent.world.started("a"), agent.world.started("b")), (1, 1));

    // Those who have an old key, and what they sign now; also after the agent was started again.
    let evil = plan(2, vec![run("evil", "evil")]);
    let late = Successions::default().followed_by(&key(), stranger.public());
    for restarted in [false, true] {
        if restarted {
            agent = Agent::on(agent.world.clone()).await;
        }
        for data in
            [signed(&evil, &key(), &links), signed(&evil, &second, &links), signed(&evil, &stranger, &late)]
        {
            agent.plans.send_replace(Some(data));
            let refused = agent.phase(Phase::Refused).await;
            assert!(refused.message.unwrap().contains("which this machine does not trust"));
            agent.plans.send_replace(None);
            agent.phase(Phase::Applied).await;
        }
    }
    assert_eq!(agent.world.started("evil"), 0);
    agent.plans.send_replace(Some(signed(&plan(2, vec![run("c", "c")]), &third, &links)));
    agent.until("revision 2", |report| report.applied().is_some_and(|plan| plan.revision().get() == 2)).await;
    assert_eq!(agent.world.started("c"), 1);
}

/// A signed plan with a field that this agent does not know. It cannot be made with the types.
#[test]
fn a_signed_plan_with_an_unknown_field_is_refused() {
    let data = secret(&plan(1, vec![run("a", "a")]));
    let text = String::from_utf8(data["plan"].clone()).unwrap();
    let text = text.replacen("\"steps\"", "\"surprise\":1,\"steps\"", 1);
    assert!(capstan_plan::SealedPlan::parse(text.as_bytes()).unwrap_err().to_string().contains("surprise"));
    let orders = Orders::read(&data, &machine(), key().public()).unwrap();
    assert!(orders.complaint.is_none());
}

#[tokio::test]
async fn a_newer_plan_takes_over_while_an_older_one_waits_to_be_tried_again() {
    let mut agent = Agent::start().await;
    agent.plans.send_replace(Some(secret(&plan(1, vec![gate("never")]))));
    agent.phase(Phase::Waiting).await;
    agent.plans.send_replace(Some(secret(&plan(2, vec![run("b", "flaky 2").retried(5)]))));
    let end = agent.phase(Phase::Applied).await;
    assert_eq!(end.plan.revision().get(), 2);
}

/// A machine boots, and its management plane is not there.
#[tokio::test]
async fn an_agent_without_its_plane_goes_on_with_its_plan() {
    let mut agent = Agent::start().await;
    let ready = check("ready", "flaky 2").retried(9);
    let steps = vec![file("config", "/etc/app", "right"), gate("go"), ready, run("last", "last")];
    let mut wanted = plan(1, steps);
    wanted.probes = vec![Probe::new(name("kubelet"), Target::Exec(argv("kubelet")))];
    let id = wanted.clone().seal().unwrap().id();
    let mut data = secret(&wanted);
    data.extend(OpenGates::new(id, [name("go")]).seal(&key()).to_secret_data());
    agent.plans.send_replace(Some(data));
    agent.until("a failed attempt", |report| progress(report).is_some_and(|p| p.message.is_some())).await;
    let world = agent.world.clone();
    drop(agent);
    world.state().nodes.remove(&path("/etc/app"));

    let mut agent = Agent::on(world.clone()).await;
    let end = agent.phase(Phase::Applied).await;
    assert_eq!((end.plan, world.started("last")), (id, 1));
    let report = agent.until("a probe", |report| !report.probes.is_empty()).await;
    assert!(report.probes[0].healthy && report.applied() == Some(id), "{report:?}");
    agent.until("drift", |report| report.drift.iter().any(|drift| drift.repaired.is_some())).await;
    assert_eq!(world.content("/etc/app").as_deref(), Some("right"));
    drop(agent);

    // With nothing to do it is the same; and a plan that is refused does not keep it from looking after what it has.
    let mut agent = Agent::on(world.clone()).await;
    agent.phase(Phase::Applied).await;
    let stranger = SigningKey::from_seed(&[9; 32]);
    let evil = plan(2, vec![run("evil", "evil")]).seal().unwrap().sign(&stranger).to_secret_data();
    agent.plans.send_replace(Some(evil));
    agent.phase(Phase::Refused).await;
    world.state().nodes.remove(&path("/etc/app"));
    let report = agent.until("drift", |report| report.drift.iter().any(|drift| drift.repaired.is_some()));
    let report = report.await;
    assert!(!report.probes.is_empty(), "its probes go on: {report:?}");
    assert_eq!(progress(&report).unwrap().phase, Phase::Refused);
    assert_eq!(world.content("/etc/app").as_deref(), Some("right"));
    drop(agent);

    // What lies on the disk is believed no more than what comes from the plane.
    let good = world.state().plan.clone().unwrap();
    let tampered = |from: &str, to: &str| {
        let data: std::collections::BTreeMap<String, String> = serde_json::from_slice(&good).unwrap();
        let mut data = data;
        let changed = data.get_mut(from).unwrap();
        to.clone_into(changed);
        serde_json::to_vec(&data).unwrap()
    };
    let other = plan(2, vec![run("evil", "evil")]).seal().unwrap().sign(&stranger);
    let other = other
        .to_secret_data()
        .into_iter()
        .map(|(key, value)| (key, base64::Engine::encode(&base64::engine::general_purpose::STANDARD, value)));
    let other: std::collections::BTreeMap<String, String> = other.collect();
    for (case, bytes) in [
        ("signed by somebody else", serde_json::to_vec(&other).unwrap()),
        ("another signature", tampered("signature", "AAAA")),
        ("half of it", good[..good.len() / 2].to_vec()),
        ("nothing", Vec::new()),
    ] {
        world.state().plan = Some(bytes);
        let mut agent = Agent::on(world.clone()).await;
        let report = agent.until("idle", |report| report.facts.is_some()).await;
        assert_eq!(report.standing, Standing::Idle, "{case}");
        assert_eq!(report.applied(), Some(id), "{case}: what was applied stays told");
    }
    assert_eq!(world.started("evil"), 0);
}

#[tokio::test]
async fn a_plan_that_was_reset_is_not_found_again() {
    let mut agent = Agent::start().await;
    agent.plans.send_replace(Some(secret(&plan(1, vec![run("a", "a").always()]))));
    agent.phase(Phase::Applied).await;
    let world = agent.world.clone();
    drop(agent);
    let kept = world.state().plan.clone();
    assert!(kept.is_some());
    let mut engine = Engine::new(world.clone(), Journal::open(world.clone()).await.unwrap(), Wall::new());
    engine.reset(None).await.unwrap();
    assert_eq!(world.state().plan, None);
    // Even if it came back.
    world.state().plan = kept;
    let mut agent = Agent::on(world.clone()).await;
    agent.until("idle", |report| report.facts.is_some() && report.standing == Standing::Idle).await;
    assert_eq!(world.started("a"), 1);
}

#[tokio::test]
async fn setting_the_clock_back_silences_neither_probes_nor_the_search_for_drift() {
    let mut agent = Agent::start().await;
    let mut wanted = plan(1, vec![unit("app", "app.service", "[Service]\n", "1")]);
    let probe = Probe {
        interval_seconds: 1,
        failure_threshold: 1,
        ..Probe::new(name("app"), Target::Exec(argv("flaky 1")))
    };
    wanted.probes = vec![probe];
    agent.plans.send_replace(Some(secret(&wanted)));
    agent.until("an unhealthy probe", |report| report.probes.iter().any(|probe| !probe.healthy)).await;
    agent.clock.set_forward(-24 * 365);
    agent.until("a healthy probe", |report| report.probes.iter().any(|probe| probe.healthy)).await;
    agent.world.state().nodes.insert(
        path("/etc/systemd/system/app.service"),
        Node::File(b"theirs".to_vec(), support::world::ROOT),
    );
    agent.until("drift", |report| report.drift.iter().any(|drift| drift.repaired.is_some())).await;
}

#[tokio::test]
async fn an_agent_replaces_its_program_and_the_new_one_is_confirmed_by_the_management_plane() {
    let wanted = MachinePlan {
        agent: Some(program::named("new")),
        ..plan(1, vec![file("motd", "/etc/motd", "managed"), gate("go")])
    };
    let mut agent = Agent::running(program::machine(), Some("old")).await;
    let report = agent.until("the old program", |report| report.agent_program.is_some()).await;
    assert!(report.capabilities.unwrap().names.contains(&"replaceAgent".to_owned()));
    agent.plans.send_replace(Some(secret(&wanted)));
    // Also at a gate: the program does not wait for it.
    assert_eq!((&mut agent.task).await.unwrap(), LoopEnd::Replaced);
    assert_eq!(installed(&agent.world), digest("new"));

    // The plan on the disk confirms nothing.
    let on_trial = |expected: bool| {
        move |report: &Report| {
            report.agent_program.as_ref().is_some_and(|program| program.on_trial == expected)
        }
    };
    let mut agent = Agent::running(agent.world.clone(), Some("new")).await;
    agent.phase(Phase::Waiting).await;
    agent.until("on trial", on_trial(true)).await;
    // Nor does one that is not for this machine.
    agent.plans.send_replace(Some(SecretData::new()));
    let unreadable = |report: &Report| matches!(report.standing, Standing::Unreadable { .. });
    assert!(on_trial(true)(&agent.until("unreadable", unreadable).await));
    agent.plans.send_replace(Some(secret(&wanted)));
    agent.until("confirmed", on_trial(false)).await;
    assert_eq!(agent.world.content(program::places().state.as_str()), None);
}

#[tokio::test]
async fn the_report_has_the_last_output_of_every_step() {
    let mut agent = Agent::start().await;
    let steps =
        vec![run("a", "echo one"), run("quiet", "quiet"), run("b", "echo two"), run("c", "echo three")];
    agent.plans.send_replace(Some(secret(&plan(1, steps))));
    let applied = |report: &Report| progress(report).is_some_and(|p| p.phase == Phase::Applied);
    let report = agent.until("applied", applied).await;
    let shown = progress(&report).and_then(|progress| progress.step.clone()).unwrap();
    assert_eq!(shown.name, name("c"));
    let tails: Vec<_> =
        report.outputs.iter().map(|tail| (tail.step.as_str(), tail.stdout.as_deref())).collect();
    assert_eq!(tails, [("b", Some("two")), ("a", Some("one"))], "the newest first, without the one in full");
    // Of another plan nothing is known.
    agent.plans.send_replace(Some(secret(&plan(2, vec![run("d", "d"), gate("go")]))));
    let report =
        agent.until("at the gate", |report| progress(report).is_some_and(|p| p.phase == Phase::Waiting));
    assert_eq!(report.await.outputs, []);
}
