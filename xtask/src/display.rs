//! The output of a run: on a terminal one line that is redrawn, elsewhere plain lines at an interval.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::durations::words;

/// How often a log file is told what runs.
const PLAIN_INTERVAL: Duration = Duration::from_secs(30);

/// Text that does not fit is cut by the terminal, so that the whole status is one line to erase.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
const ERASE: &str = "\r\x1b[2K";

/// A suite that runs.
pub(crate) struct Running {
    pub(crate) name: &'static str,
    pub(crate) ran: Duration,
    /// How long it took last time.
    pub(crate) last: Option<Duration>,
    /// The last line of its log.
    pub(crate) line: String,
}

/// How far a run is.
pub(crate) struct Status {
    pub(crate) ended: usize,
    pub(crate) all: usize,
    pub(crate) running: Vec<Running>,
    /// An estimate from last times.
    pub(crate) left: Duration,
}

pub(crate) struct Display {
    terminal: bool,
    next_plain: Instant,
}

impl Display {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        Self { terminal, next_plain: Instant::now() + PLAIN_INTERVAL }
    }

    /// A line that stays.
    pub(crate) fn line(&self, text: &str) {
        self.write(if self.terminal { ERASE } else { "" }, text, "\n");
    }

    /// How far the run is, if it is time to say so.
    pub(crate) fn status(&mut self, status: impl FnOnce() -> Status) {
        if self.terminal {
            self.write(&format!("{ERASE}{NO_WRAP}"), &one_line(&status()), WRAP);
        } else if Instant::now() >= self.next_plain {
            self.next_plain = Instant::now() + PLAIN_INTERVAL;
            self.write("", &plain(&status()), "\n");
        }
    }

    /// Removes the rewritten line.
    pub(crate) fn end(&self) {
        if self.terminal {
            self.write(ERASE, "", "");
        }
    }

    fn write(&self, before: &str, text: &str, after: &str) {
        // The reader of the log may be gone; the exit code still tells.
        _ = std::io::stderr().write_all(format!("{before}{text}{after}").as_bytes());
    }
}

fn one_line(status: &Status) -> String {
    let running: Vec<String> = status.running.iter().map(progress).collect();
    format!("{}{}  {}", head(status), left(status), running.join(" | "))
}

fn plain(status: &Status) -> String {
    let running: Vec<String> = status.running.iter().map(progress).collect();
    format!("{} running{}: {}", head(status), left(status), running.join("; "))
}

fn head(status: &Status) -> String {
    format!("[{}/{}]", status.ended, status.all)
}

fn left(status: &Status) -> String {
    match status.left {
        Duration::ZERO => String::new(),
        left => format!(" about {} left", words(left)),
    }
}

fn progress(running: &Running) -> String {
    let Running { name, ran, last, line } = running;
    let of = last.map_or(String::new(), |last| format!(" of {}", words(last)));
    let line: String = line.chars().filter(|c| !c.is_control()).take(60).collect();
    format!("{name} {}{of}: {line}", words(*ran)).trim_end_matches(": ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_names_what_runs_and_what_is_left() {
        let running = |name, last: Option<u64>, line: &str| Running {
            name,
            ran: Duration::from_secs(80),
            last: last.map(Duration::from_secs),
            line: line.to_owned(),
        };
        let mut status = Status {
            ended: 3,
            all: 28,
            running: vec![running("unit", Some(185), "test a ... ok\r"), running("tools", None, "")],
            left: Duration::from_secs(1200),
        };
        let expected =
            "[3/28] running about 20 min 00 s left: unit 80 s of 3 min 05 s: test a ... ok; tools 80 s";
        assert_eq!(plain(&status), expected);
        status.left = Duration::ZERO;
        assert_eq!(one_line(&status), "[3/28]  unit 80 s of 3 min 05 s: test a ... ok | tools 80 s");
    }
}
