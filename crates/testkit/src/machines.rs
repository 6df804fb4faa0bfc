//! Real machines: systemd-nspawn machines with their own systemd, SSH server and cloud-init. Tests reach them with the
//! real `ssh`; they end with the test.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command as StdCommand, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_nspawn::{Machine, MachineSpec, Seed, Set, remove_leftover_sets};
use capstan_tools::{Cache, machine_rootfs};
use tempfile::TempDir;
use tokio::process::Command;

use crate::kubectl::Ran;
use crate::process::keep_log;

/// Generous: a machine boots in a few seconds, but there may be several on a loaded machine.
const BOOT: Duration = Duration::from_secs(180);
/// A command that takes longer hangs.
const COMMAND: Duration = Duration::from_secs(300);
/// The users that the key of a set lets in: root, and one who has to use `sudo`.
const USERS: [&str; 2] = ["root", "debian"];

/// Machines on their own network. Dropping the value kills the machines and removes their disks and the network.
pub struct Machines {
    // In this order: the machines end before the key goes.
    machines: Vec<TestMachine>,
    set: Set,
    folder: TempDir,
}

/// Handle to one machine of [`Machines`].
#[derive(Clone, Debug)]
pub struct TestMachine {
    machine: Machine,
    key: PathBuf,
    known_hosts: PathBuf,
}

impl Machines {
    /// A network without machines.
    pub async fn none() -> Result<Self> {
        blocking(|| {
            let sets = Cache::of_user()?.root().join("machines");
            // What tests left that were killed.
            remove_leftover_sets(&sets)?;
            let set = Set::owned(&sets, &machine_rootfs()?)?;
            let folder = TempDir::with_prefix("capstan-machines-").context("no temporary folder")?;
            make_key(&folder.path().join("key"))?;
            Ok(Self { machines: Vec::new(), set, folder })
        })
        .await
        .context("no real machines")
    }

    /// Boots machines with these names in parallel, and returns when SSH answers on all of them.
    pub async fn start(names: &[&str]) -> Result<Self> {
        let mut machines = Self::none().await?;
        for name in names {
            machines.make(name, None)?;
        }
        futures::future::try_join_all(machines.machines.iter().map(TestMachine::start)).await?;
        Ok(machines)
    }

    /// Creates a machine and does not boot it. cloud-init reads `user_data`, if given, when the machine boots.
    pub fn make(&mut self, name: &str, user_data: Option<&str>) -> Result<&TestMachine> {
        let mut spec = MachineSpec::new(name, self.public_key()?);
        spec.users = USERS.map(str::to_owned).to_vec();
        spec.seed =
            user_data.map(|data| Seed { instance_id: format!("i-{name}"), user_data: data.to_owned() });
        let machine = self.set.add(&spec)?;
        let known_hosts = self.folder.path().join(format!("{name}.known_hosts"));
        std::fs::write(&known_hosts, format!("{} {}\n", machine.address(), machine.host_key()))?;
        self.machines.push(TestMachine { machine, key: self.private_key(), known_hosts });
        self.get(name)
    }

    /// The machine with this name.
    pub fn get(&self, name: &str) -> Result<&TestMachine> {
        let found = self.machines.iter().find(|machine| machine.name() == name);
        found.with_context(|| format!("there is no machine {name}"))
    }

    /// All machines, in the order in which they were created.
    pub fn all(&self) -> &[TestMachine] {
        &self.machines
    }

    /// The address at which machines reach this computer.
    pub fn gateway(&self) -> Ipv4Addr {
        self.set.network().subnet().gateway()
    }

    /// Name of the bridge that the machines are attached to.
    pub fn bridge(&self) -> &str {
        self.set.network().bridge()
    }

    /// Path of the private key that all machines accept, for `root` and for `debian`, who may use `sudo`.
    pub fn private_key(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// The public key of that private key.
    pub fn public_key(&self) -> Result<String> {
        let path = self.private_key().with_extension("pub");
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for machine in &self.machines {
            if std::thread::panicking() {
                let (name, tail) = (machine.name(), machine.machine.console_tail());
                eprintln!("the test failed; the end of the console of {name}:\n{tail}");
            }
            keep_log(&machine.machine.console());
        }
    }
}

impl TestMachine {
    /// Its name.
    pub fn name(&self) -> &str {
        self.machine.name()
    }

