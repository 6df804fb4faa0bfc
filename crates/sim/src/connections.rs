//! Connections of simulated agents to management planes.
//!
//! Both ends of a connection are files of one process if the plane runs in it, and a process may open a limited number of
//! files. So agents share HTTP/2 connections. Each request has the credential of its own agent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, ServiceExt as _};

/// Agents on one connection. Each has at most two watches and one other request at a time, and kube-apiserver allows a
/// connection 100 streams: a request beyond them would wait until a watch ends.
const MOST_AGENTS: usize = 30;

/// How often a silent connection is checked, and how long the plane may take to respond.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

type Http = legacy::Client<HttpsConnector<HttpConnector>, Body>;

/// The shared connections. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<BTreeMap<Plane, Vec<Shared>>>>);

/// Address and CA bundle of a management plane.
type Plane = (String, Option<Vec<Vec<u8>>>);

struct Shared {
    http: Http,
    /// One clone for each agent that uses the connection.
    users: Arc<()>,
}

/// A client of one agent. It occupies a place on its connection until it is dropped.
pub(crate) struct AgentClient {
    client: Client,
    _place: Arc<()>,
}

impl AgentClient {
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }
}

impl Connections {
    /// A client with the credential of `config`.
    pub(crate) fn client(&self, config: &Config) -> kube::Result<AgentClient> {
        let (http, place) = self.place(config)?;
        let namespace = config.default_namespace.clone();
        let client = ClientBuilder::new(http.map_err(BoxError::from), namespace);
        let client = match config.auth_layer()? {
            Some(auth) => client.with_layer(&auth).with_layer(&config.base_uri_layer()).build(),
            None => client.with_layer(&config.base_uri_layer()).build(),
        };
        Ok(AgentClient { client, _place: place })
    }

    fn place(&self, config: &Config) -> kube::Result<(Http, Arc<()>)> {
        let plane = (config.cluster_url.to_string(), config.root_cert.clone());
        let mut planes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without users a connection is closed. One user is the list itself.
        for connections in planes.values_mut() {
            connections.retain(|shared| Arc::strong_count(&shared.users) > 1);
        }
        planes.retain(|_, connections| !connections.is_empty());
        let connections = planes.entry(plane).or_default();
        let free = connections.iter().find(|shared| Arc::strong_count(&shared.users) <= MOST_AGENTS);
        if let Some(shared) = free {
            return Ok((shared.http.clone(), Arc::clone(&shared.users)));
        }
        let shared = Shared { http: connect(config)?, users: Arc::default() };
        let place = (shared.http.clone(), Arc::clone(&shared.users));
        connections.push(shared);
        Ok(place)
    }
}

fn connect(config: &Config) -> kube::Result<Http> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = config.rustls_client_config()?;
    let https =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http2().wrap_connector(tcp);
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder
        .http2_only(true)
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(KEEP_ALIVE)
        .http2_keep_alive_timeout(KEEP_ALIVE);
    Ok(builder.build(https))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(server: &str) -> Config {
        Config::new(server.parse().expect("a URL"))
    }

    #[tokio::test]
    async fn agents_share_connections_and_leave_them() {
        let connections = Connections::default();
        let count = |server: &str| {
            let planes = connections.0.lock().expect("a lock");
            let plane = planes.iter().find(|((url, _), _)| url.starts_with(server));
            plane.map_or(0, |(_, shared)| shared.len())
        };
        let client = |server: &str| connections.client(&config(server)).expect("a client");
        let mut clients: Vec<_> = (0..MOST_AGENTS).map(|_| client("http://one")).collect();
        assert_eq!(count("http://one"), 1, "as many as fit");
        clients.push(client("http://one"));
        assert_eq!(count("http://one"), 2, "one more");
        let other = client("http://two");
        assert_eq!((count("http://one"), count("http://two")), (2, 1), "another plane");
        clients.clear();
        clients.push(client("http://two"));
        assert_eq!(
            (count("http://one"), count("http://two")),
            (0, 1),
            "nothing is kept for agents that are gone"
        );
        drop(other);
    }
}
