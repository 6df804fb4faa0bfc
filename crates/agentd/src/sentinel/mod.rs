//! `capstan-agent sentinel`: applies plans of rancher/system-agent, from a Secret and from a folder.
//!
//! Its plans are not signed, so it has nothing in common with the service of an enrolled machine: it has its own
//! configuration file, which no other subcommand reads, its own state, and it refuses to work on a machine that is enrolled.

mod history;
mod interlock;
mod local;
mod registry;
mod remote;

use capstan_agent::real::Linux;
use capstan_agent::route::Route;
use capstan_plan::Digest;
use capstan_sentinel::apply::{Applier, Settings};
use capstan_sentinel::config::{self, Config, ConnectionInfo};
use capstan_sentinel::output::{Periodics, Saved};
use capstan_sentinel::periodic;
use capstan_sentinel::plan::Plan;
use capstan_sentinel::progress::Identity;
use capstan_sentinel::report::Outcome;
use capstan_sentinel::work;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;

use crate::paths::Paths;
use crate::{Failure, print, say, supervise};
use history::History;
use interlock::Interlock;
use registry::Registry;

/// Folder for execution folders, if none is configured.
const WORK: &str = "/var/lib/rancher/agent/work";

/// Interval of looks whether the machine is enrolled, also in the middle of a plan.
const LOOKING: Duration = Duration::from_secs(1);

/// Folder with archives of images, if none is configured.
const IMAGES: &str = "/var/lib/rancher/agent/images";

/// What plans of both sources share. One plan is applied at a time.
struct Sentinel {
    paths: Paths,
    /// How servers are reached.
    route: Route,
    applier: Applier<Linux, Registry>,
    one_at_a_time: Mutex<()>,
    interlock: Interlock,
    history: History,
}

/// What is applied.
struct Order<'a> {
    identity: &'a Identity,
    plan: &'a Plan,
    bytes: &'a [u8],
    attempt: u64,
    saved: Saved,
}

pub(crate) async fn run(paths: &Paths, file: &Path) -> Result<(), Failure> {
    refuse_if_enrolled(paths)?;
    let config: Config = read(file)?;
    config.check().map_err(|error| wrong(file, &error))?;
    let sentinel = Sentinel::new(paths, &config)?;
    let connection = match config.remote_enabled {
        true => Some(connection(&paths.below(&config.connection_info_file))?),
        false => None,
    };
    if !config.image_credential_provider_config.is_empty() {
        say!(
            "{}: imageCredentialProviderConfig is not used, as with rancher/system-agent; name credentials in agentRegistriesFile",
            file.display()
        );
    }
    let mut term = signal(SignalKind::terminate()).map_err(Failure::new)?;
    let mut int = signal(SignalKind::interrupt()).map_err(Failure::new)?;
    let remote = async {
        match connection {
            Some(connection) => remote::run(&sentinel, connection).await,
            None => std::future::pending().await,
        }
    };
    let local = async {
        match config.local_enabled {
            true => local::run(&sentinel, &paths.below(&config.local_plan_directory)).await,
            false => std::future::pending().await,
        }
    };
    let enrolled = async {
        loop {
            tokio::time::sleep(LOOKING).await;
            if let Err(enrolled) = sentinel.check() {
                return enrolled;
            }
        }
    };
    tokio::select! {
        ended = remote => ended,
        ended = local => ended,
        // No other instruction of the plan begins.
        enrolled = enrolled => Err(enrolled),
        // Commands go on; the next process finds them.
        _ = term.recv() => Ok(()),
        _ = int.recv() => Ok(()),
    }
}

pub(crate) fn validate_config(file: &Path) -> Result<(), Failure> {
    let config: Config = read(file)?;
    config.check().map_err(|error| wrong(file, &error))?;
    print("the configuration is valid\n")
}

pub(crate) fn validate_connection(file: &Path) -> Result<(), Failure> {
    let info: ConnectionInfo = read(file)?;
    info.check().map_err(|error| wrong(file, &error))?;
    print("the connection information is valid\n")
}

impl Sentinel {
    fn new(paths: &Paths, config: &Config) -> Result<Self, Failure> {
        let work = if config.work_directory.is_empty() { WORK } else { &config.work_directory };
        let path =
            |text: &str| work::path(text).ok_or_else(|| Failure::new(format!("{text} is not a usable path")));
        let work = path(work)?;
        let images = if config.images_directory.is_empty() { IMAGES } else { &config.images_directory };
        let images = path(images)?;
        let state = path(&format!("{work}.capstan"))?;
        let user = fs::metadata("/proc/self").map_err(Failure::new)?;
        let settings = Settings {
            work,
            state: state.clone(),
            images,
            preserves: config.preserve_work_directory,
            root: paths.root().to_owned(),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            owner: (user.uid(), user.gid()),
        };
        let commands = paths.below(&format!("{state}/commands"));
        let machine =
            Linux::rooted(paths.root()).map_err(Failure::new)?.supervising(commands, supervise::program());
        let folder = |text: &str| (!text.is_empty()).then(|| paths.below(text));
        let route = config.route().map_err(Failure::new)?;
        let images = path(&format!("{state}/images"))?;
        let registry = Registry::new(paths, config, images, route.clone());
        Ok(Self {
            paths: paths.clone(),
            route,
            applier: Applier::new(machine, registry, settings),
            one_at_a_time: Mutex::new(()),
            interlock: Interlock::new(folder(&config.interlock_directory)),
            history: History::new(folder(&config.applied_plan_directory)),
        })
    }

