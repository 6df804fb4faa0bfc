//! Flags of `capstan release`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// Version of the release, as vX.Y.Z
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: String,

    /// Folder of the repository to write to; other versions in it are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
