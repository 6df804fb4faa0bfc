//! Ends a watch whose client has lost its right to it.
//!
//! A request is authenticated and authorized when it begins. A watch lasts for hours, so this is repeated at an
//! interval: the credential must not be expired or revoked, and, after RBAC objects have changed, a role must still
//! allow the watch. The next request of the client gets the status code with the reason.

use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::watch;

use crate::{
    auth::{authorize, client_certificate::ClientCertificate, impersonate},
    authentication,
    plane::Plane,
    rbac::RBAC,
    request::ResourceRequest,
    store::GroupResource,
    user::User,
};

/// Which objects rights are made of.
const RIGHTS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];

/// A watch, and the credential that it was opened with.
pub(crate) struct GuardedWatch {
    pub(crate) plane: Arc<Plane>,
    pub(crate) certificate: ClientCertificate,
    pub(crate) headers: HeaderMap,
    /// The authenticated user, who may impersonate another one.
    pub(crate) user: User,
    pub(crate) request: ResourceRequest,
}

impl GuardedWatch {
    /// Waits until the client has lost its right to the watch.
    pub(crate) async fn until_lost(self) {
        let mut rights = Rights::of(&self.plane);
        loop {
            tokio::time::sleep(self.plane.limits.recheck).await;
            if !self.is_authenticated() || (rights.have_changed() && !self.is_allowed()) {
                tracing::debug!(user = self.user.name, "ended a watch: its client lost the right to it");
                return;
            }
        }
    }

    fn is_authenticated(&self) -> bool {
        let user = authentication::user(&self.plane, &self.certificate, &self.headers);
        user.is_ok_and(|user| user.name == self.user.name && user.uid == self.user.uid)
    }

    fn is_allowed(&self) -> bool {
        let acting = impersonate::user(&self.plane.store, self.user.clone(), &self.headers);
        acting
            .is_ok_and(|acting| authorize::decide(&self.plane.store, &acting, &self.request.access()).allowed)
    }
}

/// Notices changes of RBAC objects: to ask for a right is not free when there are many of them.
struct Rights([watch::Receiver<u64>; 4]);

impl Rights {
    fn of(plane: &Plane) -> Self {
        Self(RIGHTS.map(|resource| plane.store.subscribe(Some(&GroupResource::new(RBAC, resource)))))
    }

    fn have_changed(&mut self) -> bool {
        // All of them are marked as seen.
        self.0.iter_mut().fold(false, |changed, receiver| {
            let this = receiver.has_changed().unwrap_or(true);
            drop(receiver.borrow_and_update());
            changed || this
        })
    }
}
