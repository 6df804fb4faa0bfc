//! Plans in a folder: looked at every five seconds, applied in lexical order.

use capstan_agent::SystemClock;
use capstan_sentinel::decide::Decision;
use capstan_sentinel::local::{Position, plans};
use capstan_sentinel::output::{self, Periodics};
use capstan_sentinel::plan::{self, Plan};
use capstan_sentinel::progress::Identity;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::{Order, Sentinel, trusted};
use crate::{Failure, files, say};

/// Interval of looks at the folder.
const INTERVAL: Duration = Duration::from_secs(5);

pub(super) async fn run(sentinel: &Sentinel, folder: &Path) -> Result<(), Failure> {
    say!("applying plans in {}", folder.display());
    let mut complaints = BTreeMap::new();
    loop {
        sentinel.check()?;
        let mut paths = BTreeSet::new();
        let walked = walk(folder, &mut paths);
        complain(&mut complaints, &folder.display().to_string(), walked.map_err(Failure::new));
        for (path, position) in plans(&paths) {
            let done = look(sentinel, Path::new(&path), Path::new(&position)).await;
            complain(&mut complaints, &path, done);
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Logs an error once.
fn complain(said: &mut BTreeMap<String, String>, path: &str, done: Result<(), Failure>) {
    match done.map_err(|error| error.to_string()) {
        Ok(()) => _ = said.remove(path),
        Err(error) => {
            if said.get(path) != Some(&error) {
                say!("{path}: {error}");
                said.insert(path.to_owned(), error);
            }
        }
    }
}

/// All files below a folder. Links are not followed.
fn walk(folder: &Path, paths: &mut BTreeSet<String>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), paths)?;
        } else if let Some(path) = entry.path().to_str() {
            paths.insert(path.to_owned());
        }
    }
    Ok(())
}

async fn look(sentinel: &Sentinel, path: &Path, position_file: &Path) -> Result<(), Failure> {
    let bytes = trusted(path)?;
    let before = files::read(position_file).map_err(Failure::new)?.unwrap_or_default();
    let mut position = Position::parse(&before);
    let checksum = plan::checksum(&bytes);
    let plan = Plan::parse(&bytes).map_err(Failure::new)?;
    let known: Periodics = output::unpack(&position.periodic_output.0);
    let mut reported = None;
    let is_applied_now = match position.decide(&checksum, Timestamp::now()) {
        Decision::Apply { attempt, .. } => {
            let source = path.display().to_string();
            let identity = Identity { source, checksum, revision: None, attempt: Some(attempt) };
            let saved = output::unpack(&position.output.0);
            let order = Order { identity: &identity, plan: &plan, bytes: &bytes, attempt, saved };
            let (outcome, periodics, _) = sentinel.apply(order, &known).await?;
            position.end(&checksum, &outcome);
            position.set_periodics(&periodics);
            reported = Some(identity);
            true
        }
        Decision::Rest { .. } => {
            let (periodics, _) = sentinel.periodics(&plan, &checksum, &known).await?;
            position.set_periodics(&periodics);
            false
        }
    };
    position.probe_status =
        sentinel.applier.probe(&plan, &position.probe_status, is_applied_now, &SystemClock).await;
    let after = serde_json::to_vec(&position).map_err(Failure::new)?;
    if after != before {
        files::write(position_file, &after).map_err(Failure::new)?;
    }
    if let Some(identity) = reported {
        sentinel.forget(&identity).await;
    }
    Ok(())
}
