//! One simulated host: its virtual machine, and the tasks that run on it.

use capstan_infrastructure::driver::HostKey;
use capstan_infrastructure::{
    BootstrapData, BootstrapFailure, BootstrapState, DriverError, FollowState, HandOver, ResetState,
};
use std::fs;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Mutex, broadcast};

use crate::agent::Followed;
use crate::cloudinit::{self, CloudInitStep};
use crate::cluster::Clusters;
use crate::fault::Fault;
use crate::task::Task;
use crate::vm::program::Program;
use crate::vm::state::{Ended, Life, random_id};
use crate::vm::{Vm, VmMachine};
use crate::{agent, reset};

/// OS image of every simulated machine. It identifies a host as simulated.
pub const OS_IMAGE: &str = "Capstan simulated host";
/// Their kernel.
pub(crate) const KERNEL: &str = "6.12.0-simulated";
/// Their processors.
pub(crate) const CPUS: u32 = 4;
/// Their memory.
pub(crate) const MEMORY: u64 = 8 << 30;

/// Where cloud-init keeps the name of what it was started for.
const INSTANCE_ID: &str = "/var/lib/cloud/data/instance-id";

pub(crate) struct SimHost {
    key: HostKey,
    pub(crate) vm: Arc<Vm>,
    pub(crate) machine: VmMachine,
    changes: broadcast::Sender<HostKey>,
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    bootstrap: Option<Task>,
    agent: Option<Task>,
    reset: Option<Task>,
}

impl SimHost {
    pub(crate) fn new(
        key: HostKey,
        vm: Vm,
        clusters: Clusters,
        changes: broadcast::Sender<HostKey>,
    ) -> Arc<Self> {
        let vm = Arc::new(vm);
        let machine = VmMachine::new(Arc::clone(&vm), clusters);
        Arc::new(Self { key, vm, machine, changes, work: Mutex::default() })
    }

    /// Goes on with what was going on when the process ended.
    pub(crate) async fn resume(&self) {
        let runs =
            self.vm.look(|state| state.life.as_ref().is_some_and(|life| life.enrolled && !life.resetting));
        if runs {
            let mut work = self.work.lock().await;
            self.start_agent(&mut work);
        }
    }

    /// Ends all work. The machine stays as it is.
    pub(crate) async fn stop(&self) {
        let work = std::mem::take(&mut *self.work.lock().await);
        for task in [work.bootstrap, work.agent, work.reset].into_iter().flatten() {
            task.stop().await;
        }
    }

    /// Says that another question would get another answer.
    pub(crate) fn changed(&self) {
        // Nobody listening is not an error.
        let _ = self.changes.send(self.key.clone());
    }

    pub(crate) async fn bootstrap(
        self: &Arc<Self>,
        claim_id: &str,
        data: &BootstrapData,
    ) -> Result<BootstrapState, DriverError> {
        let mut work = self.work.lock().await;
        let life = self.vm.look(|state| state.life.clone()).filter(|life| life.claim_id == claim_id);
        match &life {
            Some(life) if life.resetting => {
                return Err(DriverError::Unreachable("the host is being reset".to_owned()));
            }
            Some(Life { ended: Some(ended), .. }) => return Ok(bootstrap_state(ended)),
            Some(_) => {}
            None => self.begin(claim_id, &mut work).await?,
        }
        if work.bootstrap.as_ref().is_none_or(Task::is_over) {
            let (host, data) = (Arc::downgrade(self), data.clone());
            let (vm, machine) = (Arc::clone(&self.vm), self.machine.clone());
            work.bootstrap = Some(Task::spawn(async move { carry_out(&vm, &machine, &data, &host).await }));
        }
        Ok(BootstrapState::Running)
    }

