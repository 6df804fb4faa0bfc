//! Admission of Cluster API's objects for an API server: facts from the management plane ([`Admitter`]), and webhooks with
//! their certificates and configurations ([`start`]).
//!
//! What is decided is in `capstan-admission`; this crate reads facts, speaks HTTPS and writes the CA bundle into the
//! configurations. It must not contain rules for any kind.

mod admitter;
pub mod manifest;
mod paths;
mod registration;
mod rejection;
mod review;
mod server;

pub use admitter::Admitter;
pub use paths::{CONFIGURATION, Phase, Reached, configuration, path};
pub use registration::SECRET;
pub use rejection::status;

use capstan_net::Serving;
use futures::future::BoxFuture;
use kube::Client;
use registration::Registration;
use server::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Options of the webhooks.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address and port to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// How API servers reach the webhooks; by default at the listen address.
    pub reached: Option<Reached>,
    /// Namespace of the Secret with the CA.
    pub namespace: String,
    /// Whether this replica is the leader, which writes. `None` if there is one replica.
    pub leads: Option<watch::Receiver<bool>>,
}

/// Why webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use, or not an address of this machine.
    #[error("cannot listen on {address} for webhooks")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// API servers cannot be told where the webhooks are.
    #[error("cannot tell API servers where the webhooks are: {0}")]
    Reached(&'static str),
    /// TLS cannot be served.
    #[error("cannot speak TLS for webhooks")]
    Tls(#[from] rustls::Error),
}

/// Webhooks that are listened for.
pub struct Webhooks {
    /// Where API servers reach them.
    pub reached: Reached,
    /// Tasks that must run, each until `stop` completes.
    pub tasks: Vec<BoxFuture<'static, ()>>,
}

/// Listens for webhooks. They are served and registered while the tasks run.
///
/// # Errors
/// If the address cannot be listened on, or API servers cannot be told where it is.
pub async fn start<S>(client: &Client, options: &Options, stop: &S) -> Result<Webhooks, StartError>
where
    S: Future<Output = ()> + Clone + Send + Sync + 'static,
{
    let failed = |source| StartError::Listen { address: options.listen, source };
    let listener = TcpListener::bind(options.listen).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let reached = match &options.reached {
        Some(reached) => reached.clone(),
        None if bound.ip().is_unspecified() => {
            return Err(StartError::Reached("it listens on every address: name a URL or a Service"));
        }
        None => Reached::Url(format!("https://{bound}")),
    };
    let mut hosts = reached.hosts();
    if hosts.is_empty() {
        return Err(StartError::Reached("the URL names no host"));
    }
    if !bound.ip().is_unspecified() {
        hosts.push(bound.ip().to_string());
    }
    hosts.dedup();
    let serving = Arc::new(Serving::default());
    let server = Server::new(Admitter::new(client.clone()), &serving)?;
    let registration = Registration {
        client: client.clone(),
        namespace: options.namespace.clone(),
        reached: reached.clone(),
        hosts,
        serving,
        leads: options.leads.clone(),
    };
    let tasks: Vec<BoxFuture<'static, ()>> =
        vec![Box::pin(server.serve(listener, stop.clone())), Box::pin(registration.run(stop.clone()))];
    Ok(Webhooks { reached, tasks })
}
