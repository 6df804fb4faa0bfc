//! Runs suites side by side as `schedule` decides, each with a log of its own, and prints the table at the end.

use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};
use std::{fs, io::Write as _, thread};

use anyhow::{Context, Result};

use crate::display::{Display, Running, Status};
use crate::durations::{Durations, words};
use crate::log::Log;
use crate::paths;
use crate::schedule::{self, Next, State};
use crate::suite::{Outcome, Ran, Suite, is_green, verdict};
use crate::table;

/// How many suites share the machine, instead of one for each core.
const PLACES: &str = "CAPSTAN_SUITES";

/// How often the status on a terminal is rewritten.
const TICK: Duration = Duration::from_secs(1);

/// Runs the suites, prints the table and `not_covered`, and says whether all is well. A failure does not stop the
/// suites that do not need the failed one: one run should show everything that is wrong.
pub(crate) fn all(suites: &[Suite], not_covered: &str) -> Result<ExitCode> {
    let strict = std::env::var("STRICT").is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
    let folder = paths::target()?.join("suites");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let logs: Result<Vec<Log>> =
        suites.iter().map(|suite| Log::create(folder.join(format!("{}.log", suite.name)))).collect();
    let mut run = Run {
        suites,
        logs: logs?,
        states: vec![State::Waiting; suites.len()],
        started: vec![None; suites.len()],
        outcomes: suites.iter().map(|_| None).collect(),
        durations: Durations::read(&folder),
        display: Display::new(),
        places: places(),
    };
    run.display.line(&format!("{} suites, logs in {}", suites.len(), folder.display()));
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| run.until_done(scope, &sender, &ended));
    run.display.end();
    let outcomes: Vec<Outcome> = run.outcomes.into_iter().flatten().collect();
    let text = table::render(&outcomes, strict);
    // The reader of the log may be gone; the exit code still tells.
    _ = std::io::stdout().write_all(format!("{text}{not_covered}").as_bytes());
    Ok(if is_green(&outcomes, strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One more than there are cores: the suites that share a machine wait most of the time.
fn places() -> usize {
    let named = std::env::var(PLACES).ok().and_then(|value| value.parse().ok()).filter(|places| *places > 0);
    named.unwrap_or_else(|| thread::available_parallelism().map_or(2, |cores| cores.get() + 1))
}

/// A suite that has ended, by its index.
type Ended = (usize, Ran);

struct Run<'a> {
    suites: &'a [Suite],
    logs: Vec<Log>,
    states: Vec<State>,
    started: Vec<Option<Instant>>,
    outcomes: Vec<Option<Outcome>>,
    durations: Durations,
    display: Display,
    places: usize,
}

impl<'a> Run<'a> {
    fn until_done<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'a>,
        sender: &Sender<Ended>,
        ended: &Receiver<Ended>,
    ) where
        'a: 'scope,
    {
        loop {
            match schedule::next(self.suites, &self.states, self.places) {
                Next::Start(index) => self.start(scope, index, sender.clone()),
                Next::Skip(index, why) => self.end(index, Ran::Skipped(why)),
                Next::Done => return,
                Next::Wait => match ended.recv_timeout(TICK) {
                    Ok((index, ran)) => self.end(index, ran),
                    Err(RecvTimeoutError::Timeout) => self.show(),
                    // We hold a sender ourselves.
                    Err(RecvTimeoutError::Disconnected) => return,
                },
            }
        }
    }

    fn start<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>, index: usize, sender: Sender<Ended>)
    where
        'a: 'scope,
    {
        let (suite, log) = (&self.suites[index], self.logs[index].clone());
        self.states[index] = State::Running;
        self.started[index] = Some(Instant::now());
        let last = self.durations.of(suite.name).map(|last| format!(" ({} last time)", words(last)));
        self.display.line(&format!("=== {}: started{}", suite.name, last.unwrap_or_default()));
        scope.spawn(move || {
            // A panic in a suite is that suite's failure; the others go on.
            let run = std::panic::AssertUnwindSafe(|| (suite.run)(&log));
            let ran = std::panic::catch_unwind(run)
                .map_or_else(|_| Ran::Failed("the suite panicked".to_owned()), verdict);
            // The receiver outlives every suite.
            _ = sender.send((index, ran));
        });
    }

    fn end(&mut self, index: usize, ran: Ran) {
        let (name, took) = (self.suites[index].name, self.ran(index));
        self.states[index] = if matches!(ran, Ran::Passed(_)) { State::Passed } else { State::NotPassed };
        let text = match &ran {
            Ran::Passed(tests) => {
                self.durations.record(name, took);
                format!("=== {name}: passed, {}, {}", tests.words(), words(took))
            }
            Ran::Failed(why) => {
                let log = self.logs[index].after(0).unwrap_or_default();
                format!("{log}=== {name}: FAILED after {}: {why}", words(took))
            }
            Ran::Skipped(why) => format!("=== {name}: skipped: {why}"),
        };
        if let Ran::Failed(why) | Ran::Skipped(why) = &ran {
            self.logs[index].line(why);
        }
        let ended = self.states.iter().filter(|state| is_over(**state)).count();
        self.display.line(&format!("{text} [{ended}/{}]", self.suites.len()));
        self.outcomes[index] = Some(Outcome { name, result: ran, took });
    }

    fn ran(&self, index: usize) -> Duration {
        self.started[index].map_or(Duration::ZERO, |started| started.elapsed())
    }

    fn show(&mut self) {
        let (suites, states) = (self.suites, &self.states);
        let (logs, durations, started, places) = (&self.logs, &self.durations, &self.started, self.places);
        self.display.status(|| {
            let ran: Vec<Duration> =
                started.iter().map(|started| started.map_or(Duration::ZERO, |at| at.elapsed())).collect();
            let takes: Vec<Duration> =
                suites.iter().map(|suite| durations.of(suite.name).unwrap_or_default()).collect();
            let running = (0..suites.len()).filter(|index| states[*index] == State::Running);
            Status {
                ended: states.iter().filter(|state| is_over(**state)).count(),
                all: suites.len(),
                running: running
                    .map(|index| Running {
                        name: suites[index].name,
                        ran: ran[index],
                        last: durations.of(suites[index].name),
                        line: logs[index].last_line(),
                    })
                    .collect(),
                left: schedule::time_left(suites, states, &takes, &ran, places),
            }
        });
    }
}

fn is_over(state: State) -> bool {
    matches!(state, State::Passed | State::NotPassed)
}