    /// A new life: whatever an earlier one left behind is gone, as after an installation.
    async fn begin(&self, claim_id: &str, work: &mut Work) -> Result<(), DriverError> {
        for task in [work.bootstrap.take(), work.agent.take(), work.reset.take()].into_iter().flatten() {
            task.stop().await;
        }
        let leave = self.machine.vanish().await;
        leave.map_err(|error| DriverError::Unreachable(error.to_string()))?;
        remove(&self.vm.agent_folder()).map_err(|error| unwritable(&error))?;
        self.vm
            .change(|state| {
                *state = state.wiped(self.vm.name());
                state.life = Some(Life::new(claim_id));
            })
            .map_err(|error| unwritable(&error))
    }

    /// Tells the agent which management plane to obey. It decides, and is started anew if it follows.
    pub(crate) async fn follow(
        &self,
        claim_id: &str,
        hand_over: &HandOver,
    ) -> Result<FollowState, DriverError> {
        let mut work = self.work.lock().await;
        let life = self.vm.look(|state| state.life.clone()).filter(|life| life.claim_id == claim_id);
        if !life.is_some_and(|life| life.enrolled && !life.resetting) {
            return Err(DriverError::Unreachable("there is no agent of this claim on the host".to_owned()));
        }
        if agent::has_config(&self.vm, &hand_over.0) {
            // It is at it: it need not be disturbed.
            self.start_agent(&mut work);
            return Ok(FollowState::Follows);
        }
        // The journal is the agent's as long as it runs.
        if let Some(agent) = work.agent.take() {
            agent.stop().await;
        }
        let followed = self.hand_over(hand_over).await;
        self.start_agent(&mut work);
        match followed
            .map_err(|error| DriverError::Unreachable(format!("the agent cannot follow: {error}")))?
        {
            Followed::Stays | Followed::Changed => Ok(FollowState::Follows),
            Followed::Refused(why) => Ok(FollowState::Refused(why.to_string())),
        }
    }

    async fn hand_over(&self, hand_over: &HandOver) -> io::Result<Followed> {
        let engine = agent::open(&self.vm, &self.machine).await?;
        agent::follow(&self.vm, engine.history(), &hand_over.0).await
    }

    pub(crate) async fn reset(self: &Arc<Self>, claim_id: &str) -> Result<ResetState, DriverError> {
        let mut work = self.work.lock().await;
        let (life, last) = self.vm.look(|state| (state.life.clone(), state.last_reset.clone()));
        if let Some(last) = last.filter(|last| last.claim_id == claim_id) {
            return Ok(match last.left.is_empty() {
                true => ResetState::Clean,
                false => ResetState::Dirty { left: last.left },
            });
        }
        if life.is_none_or(|life| life.claim_id != claim_id) {
            return Ok(ResetState::Clean);
        }
        if work.reset.as_ref().is_none_or(Task::is_over) {
            self.vm
                .change(|state| {
                    if let Some(life) = &mut state.life {
                        life.resetting = true;
                    }
                })
                .map_err(|error| unwritable(&error))?;
            for task in [work.bootstrap.take(), work.agent.take()].into_iter().flatten() {
                task.stop().await;
            }
            let host = Arc::downgrade(self);
            let (vm, machine) = (Arc::clone(&self.vm), self.machine.clone());
            work.reset = Some(Task::spawn(async move { reset::run(&vm, &machine, &host).await }));
        }
        Ok(ResetState::Running)
    }

    fn start_agent(&self, work: &mut Work) {
        if work.agent.as_ref().is_none_or(Task::is_over) {
            let (vm, machine) = (Arc::clone(&self.vm), self.machine.clone());
            work.agent = Some(Task::spawn(agent::run(vm, machine)));
        }
    }
}

/// Carries bootstrap data out, from where it was left. Holds no host that could keep itself alive.
async fn carry_out(vm: &Vm, machine: &VmMachine, data: &BootstrapData, host: &Weak<SimHost>) {
    let ended = match work_through(vm, machine, data).await {
        Ok(ended) => ended,
        Err(error) => {
            // The next question starts it again.
            return tracing::warn!(host = vm.name(), %error, "the machine cannot be written down");
        }
    };
    let written = vm.change(|state| {
        if let Some(life) = &mut state.life {
            life.ended = Some(ended);
        }
    });
    if written.is_ok()
        && let Some(host) = host.upgrade()
    {
        host.resume().await;
        host.changed();
    }
}

