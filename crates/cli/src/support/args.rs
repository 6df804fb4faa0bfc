//! Flags of `capstan support`.

use clap::Subcommand;
use std::path::PathBuf;

use crate::client::PlaneArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum SupportVerb {
    /// Write an archive to analyse a problem, without secrets
    ///
    /// It contains the versions of this program and the server, all objects of Cluster API's and Capstan's kinds with
    /// their conditions, events, Leases, reports of machines, plans by the names of their steps, the output of `capstan
    /// describe` and `capstan why` for each cluster, and logs of controllers that run as Pods. Of Secrets only names,
    /// types, keys and sizes. manifest.json lists what could not be read and why.
    Bundle(BundleArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct BundleArgs {
    /// Archive to write [default: capstan-support-TIME.tar.gz in the current folder]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Replace the archive if it exists
    #[arg(long)]
    pub(crate) force: bool,

    /// Maximum size of the content in MiB, before compression; files that do not fit are omitted and listed
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) max_size: u64,

    /// Only this namespace [default: all namespaces, or that of the context if permissions are missing]
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}
