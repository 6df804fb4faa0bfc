//! `capstan-agent run`: watches the plan, applies it, reports, and renews the credential.
//!
//! Each part runs until the process ends, and writes its state to a [`Board`]; none blocks another. On SIGTERM the
//! agent stops at once: the next process continues from the journal, and finds commands that run.

mod lease;
mod plans;
mod renewal;
mod reports;

use capstan_agent::obey::{LoopEnd, Moment, Plans, obey};
use capstan_agent::real::Linux;
use capstan_agent::store::DiskStore;
use capstan_agent::{Engine, Journal, SystemClock, report};
use capstan_plan::{Digest, Report, Standing};
use jiff::Timestamp;
use serde_json::json;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::api::Client;
use crate::config::Config;
use crate::credential::{Credential, Key};
use crate::paths::Paths;
use crate::status::Board;
use crate::{Failure, enroll, files, proxy, say, service, supervise};

/// How long to wait before the journal is opened again.
const AGAIN: Duration = Duration::from_secs(2);

/// How long to wait before a credential is asked for again.
const AGAIN_CONNECTING: Duration = Duration::from_secs(5);

/// Runs until it is told to stop.
pub(crate) async fn run(paths: &Paths) -> Result<(), Failure> {
    let mut term = signal(SignalKind::terminate()).map_err(Failure::new)?;
    let mut int = signal(SignalKind::interrupt()).map_err(Failure::new)?;
    tokio::select! {
        done = work(paths) => done,
        _ = term.recv() => stopped(paths),
        _ = int.recv() => stopped(paths),
    }
}

fn stopped(paths: &Paths) -> Result<(), Failure> {
    say!("stopping");
    // What it was about is no longer so.
    files::remove(&paths.status()).map_err(Failure::new)
}

async fn work(paths: &Paths) -> Result<(), Failure> {
    let config = Config::read(paths)?;
    let board = Rc::new(Board::new(paths.clone()));
    board.change(|status| status.obeys = Some(config.stamp()));
    let (plans, seen) = watch::channel(None);
    let capabilities = Some(report::capabilities(replaces_itself(paths)));
    let (reports, receiver) = watch::channel(Report { capabilities, ..report::hello() });
    // The plan on the disk is carried out, and looked after, whether the management plane is there or not.
    let connected = async {
        let (client, key, credential) = connect(paths, &config, &board).await?;
        tokio::join!(
            plans::run(&client, &config, &plans, &board),
            reports::run(&client, &config, receiver.clone(), &board),
            lease::run(&client, &config, &board),
            renewal::run(&client, paths, &config, &key, credential, &board),
        );
        Ok(())
    };
    tokio::select! {
        ended = connected => ended,
        () = carry_out(paths, &config, seen, &reports, &board) => Ok(()),
        () = remember(receiver.clone(), &board) => Ok(()),
    }
}

/// Gets a credential if there is none, for as long as that takes. An error means that the service must be started again: it has got
/// another configuration.
async fn connect(
    paths: &Paths,
    config: &Config,
    board: &Board,
) -> Result<(Client, Key, Credential), Failure> {
    loop {
        match try_to_connect(paths, config).await {
            Ok(connected) => {
                say!("{} at {}", config.machine(), config.address());
                return Ok(connected);
            }
            Err(error) => {
                say!("{error}");
                board.note(|status| &mut status.credential, Err(error.to_string()));
            }
        }
        tokio::time::sleep(AGAIN_CONNECTING).await;
        if Config::read(paths).is_ok_and(|now| !now.is_same(config)) {
            return Err(Failure::new("the configuration has changed"));
        }
    }
}

async fn try_to_connect(paths: &Paths, config: &Config) -> Result<(Client, Key, Credential), Failure> {
    // If `enroll` was cut off, this is where it goes on.
    enroll::enrol(paths, config).await?;
    enroll::forget_token(paths).await?;
    let key = Key::take(paths)?;
    let credential = Credential::read(paths, config)?
        .ok_or_else(|| Failure::new("this machine has no credential; enrol it again"))?;
    let client = Client::new(credential.api(config)?);
    Ok((client, key, credential))
}

