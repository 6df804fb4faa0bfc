//! What the suites share: plans that are quickly written, a clock that runs by itself, a machine in memory.

#![allow(dead_code, reason = "each suite uses its part")]

pub(crate) mod mirror;
pub(crate) mod process;
pub(crate) mod program;
pub(crate) mod world;

use capstan_agent::Clock;
use capstan_plan::{
    Action, Argv, Artifact, Check, Command, Digest, Directory, EnvVar, Epoch, File, Gate, MachineIdentity,
    MachinePath, MachinePlan, Mode, OpenGates, Repeat, Retry, Revision, SigningKey, Source, Step, StepName,
    Stop, Target, TrustedKeys, Unit, Unpack, VerifiedPlan,
};
use jiff::{SignedDuration, Timestamp};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) fn machine() -> MachineIdentity {
    MachineIdentity { name: "web-0".parse().unwrap(), machine_id: "life-1".parse().unwrap() }
}

pub(crate) fn start() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

pub(crate) fn name(text: &str) -> StepName {
    text.parse().unwrap()
}

pub(crate) fn path(text: &str) -> MachinePath {
    text.parse().unwrap()
}

pub(crate) fn argv(words: &str) -> Argv {
    Argv::new(words.split(' ')).unwrap()
}

/// A plan of these steps that holds for a day.
pub(crate) fn plan(revision: u64, steps: Vec<Step>) -> MachinePlan {
    let expires = start().checked_add(SignedDuration::from_hours(24)).unwrap();
    let mut plan = MachinePlan::new(machine(), Revision::new(revision).unwrap(), Epoch(1), expires);
    plan.steps = steps;
    plan
}

/// Signs a plan and takes it as the machine it is for would.
pub(crate) fn verified(plan: MachinePlan) -> VerifiedPlan {
    let key = SigningKey::from_seed(&[1; 32]);
    let keys: TrustedKeys = [key.public()].into_iter().collect();
    let machine = plan.machine.clone();
    plan.seal().unwrap().sign(&key).verify(&keys, &machine).unwrap()
}

/// All gates of the plan are open.
pub(crate) fn open(plan: &VerifiedPlan) -> OpenGates {
    OpenGates::new(plan.id(), plan.plan().steps.iter().map(|step| step.name.clone()))
}

/// No gate of the plan is open.
pub(crate) fn shut(plan: &VerifiedPlan) -> OpenGates {
    OpenGates::none(plan.id())
}

pub(crate) fn steps(revision: u64, steps: Vec<Step>) -> VerifiedPlan {
    verified(plan(revision, steps))
}

/// As verbs: `file("config", "/etc/app", "x")`, `run("init", "init").once().retried(3)`.
pub(crate) trait Verbs: Sized {
    fn edit(self, edit: impl FnOnce(&mut Step)) -> Self;

    fn once(self) -> Self {
        self.edit(|step| step.repeat = Repeat::Once)
    }

    fn always(self) -> Self {
        self.edit(|step| step.repeat = Repeat::Always)
    }

    fn retried(self, attempts: u32) -> Self {
        self.edit(|step| step.retry = Some(Retry::every(1, attempts)))
    }

    fn after(self, names: &[&str]) -> Self {
        self.edit(|step| step.inputs = names.iter().map(|text| name(text)).collect())
    }

    fn command(self, edit: impl FnOnce(&mut Command)) -> Self {
        self.edit(|step| match &mut step.action {
            Action::Command(command) => edit(command),
            other => panic!("{other:?} is no command"),
        })
    }

    fn creates(self, text: &str) -> Self {
        self.command(|command| command.creates = Some(path(text)))
    }

    fn unless(self, words: &str) -> Self {
        self.command(|command| command.unless = Some(argv(words)))
    }

    fn undo(self, words: &str) -> Self {
        self.command(|command| {
            command.undo = Some(capstan_plan::Undo { argv: argv(words), env: Vec::new() });
        })
    }

    /// What ends what the unit leaves behind.
    fn ended_by(self, words: &str) -> Self {
        self.edit(|step| match &mut step.action {
            Action::Unit(unit) => unit.stop = Some(Stop { argv: argv(words), timeout_seconds: 9 }),
            other => panic!("{other:?} is no unit"),
        })
    }

    fn env(self, variable: EnvVar) -> Self {
        self.command(|command| command.env.push(variable))
    }
}

impl Verbs for Step {
    fn edit(mut self, edit: impl FnOnce(&mut Step)) -> Self {
        edit(&mut self);
        self
    }
}

pub(crate) fn owner() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

pub(crate) fn file(step: &str, at: &str, content: &str) -> Step {
    let (owner, group) = owner();
    let file =
        File { path: path(at), content: content.into(), mode: Mode::READABLE, owner, group, secret: false };
    Step::new(name(step), Action::File(file))
}

pub(crate) fn folder(step: &str, at: &str) -> Step {
    let (owner, group) = owner();
    let folder = Directory { path: path(at), mode: Mode::new(0o750).unwrap(), owner, group };
    Step::new(name(step), Action::Directory(folder))
}

pub(crate) fn run(step: &str, words: &str) -> Step {
    Step::new(name(step), Action::Command(Command::new(argv(words))))
}

/// Runs a text by the shell, for real machines.
pub(crate) fn shell(step: &str, script: &str) -> Step {
    let argv = Argv::new(["sh", "-c", script]).unwrap();
    Step::new(name(step), Action::Command(Command::new(argv)))
}

/// An artifact: `tar` says whether it is unpacked.
pub(crate) fn artifact(step: &str, at: &str, content: &str, unpack: Option<Unpack>) -> Step {
    let (owner, group) = owner();
    let artifact = Artifact {
        sha256: Digest::of(content.as_bytes()),
        size: content.len() as u64,
        sources: vec![Source::new("file:///srv/it".parse().unwrap())],
        path: path(at),
        unpack,
        mode: Mode::EXECUTABLE,
        owner,
        group,
    };
    Step::new(name(step), Action::Artifact(artifact))
}

pub(crate) fn tree(step: &str, at: &str, content: &str) -> Step {
    artifact(step, at, content, Some(Unpack::TarGz))
}

pub(crate) fn unit(step: &str, unit: &str, content: &str, restart: &str) -> Step {
    let unit = Unit {
        name: unit.parse().unwrap(),
        content: content.into(),
        restart: restart.parse().unwrap(),
        stop: None,
    };
    Step::new(name(step), Action::Unit(unit))
}

pub(crate) fn gate(step: &str) -> Step {
    Step::new(name(step), Action::Gate(Gate {}))
}

pub(crate) fn check(step: &str, words: &str) -> Step {
    Step::new(name(step), Action::Check(Check { target: Target::Exec(argv(words)) }))
}

/// A clock on which waiting takes no time: the wall clock, and how long it runs.
#[derive(Clone, Debug)]
pub(crate) struct TestClock(Arc<Mutex<(Timestamp, Duration)>>);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new((start(), Duration::ZERO))))
    }

    /// Sets the wall clock.
    pub(crate) fn set(&self, time: Timestamp) {
        self.0.lock().unwrap().0 = time;
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        let mut clock = self.0.lock().unwrap();
        clock.0 = clock.0.checked_add(time).unwrap();
        clock.1 += time;
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().0
    }

    fn elapsed(&self) -> Duration {
        self.0.lock().unwrap().1
    }

    async fn sleep_until(&self, time: Timestamp) {
        self.pass(Duration::try_from(time.duration_since(self.now())).unwrap_or_default());
    }

    async fn sleep_until_elapsed(&self, moment: Duration) {
        self.pass(moment.saturating_sub(self.elapsed()));
    }
}
