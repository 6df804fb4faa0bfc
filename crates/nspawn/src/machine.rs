//! One machine: its folder, its disk, and the process that runs it.
//!
//! | in its folder | content |
//! |---|---|
//! | `machine.json` | name and address, written once |
//! | `root` | the disk |
//! | `console.log` | console output since the machine was created |
//! | `running` | locked by the process that runs the machine while it runs |
//! | `pid` | ID of that process; valid only while `running` is locked |

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::Cgroup;
use crate::error::{Error, Result};
use crate::launch::{Launch, SUPERVISOR};
use crate::record::Record;
use crate::set::{Home, Life};
use crate::traces::{self, cgroup_name};

/// How long the program that runs a machine may take to say that it does.
const START: Duration = Duration::from_secs(20);
/// How long everything in a machine may take to die.
const KILL: Duration = Duration::from_secs(20);
/// How much of the console an error repeats.
const TAIL_BYTES: i64 = 2000;
const POLL: Duration = Duration::from_millis(20);

/// Handle to a machine of a [`Set`](crate::Set). Dropping it does not stop the machine.
#[derive(Clone, Debug)]
pub struct Machine {
    home: Arc<Home>,
    record: Record,
}

impl Machine {
    pub(crate) fn new(home: Arc<Home>, record: Record) -> Self {
        Self { home, record }
    }

    /// Name of the machine, which is also its host name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Address of the machine. It never changes.
    pub fn address(&self) -> Ipv4Addr {
        self.record.address
    }

    /// SSH host key: `ssh-ed25519 AAAA…`. It never changes.
    pub fn host_key(&self) -> &str {
        &self.record.host_key
    }

    /// Path of its disk. Do not change files in it while the machine runs.
    pub fn root(&self) -> PathBuf {
        self.folder().join("root")
    }

    /// Path of the log of its console output.
    pub fn console(&self) -> PathBuf {
        self.folder().join("console.log")
    }

    fn folder(&self) -> PathBuf {
        self.home.folder.join(self.name())
    }

    /// Its name among all machines of this machine.
    fn id(&self) -> String {
        self.home.machine_id(self.address())
    }

    fn cgroup(&self) -> Cgroup {
        self.home.layout.named(&cgroup_name(&self.id()))
    }