/// Carries out plans, until the program is replaced. After an error of the journal the agent opens it again, because its content on the disk is unknown.
async fn carry_out(
    paths: &Paths,
    config: &Config,
    mut plans: Plans,
    reports: &watch::Sender<Report>,
    board: &Board,
) {
    let looking = |_: &Linux, moment: Moment| {
        board.change(|status| match moment {
            Moment::Trying(step) => (status.trying, status.next_try) = (Some(step), None),
            Moment::Waiting(until) => (status.trying, status.next_try) = (None, Some(until)),
            Moment::Done => (status.trying, status.next_try) = (None, None),
        });
    };
    let own = own_digest().await;
    loop {
        let problem = match open(paths).await {
            Ok(mut engine) => {
                board.change(|status| status.journal = None);
                if let Some(own) = own.filter(|_| replaces_itself(paths)) {
                    engine = engine.replacing(paths.places(service::content(paths)), own);
                }
                match obey(&mut engine, &config.identity, &mut plans, reports, looking).await {
                    Ok(LoopEnd::NoMorePlans) => None,
                    Ok(LoopEnd::Replaced) => {
                        say!("{} was replaced; systemd starts the new program", paths.binary().display());
                        return;
                    }
                    Err(error) => Some(error.to_string()),
                }
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            say!("{problem}");
            board.change(|status| status.journal = Some(problem.clone()));
            reports.send_if_modified(|report| {
                let is_news = report.problem.as_ref() != Some(&problem);
                report.problem = Some(problem);
                is_news
            });
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whether the agent can replace its program: systemd has started it, and starts it again.
fn replaces_itself(paths: &Paths) -> bool {
    paths.is_machine() && std::env::var_os("INVOCATION_ID").is_some()
}

/// Digest of the program that runs, whatever has become of its file.
async fn own_digest() -> Option<Digest> {
    let read = tokio::task::spawn_blocking(|| std::fs::read("/proc/self/exe")).await;
    read.ok()?.ok().map(|bytes| Digest::of(&bytes))
}

/// Opens the engine of this machine on its journal.
pub(crate) async fn open(paths: &Paths) -> io::Result<Engine<Linux, DiskStore, SystemClock>> {
    let store = DiskStore::open(paths.state()).await?;
    let journal = Journal::open(store).await.map_err(io::Error::other)?;
    // Without a route the agent does what needs no server.
    let machine = Linux::rooted(paths.root())?
        .through(proxy::route(paths).unwrap_or_default())
        .caching_in(paths.cache())
        .supervising(paths.commands(), supervise::program());
    let engine = Engine::new(machine, journal, SystemClock);
    Ok(Paths::protected().fold(engine, Engine::protecting))
}

/// Writes down what was last said, for people on the machine.
async fn remember(mut reports: watch::Receiver<Report>, board: &Board) {
    let mut before = None;
    while reports.changed().await.is_ok() {
        let report = reports.borrow_and_update().clone();
        if let Standing::Plan(progress) = &report.standing {
            let now = (progress.phase, progress.plan, progress.step.as_ref().map(|step| step.name.clone()));
            if before.as_ref() != Some(&now) {
                let step = now.2.as_ref().map(|step| format!(" at step {step}")).unwrap_or_default();
                let message = progress.message.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
                say!("plan {} {:?}{step}{message}", progress.plan, progress.phase);
                before = Some(now);
            }
        }
        let Ok(mut said) = serde_json::to_value(&report) else { continue };
        // People who want to know what a step printed read the report or the log; the rest is told here.
        if let Some(fields) = said.as_object_mut() {
            for field in ["output", "facts", "lastUpdated"] {
                fields.remove(field);
            }
        }
        board.change(|status| {
            let seen = !matches!(report.standing, Standing::Idle);
            if seen && status.said.as_ref().map(|said| &said["plan"]) != Some(&said["plan"]) {
                status.seen = Some(Timestamp::now());
            }
            status.said = Some(said).filter(|said| *said != json!({}));
        });
    }
}
