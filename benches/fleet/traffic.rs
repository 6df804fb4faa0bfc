//! Reads an audit log incrementally, and waits until the measured clients stop writing.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use capstan_benches::fleet::audit::{Counts, Request, Tally, parse};

/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often it is told that there is no rest yet.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Controllers: what is measured.
    Controllers,
    /// Agents of machines.
    Machines,
    /// This program, and others that are not counted.
    Others,
}

/// Requests, by who sent them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) controllers: Counts,
    pub(crate) machines: Counts,
}

impl Traffic {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.controllers.merge(&other.controllers);
        self.machines.merge(&other.machines);
    }

    /// Of both.
    pub(crate) fn sum(&self, of: fn(&Tally) -> u64) -> u64 {
        of(&self.controllers.total()) + of(&self.machines.total())
    }
}

/// How it went until there was rest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rest {
    /// Whether there was any before the deadline.
    pub(crate) is_idle: bool,
    /// From the start of the wait to the last request of a controller that was seen, by the log.
    pub(crate) last_request: Duration,
    /// What was asked meanwhile.
    pub(crate) traffic: Traffic,
}

/// An audit log that is written to.
pub(crate) struct Log {
    path: PathBuf,
    offset: u64,
    sender: fn(&Request<'_>) -> Sender,
}

impl Log {
    /// A log from its beginning; it need not exist yet.
    pub(crate) fn at(path: &Path, sender: fn(&Request<'_>) -> Sender) -> Self {
        Self { path: path.to_owned(), offset: 0, sender }
    }

    /// What was noted since the last call.
    pub(crate) fn take(&mut self) -> Result<Traffic> {
        let mut traffic = Traffic::default();
        let Ok(mut file) = File::open(&self.path) else { return Ok(traffic) };
        file.seek(SeekFrom::Start(self.offset)).context("cannot read the audit log")?;
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut line = String::new();
        loop {
            line.clear();
            let length = reader.read_line(&mut line).context("cannot read the audit log")?;
            // A line without its end is still being written.
            if !line.ends_with('\n') {
                return Ok(traffic);
            }
            self.offset += length as u64;
            let Some(request) = parse(&line).context("a line of the audit log")? else { continue };
            match (self.sender)(&request) {
                Sender::Controllers => traffic.controllers.add(&request),
                Sender::Machines => traffic.machines.add(&request),
                Sender::Others => {}
            }
        }
    }

    /// Waits until no controller has written for as long as `idle_period`, at most for `deadline`.
    pub(crate) async fn wait_until_idle(
        &mut self,
        idle_period: Duration,
        deadline: Duration,
    ) -> Result<Rest> {
        let started = Instant::now();
        let (mut last_write, mut printed_at) = (started, started);
        let mut rest = Rest::default();
        loop {
            let news = self.take()?;
            let (all, now) = (news.controllers.total(), Instant::now());
            if all.requests > 0 {
                rest.last_request = now - started;
            }
            if all.writes + all.conflicts > 0 {
                last_write = now;
            }
            rest.traffic.merge(&news);
            rest.is_idle = now - last_write >= idle_period;
            if rest.is_idle || now - started >= deadline {
                break;
            }
            if printed_at.elapsed() >= PROGRESS_EVERY && all.writes > 0 {
                printed_at = now;
                let top = news.controllers.top(3, |tally| tally.writes);
                let top: Vec<_> = top
                    .iter()
                    .map(|(verb, kind, tally)| format!("{verb} {kind} x{}", tally.writes))
                    .collect();
                eprintln!("  controllers still write: {}", top.join(", "));
            }
            tokio::time::sleep(LOOK).await;
        }
        if !rest.is_idle {
            eprintln!("  controllers still write after {:.0} s", deadline.as_secs_f64());
        }
        Ok(rest)
    }
}