    /// Whether it runs. A machine that is rebooting counts as running.
    pub fn is_running(&self) -> bool {
        // Shared, so that two who ask at once do not take each other for the machine.
        File::open(self.folder().join("running"))
            .is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Boots the machine, unless it runs. Returns before it is up: see [`Machine::wait_for_ssh`].
    ///
    /// # Errors
    /// If the machine cannot be booted.
    pub fn start(&self) -> Result<()> {
        if self.is_running() {
            return Ok(());
        }
        // What it left if nobody was there when it ended.
        self.kill()?;
        let cgroup = self.cgroup();
        cgroup.make()?;
        let pid = self.folder().join("pid");
        match fs::remove_file(&pid) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &pid)(error));
            }
            _ => {}
        }
        self.spawn(self.supervisor(&cgroup)?)?;
        self.wait("for it to be started", START, || self.supervisor_id().is_some())
    }

    fn supervisor(&self, cgroup: &Cgroup) -> Result<Command> {
        let (id, root) = (self.id(), self.root());
        let launch = Launch {
            id: &id,
            name: self.name(),
            root: &root,
            bridge: self.home.network.bridge(),
            unified: self.home.layout.unified,
        };
        let console = self.console();
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&console)
            .map_err(Error::io("open", &console))?;
        let errors = output.try_clone().map_err(Error::io("share", &console))?;
        let running = self.folder().join("running");
        // Waits a moment for the lock: whoever asks whether the machine runs holds it for an instant.
        let lock = ["flock", "--no-fork", "--timeout", "5"];
        let mut command = match self.home.life {
            Life::Lasting => Command::new(lock[0]),
            // The kernel tells the supervisor when its owner dies, and it stops the machine.
            Life::Owned => {
                let mut command = Command::new("setpriv");
                command.args(["--pdeathsig", "TERM", "--", lock[0]]);
                command
            }
        };
        let process_files = cgroup.process_files();
        command.args(&lock[1..]).arg(&running).args(["sh", "-c", SUPERVISOR, "supervisor"]);
        command.arg(self.folder().join("pid")).arg(process_files.len().to_string()).args(process_files);
        command
            .args(launch.command())
            .envs(launch.environment())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // A Ctrl-C is not for the machines.
            .process_group(0);
        Ok(command)
    }

    /// Starts the supervisor from a thread that stays until it has ended: to the kernel that thread is the
    /// parent whose death it tells of, and somebody has to reap the child.
    fn spawn(&self, mut command: Command) -> Result<()> {
        let (outcome, started) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let child = command.spawn();
            // The files are the child's now.
            drop(command);
            match child {
                Ok(mut child) => {
                    let _ = outcome.send(Ok(()));
                    let _ = child.wait();
                }
                Err(error) => {
                    let _ = outcome.send(Err(error));
                }
            }
        });
        let gone = |_| std::io::Error::other("the thread that starts it has died");
        started.recv().map_err(gone).flatten().map_err(Error::io("start", self.folder()))
    }

    fn supervisor_id(&self) -> Option<Pid> {
        if !self.is_running() {
            return None;
        }
        let text = fs::read_to_string(self.folder().join("pid")).ok()?;
        text.trim().parse().ok().and_then(Pid::from_raw)
    }

    /// The first process inside the machine.
    fn init(&self) -> Option<Pid> {
        self.cgroup().processes().into_iter().find(|&pid| is_init(pid))
    }

    /// Shuts the machine down, and kills it if that takes longer than `grace`.
    ///
    /// # Errors
    /// If a process of the machine survives the kill.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        if let Some(supervisor) = self.supervisor_id() {
            // An error says that it has ended meanwhile.
            let _ = kill_process(supervisor, Signal::TERM);
            let deadline = Instant::now() + grace;
            while self.is_running() && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
        }
        self.kill()
    }

    /// Kills all processes of the machine at once, as a power cut would. They are gone when this returns.
    ///
    /// # Errors
    /// If a process survives.
    pub fn kill(&self) -> Result<()> {
        // Supervisor and machine are in one cgroup.
        let gone = self.cgroup().remove(KILL);
        traces::remove(&self.id());
        if gone && !self.is_running() {
            return Ok(());
        }
        Err(self.late("for everything in it to die", KILL))
    }

    /// Reboots the machine, as its own `reboot` command would. Returns when the machine has a new init process, before
    /// it is up: see [`Machine::wait_for_ssh`].
    ///
    /// # Errors
    /// If the machine does not run, or does not reboot within `deadline`.
    pub fn reboot(&self, deadline: Duration) -> Result<()> {
        let Some(before) = self.init() else { return Err(self.late("for it to run", Duration::ZERO)) };
        // What Ctrl-Alt-Del is.
        let _ = kill_process(before, Signal::INT);
        self.wait("for it to reboot", deadline, || self.init().is_some_and(|now| now != before))
    }

    /// Waits until its SSH server answers.
    ///
    /// # Errors
    /// If the SSH server does not answer within `deadline`, or the machine does not run.
    pub fn wait_for_ssh(&self, deadline: Duration) -> Result<()> {
        let started = Instant::now();
        let address = SocketAddr::from((self.address(), 22));
        while started.elapsed() < deadline {
            if !self.is_running() {
                return Err(self.late("for SSH: it does not run", started.elapsed()));
            }
            if greets(address) {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err(self.late("for SSH", deadline))
    }

    /// The last lines of its console.
    pub fn console_tail(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(self.console())?;
            let length = i64::try_from(file.metadata()?.len()).unwrap_or(i64::MAX);
            file.seek(SeekFrom::End(-length.min(TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_else(|error| format!("(no console: {error})"))
    }

    fn wait(&self, what: &'static str, deadline: Duration, done: impl Fn() -> bool) -> Result<()> {
        let until = Instant::now() + deadline;
        while !done() {
            if Instant::now() > until {
                return Err(self.late(what, deadline));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn late(&self, what: &'static str, deadline: Duration) -> Error {
        Error::Deadline { machine: self.name().to_owned(), what, deadline, console: self.console_tail() }
    }

    /// Kills it and removes its disk.
    pub(crate) fn destroy(&self) -> Result<()> {
        self.kill()?;
        let folder = self.folder();
        fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))
    }
}

/// Whether an SSH server says hello. An open port alone may be one that is about to close.
fn greets(address: SocketAddr) -> bool {
    let greet = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(500))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut hello = [0; 4];
        stream.read_exact(&mut hello)?;
        Ok(&hello == b"SSH-")
    };
    greet().unwrap_or(false)
}

/// Whether a process is number 1 in a namespace directly below ours. In the machine's containers others are
/// number 1, but deeper down.
fn is_init(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default();
    let own = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = |status: &str| -> Vec<String> {
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let found = ids(&status);
    found.len() == ids(&own).len() + 1 && found.last().is_some_and(|last| last == "1")
}
