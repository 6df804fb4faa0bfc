//! A virtual machine as the plan engine sees it.

use capstan_agent::Machine;
use capstan_agent::machine::{Captured, Exit, Found, Invocation, MachineError, Metadata, Ran};
use capstan_plan::{Facts, HttpUrl, MachinePath};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::Vm;
use super::files::PUBLIC;
use super::program::Program;
use super::state::{Installed, Kind, Unit};
use crate::cluster::{Clusters, Start};
use crate::fault::Fault;

/// A virtual machine, and the clusters it may become part of.
#[derive(Clone)]
pub struct VmMachine {
    vm: Arc<Vm>,
    clusters: Clusters,
    /// Which step of a plan is carried out, counted from 1; 0 is none.
    step: Arc<AtomicUsize>,
}

/// What a program prints and ends with.
type Said = (i32, String);

impl VmMachine {
    /// The machine, among these clusters.
    pub fn new(vm: Arc<Vm>, clusters: Clusters) -> Self {
        Self { vm, clusters, step: Arc::default() }
    }

    /// Says which step of a plan comes next, counted from 1, for faults that are meant for one.
    pub fn at_step(&self, step: usize) {
        self.step.store(step, Ordering::Relaxed);
    }

    /// A change to the machine: it takes its time, and may be meant to fail.
    async fn disturb(&self) -> Result<(), MachineError> {
        self.vm.take_time().await;
        let step = self.step.load(Ordering::Relaxed);
        match self.vm.fault() {
            Some(Fault::FailStep(meant)) if meant == step => {
                Err(MachineError::io("go on", io::Error::other(format!("simulated fault at step {step}"))))
            }
            Some(Fault::HangStep(meant)) if meant == step => std::future::pending().await,
            _ => Ok(()),
        }
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut super::state::State) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        self.vm.change(change).map_err(|error| MachineError::io("write the machine down", error))?
    }

    /// Runs a program to its end, however long it takes.
    pub async fn execute(&self, program: Program) -> Result<(i32, String), MachineError> {
        match program {
            Program::Exit(code) => Ok((code, String::new())),
            Program::Complain(code, text) => Ok((code, text)),
            Program::Install { version, kind } => self.install(version, kind),
            Program::Uninstall => self.uninstall().await,
            Program::Restart(kind) => self.restart(kind).await,
            Program::Stop(kind) => self.stop(kind, false).await,
            Program::IsActive(kind) => Ok(match self.is_running(kind) {
                true => (0, "active".to_owned()),
                false => (3, "inactive".to_owned()),
            }),
            Program::Ready => self.ready().await,
            Program::Enroll => {
                Ok((1, "the agent enrols when the machine is started, not in a plan".to_owned()))
            }
        }
    }

    fn install(&self, version: String, kind: Kind) -> Result<Said, MachineError> {
        let other =
            self.vm.look(|state| state.installed.as_ref().is_some_and(|installed| installed.kind != kind));
        if other {
            return Ok((1, "k3s is installed in another role: uninstall it first".to_owned()));
        }
        self.change(|state| {
            let binary = format!("k3s {version}\n");
            state.files.write_with_parents(&path("/usr/local/bin/k3s"), binary.as_bytes(), PUBLIC)?;
            state.files.write_with_parents(&unit_file(kind), b"[Service]\n", PUBLIC)?;
            state.units.entry(kind.unit().to_owned()).or_insert_with(Unit::default);
            let said = format!("installed k3s {version}");
            state.installed = Some(Installed { version, kind });
            Ok((0, said))
        })
    }

    async fn uninstall(&self) -> Result<Said, MachineError> {
        for kind in [Kind::Server, Kind::Agent] {
            self.stop(kind, true).await?;
        }
        self.change(|state| {
            state.files.remove_file(&path("/usr/local/bin/k3s"))?;
            for kind in [Kind::Server, Kind::Agent] {
                state.files.remove_file(&unit_file(kind))?;
                state.units.remove(kind.unit());
            }
            state.installed = None;
            Ok((0, "uninstalled".to_owned()))
        })
    }

    async fn restart(&self, kind: Kind) -> Result<Said, MachineError> {
        let start = self.vm.look(|state| Start::read(state, kind, self.vm.name()));
        let start = match start {
            Ok(start) => start,
            Err(complaint) => return Ok((1, complaint)),
        };
        match self.clusters.start(start).await {
            Ok(membership) => self.change(|state| {
                state.units.insert(kind.unit().to_owned(), Unit { running: Some(membership) });
                Ok((0, String::new()))
            }),
            Err(complaint) => {
                let unit = kind.unit();
                Ok((1, format!("Job for {unit}.service failed: {complaint}")))
            }
        }
    }

    async fn stop(&self, kind: Kind, for_good: bool) -> Result<Said, MachineError> {
        let running =
            |state: &super::state::State| state.units.get(kind.unit()).and_then(|unit| unit.running.clone());
        if let Some(membership) = self.vm.look(running) {
            self.clusters.stop(&membership, for_good).await;
            self.change(|state| {
                state.units.insert(kind.unit().to_owned(), Unit::default());
                Ok(())
            })?;
        }
        Ok((0, String::new()))
    }

    async fn ready(&self) -> Result<Said, MachineError> {
        let refused = (1, "The connection to the server was refused".to_owned());
        let state = self.vm.look(Clone::clone);
        let Some(membership) = state.membership().filter(|member| member.kind == Kind::Server) else {
            return Ok(refused);
        };
        if !self.clusters.is_up(membership.port).await
            && let Err(error) = self.clusters.restore(&state, self.vm.name()).await
        {
            // systemd would start it again and again.
            return Ok((1, format!("{}: {error}", refused.1)));
        }
        Ok((0, "ok".to_owned()))
    }

    fn is_running(&self, kind: Kind) -> bool {
        self.vm.look(|state| state.units.get(kind.unit()).is_some_and(|unit| unit.running.is_some()))
    }
}

