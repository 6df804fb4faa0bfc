//! A machine and a disk in memory that can die at any of their operations: before it, after it but before the
//! answer, or in the middle.

use capstan_agent::Machine;
use capstan_agent::machine::{
    Captured, CommandKey, Exit, Found, Invocation, MachineError, Metadata, Ran, Resumed,
};
use capstan_agent::store::Store;
use capstan_plan::{Artifact, Digest, Facts, HttpUrl, HttpsTarget, MachinePath, TcpAddress};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// What is on the machine, and what has happened to it.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) nodes: BTreeMap<MachinePath, Node>,
    pub(crate) journal: Vec<u8>,
    pub(crate) kept: BTreeMap<Digest, Vec<u8>>,
    /// Earlier attempts.
    pub(crate) archive: Option<Vec<u8>>,
    /// The accepted plan.
    pub(crate) plan: Option<Vec<u8>>,
    /// The last runs of periodic commands.
    pub(crate) runs: Option<Vec<u8>>,
    /// What was fetched.
    pub(crate) fetched: BTreeSet<Digest>,
    pub(crate) units: BTreeMap<String, Unit>,
    /// How often it was booted, after the first time.
    pub(crate) boots: usize,
    /// How often each command was started.
    pub(crate) started: BTreeMap<String, usize>,
    /// The variables that each command was last started with.
    pub(crate) variables: BTreeMap<String, Vec<(String, String)>>,
    /// Whether commands with a key outlive the agent.
    pub(crate) supervises: bool,
    /// Commands that outlive the agent, with their words, and their result if they have ended.
    pub(crate) commands: Vec<(CommandKey, Vec<String>, Option<Ran>)>,
    /// Whether the machine cannot say which commands run.
    pub(crate) blind: bool,
    /// Ports that accept connections.
    pub(crate) open_ports: BTreeSet<u16>,
    /// Whether there is no room on the disk.
    pub(crate) full: bool,
    /// Programs whose self-check fails.
    pub(crate) broken: BTreeSet<Digest>,
    /// Commands that were ended while they ran.
    pub(crate) ended: Vec<String>,
    /// The operation at which it dies next, counted from 1, and how.
    pub(crate) fuse: Option<(usize, Death)>,
    pub(crate) operations: usize,
    pub(crate) dead: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File(Vec<u8>, Metadata),
    Directory(Metadata),
}

/// What systemd knows of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) enabled: bool,
    pub(crate) active: bool,
    /// Whether a link keeps systemd from reading its file.
    pub(crate) masked: bool,
    /// How often it was started.
    pub(crate) runs: usize,
    /// The content of its file when systemd last read it.
    pub(crate) loaded: Option<Vec<u8>>,
    /// What it was last started from.
    pub(crate) running: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    Before,
    After,
    Middle,
}

impl Death {
    pub(crate) const ALL: [Self; 3] = [Self::Before, Self::After, Self::Middle];
}

/// A handle on the world: it is machine and store at once, and survives the death of both.
#[derive(Clone, Debug, Default)]
pub(crate) struct World(Arc<Mutex<State>>);

pub(crate) const ROOT: Metadata = Metadata { mode: 0o755, owner: 0, group: 0 };

impl World {
    /// A machine with these files and the folders they are in.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let world = Self::default();
        for (at, content) in files {
            let at: MachinePath = at.parse().unwrap();
            for folder in std::iter::successors(at.parent(), MachinePath::parent) {
                world.state().nodes.insert(folder, Node::Directory(ROOT));
            }
            let metadata = Metadata { mode: 0o4711, owner: 5, group: 6 };
            world.state().nodes.insert(at, Node::File(content.as_bytes().to_vec(), metadata));
        }
        world
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn started(&self, command: &str) -> usize {
        self.state().started.get(command).copied().unwrap_or_default()
    }

    pub(crate) fn content(&self, at: &str) -> Option<String> {
        match self.state().nodes.get(&at.parse::<MachinePath>().unwrap())? {
            Node::File(bytes, _) => Some(String::from_utf8(bytes.clone()).unwrap()),
            Node::Directory(_) => None,
        }
    }

