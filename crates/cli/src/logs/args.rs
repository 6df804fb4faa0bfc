//! What can be asked of `capstan logs`.

use crate::args::Output;
use crate::client::PlaceArgs;

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// machine/NAME, or the name of a Machine
    pub(crate) what: String,

    /// For programs: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    /// Go on, with every step the machine takes
    #[arg(short, long, visible_alias = "follow", conflicts_with = "output")]
    pub(crate) watch: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}
