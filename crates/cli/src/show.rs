//! How verbs show their results: once, or again after every change; for people, or as JSON or YAML.

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::args::Output;
use crate::client::ASKING;
use crate::progress::waiting;
use crate::stop;
use crate::terminal::Look;

/// On a terminal what is shown is drawn again after this long, because ages have changed.
const REDRAWN: Duration = Duration::from_secs(5);
/// To the first line, and away with what is below.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// json or yaml for machine-readable output; wide to disable line wrapping
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,

    /// Show the result again after every change, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// Use colour or not [default: on a terminal, unless NO_COLOR is set]
    #[arg(short, long, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) color: Option<bool>,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
    Wide,
}

impl ShowArgs {
    /// Shows the result of `find`. With `--watch`, calls it again after each `pause` and shows changed results. Returns
    /// the result that was shown last.
    pub(crate) async fn show<T: PartialEq + Serialize>(
        self,
        pause: Duration,
        mut find: impl AsyncFnMut() -> Result<T>,
        text: impl Fn(&T, Look) -> String,
    ) -> Result<T> {
        let look = Look::of_stdout(self.color, self.output == Some(Format::Wide));
        let mut stdout = std::io::stdout();
        let redraws = self.watch && stdout.is_terminal();
        let stop = stop::on_signal()?;
        let mut last: Option<T> = None;
        let mut shown_at = Instant::now();
        loop {
            // Also the first time: hosts that do not answer take long.
            let found = tokio::select! {
                () = stop.clone() => return last.context("interrupted before there was anything to show"),
                found = waiting(ASKING, find()) => found?,
            };
            if last.as_ref() != Some(&found) || redraws && shown_at.elapsed() >= REDRAWN {
                let printed = match self.output {
                    Some(Format::Json) => Output::Json.print(&found)?,
                    Some(Format::Yaml) => Output::Yaml.print(&found)?,
                    Some(Format::Wide) | None => text(&found, look),
                };
                let before: &[u8] = match self.output {
                    _ if redraws => CLEAR,
                    _ if last.is_none() => b"",
                    Some(Format::Yaml) => b"---\n",
                    _ => b"\n",
                };
                stdout
                    .write_all(before)
                    .and_then(|()| stdout.write_all(printed.as_bytes()))
                    .and_then(|()| stdout.flush())
                    .context("cannot write to standard output")?;
                shown_at = Instant::now();
            }
            if !self.watch {
                return Ok(found);
            }
            tokio::select! {
                () = stop.clone() => return Ok(found),
                () = tokio::time::sleep(pause) => last = Some(found),
            }
        }
    }
}