    /// Its address. It never changes.
    pub fn address(&self) -> Ipv4Addr {
        self.machine.address()
    }

    /// SSH host key: `ssh-ed25519 AAAA…`.
    pub fn host_key(&self) -> &str {
        self.machine.host_key()
    }

    /// The machine itself, for operations that this type does not have.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Boots it and waits for SSH.
    pub async fn start(&self) -> Result<()> {
        let machine = self.machine.clone();
        blocking(move || Ok(machine.start().and_then(|()| machine.wait_for_ssh(BOOT))?)).await
    }

    /// Reboots it and waits for SSH.
    pub async fn reboot(&self) -> Result<()> {
        let machine = self.machine.clone();
        blocking(move || Ok(machine.reboot(BOOT).and_then(|()| machine.wait_for_ssh(BOOT))?)).await
    }

    /// Kills it, as a power cut would. [`TestMachine::start`] boots it again, with the disk as it was at that moment.
    pub async fn pull_the_plug(&self) -> Result<()> {
        let machine = self.machine.clone();
        blocking(move || Ok(machine.kill()?)).await
    }

    /// Runs a shell command on it as root, with the real `ssh` and its host key pinned.
    pub async fn ssh(&self, command: &str) -> Result<Ran> {
        self.ssh_as("root", command, Stdio::null()).await
    }

    /// Runs a shell command on it as `user`, with `input` as its standard input.
    pub async fn ssh_as(&self, user: &str, command: &str, input: Stdio) -> Result<Ran> {
        let mut ssh = Command::from(self.ssh_command(user));
        ssh.arg(command).stdin(input).kill_on_drop(true);
        let output = tokio::time::timeout(COMMAND, ssh.output())
            .await
            .with_context(|| {
                format!("a command on {} took longer than {} s", self.name(), COMMAND.as_secs())
            })?
            .context("cannot run `ssh`")?;
        Ok(Ran {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs a shell command as root, and returns its standard output. The command must succeed.
    pub async fn run(&self, command: &str) -> Result<String> {
        let ran = self.ssh(command).await?;
        ran.success().with_context(|| format!("on {}: {command}", self.name()))
    }

    /// Copies a file to the machine, atomically.
    pub async fn put(&self, source: &Path, target: &str, mode: u32) -> Result<()> {
        let file =
            std::fs::File::open(source).with_context(|| format!("cannot open {}", source.display()))?;
        let command = format!(
            "set -e; mkdir -p \"$(dirname '{target}')\"; cat > '{target}.part'; \
             chmod {mode:o} '{target}.part'; mv '{target}.part' '{target}'"
        );
        self.ssh_as("root", &command, file.into()).await?.success()?;
        Ok(())
    }

    /// An `ssh` command with all options to reach the machine as `user`; the caller adds the remote command.
    pub fn ssh_command(&self, user: &str) -> StdCommand {
        let mut ssh = StdCommand::new("ssh");
        ssh.args(["-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR"]);
        ssh.args([
            "-o",
            "StrictHostKeyChecking=yes",
            "-o",
            "GlobalKnownHostsFile=none",
            "-o",
            "ConnectTimeout=20",
        ]);
        ssh.arg("-o").arg(format!("UserKnownHostsFile={}", self.known_hosts.display()));
        ssh.arg("-i").arg(&self.key).arg(format!("{user}@{}", self.address())).arg("--");
        ssh
    }
}

fn make_key(path: &Path) -> Result<()> {
    let output = StdCommand::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "capstan-test", "-f"])
        .arg(path)
        .output()
        .context("cannot run `ssh-keygen`")?;
    ensure!(output.status.success(), "ssh-keygen failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Machines are made and ended by programs that take their time.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("the work on a machine did not end")?
}
