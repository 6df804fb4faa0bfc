//! How a server is opened.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use capstan_text::health::Check;
use jiff::Timestamp;

use crate::{
    audit_policy::AuditPolicy, authority::Authority, limits::Limits, process_admission::Admission,
    restriction::Restriction, store::Storage, user::User,
};

/// Returns the current time. A simulation has its own clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Returns additional metrics for `/metrics`: complete families in the text format, with names that the server does
/// not use.
pub type MoreMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// Options of a server. Start from [`Options::new`] and change what differs.
#[derive(Clone)]
pub struct Options {
    /// Where objects are stored.
    pub storage: Storage,
    /// Number of events that a watch can resume from. Older events are dropped, and such a watch gets 410 Gone.
    pub history: usize,
    /// Clock for creation and deletion timestamps and for managed fields.
    pub clock: Clock,
    /// `gitVersion` at `/version`: a Kubernetes version, followed by the build.
    pub version: String,
    /// Static bearer tokens and their users.
    pub tokens: HashMap<String, User>,
    /// Issuer of service account tokens, and their audience unless a token request names another.
    pub issuer: String,
    /// Signer of approved requests for client certificates; without it, requests stay pending. Its certificate must
    /// be in [`crate::Tls::client_ca`].
    pub client_authority: Option<Authority>,
    /// Limits for each client that connects over a socket.
    pub limits: Limits,
    /// What members of some groups may change in objects that they may update.
    pub restrictions: Vec<Restriction>,
    /// Admission of custom resources by the process.
    pub admission: Option<Arc<dyn Admission>>,
    /// Addresses of the services that webhooks refer to: `namespace/name` to an `https` URL. The server has no
    /// cluster network in which it could resolve them.
    pub webhook_services: BTreeMap<String, String>,
    /// File for the audit log: one line of JSON for each request, readable by its owner only. `None` disables it.
    pub audit_log: Option<PathBuf>,
    /// How much is recorded of which request in the audit log. `None` records every request without bodies.
    pub audit_policy: Option<AuditPolicy>,
    /// Files that are included in a backup, by their names in the backup.
    pub backup_files: BTreeMap<String, PathBuf>,
    /// Metrics of the process, served at `/metrics` together with those of the server.
    pub more_metrics: Option<MoreMetrics>,
    /// How long Events are kept after their last write.
    pub event_ttl: Duration,
    /// Health checks of the process, run for `/readyz` and `/livez` together with those of the server.
    pub checks: Vec<Check>,
}

impl Options {
    /// The defaults: system clock, ten thousand events, Events for an hour, no static tokens, no signer of client certificates.
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
            restrictions: Vec::new(),
            admission: None,
            webhook_services: BTreeMap::new(),
            audit_log: None,
            audit_policy: None,
            backup_files: BTreeMap::new(),
            more_metrics: None,
            event_ttl: Duration::from_secs(60 * 60),
            checks: Vec::new(),
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