    /// Brings the machine back after a death.
    pub(crate) fn revive(&self, fuse: Option<(usize, Death)>) {
        let mut state = self.state();
        state.dead = false;
        state.fuse = fuse.map(|(left, death)| (state.operations + left, death));
    }

    /// One operation: whether it has its effect, and whether anybody hears of it.
    fn operate<T>(
        &self,
        whole: impl FnOnce(&mut State) -> io::Result<T>,
        half: impl FnOnce(&mut State),
    ) -> io::Result<T> {
        let mut state = self.state();
        let died = || io::Error::other("the machine is dead");
        if state.dead {
            return Err(died());
        }
        state.operations += 1;
        match state.fuse {
            Some((at, death)) if at == state.operations => {
                state.dead = true;
                match death {
                    Death::Before => {}
                    Death::After => drop(whole(&mut state)),
                    Death::Middle => half(&mut state),
                }
                Err(died())
            }
            _ => whole(&mut state),
        }
    }

    /// The same, where the middle is the same as before: it happens at once or not at all.
    fn atomic<T>(&self, whole: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.operate(whole, |_| ())
    }
}

impl State {
    fn has_room(&self) -> io::Result<()> {
        if self.full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn parent_is_there(&self, path: &MachinePath) -> io::Result<()> {
        match path.parent().map(|parent| self.nodes.get(&parent).cloned()) {
            None | Some(Some(Node::Directory(_))) => Ok(()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            Some(Some(Node::File(..))) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn is_broken(&self, program: &str) -> bool {
        let file = program.parse::<MachinePath>().ok().and_then(|path| self.nodes.get(&path));
        let Some(Node::File(bytes, _)) = file else { return false };
        self.broken.iter().any(|broken| broken.to_string().as_bytes() == bytes)
    }

    /// Starts a command that outlives the agent; never beside another one.
    fn supervise(&mut self, key: &CommandKey, words: &[String], ran: Option<Ran>) {
        let beside: Vec<_> = self.commands.iter().filter(|(.., ran)| ran.is_none()).collect();
        assert!(beside.is_empty(), "{key} was started beside {beside:?}");
        self.commands = vec![(key.clone(), words.to_vec(), ran)];
    }

    /// What the commands of the suites do. `flaky n` fails n times; `touch path`; `rm path`; `echo text`; `false`;
    /// `complain text` fails; `reboot n` ends everything, and `rebooted n` asks whether the machine was booted more often than that; everything
    /// else succeeds.
    fn execute(&mut self, words: &[String]) -> Ran {
        let line = words.join(" ");
        let times = self.started[&line];
        let (mut code, mut stdout) = (0, String::new());
        let argument = words.get(1).map(String::as_str).unwrap_or_default();
        match words[0].as_str() {
            program if argument == "check" && self.is_broken(program) => code = 1,
            "systemctl" => (code, stdout) = self.systemctl(&words[1..]),
            "flaky" if times <= argument.parse().unwrap() => code = 1,
            "touch" => {
                self.nodes.insert(argument.parse().unwrap(), Node::File(Vec::new(), ROOT));
            }
            "rm" => {
                self.nodes.remove(&argument.parse::<MachinePath>().unwrap());
            }
            "reboot" => (self.boots, self.dead) = (self.boots + 1, true),
            "rebooted" if self.boots <= argument.parse().unwrap() => code = 1,
            "echo" => stdout = words[1..].join(" "),
            "complain" => (code, stdout) = (1, words[1..].join(" ")),
            "false" => code = 1,
            _ => {}
        }
        let exit = if code == TIMED_OUT { Exit::TimedOut } else { Exit::Code(code) };
        Ran { exit, stdout: stdout.as_str().into(), stderr: Captured::default() }
    }
}

/// Stands for a program that was ended because it took too long.
const TIMED_OUT: i32 = -1;

const UNITS: &str = "/etc/systemd/system";

impl State {
    /// The part of systemd that the engine uses, as strict as the real one.
    fn systemctl(&mut self, words: &[String]) -> (i32, String) {
        let words: Vec<&str> =
            words.iter().map(String::as_str).filter(|word| !matches!(*word, "--" | "--no-block")).collect();
        let file =
            |name: &str| match self.nodes.get(&format!("{UNITS}/{name}").parse::<MachinePath>().unwrap()) {
                Some(Node::File(bytes, _)) => Some(bytes.clone()),
                _ => None,
            };
        match words[..] {
            ["daemon-reload"] => {
                let names: BTreeSet<String> = self
                    .nodes
                    .keys()
                    .filter(|path| path.as_str().starts_with(UNITS) && path.name().contains('.'))
                    .map(|path| path.name().to_owned())
                    .chain(self.units.keys().cloned())
                    .collect();
                for name in names {
                    let loaded = file(&name);
                    let unit = self.units.entry(name.clone()).or_default();
                    unit.loaded = loaded.filter(|_| !unit.masked);
                    // One that is neither there nor runs nor is enabled is forgotten.
                    if unit.loaded.is_none() && !unit.active && !unit.enabled && !unit.masked {
                        self.units.remove(&name);
                    }
                }
                (0, String::new())
            }
            ["enable", name] if file(name).is_some() => {
                self.units.entry(name.to_owned()).or_default().enabled = true;
                (0, String::new())
            }
            ["disable", name] if file(name).is_some() => {
                self.units.entry(name.to_owned()).or_default().enabled = false;
                (0, String::new())
            }
            ["show", _, name] => {
                let unit = self.units.get(name).cloned().unwrap_or_default();
                let active = if unit.active { "active" } else { "inactive" };
                let run = if unit.runs == 0 { String::new() } else { format!("run-{}", unit.runs) };
                let enabled = if unit.enabled { "enabled" } else { "disabled" };
                let load = match (unit.masked, unit.loaded.is_some()) {
                    (true, _) => "masked",
                    (_, true) => "loaded",
                    _ => "not-found",
                };
                let needs = if unit.loaded == file(name) { "no" } else { "yes" };
                (
                    0,
                    format!(
                        "ActiveState={active}\nInvocationID={run}\nUnitFileState={enabled}\nLoadState={load}\n\
                         NeedDaemonReload={needs}\nType=simple\n"
                    ),
                )
            }
            ["unmask", name] => {
                if let Some(unit) = self.units.get_mut(name) {
                    unit.masked = false;
                }
                (0, String::new())
            }
            [order @ ("start" | "restart"), name] => match self.units.get_mut(name) {
                Some(unit) if unit.loaded.is_some() && !unit.masked => {
                    let says = |word: &[u8]| {
                        unit.loaded.iter().any(|text| text.windows(word.len()).any(|w| w == word))
                    };
                    let (is_broken, is_slow) = (says(b"Broken"), says(b"Slow"));
                    let starts = order == "restart" || !unit.active;
                    if starts {
                        unit.runs += 1;
                        unit.active = !is_broken;
                        unit.running = unit.loaded.clone();
                    }
                    match (is_broken, is_slow && starts) {
                        (true, _) => (1, String::new()),
                        (_, true) => (TIMED_OUT, String::new()),
                        _ => (0, String::new()),
                    }
                }
                _ => (5, String::new()),
            },
            ["is-active", name] => match self.units.get(name) {
                Some(unit) if unit.active => (0, "active\n".to_owned()),
                Some(_) => (3, "inactive\n".to_owned()),
                None => (4, String::new()),
            },
            ["status", .., name] => {
                let known = self.units.contains_key(name);
                if known { (3, format!("{name}: it printed this\n")) } else { (4, String::new()) }
            }
            ["stop", name] => match self.units.get_mut(name) {
                Some(unit) => {
                    (unit.active, unit.running) = (false, None);
                    (0, String::new())
                }
                None => (5, String::new()),
            },
            ["reset-failed", _] => (1, String::new()),
            _ => (1, String::new()),
        }
    }
}

fn io_error(what: &str, path: &MachinePath) -> impl FnOnce(io::Error) -> MachineError {
    let what = format!("{what} {path}");
    move |error| MachineError::io(what, error)
}

impl Machine for World {
    async fn inspect(&self, path: &MachinePath) -> Result<Found, MachineError> {
        let found = |state: &mut State| {
            Ok(match state.nodes.get(path) {
                None => Found::Nothing,
                Some(Node::File(bytes, metadata)) => {
                    Found::File { metadata: *metadata, size: bytes.len() as u64 }
                }
                Some(Node::Directory(metadata)) => Found::Directory { metadata: *metadata },
            })
        };
        self.atomic(found).map_err(io_error("look at", path))
    }

    async fn read(&self, path: &MachinePath, _: u64) -> Result<Vec<u8>, MachineError> {
        let read = |state: &mut State| match state.nodes.get(path) {
            Some(Node::File(bytes, _)) => Ok(bytes.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        self.atomic(read).map_err(io_error("read", path))
    }

    async fn write(
        &self,
        path: &MachinePath,
        content: &[u8],
        metadata: Metadata,
    ) -> Result<(), MachineError> {
        let write = |state: &mut State| {
            state.has_room()?;
            state.parent_is_there(path)?;
            state.nodes.insert(path.clone(), Node::File(content.to_vec(), metadata));
            Ok(())
        };
        self.atomic(write).map_err(io_error("write", path))
    }

    async fn make_directory(&self, path: &MachinePath, metadata: Metadata) -> Result<(), MachineError> {
        let make = |state: &mut State, metadata| {
            state.parent_is_there(path)?;
            state.nodes.insert(path.clone(), Node::Directory(metadata));
            Ok(())
        };
        // In the middle it is there, but not yet whose it should be.
        let half = |state: &mut State| drop(make(state, Metadata { mode: 0o700, ..ROOT }));
        self.operate(|state| make(state, metadata), half).map_err(io_error("make", path))
    }

    async fn remove_file(&self, path: &MachinePath) -> Result<(), MachineError> {
        let remove = |state: &mut State| {
            state.nodes.remove(path);
            Ok(())
        };
        self.atomic(remove).map_err(io_error("remove", path))
    }

    async fn remove_directory(&self, path: &MachinePath) -> Result<(), MachineError> {
        let remove = |state: &mut State| {
            if state.nodes.keys().any(|other| other.is_within(path)) {
                return Ok(false);
            }
            state.nodes.remove(path);
            Ok(true)
        };
        match self.atomic(remove) {
            Ok(true) => Ok(()),
            Ok(false) => Err(MachineError::NotEmpty(path.clone())),
            Err(error) => Err(io_error("remove", path)(error)),
        }
    }

    async fn install(&self, artifact: &Artifact, _: Duration) -> Result<(), MachineError> {
        let path = &artifact.path;
        let (mode, owner, group) = (artifact.mode.bits(), artifact.owner, artifact.group);
        let metadata = Metadata { mode, owner, group };
        let fetch = |state: &mut State| {
            state.has_room()?;
            state.fetched.insert(artifact.sha256);
            Ok(())
        };
        self.atomic(fetch).map_err(io_error("fetch", path))?;
        let content = artifact.sha256.to_string().into_bytes();
        let put = |state: &mut State| {
            state.parent_is_there(path)?;
            state.nodes.retain(|other, _| other != path && !other.is_within(path));
            if artifact.unpack.is_some() {
                state.nodes.insert(path.clone(), Node::Directory(metadata));
                let inside = format!("{path}/content").parse::<MachinePath>().unwrap();
                state.nodes.insert(inside, Node::File(content, metadata));
            } else {
                state.nodes.insert(path.clone(), Node::File(content, metadata));
            }
            Ok(())
        };
        self.atomic(put).map_err(io_error("install", path))
    }

    async fn is_installed(&self, artifact: &Artifact) -> Result<Option<bool>, MachineError> {
        let path = match artifact.unpack {
            None => artifact.path.clone(),
            Some(_) => format!("{}/content", artifact.path).parse().unwrap(),
        };
        let wanted = artifact.sha256.to_string().into_bytes();
        let is = |state: &mut State| {
            Ok(matches!(state.nodes.get(&path), Some(Node::File(bytes, _)) if *bytes == wanted))
        };
        self.atomic(is).map(Some).map_err(io_error("look at", &artifact.path))
    }

    async fn remove_tree(&self, path: &MachinePath) -> Result<(), MachineError> {
        let inside = |state: &mut State| state.nodes.retain(|other, _| !other.is_within(path));
        let all = |state: &mut State| {
            inside(state);
            state.nodes.remove(path);
            Ok(())
        };
        // In the middle it is empty, and still there.
        self.operate(all, inside).map_err(io_error("remove", path))
    }

    async fn keep_fetched(&self, digests: &BTreeSet<Digest>) -> Result<(), MachineError> {
        let keep = |state: &mut State| {
            state.fetched.retain(|digest| digests.contains(digest));
            Ok(())
        };
        self.atomic(keep).map_err(|error| MachineError::io("tidy up", error))
    }

    async fn run(&self, invocation: Invocation<'_>) -> Result<Ran, MachineError> {
        let words = invocation.argv.words();
        let env = invocation.env.iter();
        let env: Vec<_> = env.map(|v| (v.name.clone(), v.value.expose().to_owned())).collect();
        let start = |state: &mut State| {
            state.variables.insert(words.join(" "), env.clone());
            *state.started.entry(words.join(" ")).or_default() += 1;
        };
        let whole = |state: &mut State| {
            // A program with a path must be there; the others are the system's.
            if words[0].starts_with('/')
                && !state.nodes.contains_key(&words[0].parse::<MachinePath>().unwrap())
            {
                return Err(io::ErrorKind::NotFound.into());
            }
            if invocation.key.is_some() && state.supervises {
                // Its record.
                state.has_room()?;
            }
            start(state);
            let ran = state.execute(words);
            if let Some(key) = invocation.key.filter(|_| state.supervises) {
                state.supervise(key, words, Some(ran.clone()));
            }
            Ok(ran)
        };
        // In the middle it was started, and had no effect yet. With a supervisor it goes on.
        let half = |state: &mut State| {
            start(state);
            if let Some(key) = invocation.key.filter(|_| state.supervises) {
                state.supervise(key, words, None);
            }
        };
        if words[0] == "hang" {
            // It runs until it is ended.
            let hang = |state: &mut State| {
                half(state);
                Ok(())
            };
            self.atomic(hang).map_err(|error| MachineError::io("start it", error))?;
            return std::future::pending().await;
        }
        self.operate(whole, half).map_err(|error| MachineError::io("start it", error))
    }

    async fn commands(&self) -> Result<Vec<CommandKey>, MachineError> {
        if !self.state().supervises {
            return Ok(Vec::new());
        }
        let keys = |state: &mut State| match state.blind {
            true => Err(io::Error::other("the disk does not answer")),
            false => Ok(state.commands.iter().map(|(key, ..)| key.clone()).collect()),
        };
        self.atomic(keys).map_err(|error| MachineError::io("look at commands", error))
    }

    async fn resume(&self, key: &CommandKey) -> Result<Resumed, MachineError> {
        if !self.state().supervises {
            return Ok(Resumed::Nothing);
        }
        let resume = |state: &mut State| {
            let Some(at) = state.commands.iter().position(|(known, ..)| known == key) else {
                return Ok(Resumed::Nothing);
            };
            if state.commands[at].2.is_none() {
                let words = state.commands[at].1.clone();
                state.commands[at].2 = Some(state.execute(&words));
            }
            Ok(state.commands[at].2.clone().map_or(Resumed::Nothing, Resumed::Ended))
        };
        self.atomic(resume).map_err(|error| MachineError::io("wait for a command", error))
    }

    async fn dismiss(&self, key: &CommandKey) -> Result<(), MachineError> {
        if !self.state().supervises {
            return Ok(());
        }
        let dismiss = |state: &mut State| {
            let ended = state.commands.iter().filter(|(known, _, ran)| known == key && ran.is_none());
            let ended: Vec<String> = ended.map(|(_, words, _)| words.join(" ")).collect();
            state.ended.extend(ended);
            state.commands.retain(|(known, ..)| known != key);
            Ok(())
        };
        self.atomic(dismiss).map_err(|error| MachineError::io("end a command", error))
    }

    async fn cancel(&self, key: &CommandKey) -> Result<Resumed, MachineError> {
        let cancel = |state: &mut State| {
            let Some(at) = state.commands.iter().position(|(known, ..)| known == key) else {
                return Ok(Resumed::Nothing);
            };
            if state.commands[at].2.is_none() {
                let words = state.commands[at].1.join(" ");
                let ran =
                    Ran { exit: Exit::Signal(15), stdout: "last words".into(), stderr: Captured::default() };
                state.commands[at].2 = Some(ran);
                state.ended.push(words);
            }
            Ok(state.commands[at].2.clone().map_or(Resumed::Nothing, Resumed::Ended))
        };
        self.atomic(cancel).map_err(|error| MachineError::io("end a command", error))
    }

    async fn get(&self, _: &HttpUrl, _: Duration) -> Result<u16, MachineError> {
        self.atomic(|_| Ok(200)).map_err(|error| MachineError::io("ask", error))
    }

    async fn get_https(&self, target: &HttpsTarget, _: Duration) -> Result<u16, MachineError> {
        let refuses = target.url.path() == "/refuses";
        self.atomic(|_| Ok(if refuses { 403 } else { 204 })).map_err(|error| MachineError::io("ask", error))
    }

    async fn connect(&self, address: &TcpAddress, _: Duration) -> Result<(), MachineError> {
        let connect = |state: &mut State| match state.open_ports.contains(&address.port()) {
            true => Ok(()),
            false => Err(io::ErrorKind::ConnectionRefused.into()),
        };
        self.atomic(connect).map_err(|error| MachineError::io(format!("connect to {address}"), error))
    }

    async fn modified(&self, path: &MachinePath) -> Result<Option<Timestamp>, MachineError> {
        let look = |state: &mut State| Ok(state.nodes.contains_key(path).then(super::start));
        self.atomic(look).map_err(io_error("look at", path))
    }

    async fn facts(&self) -> Facts {
        Facts::default()
    }
}

impl Store for World {
    async fn load(&mut self) -> io::Result<Vec<u8>> {
        self.atomic(|state| Ok(state.journal.clone()))
    }

    async fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let add = |state: &mut State, bytes: &[u8]| state.journal.extend(bytes);
        let half = |state: &mut State| add(state, &bytes[..bytes.len() / 2]);
        self.operate(
            |state| {
                add(state, bytes);
                Ok(())
            },
            half,
        )
    }

    async fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.atomic(|state| {
            state.journal = bytes.to_vec();
            Ok(())
        })
    }

    async fn keep(&mut self, digest: Digest, content: &[u8]) -> io::Result<()> {
        self.atomic(|state| {
            state.kept.insert(digest, content.to_vec());
            Ok(())
        })
    }

    async fn kept(&mut self, digest: Digest) -> io::Result<Vec<u8>> {
        self.atomic(|state| state.kept.get(&digest).cloned().ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    async fn put_plan(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.atomic(|state| {
            state.plan = Some(bytes.to_vec());
            Ok(())
        })
    }

    async fn plan(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.atomic(|state| Ok(state.plan.clone()))
    }

    async fn forget_plan(&mut self) -> io::Result<()> {
        self.atomic(|state| {
            state.plan = None;
            Ok(())
        })
    }

    async fn runs(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.atomic(|state| Ok(state.runs.clone()))
    }

    async fn put_runs(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.atomic(|state| {
            state.has_room()?;
            state.runs = Some(bytes.to_vec());
            Ok(())
        })
    }

    async fn forget_runs(&mut self) -> io::Result<()> {
        self.atomic(|state| {
            state.runs = None;
            Ok(())
        })
    }

    async fn archive(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.atomic(|state| Ok(state.archive.clone()))
    }

    async fn put_archive(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.atomic(|state| {
            state.has_room()?;
            state.archive = Some(bytes.to_vec());
            Ok(())
        })
    }

    async fn forget_archive(&mut self) -> io::Result<()> {
        self.atomic(|state| {
            state.archive = None;
            Ok(())
        })
    }

    async fn keep_only(&mut self, digests: &BTreeSet<Digest>) -> io::Result<()> {
        self.atomic(|state| {
            state.kept.retain(|digest, _| digests.contains(digest));
            Ok(())
        })
    }
}
