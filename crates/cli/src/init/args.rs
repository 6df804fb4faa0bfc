//! Flags of `capstan init` and `capstan delete`.

use std::path::PathBuf;

use crate::client::PlaneArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a provider, all of Capstan's are installed; core only if there is none. What is installed is built in: nothing is \
fetched. clusterctl sees what was installed, and `capstan` sees what clusterctl has.")]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) providers: ProviderArgs,

    /// Install from this folder, in the layout of a clusterctl repository, instead of the built-in manifests
    #[arg(long, value_name = "DIR")]
    pub(crate) repository: Option<PathBuf>,

    /// Namespace for all providers [default: each provider's own]
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub(crate) target_namespace: Option<String>,

    /// Wait until the providers run
    #[arg(long)]
    pub(crate) wait_providers: bool,

    /// Timeout of --wait-providers in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) wait_provider_timeout: u64,

    /// Print what would be installed, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Clusters are kept, but no controller reconciles them without their providers: move or delete them first. The command \
refuses --include-crd while there are objects of the providers' kinds.")]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) providers: ProviderArgs,

    /// Remove all providers
    #[arg(long)]
    pub(crate) all: bool,

    /// Remove the namespaces of the providers, with all objects in them
    #[arg(long)]
    pub(crate) include_namespace: bool,

    /// Remove the CRDs of the providers
    #[arg(long)]
    pub(crate) include_crd: bool,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}

/// The providers, each as `NAME` or `NAME:VERSION`.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ProviderArgs {
    /// Core provider, such as cluster-api; - for none
    #[arg(long, value_name = "PROVIDER")]
    pub(crate) core: Option<String>,

    /// Bootstrap providers, such as capstan
    #[arg(short, long, value_name = "PROVIDER", value_delimiter = ',')]
    pub(crate) bootstrap: Vec<String>,

    /// Control plane providers
    #[arg(short, long, value_name = "PROVIDER", value_delimiter = ',')]
    pub(crate) control_plane: Vec<String>,

    /// Infrastructure providers
    #[arg(short, long, value_name = "PROVIDER", value_delimiter = ',')]
    pub(crate) infrastructure: Vec<String>,

    /// IPAM providers
    #[arg(long, value_name = "PROVIDER", value_delimiter = ',')]
    pub(crate) ipam: Vec<String>,

    /// Runtime extensions
    #[arg(long, value_name = "PROVIDER", value_delimiter = ',')]
    pub(crate) runtime_extension: Vec<String>,

    /// Add-on providers
    #[arg(long, value_name = "PROVIDER", value_delimiter = ',')]
    pub(crate) addon: Vec<String>,
}
