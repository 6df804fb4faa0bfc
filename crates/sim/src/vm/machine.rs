//! Implements the plan engine's `Machine` trait for a virtual machine.

use capstan_agent::Machine;
use capstan_agent::machine::{Captured, Exit, Found, Invocation, MachineError, Metadata, Ran};
use capstan_plan::{Artifact, Digest, Facts, HttpUrl, MachinePath, TcpAddress};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

use super::Vm;
use super::program::Program;
use super::state::{K3sRole, State, random_id};
use crate::cluster::Clusters;
use crate::fault::Fault;

/// A virtual machine, and the clusters that it may join.
#[derive(Clone)]
pub struct VmMachine {
    pub(super) vm: Arc<Vm>,
    pub(super) clusters: Clusters,
    /// Which step of a plan is carried out, counted from 1; 0 is none.
    step: Arc<AtomicUsize>,
    /// Told of each boot that a plan has asked for.
    boots: Arc<Notify>,
}

/// What a program prints and ends with.
pub(super) type Said = (i32, String);

/// Where a kubelet says how it is: all that a simulated machine answers.
const KUBELET: &str = "http://127.0.0.1:10248/healthz";

/// Where k3s keeps its data.
const DATA: &str = "/var/lib/rancher/k3s";

impl VmMachine {
    /// Creates the machine; its k3s joins one of these clusters.
    pub fn new(vm: Arc<Vm>, clusters: Clusters) -> Self {
        Self { vm, clusters, step: Arc::default(), boots: Arc::default() }
    }

    /// Sets the number of the plan step that runs next, counted from 1. Faults that are limited to one step compare it.
    pub fn at_step(&self, step: usize) {
        self.step.store(step, Ordering::Relaxed);
    }

    /// Returns when the machine has rebooted. The caller must then drop everything that ran on it, including its agent.
    pub async fn booted(&self) {
        self.boots.notified().await;
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

    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, MachineError>,
    ) -> Result<T, MachineError> {
        self.vm.change(change).map_err(|error| MachineError::io("write the machine down", error))?
    }

    /// Runs a program until it ends, without a deadline, and returns its exit code and output.
    pub async fn execute(&self, program: Program) -> Result<(i32, String), MachineError> {
        match program {
            Program::Exit(code) => Ok((code, String::new())),
            Program::Complain(code, text) => Ok((code, text)),
            Program::Systemctl(order) => self.systemctl(order).await,
            Program::Room => self.change(|state| {
                state.files.make_with_parents(&path(DATA))?;
                Ok((0, String::new()))
            }),
            Program::Clean => self.clean().await,
            Program::Ready => self.ready().await,
            Program::Joined => Ok(match self.vm.look(|state| state.is_active(K3sRole::Agent.unit())) {
                true => (0, String::new()),
                false => (1, "k3s-agent has not written its kubeconfig yet".to_owned()),
            }),
            Program::Snapshot => Ok(match self.vm.look(|state| state.is_active(K3sRole::Server.unit())) {
                true => (0, String::new()),
                false => (1, "connection refused".to_owned()),
            }),
            Program::SnapshotIfUp => Ok((0, String::new())),
            Program::Reboot(boot_id) => self.reboot(&boot_id).await,
            Program::Rebooted(boot_id) => {
                Ok((i32::from(self.vm.look(|state| state.boot_id == boot_id)), String::new()))
            }
            Program::Enroll => {
                Ok((1, "the agent enrols when the machine is started, not in a plan".to_owned()))
            }
        }
    }

    /// Removes k3s from its cluster, as if the machine had been powered off and wiped.
    pub async fn vanish(&self) -> Result<(), MachineError> {
        for kind in [K3sRole::Server, K3sRole::Agent] {
            self.stop(kind.unit()).await?;
        }
        self.leave().await
    }

