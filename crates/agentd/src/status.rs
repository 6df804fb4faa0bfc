//! What the daemon is about, written down where [`explain`](crate::explain) reads it: in a folder that is gone after a
//! boot, because nothing depends on it. Nothing in it is secret.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

use crate::files;
use crate::paths::Paths;

/// What the daemon is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    /// Number of its process.
    pub(crate) pid: u32,
    /// Since when it runs.
    pub(crate) started: Option<Timestamp>,
    /// Whom it obeys: the stamp of its configuration, which may be another one by now.
    pub(crate) obeys: Option<String>,
    /// How it goes with its plan's Secret.
    pub(crate) plan_source: Link,
    /// How it goes with writing its report.
    pub(crate) report: Link,
    /// How it goes with its Lease.
    pub(crate) lease: Link,
    /// How it goes with its credential.
    pub(crate) credential: Link,
    /// What it last said of its plan.
    pub(crate) said: Option<serde_json::Value>,
    /// When the last plan was seen.
    pub(crate) seen: Option<Timestamp>,
    /// The step that is being tried, counted from 1.
    pub(crate) trying: Option<usize>,
    /// When the next attempt is due.
    pub(crate) next_try: Option<Timestamp>,
    /// Why the journal cannot be opened, if so.
    pub(crate) journal: Option<String>,
}

/// How it goes with something at the management plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Link {
    /// Whether it worked last time; unknown before the first.
    pub(crate) works: Option<bool>,
    /// Since when it has been so.
    pub(crate) since: Option<Timestamp>,
    /// What was said when it did not work.
    pub(crate) message: Option<String>,
}

/// Writes it down when it changes. There is one thread, and nobody holds it across a wait.
pub(crate) struct Board {
    paths: Paths,
    status: RefCell<Status>,
}

impl Board {
    pub(crate) fn new(paths: Paths) -> Self {
        let status = Status { pid: std::process::id(), started: Some(Timestamp::now()), ..Status::default() };
        let board = Self { paths, status: RefCell::new(status) };
        board.write();
        board
    }

    /// Changes it, and writes it down if that changed anything.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Status)) {
        let before = self.status.borrow().clone();
        change(&mut self.status.borrow_mut());
        if *self.status.borrow() != before {
            self.write();
        }
    }

    /// Notes how it goes with something; the same news twice is none.
    pub(crate) fn note(&self, link: impl Fn(&mut Status) -> &mut Link, went: Result<(), String>) {
        self.change(|status| {
            let link = link(status);
            let works = went.is_ok();
            let message = went.err();
            if link.works != Some(works) || link.message != message {
                *link = Link { works: Some(works), since: Some(Timestamp::now()), message };
            }
        });
    }

    fn write(&self) {
        // It is for people who ask; that nobody can ask is no reason to stop.
        if let Ok(text) = serde_json::to_vec(&*self.status.borrow()) {
            let _ = files::write(&self.paths.status(), &text);
        }
    }
}

/// What the daemon has written down, if it still runs: one that was killed had no time to take it back.
pub(crate) fn read(paths: &Paths) -> Option<Status> {
    let bytes = files::read(&paths.status()).ok()??;
    let status: Status = serde_json::from_slice(&bytes).ok()?;
    let name = std::fs::read_to_string(format!("/proc/{}/comm", status.pid)).ok()?;
    // The kernel keeps the first 15 characters of a name.
    name.trim_end().starts_with("capstan-agent").then_some(status)
}
