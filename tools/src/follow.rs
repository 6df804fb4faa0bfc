//! Runs a program that takes long, and says now and then how far it is.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::progress::Progress;

/// How long a program may be silent.
const TICK: Duration = Duration::from_secs(15);

/// Somebody who makes sense of what a program says.
pub(crate) trait Listener {
    /// A line from its standard error.
    fn hear(&mut self, line: String);

    /// How far it is.
    fn report(&self) -> String;
}

/// Runs `command` to its end. What it prints on standard output is dropped.
pub(crate) fn follow(
    command: &mut Command,
    listener: &mut dyn Listener,
    progress: Progress<'_>,
) -> Result<ExitStatus> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start it")?;
    let stderr = child.stderr.take().context("its standard error is not a pipe")?;
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        // Not `lines()`: not all that programs print is UTF-8.
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                break;
            }
        }
    });
    let mut next_tick = Instant::now() + TICK;
    loop {
        match lines.recv_timeout(next_tick.saturating_duration_since(Instant::now())) {
            Ok(line) => listener.hear(line),
            Err(RecvTimeoutError::Timeout) => {
                progress(&listener.report());
                next_tick = Instant::now() + TICK;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().context("cannot wait for it")?;
    let _ = reader.join();
    Ok(status)
}

/// Runs a program that is quick, and gives what it printed; its errors are in the error.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{name}`"))?;
    anyhow::ensure!(
        output.status.success(),
        "`{name}` failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lines(Vec<String>);

    impl Listener for Lines {
        fn hear(&mut self, line: String) {
            self.0.push(line);
        }

        fn report(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn lines_are_heard_and_the_end_is_reported() {
        let mut lines = Lines(Vec::new());
        let mut command = Command::new("sh");
        command.args(["-c", r"printf 'one\nt\377wo\r\n' >&2; echo out; exit 3"]);
        let status = follow(&mut command, &mut lines, &|_| {}).expect("runs");
        assert_eq!(status.code(), Some(3));
        assert_eq!(lines.0, ["one", "t\u{fffd}wo"]);
    }

    #[test]
    fn quick_programs_give_their_output_or_their_errors() {
        assert_eq!(run(Command::new("echo").arg("hi")).expect("runs"), "hi\n");
        let error = run(Command::new("sh").args(["-c", "echo why >&2; exit 1"])).expect_err("fails");
        assert!(error.to_string().contains("why"), "{error}");
    }
}
