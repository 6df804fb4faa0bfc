//! Flags of `capstan logs`.

use crate::client::PlaceArgs;
use crate::show::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// machine/NAME, or the name of a Machine
    pub(crate) what: String,

    /// json or yaml for machine-readable output; lines are never wrapped, so wide has no effect
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,

    /// Continue with the output of every further step
    #[arg(short, long, visible_alias = "follow", conflicts_with = "output")]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}
