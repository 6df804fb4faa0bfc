//! What can be asked of `capstan`, as clap parses it.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Cluster API in Rust, for machines people keep.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Print the CustomResourceDefinitions, ready for `kubectl apply -f -`
    Crds(CrdsArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct CrdsArgs {
    /// Print only those of one provider
    #[arg(long, value_enum)]
    pub(crate) provider: Option<Provider>,

    /// How to print them
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub(crate) output: Format,

    /// Write a YAML file for each into this folder, and remove the files of CRDs that are no more
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) out_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Provider {
    Core,
    Bootstrap,
    ControlPlane,
    Infrastructure,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// A stream of YAML documents
    Yaml,
    /// One JSON List
    Json,
    /// Their names, one a line
    Name,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
