//! Flags of `capstan host`.

use clap::{ArgGroup, Subcommand};
use std::path::PathBuf;

use crate::args::Output;
use crate::client::PlaceArgs;
use crate::show::ShowArgs;

/// Exit codes, in addition to 0 for success, 1 for failure and 2 for invalid usage: 3 if `check` finds a host that is
/// not usable, 4 if `remove` or `abandon` refuses.
#[derive(Debug, Subcommand)]
pub(crate) enum HostVerb {
    /// Add an existing machine to the inventory
    Add(AddArgs),

    /// List the inventory
    List(ListArgs),

    /// Show what would prevent hosts from working, and the remedy
    ///
    /// Exit code 3 means that a host is not usable.
    Check(CheckArgs),

    /// Remove a host from the inventory
    ///
    /// Exit code 4 means that the host is in use: a machine has claimed it, or a pool lists it.
    Remove(RemoveArgs),

    /// Release a host that will not come back, together with the machine on it
    ///
    /// The host is quarantined, because it was not cleaned. Exit code 4 means that it still responds, or that it is not
    /// claimed.
    Abandon(AbandonArgs),
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("credential").required(true))]
#[command(group = ArgGroup::new("trust").required(true))]
pub(crate) struct AddArgs {
    /// Name of the host in the inventory
    pub(crate) name: String,

    /// Host name or address
    #[arg(long)]
    pub(crate) address: String,

    /// Port of the SSH server
    #[arg(long, default_value_t = 22, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,

    /// User to log in as
    #[arg(long, default_value = "root")]
    pub(crate) user: String,

    /// Become root with sudo
    #[arg(long)]
    pub(crate) sudo: bool,

    /// Private key to log in with
    #[arg(long, value_name = "FILE", group = "credential")]
    pub(crate) identity_file: Option<PathBuf>,

    /// Read the passphrase of the private key from standard input
    #[arg(long, requires = "identity_file")]
    pub(crate) passphrase_stdin: bool,

    /// Read the password to log in with from standard input
    #[arg(long, group = "credential")]
    pub(crate) password_stdin: bool,

    /// Existing Secret with the key ssh-privatekey or password
    #[arg(long, value_name = "SECRET", group = "credential")]
    pub(crate) credentials: Option<String>,

    /// Host key to pin, in the format of OpenSSH or ssh-keyscan; may be repeated
    #[arg(long, value_name = "KEY", group = "trust")]
    pub(crate) host_key: Vec<String>,

    /// Pin the first key that the host presents, without verifying it
    #[arg(long, group = "trust")]
    pub(crate) trust_on_first_use: bool,

    /// Label of the host; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,

    /// Failure domain of the host
    #[arg(long, value_name = "NAME")]
    pub(crate) failure_domain: Option<String>,

    /// Machine-readable output: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Label selector, as in kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,

    /// wide, json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<ListOutput>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Output format of a list.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ListOutput {
    /// With more columns
    Wide,
    /// One JSON List
    Json,
    /// One YAML List
    Yaml,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("which").required(true))]
pub(crate) struct CheckArgs {
    /// Names of hosts
    #[arg(group = "which")]
    pub(crate) names: Vec<String>,

    /// All hosts of the namespace
    #[arg(long, group = "which")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) show: ShowArgs,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// Name of the host
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AbandonArgs {
    /// Name of the host
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    if key.is_empty() {
        return Err("it has no key".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}
