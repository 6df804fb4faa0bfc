//! What every request and every background task shares: the store, the registry, the clock.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use capstan_text::health::Check;
use jiff::Timestamp;

use crate::{
    audit::Audit,
    auth::{authorize, revocation::Revocations, service_account::Issuer, token_keys::TokenKeys},
    documents::Documents,
    flow::Flows,
    limits::{Gate, Limits},
    listener_certificates::ListenerCertificates,
    metrics::Metrics,
    object,
    options::{Clock, MoreMetrics, Options},
    policy::{mutating::Mutations, validating::Validations},
    policy_cache::Policies,
    process_admission::Admission,
    quota::Quotas,
    registry::{Registry, custom, kinds::DEFINITIONS},
    restriction::Restriction,
    start_error::StartError,
    store::{
        Change, Event, GroupResource, Key, Store, Stored,
        backup::{self, Backup, BackupError},
    },
    user::User,
    webhook::Webhooks,
};

/// The registry as it is now; replaced whole, never changed.
pub(crate) type SharedRegistry = Arc<RwLock<Arc<Registry>>>;

pub(crate) struct Plane {
    pub(crate) store: Store,
    registry: SharedRegistry,
    pub(crate) clock: Clock,
    pub(crate) version: String,
    pub(crate) tokens: HashMap<String, User>,
    /// Of tokens for service accounts.
    pub(crate) issuer: Issuer,
    pub(crate) revocations: Revocations,
    pub(crate) limits: Limits,
    pub(crate) restrictions: Vec<Restriction>,
    /// Of the process, for custom resources.
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) more_metrics: Option<MoreMetrics>,
    /// Health checks of the process.
    pub(crate) checks: Vec<Check>,
    /// Of OpenAPI.
    pub(crate) documents: Documents,
    pub(crate) certificates: ListenerCertificates,
    pub(crate) webhooks: Webhooks,
    pub(crate) policies: Policies<Validations>,
    pub(crate) mutating_policies: Policies<Mutations>,
    pub(crate) quotas: Quotas,
    pub(crate) flows: Flows,
    pub(crate) audit: Option<Arc<Audit>>,
    backup_files: BTreeMap<String, PathBuf>,
}

impl Plane {
    pub(crate) fn open(options: Options) -> Result<Self, StartError> {
        // Before the store: who cannot tell what happens should not begin.
        let audit = options.audit_log.as_deref().map(|path| Audit::open(path, options.audit_policy.clone()));
        let audit = audit.transpose().map_err(StartError::Audit)?;
        let opened = Store::open(&options.storage, options.history)?;
        let definitions = GroupResource::new(DEFINITIONS.0, DEFINITIONS.1);
        let mut registry = Registry::built_in();
        for stored in opened.everything().items.iter().filter(|stored| stored.key.resource == definitions) {
            if let Some(resource) = custom::resource(stored) {
                registry = registry.with(Arc::new(resource));
            }
        }
        let registry: SharedRegistry = Arc::new(RwLock::new(Arc::new(registry)));
        let observed = Arc::clone(&registry);
        let store = opened.start(Box::new(move |events| observe(&observed, &definitions, events)))?;
        authorize::index_bindings(&store);
        let issuer = Issuer::new(TokenKeys::open(&options.storage)?, options.issuer);
        let Options {
            clock,
            version,
            tokens,
            limits,
            restrictions,
            admission,
            webhook_services,
            mut backup_files,
            more_metrics,
            checks,
            ..
        } = options;
        backup_files.extend(backup::own_files(&options.storage));
        let flows = Flows::new(&store, limits.seats);
        let (policies, mutating_policies) = (Policies::new(&store), Policies::new(&store));
        Ok(Self {
            store,
            registry,
            clock,
            version,
            tokens,
            issuer,
            revocations: Revocations::default(),
            limits,
            restrictions,
            admission,
            gate: Gate::new(limits),
            metrics: Arc::default(),
            more_metrics,
            checks,
            documents: Documents::default(),
            certificates: ListenerCertificates::default(),
            webhooks: Webhooks::new(webhook_services),
            policies,
            mutating_policies,
            quotas: Quotas::default(),
            flows,
            audit: audit.map(Arc::new),
            backup_files,
        })
    }

    /// Everything as it is now.
    pub(crate) fn backup(&self) -> Result<Backup, BackupError> {
        Backup::of(&self.store, &self.backup_files, self.now())
    }

    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// A namespace, if there is one.
    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Stored>> {
        self.store.get(&Key::new(GroupResource::new("", "namespaces"), "", name))
    }
}

/// Keeps the registry in step with the CRDs: on the writer's thread, between commit and publication, so
/// that whoever is told of a CRD finds it served.
fn observe(registry: &RwLock<Arc<Registry>>, definitions: &GroupResource, events: &[Arc<Event>]) {
    for event in events.iter().filter(|event| event.object.key.resource == *definitions) {
        let crd = &event.object;
        let value = crd.value.once();
        let group = object::text(&value, &["spec", "group"]);
        let name = GroupResource::new(group, object::text(&value, &["spec", "names", "plural"]));
        let mut current = registry.write().unwrap_or_else(PoisonError::into_inner);
        let next = match (event.change, custom::resource(crd)) {
            (Change::Created | Change::Updated, Some(resource)) => current.with(Arc::new(resource)),
            _ => current.without(&name),
        };
        *current = Arc::new(next);
    }
}