async fn work_through(vm: &Vm, machine: &VmMachine, data: &BootstrapData) -> io::Result<Ended> {
    let failed = |step: &str, exit_code, line: String| {
        Ok(Ended::Failed { step: step.to_owned(), exit_code, last_lines: vec![line] })
    };
    let (boot, done, claim_id) = vm.look(|state| {
        let life = state.life.as_ref();
        let (done, claim) = life.map(|life| (life.steps_done, life.claim_id.clone())).unwrap_or_default();
        (state.latency.boot_milliseconds, done, claim)
    });
    tokio::time::sleep(Duration::from_millis(boot)).await;
    if data.format != "cloud-config" {
        let words = format!("simulated hosts understand cloud-config, not {}", data.format);
        return failed("read the bootstrap data", None, words);
    }
    if vm.fault() == Some(Fault::FailBootstrap) {
        return failed("runcmd", Some(1), "simulated fault".to_owned());
    }
    let mut steps = match cloudinit::parse(&data.value) {
        Ok(steps) => steps,
        Err(words) => return failed("read the bootstrap data", None, words),
    };
    steps.insert(0, boot_step(&claim_id));
    for step in steps.into_iter().skip(done) {
        vm.take_time().await;
        let name = step.describe();
        if let Err((code, words)) = perform(vm, machine, step).await? {
            return failed(&name, code, words);
        }
    }
    Ok(Ended::Done)
}

/// cloud-init notes what it was started for: a machine that is claimed anew is another instance.
fn boot_step(claim_id: &str) -> CloudInitStep {
    CloudInitStep::Write {
        path: INSTANCE_ID.parse().expect("a path of this module, absolute and plain"),
        content: format!("{claim_id}\n").into_bytes(),
        metadata: crate::vm::files::PUBLIC,
    }
}

/// Does one thing, and writes down in the same moment that it was done.
async fn perform(
    vm: &Vm,
    machine: &VmMachine,
    step: CloudInitStep,
) -> io::Result<Result<(), (Option<i32>, String)>> {
    match step {
        CloudInitStep::Write { path, content, metadata } => vm.change(|state| {
            let made = state
                .files
                .write_with_parents(&path, &content, metadata)
                .map_err(|error| (None, error.to_string()))?;
            if let Some(life) = &mut state.life {
                if life.steps_done == 0 {
                    state.boot_id = random_id();
                }
                life.paths.extend(made.into_iter().map(String::from));
                life.steps_done += 1;
            }
            Ok(())
        }),
        CloudInitStep::Run(words) => {
            let program = Program::parse(&words);
            let is_enrolment = program == Program::Enroll;
            let (code, said) = match is_enrolment {
                true => agent::check(vm).map_or_else(|why| (1, why), |()| (0, String::new())),
                false => match machine.execute(program).await {
                    Ok(said) => said,
                    Err(error) => (1, error.to_string()),
                },
            };
            if code != 0 {
                return Ok(Err((Some(code), said)));
            }
            vm.change(|state| {
                if let Some(life) = &mut state.life {
                    life.enrolled |= is_enrolment;
                    life.steps_done += 1;
                }
                Ok(())
            })
        }
    }
}

fn bootstrap_state(ended: &Ended) -> BootstrapState {
    match ended {
        Ended::Done => BootstrapState::Done,
        Ended::Failed { step, exit_code, last_lines } => BootstrapState::Failed(BootstrapFailure {
            step: step.clone(),
            exit_code: *exit_code,
            last_lines: last_lines.clone(),
        }),
    }
}

/// Removes a folder, if it is there.
pub(crate) fn remove(folder: &std::path::Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn unwritable(error: &io::Error) -> DriverError {
    DriverError::Unreachable(format!("the simulated machine cannot be written down: {error}"))
}
