//! Flags of `capstan logs`.

use crate::client::PlaceArgs;
use crate::show::Format;

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// machine/NAME, or the name of a Machine
    pub(crate) what: String,

    /// Print the last output of this step of the plan instead of the current one
    #[arg(long, value_name = "NAME", conflicts_with = "output")]
    pub(crate) step: Option<String>,

    /// json or yaml for machine-readable output; lines are never wrapped, so wide has no effect
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,

    /// Continue with the output of every further step
    #[arg(short, long, visible_alias = "follow", conflicts_with = "output")]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}
