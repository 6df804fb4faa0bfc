//! Flags of `capstan rollout`.

use clap::Subcommand;

use crate::client::PlaceArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutVerb {
    /// Restart the machines in place or replace them, as their owner does for a change
    Restart(RolloutArgs),

    /// Pause the rollout of changes
    Pause(RolloutArgs),

    /// Resume the rollout of changes
    Resume(RolloutArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RolloutArgs {
    /// machinedeployment/NAME, capstancontrolplane/NAME or kubeadmcontrolplane/NAME
    #[arg(required = true, value_name = "KIND/NAME")]
    pub(crate) what: Vec<String>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// Commands that clusterctl still calls alpha.
#[derive(Debug, Subcommand)]
pub(crate) enum Alpha {
    /// Same as `capstan rollout`
    #[command(subcommand)]
    Rollout(RolloutVerb),
}
