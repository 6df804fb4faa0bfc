//! Flags of `capstan host`.

use capstan_infrastructure::host_token::MOST_USES;
use clap::{ArgGroup, Subcommand};
use jiff::SignedDuration;
use std::path::PathBuf;

use crate::args::{Output, duration};
use crate::client::PlaceArgs;
use crate::show::ShowArgs;

/// Longest life of a join token.
const LONGEST_LIFE: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Exit codes, in addition to 0 for success, 1 for failure and 2 for invalid usage: 3 if `check` finds a host that is
/// not usable, 4 if `remove`, `abandon`, `approve` or `deny` refuses.
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

    /// Make a join token, and print the line that registers a machine
    ///
    /// A registered machine dials out to the management plane, so it needs no inbound connections.
    Token(TokenArgs),

    /// List machines that have registered
    Registrations(RegistrationsArgs),

    /// Approve a machine that has registered: add it to the inventory
    ///
    /// Exit code 4 means that it is approved already or was refused, or that the host has another machine, which responds.
    Approve(ApproveArgs),

    /// Deny a machine that has registered
    ///
    /// Exit code 4 means that it is approved.
    Deny(DenyArgs),

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

#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// Name of the token [default: random]
    #[arg(value_parser = super::token::name)]
    pub(crate) name: Option<String>,

    /// Number of machines that can register with the token
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_USES)))]
    pub(crate) uses: u32,

    /// Time after which machines cannot register with the token, at most 30d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = expiry)]
    pub(crate) expires: SignedDuration,

    /// Approve machines without a person: `always`, or facts such as architecture=amd64, hostname=edge-* or cpus>=4; may be
    /// repeated, and all must hold
    #[arg(long, value_name = "RULE")]
    pub(crate) approve: Vec<String>,

    /// Label of the hosts; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,

    /// Failure domain of the hosts
    #[arg(long, value_name = "NAME")]
    pub(crate) failure_domain: Option<String>,

    /// URL of the management plane for machines [default: that of the kubeconfig]
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// CA bundle of that URL [default: that of the kubeconfig]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,

    /// URL from which the line downloads capstan-agent [default: the machine has it]
    #[arg(long, value_name = "URL")]
    pub(crate) agent_url: Option<String>,

    /// SHA-256 digest of that file [default: the last part of the URL]
    #[arg(long, value_name = "DIGEST", requires = "agent_url")]
    pub(crate) agent_sha256: Option<String>,

    /// Revoke the token of this name instead; machines that were approved keep their registration
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    pub(crate) revoke: Option<String>,

    /// Machine-readable output: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RegistrationsArgs {
    /// Machine-readable output: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// Name of the registration
    pub(crate) registration: String,

    /// Name of the host in the inventory [default: the host name of the machine]
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Give the machine to this existing host: it has registered again, or was installed again
    #[arg(long, value_name = "NAME", conflicts_with_all = ["name", "label", "failure_domain"])]
    pub(crate) host: Option<String>,

    /// Label of the host, in addition to those of the join token; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,

    /// Failure domain of the host [default: that of the join token]
    #[arg(long, value_name = "NAME")]
    pub(crate) failure_domain: Option<String>,

    /// Machine-readable output: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DenyArgs {
    /// Name of the registration
    pub(crate) registration: String,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Parses the life of a join token.
fn expiry(text: &str) -> Result<SignedDuration, String> {
    let found = duration(text)?;
    match (SignedDuration::from_mins(1)..=LONGEST_LIFE).contains(&found) {
        true => Ok(found),
        false => Err("use 1m to 30d".to_owned()),
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    if key.is_empty() {
        return Err("it has no key".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}
