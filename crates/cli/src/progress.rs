//! Progress messages on standard error during long operations.
//!
//! On a terminal one line is redrawn; elsewhere plain lines are printed, at increasing intervals. There is one text for
//! the whole process, because a process has one terminal: a function that knows the current step replaces the text of
//! its caller.

use anyhow::{Context as _, Result};
use std::future::Future;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What takes no longer is not worth a line.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a terminal is drawn over.
const DRAWN: Duration = Duration::from_secs(1);
/// Between two plain lines at most.
const SELDOM: Duration = Duration::from_secs(60);

/// The current step, if the function that runs it has named it; else the text of the caller is shown.
static NOW: Mutex<Option<String>> = Mutex::new(None);

/// Runs `work`. If it takes longer than two seconds, prints `what` on standard error.
pub(crate) fn waiting<T>(what: impl Into<String>, work: impl Future<Output = T>) -> impl Future<Output = T> {
    // Verbs are large, and this is on the way of each of them.
    let (what, mut work) = (what.into(), Box::pin(work));
    async move {
        let is_terminal = std::io::stderr().is_terminal();
        let started = Instant::now();
        let mut shown = 0;
        loop {
            let due = (started + due(shown, is_terminal)).saturating_duration_since(Instant::now());
            tokio::select! {
                done = &mut work => {
                    if shown > 0 {
                        clear();
                    }
                    return done;
                }
                () = tokio::time::sleep(due) => {}
            }
            shown += 1;
            let doing = current().unwrap_or_else(|| what.clone());
            write(&line(&doing, started.elapsed(), is_terminal));
        }
    }
}

/// Runs `work`, which blocks its thread, as [`waiting`] does.
pub(crate) async fn waiting_blocked<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    waiting(what, tokio::task::spawn_blocking(work)).await.context("the command ended early")?
}

/// When the next line is due, with so many shown.
fn due(shown: u32, is_terminal: bool) -> Duration {
    match is_terminal {
        true => PATIENCE + DRAWN * shown,
        // After 2, 4, 8 and so on seconds, and then every minute.
        false => (0..shown).fold(PATIENCE, |due, _| due + due.min(SELDOM)),
    }
}

fn line(what: &str, elapsed: Duration, is_terminal: bool) -> String {
    let what = crate::terminal::harmless(what).replace('\n', " ");
    let seconds = elapsed.as_secs();
    match is_terminal {
        true => format!("\r{what} ({seconds} s)\x1b[K"),
        false => format!("waiting: {what} ({seconds} s)\n"),
    }
}

/// Prints a line that stays, above the progress line.
pub(crate) fn say(text: &str) {
    match std::io::stderr().is_terminal() {
        true => write(&format!("\r\x1b[K{text}\n")),
        false => write(&format!("{text}\n")),
    }
}

/// Erases the progress line, before other output.
pub(crate) fn clear() {
    if std::io::stderr().is_terminal() {
        write("\r\x1b[K");
    }
}

fn write(text: &str) {
    // Nothing is lost if it cannot be drawn.
    _ = std::io::stderr().write_all(text.as_bytes());
}

fn current() -> Option<String> {
    NOW.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Shows the progress line while the value exists, if the work takes long.
pub(crate) struct Progress {}

impl Progress {
    pub(crate) const fn new() -> Self {
        Self {}
    }

    #[allow(clippy::unused_self, reason = "what it says is taken back when it goes")]
    pub(crate) fn show(&self, text: &str) {
        *NOW.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *NOW.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_drawn_over_and_lines_become_seldom() {
        let due = |is_terminal| (0..8).map(|shown| due(shown, is_terminal).as_secs()).collect::<Vec<_>>();
        assert_eq!(due(true), [2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(due(false), [2, 4, 8, 16, 32, 64, 124, 184]);
    }

    #[test]
    fn a_plain_line_steers_nothing() {
        let elapsed = Duration::from_millis(2500);
        assert_eq!(line("asking\x1b[2J\nit", elapsed, false), "waiting: asking\u{fffd}[2J it (2 s)\n");
        assert_eq!(line("asking", elapsed, true), "\rasking (2 s)\x1b[K");
    }

    #[tokio::test]
    async fn what_is_quick_is_done_without_a_word() {
        assert_eq!(waiting("asking", async { 7 }).await, 7);
    }
}
