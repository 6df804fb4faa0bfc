//! Capstan as a runtime extension of Cluster API.
//!
//! Core, Capstan's or upstream's, asks over HTTPS whether a change can be made to machines in place, requests the
//! update, and repeats the request until each machine matches. This crate has the server ([`server`]), its
//! certificates, the ExtensionConfig by which core finds it, and the responses ([`capstan`]).
//!
//! It must not contain the change itself, which reaches a machine as a plan that the control plane provider writes from
//! the same objects; nothing in here writes to a machine or its objects.

pub mod capstan;
mod extension;
mod registration;
pub mod server;

use capstan_controller::reviews::Reviews;
use capstan_pki::issue::{self, Identity};
use futures::future::BoxFuture;
use http::Uri;
use kube::Client;
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use capstan_api::runtime::hooks::{AUDIENCE, EXTENSION};
pub use extension::{Extension, handlers};
pub use registration::SECRET;

use registration::Registration;
use server::{Authentication, Server, Serving};

/// Which callers are served. What they send is judged, what they ask for is read from the management plane, and both end up in
/// Events and logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Callers {
    /// Core in the same process: callers with the client certificate that [`start`] returns.
    #[default]
    SameProcess,
    /// Callers with a client certificate of this CA bundle, in PEM.
    Authenticated(Vec<u8>),
    /// Callers whose bearer token the management plane accepts for the audience [`AUDIENCE`], and whose user may `post` to
    /// the path of the hook; and callers with a client certificate of the CA bundle, if there is one.
    Reviewed(Option<Vec<u8>>),
    /// Every caller that reaches the address.
    Anyone,
}

/// Options of the hook server and its registration.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address and port to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// URL for core; by default the listen address.
    pub url: Option<String>,
    /// Namespace of the Secret with the CA.
    pub namespace: String,
    /// Which callers are served.
    pub callers: Callers,
    /// Whether this replica is the leader, which writes the registration; the others serve with it. `None` if there
    /// is one replica.
    pub leads: Option<watch::Receiver<bool>>,
    /// Value of the watch filter label of the registration.
    pub filter: Option<String>,
}

impl Default for Options {
    /// For a core on the same machine.
    fn default() -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            listen,
            url: None,
            namespace: "capstan-system".to_owned(),
            callers: Callers::default(),
            leads: None,
            filter: None,
        }
    }
}

