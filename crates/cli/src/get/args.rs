//! Flags of `capstan get`.

use clap::{Subcommand, ValueEnum};

use crate::args::ClusterArgs;
use crate::client::PlaceArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Get {
    /// List Clusters: version, ready machines, and what each one waits for
    #[command(visible_alias = "cluster")]
    Clusters(GetArgs),

    /// List Machines: cluster, version, node, host, and what each one waits for
    #[command(visible_alias = "machine")]
    Machines(GetMachinesArgs),

    /// List Hosts: state, pool, the machine that has claimed each one, and its problem
    #[command(visible_alias = "host")]
    Hosts(GetArgs),

    /// Print the kubeconfig of a workload cluster
    Kubeconfig(ClusterArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct GetArgs {
    /// Names of objects [default: all]
    pub(crate) names: Vec<String>,

    /// List objects of all namespaces
    #[arg(short = 'A', long, conflicts_with_all = ["names", "namespace"])]
    pub(crate) all_namespaces: bool,

    /// Label selector, as in kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "names")]
    pub(crate) selector: Option<String>,

    /// wide for more columns, name for kind and name only, json or yaml for machine-readable output
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<GetOutput>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GetMachinesArgs {
    /// Only Machines of this cluster
    #[arg(long, value_name = "NAME", conflicts_with = "names")]
    pub(crate) cluster: Option<String>,

    #[command(flatten)]
    pub(crate) get: GetArgs,
}

/// Output format of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GetOutput {
    /// A table with more columns
    Wide,
    /// Kind and name, one per line
    Name,
    /// The object, or one JSON List
    Json,
    /// The object, or one YAML List
    Yaml,
}
