//! `capstan-agent`: the program that Capstan installs on a machine.
//!
//! | part | content |
//! |---|---|
//! | [`enroll`] | exchanges the enrolment token for the machine's own credential |
//! | [`daemon`] | watches the plan, applies it, reports, renews the credential |
//! | [`follow`] | follows another management plane, if its epoch is later |
//! | [`explain`] | prints what the agent does and why, for people |
//! | [`reset`] | reverts all changes of the machine, and removes the agent last |
//! | [`check`] | whether this program could work on this machine, before it replaces another one |
//! | [`guard`] | puts the previous program back if the new one does not work |
//! | [`supervise`] | the supervisor of a command, which outlives the agent |
//! | [`dialout`] | registers a machine that has no cluster yet, and executes the instructions of its Host |
//! | [`sentinel`] | takes the place of rancher/system-agent on a machine that is not enrolled |
//! | [`api`] | the requests to the management plane |
//!
//! The library `capstan-agent` decides and carries out all changes of the machine; this program has connections, files
//! and texts.

mod api;
mod backoff;
mod check;
mod config;
mod credential;
mod daemon;
mod dialout;
mod enroll;
mod explain;
mod files;
mod follow;
mod guard;
mod paths;
mod proxy;
mod reset;
mod sentinel;
mod service;
mod status;
mod step_log;
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
        /// Print the attempts of this step of the plan, with their output
        #[arg(long, value_name = "NAME")]
        step: Option<String>,
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
    /// Register this machine with a join token of `capstan host token`, and start the service that dials out; may be repeated
    Register {
        /// File with the join token; `-` is standard input
        #[arg(long, value_name = "FILE", default_value = "-")]
        token_file: PathBuf,

        /// Register again although this machine is registered
        #[arg(long)]
        again: bool,

        /// HTTP proxy to the management plane, as http://HOST[:PORT], or `direct` for none; kept for all connections of the agent
        #[arg(long, value_name = "URL")]
        proxy: Option<String>,

        /// Servers to reach without the proxy: names, domains, addresses and CIDR blocks
        #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "proxy")]
        no_proxy: Vec<String>,

        /// Do not install the service that starts `capstan-agent dial`
        #[arg(long)]
        no_service: bool,
    },
    /// Dial out to the management plane of the registration, and execute its instructions, until told to stop
    Dial,
    /// Stop dialing out, and remove the registration from this machine; may be repeated
    Unregister,
    /// Apply plans of rancher/system-agent, on a machine that is not enrolled; plans are not signed
    Sentinel {
        /// Configuration file of rancher/system-agent
        #[arg(long, env = "CATTLE_AGENT_CONFIG", value_name = "FILE")]
        config: PathBuf,
    },
    /// Check a configuration file of rancher/system-agent
    ValidateConfig {
        /// Configuration file
        file: PathBuf,
    },
    /// Check a connection information file of rancher/system-agent
    ValidateConnection {
        /// Connection information file
        file: PathBuf,
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
            Command::Explain { step: Some(step), output } => {
                step_log::run(&paths, &step, output == Output::Json)
            }
            Command::Explain { step: None, output } => explain::run(&paths, output == Output::Json).await,
            Command::Reset { output } => reset::run(&paths, output == Output::Json).await,
            Command::Check => check::run(&paths),
            Command::Guard { expired } => guard::run(&paths, expired).await,
            Command::Supervise { folder } => supervise::run(&folder).await,
            Command::Register { token_file, again, proxy, no_proxy, no_service } => {
                let proxy = proxy.map(|url| dialout::Proxy { url, direct: no_proxy });
                dialout::register(&paths, &token_file, again, proxy, !no_service).await
            }
            Command::Dial => Box::pin(dialout::dial(&paths)).await,
            Command::Unregister => dialout::unregister(&paths).await,
            Command::Sentinel { config } => Box::pin(sentinel::run(&paths, &config)).await,
            Command::ValidateConfig { file } => sentinel::validate_config(&file),
            Command::ValidateConnection { file } => sentinel::validate_connection(&file),
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
