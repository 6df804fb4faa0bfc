//! What can be asked of `capstan rotate`.

use clap::Subcommand;

use crate::args::{ClusterArgs, Output};

#[derive(Debug, Subcommand)]
pub(crate) enum RotateVerb {
    /// Replace the key that signs the plans of a cluster's machines
    PlanKey(PlanKeyArgs),
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

    /// Print the result as a document
    #[arg(short, long, value_enum)]
    pub(crate) output: Option<Output>,
}