/// Why hooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is in use, or not an address of this machine.
    #[error("cannot listen on {address} for hooks")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The URL cannot be used by core.
    #[error("cannot tell core where hooks are served: {0}")]
    Url(String),
    /// The TLS settings cannot be used.
    #[error("cannot speak TLS for hooks")]
    Tls(#[from] server::TlsError),
    /// The client certificate for core cannot be issued.
    #[error("cannot issue the client certificate of core for hooks")]
    Caller(#[from] rcgen::Error),
}

/// A hook server that listens, before its registration.
pub struct Hooks {
    /// URL for core.
    pub url: String,
    /// Client certificate and key of core, for [`Callers::SameProcess`]. They last as long as the process.
    pub caller: Option<Identity>,
    /// Tasks that must run, each until `stop` completes.
    pub tasks: Vec<BoxFuture<'static, ()>>,
    registered: watch::Receiver<bool>,
}

impl Hooks {
    /// Waits until the extension is registered. A process that also runs core must wait for that: without the
    /// extension, core would replace machines.
    pub fn registered(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut registered = self.registered.clone();
        async move {
            // An error says that the task is gone, and with it the process soon.
            drop(registered.wait_for(|registered| *registered).await);
        }
    }
}

/// Listens for hooks. They are served and registered while the tasks run.
///
/// # Errors
/// If the address cannot be listened on, or the URL cannot be used by core.
pub async fn start<S>(client: &Client, options: &Options, stop: &S) -> Result<Hooks, StartError>
where
    S: Future<Output = ()> + Clone + Send + Sync + 'static,
{
    let failed = |source| StartError::Listen { address: options.listen, source };
    let listener = match registration::last_address(client, options.listen).await {
        // Where it was: core need not learn another address.
        Some(last) => TcpListener::bind(last).await.ok(),
        None => None,
    };
    let listener = match listener {
        Some(listener) => listener,
        None => TcpListener::bind(options.listen).await.map_err(failed)?,
    };
    let bound = listener.local_addr().map_err(failed)?;
    let (url, hosts) = reached(options.url.as_deref(), bound)?;
    let serving = Arc::new(Serving::default());
    let (authentication, caller) = match &options.callers {
        Callers::SameProcess => {
            let (bundle, caller) = own_caller()?;
            (Authentication::certificates(bundle.into_bytes()), Some(caller))
        }
        Callers::Authenticated(bundle) => (Authentication::certificates(bundle.clone()), None),
        Callers::Reviewed(client_ca) => {
            let tokens = Some(Arc::new(Reviews::of_audience(client.clone(), AUDIENCE)));
            (Authentication { client_ca: client_ca.clone(), tokens }, None)
        }
        Callers::Anyone => {
            tracing::warn!(address = %bound, "hooks are served to every caller that reaches the address");
            (Authentication::default(), None)
        }
    };
    let server = Server::new(capstan::Capstan::new(client.clone()), &serving, authentication)?;
    let (known, registered) = watch::channel(false);
    let registration = Registration {
        client: client.clone(),
        namespace: options.namespace.clone(),
        url: url.clone(),
        hosts,
        serving,
        known,
        leads: options.leads.clone(),
        filter: options.filter.clone(),
    };
    let tasks: Vec<BoxFuture<'static, ()>> =
        vec![Box::pin(server.serve(listener, stop.clone())), Box::pin(registration.run(stop.clone()))];
    Ok(Hooks { url, caller, tasks, registered })
}

/// A CA that signs one client certificate, and is forgotten.
fn own_caller() -> Result<(String, Identity), rcgen::Error> {
    let params = issue::authority("capstan hooks callers", BasicConstraints::Constrained(0));
    let ca = issue::self_signed(&params)?;
    let usage = ExtendedKeyUsagePurpose::ClientAuth;
    let caller = issue::end_entity(issue::subject("capstan core", None), &[], usage)?;
    Ok((ca.certificate.clone(), issue::signed(&caller, &issue::issuer(&ca)?)?))
}

/// The URL by which core reaches the server, and the names that its certificate must have.
fn reached(url: Option<&str>, bound: SocketAddr) -> Result<(String, Vec<String>), StartError> {
    let wrong = |what: &str| StartError::Url(what.to_owned());
    let Some(url) = url else {
        if bound.ip().is_unspecified() {
            return Err(wrong("it listens on every address: say which URL leads here"));
        }
        return Ok((format!("https://{bound}"), vec![bound.ip().to_string()]));
    };
    let parsed: Uri = url.parse().map_err(|_| wrong("its URL cannot be parsed"))?;
    let host = parsed.host().filter(|_| parsed.scheme_str() == Some("https"));
    let host = host.ok_or_else(|| wrong("its URL must begin with https:// and name a host"))?;
    let mut hosts = vec![host.trim_start_matches('[').trim_end_matches(']').to_owned()];
    if !bound.ip().is_unspecified() {
        hosts.push(bound.ip().to_string());
    }
    hosts.dedup();
    Ok((url.trim_end_matches('/').to_owned(), hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_must_be_able_to_find_the_server() {
        let loopback: SocketAddr = "127.0.0.1:9443".parse().expect("an address");
        let (url, hosts) = reached(None, loopback).expect("a URL");
        assert_eq!((url.as_str(), hosts), ("https://127.0.0.1:9443", vec!["127.0.0.1".to_owned()]));
        let (url, hosts) = reached(None, "[::1]:9443".parse().expect("an address")).expect("a URL");
        assert_eq!((url.as_str(), hosts), ("https://[::1]:9443", vec!["::1".to_owned()]));
        let everywhere: SocketAddr = "0.0.0.0:9443".parse().expect("an address");
        assert!(reached(None, everywhere).is_err());
        let (url, hosts) = reached(Some("https://hooks.capstan-system.svc/"), everywhere).expect("a URL");
        assert_eq!(url, "https://hooks.capstan-system.svc");
        assert_eq!(hosts, ["hooks.capstan-system.svc"]);
        for wrong in ["http://a", "a", ""] {
            assert!(reached(Some(wrong), loopback).is_err(), "{wrong:?}");
        }
    }
}
