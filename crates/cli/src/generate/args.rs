//! Flags of `capstan generate`.

use clap::Subcommand;
use std::path::PathBuf;

use crate::client::PlaneArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Print the manifests of a cluster
    Cluster(Box<GenerateClusterArgs>),

    /// Print the RoleBindings for Capstan's managers in a namespace, once for each namespace with clusters
    ///
    /// Needed if the managers have the permissions of `capstan init` or `clusterctl init`; not on the embedded plane.
    Access(AccessArgs),

    /// Print what makes the plane call the admission webhooks of the core provider: Service, rights and webhook configurations
    ///
    /// The manager of the core provider needs more arguments, which the first lines name. Not needed on the embedded plane.
    Admission,
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

    /// Built-in template: ha, simulated, single-node, topology [default: a template for any kind of hosts]
    #[arg(short, long, conflicts_with_all = ["from", "from_config_map"])]
    pub(crate) flavor: Option<String>,

    /// Provider of the template; only templates of capstan are built in
    #[arg(short, long, value_name = "PROVIDER[:VERSION]", conflicts_with_all = ["from", "from_config_map"])]
    pub(crate) infrastructure: Option<String>,

    /// Template to use instead of a built-in one: a file, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "from_config_map")]
    pub(crate) from: Option<String>,

    /// ConfigMap of the management plane to take the template from
    #[arg(long, value_name = "NAME")]
    pub(crate) from_config_map: Option<String>,

    /// Namespace of the ConfigMap [default: that of the context]
    #[arg(long, value_name = "NAMESPACE", requires = "from_config_map")]
    pub(crate) from_config_map_namespace: Option<String>,

    /// Key of the template in the ConfigMap
    #[arg(long, value_name = "KEY", requires = "from_config_map", default_value = "template")]
    pub(crate) from_config_map_key: String,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,

    /// Write to this file instead of standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) write_to: Option<PathBuf>,

    /// List the variables of the template with their defaults, without rendering it
    #[arg(long)]
    pub(crate) list_variables: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AccessArgs {
    /// Namespace with clusters
    #[arg(short, long)]
    pub(crate) namespace: String,
}
