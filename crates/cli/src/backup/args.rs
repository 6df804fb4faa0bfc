//! Flags of `capstan backup` and `capstan restore`.

use std::path::PathBuf;

use crate::client::PlaneArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A plane that runs goes on meanwhile. The file holds every Secret and the plane's own keys: keep it as safe as the plane.")]
pub(crate) struct BackupArgs {
    /// File to write; it must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Data folder of an embedded plane on this machine, whether it runs or not [default: the plane of the
    /// kubeconfig]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "kubeconfig_context"])]
    pub(crate) data_dir: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
No controller runs on a restored plane until it is started with `capstan up --resume-after-restore`.")]
pub(crate) struct RestoreArgs {
    /// Backup file from `capstan backup`
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Data folder to restore to [default: ~/.local/share/capstan]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Restore into a folder with an existing plane: its store and keys are moved aside, not deleted
    #[arg(long)]
    pub(crate) force: bool,
}
