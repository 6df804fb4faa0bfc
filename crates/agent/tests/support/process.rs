//! Real agent processes on a folder: the test program starts itself in another role, so that it can be killed.
//!
//! A suite that uses it has two tests that do nothing unless they are started by it: `agent` calls [`agent`], and
//! `supervisor` calls [`supervisor`]. With `CAPSTAN_TEST_WITHOUT_SUPERVISOR=1` commands are children of the agent, which
//! shows what the supervisor is for: most of the suite fails then.

use capstan_agent::real::{Linux, supervise};
use capstan_agent::store::DiskStore;
use capstan_agent::{Engine, Journal, Reset, SystemClock};
use capstan_plan::{
    MachinePlan, Progress, Report, SealedPlan, SigningKey, Standing, Step, TrustedKeys, VerifiedPlan,
};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const FOLDER: &str = "CAPSTAN_TEST_FOLDER";
const WITHOUT: &str = "CAPSTAN_TEST_WITHOUT_SUPERVISOR";
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// A machine in a folder. What is left running when the test ends is ended.
pub(crate) struct Yard {
    folder: TempDir,
}

/// An agent that runs. Killed when the test is done with it.
pub(crate) struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        for pid in self.supervisors() {
            for member in session(pid) {
                kill(member, Signal::KILL);
            }
            kill(pid, Signal::KILL);
        }
    }
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

/// The fields of a process after its name, as the kernel tells them; none if it has ended.
fn stat(pid: i32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> = text.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect();
    (fields[0] != "Z").then_some(fields)
}

pub(crate) fn is_running(pid: i32) -> bool {
    stat(pid).is_some()
}

pub(crate) fn start_time(pid: i32) -> u64 {
    stat(pid).unwrap()[19].parse().unwrap()
}

/// The processes in the session that this one leads, without it.
pub(crate) fn session(leader: i32) -> Vec<i32> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_member =
        |pid: &i32| *pid != leader && stat(*pid).is_some_and(|fields| fields[3] == leader.to_string());
    pids.filter(is_member).collect()
}

/// Waits until something is so.
pub(crate) fn eventually<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(begin.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Yard {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.at(name), "").unwrap();
    }

    pub(crate) fn wait_for(&self, name: &str) {
        eventually(name, || self.at(name).exists().then_some(()));
    }

    /// Waits until a file says this.
    pub(crate) fn wait_until(&self, name: &str, text: &str) {
        eventually(&format!("{name} to say {text:?}"), || (self.read(name) == text).then_some(()));
    }

    /// A script in this folder.
    pub(crate) fn script(&self, name: &str, script: &str) -> Step {
        super::shell(name, &format!("cd {}; {script}", self.folder.path().display()))
    }

    /// A script that writes a line into `log` when it begins and when it ends, and ends when there is a file `go`.
    pub(crate) fn gated(&self, name: &str) -> Step {
        let script = "echo begin >> log; while [ ! -e go ]; do sleep 0.02; done; echo end >> log; echo out; echo err >&2";
        self.script(name, script)
    }

    /// What the agent is to do from now on.
    pub(crate) fn plan(&self, revision: u64, steps: Vec<Step>) {
        let mut plan: MachinePlan = super::plan(revision, steps);
        plan.expires = "2100-01-01T00:00:00Z".parse().unwrap();
        fs::write(self.at("plan"), plan.seal().unwrap().bytes()).unwrap();
    }

    /// Starts an agent that carries the plan out.
    pub(crate) fn start(&self) -> Agent {
        self.spawn("agent")
    }

    /// Starts an agent that takes everything back.
    pub(crate) fn start_reset(&self) -> Agent {
        self.spawn("resetting_agent")
    }

    fn spawn(&self, role: &str) -> Agent {
        let _ = fs::remove_file(self.at("progress"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([role, "--exact", "--nocapture"]).env(FOLDER, self.folder.path());
        command.env_remove("RUST_TEST_THREADS").stdout(Stdio::null());
        Agent(command.spawn().unwrap())
    }

    /// The progress of the plan when the agent is done with it.
    pub(crate) fn progress(&self, agent: Agent) -> Progress {
        let text = self.said(agent);
        let report: Report = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        match report.standing {
            Standing::Plan(progress) => progress,
            other => panic!("{other:?}"),
        }
    }

    /// What the agent says when it is done.
    pub(crate) fn said(&self, mut agent: Agent) -> String {
        let status = eventually("the agent to end", || agent.0.try_wait().unwrap());
        assert!(status.success(), "{status}");
        self.read("progress")
    }

    pub(crate) fn commands(&self) -> PathBuf {
        self.at("state/commands")
    }

    /// The folders of the commands that are recorded.
    pub(crate) fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.commands()).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The processes that supervise commands.
    pub(crate) fn supervisors(&self) -> Vec<i32> {
        let read = |record: PathBuf| {
            let bytes = fs::read(record.join("supervisor")).ok()?;
            let said: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
            i32::try_from(said["pid"].as_i64()?).ok()
        };
        self.records().into_iter().filter_map(read).collect()
    }

    pub(crate) fn supervisor(&self) -> i32 {
        eventually("a supervisor", || self.supervisors().first().copied())
    }
}

