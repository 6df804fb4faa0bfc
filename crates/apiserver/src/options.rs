//! How a server is opened.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::PathBuf,
    sync::Arc,
};

use jiff::Timestamp;

use crate::{auth::User, certificates::authority::Authority, limits::Limits, store::Storage};

/// Tells the time; a simulation has its own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Tells more at `/metrics`: whole metrics in the text format, with names that the server has not.
pub type MoreMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// How a server is opened. Start from [`Options::new`] and change what differs.
#[derive(Clone)]
pub struct Options {
    /// Where objects are kept.
    pub storage: Storage,
    /// How many events a watch can be resumed from; older ones are forgotten.
    pub history: usize,
    /// What stamps creations, deletions and managed fields.
    pub clock: Clock,
    /// What `/version` says: a Kubernetes version with our build behind it.
    pub version: String,
    /// Bearer tokens and whom they stand for.
    pub tokens: HashMap<String, User>,
    /// Who the tokens of service accounts are from, and for whom they are unless somebody says.
    pub issuer: String,
    /// What signs approved requests for client certificates; without one they wait. It is the authority
    /// that [`crate::Tls::client_ca`] names.
    pub client_authority: Option<Authority>,
    /// What one client may take of the server over a socket.
    pub limits: Limits,
    /// Where the services are that webhooks name: from `namespace/name` to an `https` URL. There is no cluster
    /// network behind this server to find them in.
    pub webhook_services: BTreeMap<String, String>,
    /// Where to note who asked for what, one line of JSON each, never a value of an object; nowhere unless said. Only its
    /// owner can read the file.
    pub audit_log: Option<PathBuf>,
    /// Files that belong into a backup beside the objects, by the names they are to have in it.
    pub backup_files: BTreeMap<String, PathBuf>,
    /// What the process tells at `/metrics` beside the server's own.
    pub more_metrics: Option<MoreMetrics>,
}

impl Options {
    /// The defaults: the real clock, ten thousand events, no tokens, nobody who signs certificates.
    pub fn new(storage: Storage) -> Self {
        Self {
            storage,
            history: 10_000,
            clock: Arc::new(Timestamp::now),
            version: concat!("v1.36.3+capstan-", env!("CARGO_PKG_VERSION")).to_owned(),
            tokens: HashMap::new(),
            issuer: "https://kubernetes.default.svc".to_owned(),
            client_authority: None,
            limits: Limits::default(),
            webhook_services: BTreeMap::new(),
            audit_log: None,
            backup_files: BTreeMap::new(),
            more_metrics: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { storage, history, version, .. } = self;
        f.debug_struct("Options")
            .field("storage", storage)
            .field("history", history)
            .field("version", version)
            .finish_non_exhaustive()
    }
}
