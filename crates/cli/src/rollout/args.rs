//! What can be asked of `capstan rollout`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutVerb {
    /// Start everything on the machines again, or replace them, as their owner does with a change
    Restart(RolloutArgs),

    /// Hold back changes
    Pause(RolloutArgs),

    /// Let changes go on
    Resume(RolloutArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RolloutArgs {
    /// machinedeployment/NAME, capstancontrolplane/NAME or kubeadmcontrolplane/NAME
    #[arg(required = true, value_name = "KIND/NAME")]
    pub(crate) what: Vec<String>,

    /// Namespace of the objects
    #[arg(short, long, default_value = "default")]
    pub(crate) namespace: String,

    /// Kubeconfig of the management plane [default: as kubectl finds it]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of that kubeconfig [default: its current one]
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) kubeconfig_context: Option<String>,
}

/// What clusterctl still calls alpha.
#[derive(Debug, Subcommand)]
pub(crate) enum Alpha {
    /// As `capstan rollout`
    #[command(subcommand)]
    Rollout(RolloutVerb),
}
