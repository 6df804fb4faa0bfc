//! The context of a request: the plane, the resource it is about, and its user.

mod convert;
mod notes;

use std::sync::Arc;

pub(crate) use convert::Representation;
pub(crate) use notes::Notes;

use crate::{
    auth::authorize::{self, Resolution},
    plane::Plane,
    rbac::{Access, Rule},
    registry::{Authorizer, Below, Env, Registry, Resource, Side, Version, Writer},
    request::ResourceRequest,
    status::{ApiError, Result},
    store::{Key, Stored},
    user::User,
};

/// A request with its resource looked up.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) plane: Arc<Plane>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) version: Arc<Version>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) side: Side,
    /// Who asks.
    pub(crate) user: User,
    /// Who owns the fields this request sets, unless it says so itself.
    pub(crate) manager: String,
    /// What the request leaves behind besides its response.
    pub(crate) notes: Arc<Notes>,
    /// Whether neither webhooks nor policies are asked: what the server needs to start.
    pub(crate) is_exempt: bool,
}

impl Call {
    /// Looks up what a request is about.
    pub(crate) fn new(
        plane: &Arc<Plane>,
        request: &ResourceRequest,
        user: User,
        manager: String,
    ) -> Result<Self> {
        let registry = plane.registry();
        let mut resource =
            registry.get(&request.group, &request.resource).ok_or_else(ApiError::no_such_path)?;
        let mut version = resource.version(&request.version).ok_or_else(ApiError::no_such_path)?;
        // A namespace is in itself, and in no other: a right in one must not reach the next.
        let own_namespace = resource.name.group().is_empty()
            && resource.name.resource() == "namespaces"
            && request.name == request.namespace;
        let below = version.below.iter().find(|below| below.name() == request.subresource);
        let side = match (request.subresource.as_str(), below) {
            ("", _) => Side::Main,
            ("status", _) if version.status => Side::Status,
            ("scale", _) if version.scale.is_some() => Side::Scale,
            (_, Some(Below::Subresource(subresource))) => Side::Subresource(subresource),
            (_, Some(Below::Asked(_, asked))) => {
                resource = asked;
                version = asked.versions.first().ok_or_else(ApiError::no_such_path)?;
                Side::Main
            }
            ("status" | "scale", None) if resource.is_custom() => {
                return Err(ApiError::not_found(&resource.name, &request.name));
            }
            (_, None) => return Err(ApiError::no_such_path()),
        };
        if !resource.namespaced && !request.namespace.is_empty() && !own_namespace {
            return Err(ApiError::no_such_path());
        }
        Ok(Self {
            plane: Arc::clone(plane),
            resource: Arc::clone(resource),
            version: Arc::clone(version),
            namespace: if resource.namespaced { request.namespace.clone() } else { String::new() },
            name: request.name.clone(),
            side,
            user,
            manager,
            notes: Arc::default(),
            is_exempt: false,
            registry,
        })
    }

    /// A call of the server's own on a stored object.
    pub(crate) fn internal(plane: &Arc<Plane>, key: &Key, user: &User) -> Option<Self> {
        let registry = plane.registry();
        let resource = registry.get(key.resource.group(), key.resource.resource())?;
        let version = resource.versions.first()?;
        Some(Self {
            plane: Arc::clone(plane),
            resource: Arc::clone(resource),
            version: Arc::clone(version),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            side: Side::Main,
            user: user.clone(),
            manager: user.name.clone(),
            notes: Arc::default(),
            is_exempt: false,
            registry,
        })
    }

    pub(crate) fn key(&self) -> Key {
        self.resource.key(&self.namespace, &self.name)
    }

    pub(crate) fn env(&self) -> Env<'_> {
        Env { registry: &self.registry, now: self.plane.now(), user: &self.user }
    }

    /// The user and the target of a write, for the rules of a kind.
    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            authorizer: self,
            store: &self.plane.store,
            registry: &self.registry,
            user: &self.user,
            resource: &self.resource.name,
            namespace: &self.namespace,
            name: &self.name,
            side: self.side,
        }
    }

    pub(crate) fn api_version(&self) -> String {
        self.resource.api_version(&self.version.name)
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.name, &self.name)
    }

    pub(crate) fn stored(&self) -> Result<Arc<Stored>> {
        self.plane.store.get(&self.key()).ok_or_else(|| self.not_found())
    }
}

impl Authorizer for Call {
    fn allows(&self, access: &Access<'_>) -> bool {
        authorize::decide(&self.plane.store, &self.user, access).allowed
    }

    fn rules(&self, namespace: &str) -> Vec<Rule> {
        let Resolution { rules, .. } = authorize::rules_for(&self.plane.store, &self.user, namespace);
        rules
    }
}

/// What a write left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// In the version that was asked for.
    pub(crate) object: Representation,
    pub(crate) created: bool,
    pub(crate) warnings: Vec<String>,
}
