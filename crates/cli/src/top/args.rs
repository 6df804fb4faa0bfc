//! Flags of `capstan top`.

use crate::client::PlaneArgs;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys: arrows or j and k move, Enter opens, Esc goes back, / filters, :clusters :machines :hosts change the view, ? lists all keys, \
q quits.")]
pub(crate) struct TopArgs {
    /// Show objects of this namespace only [default: all namespaces]
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) plane: PlaneArgs,
}
