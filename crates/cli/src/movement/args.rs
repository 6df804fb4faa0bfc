//! Flags of `capstan move`.

use clap::ValueEnum;
use std::path::PathBuf;

use crate::client::PlaceArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is deleted before everything has been made at the target and compared. A move that was interrupted is finished by \
the same command. Managers on both sides may keep running: what is on its way is paused on both.")]
#[command(group = clap::ArgGroup::new("destination").required(true).multiple(true))]
pub(crate) struct MoveArgs {
    /// Kubeconfig of the plane to move to
    #[arg(long, value_name = "FILE", group = "destination")]
    pub(crate) to_kubeconfig: Option<PathBuf>,

    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT", requires = "to_kubeconfig")]
    pub(crate) to_kubeconfig_context: Option<String>,

    /// Write everything to this folder instead, and leave it where it is: a backup
    #[arg(long, value_name = "DIR", group = "destination", conflicts_with_all = ["to_kubeconfig", "from_directory"])]
    pub(crate) to_directory: Option<PathBuf>,

    /// Make what is in this folder, at the plane of --to-kubeconfig or else as kubectl finds it
    #[arg(long, value_name = "DIR", group = "destination", conflicts_with_all = ["kubeconfig", "namespace"])]
    pub(crate) from_directory: Option<PathBuf>,

    /// Where they are now.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Say what would be moved, in which order, and write nothing
    #[arg(long, group = "destination", conflicts_with_all = ["to_directory", "from_directory"])]
    pub(crate) dry_run: bool,

    /// Warnings of API servers to hide; here they are never shown
    #[arg(long, value_enum, default_value_t = Warnings::Default, hide = true)]
    pub(crate) hide_api_warnings: Warnings,
}

/// clusterctl's sets of warnings.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Warnings {
    Default,
    All,
    None,
}