    /// Without its data it is part of nothing any more.
    async fn leave(&self) -> Result<(), MachineError> {
        if let Some(membership) = self.vm.look(|state| state.data.clone()) {
            self.clusters.stop(&membership, true).await;
            self.change(|state| {
                state.data = None;
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The machine goes down and comes up with another boot ID; enabled units run again. Does not return, because no
    /// program outlives that. If the process ends half-way, the guard of the step says whether it has to be done again.
    async fn reboot(&self, boot_id: &str) -> Result<Said, MachineError> {
        if self.vm.look(|state| state.boot_id != boot_id) {
            return Ok((0, String::new()));
        }
        for unit in self.vm.look(|state| state.units.keys().cloned().collect::<Vec<_>>()) {
            self.stop(&unit).await?;
        }
        let boot = self.vm.look(|state| state.latency.boot_milliseconds);
        tokio::time::sleep(Duration::from_millis(boot)).await;
        self.change(|state| {
            state.boot_id = random_id();
            Ok(())
        })?;
        let enabled = |state: &State| {
            let enabled = state.units.iter().filter(|(_, unit)| unit.enabled);
            enabled.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        for unit in self.vm.look(enabled) {
            // One that fails is started by the plan, as systemd would try again and again.
            self.start(&unit).await?;
        }
        self.boots.notify_one();
        std::future::pending().await
    }

    async fn clean(&self) -> Result<Said, MachineError> {
        if self.vm.look(|state| state.membership().is_some()) {
            return Ok((1, format!("{DATA} is still there: k3s runs")));
        }
        self.leave().await?;
        self.change(|state| {
            for folder in [DATA, "/etc/rancher/k3s"] {
                state.files.remove_tree(&path(folder))?;
            }
            for folder in ["/var/lib/rancher", "/etc/rancher"] {
                // Somebody else's, if it is not empty.
                let _ = state.files.remove_directory(&path(folder));
            }
            Ok((0, String::new()))
        })
    }

    async fn ready(&self) -> Result<Said, MachineError> {
        let refused = (1, "The connection to the server was refused".to_owned());
        let state = self.vm.look(Clone::clone);
        let Some(membership) = state.membership().filter(|member| member.kind == K3sRole::Server) else {
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
}

fn path(text: &str) -> MachinePath {
    MachinePath::new(text).expect("a path of this module, absolute and plain")
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

    async fn install(&self, artifact: &Artifact, _: Duration) -> Result<(), MachineError> {
        self.disturb().await?;
        self.change(|state| state.files.install(artifact))
    }

    async fn is_installed(&self, artifact: &Artifact) -> Result<Option<bool>, MachineError> {
        Ok(Some(self.vm.look(|state| state.files.is_installed(artifact))))
    }

    async fn remove_tree(&self, path: &MachinePath) -> Result<(), MachineError> {
        self.change(|state| state.files.remove_tree(path))
    }

    async fn keep_fetched(&self, _: &BTreeSet<Digest>) -> Result<(), MachineError> {
        // Nothing is fetched: artifacts are their digests.
        Ok(())
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

    async fn get(&self, url: &HttpUrl, _: Duration) -> Result<u16, MachineError> {
        let runs = self.vm.look(|state| state.membership().is_some());
        match url.as_str() == KUBELET && runs {
            true => Ok(200),
            false => Err(MachineError::io(format!("ask {url}"), io::ErrorKind::ConnectionRefused)),
        }
    }

    async fn connect(&self, address: &TcpAddress, _: Duration) -> Result<(), MachineError> {
        // Its own ports are those of its k3s.
        match self.vm.look(|state| state.is_active(K3sRole::Server.unit())) {
            true => Ok(()),
            false => Err(MachineError::io(format!("connect to {address}"), io::ErrorKind::ConnectionRefused)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_plan::Argv;
    use std::net::Ipv4Addr;

    async fn ask(machine: &VmMachine, words: &str) -> Ran {
        let words = words.replace("k3s.sh", "/bin/sh /opt/capstan/lib/k3s.sh");
        let argv = Argv::new(words.split(' ')).expect("words");
        let timeout = Duration::from_secs(60);
        machine.run(Invocation { argv: &argv, env: &[], timeout, key: None }).await.expect("runs")
    }

    #[tokio::test]
    async fn a_reboot_ends_the_agent_and_starts_what_is_enabled() {
        let folder = tempfile::tempdir().expect("a folder");
        let vm = Arc::new(Vm::open(&folder.path().join("vm"), "web-0").expect("a machine"));
        let clusters = Clusters::open(&folder.path().join("clusters"), Ipv4Addr::LOCALHOST.into());
        let machine = VmMachine::new(Arc::clone(&vm), clusters.expect("clusters"));
        for unit in ["enabled.service", "manual.service"] {
            let file = path(&format!("/etc/systemd/system/{unit}"));
            let public = super::super::files::PUBLIC;
            let put = vm.change(|state| state.files.write_with_parents(&file, b"[Service]", public).is_ok());
            assert!(put.expect("written"));
            ask(&machine, &format!("systemctl start {unit}")).await;
        }
        ask(&machine, "systemctl enable enabled.service").await;
        let boot_id = || vm.look(|state| state.boot_id.clone());
        let first = boot_id();
        assert_eq!(ask(&machine, &format!("k3s.sh rebooted {first}")).await.exit, Exit::Code(1));
        let reboot = format!("k3s.sh reboot {first}");
        tokio::select! {
            ran = ask(&machine, &reboot) => panic!("{ran:?} outlives the machine"),
            () = machine.booted() => {}
        }
        assert_ne!(boot_id(), first);
        assert_eq!(machine.facts().await.boot_id, Some(boot_id()));
        assert_eq!(ask(&machine, &format!("k3s.sh rebooted {first}")).await.exit, Exit::Code(0));
        let runs = |unit: &str| vm.look(|state| (state.units[unit].active, state.units[unit].runs));
        assert_eq!((runs("enabled.service"), runs("manual.service")), ((true, 2), (false, 1)));
        // Asked again with the old ID, it is done.
        let second = boot_id();
        assert_eq!(ask(&machine, &reboot).await.exit, Exit::Code(0));
        assert_eq!(boot_id(), second);
    }
}
