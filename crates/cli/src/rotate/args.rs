//! Arguments of `capstan rotate`.

use clap::Subcommand;
use jiff::SignedDuration;
use std::path::PathBuf;

use crate::args::{ClusterArgs, Output, duration};
use crate::client::PlaneArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum RotateVerb {
    /// Replace the key that signs the plans of a cluster's machines
    PlanKey(PlanKeyArgs),

    /// Replace the key that signs tokens of service accounts on an embedded plane
    TokenKey(TokenKeyArgs),

    /// Replace the CA of an embedded plane on this machine, which machines and kubeconfigs trust
    PlaneCa(PlaneCaArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
1. `capstan rotate plane-ca`, then restart `capstan up`: machines follow to both CAs by themselves, and get certificates of the new one. \
Copies of admin.kubeconfig stay valid as long as their certificate; make new ones now.\n\
2. `capstan rotate plane-ca --finish`, then restart `capstan up`: the old CA is not trusted any more. The command refuses and names \
machines that have not followed.")]
pub(crate) struct PlaneCaArgs {
    /// Data folder of the plane [default: ~/.local/share/capstan]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Give up the old CA; every machine must have followed
    #[arg(long)]
    pub(crate) finish: bool,

    /// With --finish: give up machines that have not followed. They lose contact and must be set up again
    #[arg(long, requires = "finish")]
    pub(crate) abandon_machines: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only for embedded planes, and only for the group system:masters. New tokens are signed with the new key at once. Machines renew their \
tokens after 60 days, so by default they all get one of the new key in time. With a shorter --keep-old-for, machines whose token would \
end are told to enrol again, by their infrastructure provider. With --keep-old-for 0s every token of before is rejected from now on, and \
open watches with one end within seconds. Machines that have not enrolled yet hold such a token: run their bootstrap data again, or \
delete their Machines.")]
pub(crate) struct TokenKeyArgs {
    /// How long tokens that were signed with earlier keys stay valid, such as 0s, 1h or 7d
    #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = overlap)]
    pub(crate) keep_old_for: SignedDuration,

    /// For programs: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

/// Tokens that live longer than this are rare, and have to be issued again.
const LONGEST_OVERLAP: SignedDuration = SignedDuration::from_hours(365 * 24);

fn overlap(text: &str) -> Result<SignedDuration, String> {
    let duration = duration(text)?;
    match (SignedDuration::ZERO..=LONGEST_OVERLAP).contains(&duration) {
        true => Ok(duration),
        false => Err("must be between 0s and 365d".to_owned()),
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing changes on the machines but the key that they trust. A machine that is away follows when it comes back. The command \
waits until every machine trusts the new key; if it is interrupted, run it again.\n\n\
Make a backup of the management plane afterwards: with an older one, machines would reject its plans.")]
pub(crate) struct PlanKeyArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// Do not wait until every machine trusts the new key
    #[arg(long)]
    pub(crate) no_wait: bool,

    /// Give up waiting after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub(crate) timeout: u64,

    /// For programs: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,
}