    /// Runs a plan, and then all its periodic instructions. An error means that it was not run, or not to its end, and
    /// is run again.
    async fn apply(
        &self,
        order: Order<'_>,
        periodics: &Periodics,
    ) -> Result<(Outcome, Periodics, Option<Timestamp>), Failure> {
        let _turn = self.one_at_a_time.lock().await;
        let now = Timestamp::now();
        let _active = self.interlock.enter(now)?;
        let Order { identity, plan, bytes, attempt, saved } = order;
        self.history.record(bytes, &identity.checksum, now);
        let outcome = self.applier.run(identity, plan, attempt, saved, now).await.map_err(Failure::new)?;
        let short = identity.checksum.short();
        match outcome.message.lines().next() {
            None => say!("plan {short} is applied"),
            Some(message) => say!("plan {short} has failed: {message}"),
        }
        let now = Timestamp::now();
        let (periodics, next) = self.applier.periodics(plan, &identity.checksum, periodics, true, now).await;
        Ok((outcome, periodics, next))
    }

    /// Runs the periodic instructions that are due.
    async fn periodics(
        &self,
        plan: &Plan,
        checksum: &Digest,
        before: &Periodics,
    ) -> Result<(Periodics, Option<Timestamp>), Failure> {
        if plan.periodic_instructions.is_empty() {
            return Ok((Periodics::new(), None));
        }
        let _turn = self.one_at_a_time.lock().await;
        let now = Timestamp::now();
        let _active = match periodic::is_any_due(plan, before, now) {
            true => Some(self.interlock.enter(now)?),
            false => None,
        };
        Ok(self.applier.periodics(plan, checksum, before, false, now).await)
    }

    async fn forget(&self, identity: &Identity) {
        if let Err(error) = self.applier.forget(identity).await {
            say!("{error}");
        }
    }

    /// The machine may be enrolled while this process runs.
    fn check(&self) -> Result<(), Failure> {
        refuse_if_enrolled(&self.paths)
    }
}

fn refuse_if_enrolled(paths: &Paths) -> Result<(), Failure> {
    let signs = [paths.config(), paths.credential(), paths.state().join("journal")];
    match signs.iter().find(|path| path.exists()) {
        None => Ok(()),
        Some(sign) => Err(Failure::new(format!(
            "this machine is enrolled with Capstan ({} exists), and an enrolled machine applies signed plans only; \
             run `capstan-agent reset` first",
            sign.display()
        ))),
    }
}

fn wrong(file: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", file.display()))
}

/// Reads a file that no other user may have written or read: unsigned plans come from where it says.
fn read<T: DeserializeOwned + Default>(file: &Path) -> Result<T, Failure> {
    let about = fs::metadata(file).map_err(|error| wrong(file, &error))?;
    let user = fs::metadata("/proc/self").map_err(Failure::new)?;
    if about.mode() & 0o777 != 0o600 {
        return Err(wrong(file, &format!("its mode is {:04o}, and must be 0600", about.mode() & 0o777)));
    }
    if (about.uid(), about.gid()) != (user.uid(), user.gid()) {
        let (uid, gid) = (user.uid(), user.gid());
        return Err(wrong(
            file,
            &format!("its owner must be {uid}:{gid}, the user and group of this process"),
        ));
    }
    let bytes = fs::read(file).map_err(|error| wrong(file, &error))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    config::parse(&name, &bytes).map_err(|error| wrong(file.parent().unwrap_or(Path::new("")), &error))
}

/// Reads a file that no other user can have written: what it says is done, or decides what is run.
fn trusted(path: &Path) -> Result<Vec<u8>, Failure> {
    let about = fs::metadata(path).map_err(Failure::new)?;
    let user = fs::metadata("/proc/self").map_err(Failure::new)?.uid();
    if (about.uid() != 0 && about.uid() != user) || about.mode() & 0o022 != 0 {
        return Err(Failure::new("another user can write this file, so it is not used"));
    }
    fs::read(path).map_err(Failure::new)
}

/// Connection information, and the file it was read from.
struct Connection {
    info: ConnectionInfo,
    file: PathBuf,
}

fn connection(file: &Path) -> Result<Connection, Failure> {
    let info: ConnectionInfo = read(file)?;
    info.check().map_err(|error| wrong(file, &error))?;
    Ok(Connection { info, file: file.to_owned() })
}

/// The time until then.
fn until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default()
}