fn path(text: &str) -> MachinePath {
    MachinePath::new(text).expect("a path of this module, absolute and plain")
}

fn unit_file(kind: Kind) -> MachinePath {
    path(&format!("/etc/systemd/system/{}.service", kind.unit()))
}

impl Machine for VmMachine {
    async fn inspect(&self, path: &MachinePath) -> Result<Found, MachineError> {
        self.vm.look(|state| state.files.inspect(path))
    }

    async fn read(&self, path: &MachinePath, most: u64) -> Result<Vec<u8>, MachineError> {
        self.vm.look(|state| {
            state.files.inspect(path)?;
            let Some(content) = state.files.read(path.as_str()) else {
                return Err(MachineError::io(format!("read {path}"), io::ErrorKind::NotFound));
            };
            let size = content.len() as u64;
            match size <= most {
                true => Ok(content.to_vec()),
                false => Err(MachineError::TooLarge { path: path.clone(), size, most }),
            }
        })
    }

    async fn write(
        &self,
        path: &MachinePath,
        content: &[u8],
        metadata: Metadata,
    ) -> Result<(), MachineError> {
        self.disturb().await?;
        self.change(|state| state.files.write(path, content, metadata))
    }

    async fn make_directory(&self, path: &MachinePath, metadata: Metadata) -> Result<(), MachineError> {
        self.change(|state| state.files.make_directory(path, metadata))
    }

    async fn remove_file(&self, path: &MachinePath) -> Result<(), MachineError> {
        self.change(|state| state.files.remove_file(path))
    }

    async fn remove_directory(&self, path: &MachinePath) -> Result<(), MachineError> {
        self.change(|state| state.files.remove_directory(path))
    }

    async fn run(&self, invocation: Invocation<'_>) -> Result<Ran, MachineError> {
        let program = Program::parse(invocation.argv.words());
        let work = async {
            if !program.is_question() {
                self.disturb().await?;
            }
            self.execute(program).await
        };
        Ok(match tokio::time::timeout(invocation.timeout, work).await {
            Err(_) => Ran { exit: Exit::TimedOut, stdout: Captured::default(), stderr: Captured::default() },
            Ok(said) => {
                let (code, text) = said?;
                let said = Captured::from(text.as_str());
                let (stdout, stderr) =
                    if code == 0 { (said, Captured::default()) } else { (Captured::default(), said) };
                Ran { exit: Exit::Code(code), stdout, stderr }
            }
        })
    }

    async fn get(&self, _: &HttpUrl, _: Duration) -> Result<u16, MachineError> {
        Err(MachineError::io(
            "ask over http",
            io::Error::new(io::ErrorKind::Unsupported, "simulated machines serve no http"),
        ))
    }

    async fn facts(&self) -> Facts {
        let (machine_id, boot_id) = self.vm.look(|state| (state.machine_id.clone(), state.boot_id.clone()));
        Facts {
            hostname: Some(self.vm.name().to_owned()),
            machine_id: Some(machine_id),
            boot_id: Some(boot_id),
            os_image: Some(crate::host::OS_IMAGE.to_owned()),
            kernel_version: Some(crate::host::KERNEL.to_owned()),
            architecture: Some("amd64".to_owned()),
            cpus: Some(crate::host::CPUS),
            memory_bytes: Some(crate::host::MEMORY),
        }
    }
}
