//! What can be asked of `capstan`, as clap parses it.

use clap::{Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::controllers::Selection;
use crate::host::HostVerb;

/// Cluster API in Rust, for machines people keep.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Show the main job on simulated hosts: a cluster comes up, changes its version in place, and goes
    Demo(DemoArgs),

    /// Run the management plane: API server, store and controllers in one process
    Up(UpArgs),

    /// Run the controllers against a management plane that is there already
    Manager(ManagerArgs),

    /// Add, list, check and remove the machines that clusters are made of
    #[command(subcommand)]
    Host(HostVerb),

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

    /// Say what a cluster or a machine waits for, since when, and who must act
    Why(WhyArgs),
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

#[derive(Debug, clap::Args)]
pub(crate) struct WhyArgs {
    /// machine/NAME, cluster/NAME, or the name of a cluster
    pub(crate) what: String,

    /// For programs: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Output>,

    /// Namespace of the cluster
    #[arg(short, long, default_value = "default")]
    pub(crate) namespace: String,

    /// Kubeconfig of the management plane [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

/// A format for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Json,
    Yaml,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Leave everything up at the end, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UpArgs {
    /// Folder for everything that must last [default: ~/.local/share/capstan]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Address and port to serve the API on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6440")]
    pub(crate) listen: SocketAddr,

    /// Address that machines and kubeconfigs use, if it is another than the one listened on
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise_address: Option<String>,

    /// Where to write the administrator's kubeconfig [default: admin.kubeconfig in the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,

    /// Controllers to run: all, none, or some of core, infrastructure, bootstrap, control-plane
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) controllers: Selection,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManagerArgs {
    /// Kubeconfig of the management plane [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Folder in which simulated hosts keep their state
    #[arg(long, value_name = "DIR", default_value = "capstan-data")]
    pub(crate) data_dir: PathBuf,

    /// Controllers to run: all, none, or some of core, infrastructure, bootstrap, control-plane
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) controllers: Selection,
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