impl Agent {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends it as systemd would. Returns how long it took.
    pub(crate) fn terminate(mut self) -> Duration {
        let begin = Instant::now();
        kill(i32::try_from(self.0.id()).unwrap(), Signal::TERM);
        eventually("the agent to end", || self.0.try_wait().unwrap());
        begin.elapsed()
    }
}

fn verified(bytes: &[u8]) -> VerifiedPlan {
    let key = SigningKey::from_seed(&[1; 32]);
    let keys: TrustedKeys = [key.public()].into_iter().collect();
    SealedPlan::parse(bytes).unwrap().sign(&key).verify(&keys, &super::machine()).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = runtime.block_on(future);
    runtime.shutdown_background();
    done
}

/// A machine whose commands this program supervises.
pub(crate) fn supervising(commands: &Path) -> Linux {
    let program = std::env::current_exe().unwrap();
    let words = ["supervisor", "--exact", "--nocapture"].map(OsString::from);
    let words = std::iter::once(program.into_os_string()).chain(words).collect();
    Linux::new().unwrap().supervising(commands, words)
}

async fn engine(folder: &Path) -> Engine<Linux, DiskStore, SystemClock> {
    let state = folder.join("state");
    let is_alone = std::env::var_os(WITHOUT).is_some();
    let linux = if is_alone { Linux::new().unwrap() } else { supervising(&state.join("commands")) };
    let linux = linux.caching_in(state.join("cache"));
    Engine::new(linux, Journal::open(DiskStore::open(state).await.unwrap()).await.unwrap(), SystemClock)
}

/// The role of an agent, if this process has it.
pub(crate) fn agent(resets: bool) {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    block_on(async {
        let mut engine = engine(&folder).await;
        let work = async {
            if resets {
                return match engine.reset(None).await.unwrap() {
                    Reset::Clean => "clean".to_owned(),
                    Reset::Left(left) => left.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
                };
            }
            let plan = verified(&fs::read(folder.join("plan")).unwrap());
            let gates = super::shut(&plan);
            let standing = Standing::Plan(engine.apply(&plan, &gates, |_| ()).await.unwrap());
            serde_json::to_string(&Report { standing, ..Report::default() }).unwrap()
        };
        let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        tokio::select! {
            said = work => fs::write(folder.join("progress"), said).unwrap(),
            _ = term.recv() => {}
        }
    });
}

/// The role of a supervisor, if this process has it: then the last argument is the folder of a command.
pub(crate) fn supervisor() {
    let folder = std::env::args().next_back().filter(|last| last.starts_with('/'));
    if let Some(folder) = folder.filter(|_| std::env::args().count() > 1) {
        let _ = block_on(supervise(Path::new(&folder)));
    }
}
