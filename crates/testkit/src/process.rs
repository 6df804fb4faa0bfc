//! Child processes that always end: each has a log file and its own process group, and is stopped and reaped by the
//! value that owns it. If this process is killed, the kernel kills them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// How long a program may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// How many of the last lines of a log an error or a failed test repeats.
const TAIL: usize = 25;

/// What to start.
#[derive(Debug, Default)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(&'static str, OsString)>,
}

impl Launch {
    pub(crate) fn new(program: PathBuf) -> Self {
        Self { program, ..Self::default() }
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// `--name=path`, for names that need not be UTF-8.
    pub(crate) fn path_arg(self, flag: &str, path: &Path) -> Self {
        let mut arg = OsString::from(flag);
        arg.push("=");
        arg.push(path);
        self.arg(arg)
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }
}

/// One running program.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it, with all it prints in `<folder>/<name>.log`.
    pub(crate) fn spawn(name: &str, launch: &Launch, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let errors = output.try_clone().context("cannot share a log file")?;
        let mut command = tied_to_this_process(&launch.program);
        command
            .args(&launch.args)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        let child = spawn_from_lasting_thread(command)
            .with_context(|| format!("cannot start {}", launch.program.display()))?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails, with the end of its log, if it has ended.
    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        if let Some(status) =
            self.child.try_wait().with_context(|| format!("cannot wait for {}", self.name))?
        {
            bail!("{} ended ({status}); the end of its log:\n{}", self.name, self.tail());
        }
        Ok(())
    }

    fn log(&self) -> String {
        let text = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.unwrap_or_else(|error| format!("(no log: {error})"))
    }

    /// The last lines of its log.
    pub(crate) fn tail(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].iter().map(|line| format!("    {line}\n")).collect()
    }

    fn signal(&self, signal: Signal) {
        // Its group bears its id. An error says that it is gone already.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Ends it and reaps it.
    fn stop(&mut self) {
        self.signal(Signal::TERM);
        let deadline = Instant::now() + GRACE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                self.signal(Signal::KILL);
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Programs that belong together. The last one started is the first one stopped: an API server whose etcd is
/// gone does not end in peace.
#[derive(Debug, Default)]
pub(crate) struct Crew(Vec<Process>);

impl Crew {
    pub(crate) fn add(&mut self, process: Process) {
        self.0.push(process);
    }

    pub(crate) fn ids(&self) -> Vec<u32> {
        self.0.iter().map(Process::id).collect()
    }

    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(Process::ensure_running)
    }

    /// The ends of all logs.
    pub(crate) fn tails(&self) -> String {
        self.0.iter().map(|process| format!("  {}:\n{}", process.name, process.tail())).collect()
    }

    /// The lines of all logs that hold one of `words`.
    pub(crate) fn log_lines(&self, words: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for process in &self.0 {
            let log = process.log();
            let hits = log.lines().filter(|line| words.iter().any(|word| line.contains(word)));
            found.extend(hits.map(|line| format!("{}: {line}", process.name)));
        }
        found
    }

    fn stop(&mut self) {
        for process in self.0.iter_mut().rev() {
            process.stop();
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.0.is_empty() {
            eprintln!("the test failed; the ends of the logs:\n{}", self.tails());
        }
        self.stop();
        for process in &self.0 {
            keep_log(&process.log);
        }
    }
}

/// Copies a log to the folder named by `CAPSTAN_KEEP_LOGS`, if that is set.
pub(crate) fn keep_log(log: &Path) {
    let Some(target) = std::env::var_os("CAPSTAN_KEEP_LOGS").filter(|value| !value.is_empty()) else {
        return;
    };
    let of =
        |path: Option<&Path>| path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let (Some(name), Some(folder)) = (of(Some(log)), of(log.parent())) else { return };
    let target = Path::new(&target);
    let copy =
        fs::create_dir_all(target).and_then(|()| fs::copy(log, target.join(format!("{folder}-{name}"))));
    if let Err(error) = copy {
        eprintln!("cannot keep {}: {error}", log.display());
    }
}

/// A command that the kernel kills when its parent thread ends. Setting that between fork and exec would need unsafe
/// code, so util-linux's `setpriv` sets it. Without `setpriv`, the programs of a killed test keep running.
pub fn tied_to_this_process(program: &Path) -> Command {
    const SETPRIV: &str = "/usr/bin/setpriv";
    if !Path::new(SETPRIV).is_file() {
        return Command::new(program);
    }
    let mut command = Command::new(SETPRIV);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a command that [`tied_to_this_process`] made. The parent is the thread that forked, and tokio's threads are
/// short-lived. So one thread starts all children, and lasts as long as the process.
pub fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    static SPAWNER: LazyLock<mpsc::Sender<Order>> = LazyLock::new(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, answer) = mpsc::channel();
    SPAWNER.send((command, reply)).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}
