//! Flags of `capstan rollout`.

use clap::Subcommand;

use crate::client::PlaceArgs;

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

    #[command(flatten)]
    pub(crate) place: PlaceArgs,
}

/// What clusterctl still calls alpha.
#[derive(Debug, Subcommand)]
pub(crate) enum Alpha {
    /// As `capstan rollout`
    #[command(subcommand)]
    Rollout(RolloutVerb),
}
