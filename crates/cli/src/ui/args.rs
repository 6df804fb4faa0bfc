//! Flags of `capstan ui`.

use std::net::SocketAddr;

use crate::client::PlaneArgs;

/// Default of `--listen`: a free loopback port.
pub(crate) const LISTEN: &str = "127.0.0.1:0";

#[derive(Debug, clap::Args)]
pub(crate) struct UiArgs {
    #[command(flatten)]
    pub(crate) plane: PlaneArgs,

    /// Loopback address and port to serve the web view on; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    pub(crate) listen: SocketAddr,

    /// Offer actions (retry, hold, restart in place, pause, resume, end of a quarantine), made with your credentials
    #[arg(long)]
    pub(crate) allow_actions: bool,
}
