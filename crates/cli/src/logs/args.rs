//! What can be asked of `capstan logs`.

use std::path::PathBuf;

use crate::args::Output;

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

    /// Namespace of the Machine
    #[arg(short, long, default_value = "default")]
    pub(crate) namespace: String,

    /// Kubeconfig of the management plane [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}
