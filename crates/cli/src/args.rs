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

    /// Print manifests made from templates
    #[command(subcommand)]
    Generate(Generate),

    /// Print things out of the management plane
    #[command(subcommand)]
    Get(Get),

    /// Show what something is made of, and how each part does
    #[command(subcommand)]
    Describe(Describe),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Get {
    /// Print the kubeconfig of a workload cluster
    Kubeconfig(ClusterArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Describe {
    /// Show a cluster as a tree
    Cluster(ClusterArgs),
}

/// One cluster of a management plane.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterArgs {
    /// Name of the cluster
    pub(crate) name: String,

    /// Namespace of the cluster
    #[arg(short, long, default_value = "default")]
    pub(crate) namespace: String,

    /// Kubeconfig of the management plane [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Print the manifests of a cluster
    Cluster(GenerateClusterArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct GenerateClusterArgs {
    /// Name of the cluster
    #[arg(required_unless_present = "list_variables")]
    pub(crate) name: Option<String>,

    /// Kubernetes version, with its leading v [env: KUBERNETES_VERSION]
    #[arg(long, value_name = "VERSION")]
    pub(crate) kubernetes_version: Option<String>,

    /// Number of control plane machines, which must be odd [env: CONTROL_PLANE_MACHINE_COUNT]
    #[arg(long, value_name = "N")]
    pub(crate) control_plane_machine_count: Option<u32>,

    /// Number of workers [env: WORKER_MACHINE_COUNT]
    #[arg(long, value_name = "N")]
    pub(crate) worker_machine_count: Option<u32>,

    /// Namespace of the cluster
    #[arg(short = 'n', long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) target_namespace: String,

    /// Template to use instead of the built-in one: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,

    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) write_to: Option<PathBuf>,

    /// List the variables of the template with their defaults, and do nothing else
    #[arg(long)]
    pub(crate) list_variables: bool,
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
