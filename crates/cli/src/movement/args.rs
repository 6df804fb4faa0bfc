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

    /// Write all objects to this folder instead, and leave them on the plane: a backup
    #[arg(long, value_name = "DIR", group = "destination", conflicts_with_all = ["to_kubeconfig", "from_directory"])]
    pub(crate) to_directory: Option<PathBuf>,

    /// Create the objects of this folder, on the plane of --to-kubeconfig, else that of the default kubeconfig
    #[arg(long, value_name = "DIR", group = "destination", conflicts_with_all = ["kubeconfig", "namespace"])]
    pub(crate) from_directory: Option<PathBuf>,

    /// The current plane of the clusters.
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Show which objects would be moved, in order, and write nothing
    #[arg(long, group = "destination", conflicts_with_all = ["to_directory", "from_directory"])]
    pub(crate) dry_run: bool,

    /// Warnings of API servers to hide; no effect, because they are never shown
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
