//! `capstan-agent`: what Capstan leaves on a machine, and nothing more.
//!
//! | part | what lives there |
//! |---|---|
//! | [`enroll`] | trades the enrolment token for a credential of the machine's own |
//! | [`daemon`] | watches the plan, carries it out, reports, keeps its credential fresh |
//! | [`follow`] | lets itself be handed to another management plane, if that is not behind the one it obeys |
//! | [`explain`] | why it does what it does, for people |
//! | [`reset`] | takes everything back, itself last |
//! | [`check`] | whether this program could work on this machine, before it replaces another one |
//! | [`guard`] | puts the previous program back if the new one does not work |
//! | [`supervise`] | the process beside a command, which outlives the agent |
//! | [`api`] | the few requests it makes of the management plane |
//!
//! What is done to the machine is decided and done in the library; here are wires, files and words.

mod api;
mod backoff;
mod check;
mod config;
mod credential;
mod daemon;
mod enroll;
mod explain;
mod files;
mod follow;
mod guard;
mod paths;
mod reset;
mod service;
mod status;
mod supervise;

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

use paths::Paths;

/// Says something to whoever reads the log.
macro_rules! say {
    ($($words:tt)*) => { eprintln!("capstan-agent: {}", format_args!($($words)*)) };
}
pub(crate) use say;

/// Carries out what its management plane has planned for this machine.
#[derive(Parser)]
#[command(name = "capstan-agent", version, disable_help_subcommand = true)]
struct Arguments {
    /// Folder that stands for `/`, where everything the agent reads and writes is
    #[arg(long, env = "CAPSTAN_AGENT_ROOT", default_value = "/", global = true)]
    root: PathBuf,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Trade the enrolment token for a credential, and start the service; may be repeated
    Enroll {
        /// How long to try before giving up
        #[arg(long, default_value_t = 900)]
        timeout_seconds: u64,

        /// Do not install the service that starts `capstan-agent run`
        #[arg(long)]
        no_service: bool,
    },
    /// Obey another management plane: takes the agent.json it has made for this machine from standard input; may be repeated
    Follow {
        /// How to print what came of it
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Watch the plan of this machine and carry it out, until told to stop
    Run,
    /// Say who this machine is, whom it obeys, what it does and what it waits for
    Explain {
        /// How to print it
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Take back everything that plans did to this machine, then the agent itself; may be repeated
    Reset {
        /// How to print what came of it
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Check whether this program could run on this machine: read configuration, credential and journal, and write nothing
    Check,
    /// Put this program back if the one that has replaced it does not work; only systemd starts this
    #[command(hide = true)]
    Guard {
        /// The time for the confirmation is over
        #[arg(long)]
        expired: bool,
    },
    /// Run one command for the agent and record its result; only the agent starts this
    #[command(hide = true)]
    Supervise {
        /// Folder of the command
        folder: PathBuf,
    },
    /// Print the version
    Version,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn main() -> ExitCode {
    let Arguments { root, command } = Arguments::parse();
    let paths = Paths::new(root);
    // One thread: there is one thing at a time to do, and an idle machine should not notice us.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match command {
            Command::Enroll { timeout_seconds, no_service } => {
                let timeout = std::time::Duration::from_secs(timeout_seconds);
                enroll::run(&paths, timeout, !no_service).await
            }
            Command::Follow { output } => follow::run(&paths, output == Output::Json).await,
            Command::Run => Box::pin(daemon::run(&paths)).await,
            Command::Explain { output } => explain::run(&paths, output == Output::Json).await,
            Command::Reset { output } => reset::run(&paths, output == Output::Json).await,
            Command::Check => check::run(&paths),
            Command::Guard { expired } => guard::run(&paths, expired).await,
            Command::Supervise { folder } => supervise::run(&folder).await,
            Command::Version => print(&format!("capstan-agent {}\n", env!("CARGO_PKG_VERSION"))),
        }
    });
    // What still reads what a program prints need not be waited for.
    runtime.shutdown_background();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Why a command failed, for people.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Failure(String);

impl Failure {
    #[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
    pub(crate) fn new(words: impl ToString) -> Self {
        Self(words.to_string())
    }
}

pub(crate) fn print(text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::new)
}
