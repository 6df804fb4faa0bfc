//! A serving certificate that is replaced while the server runs.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The current serving certificate, which may be replaced at any time.
#[derive(Debug, Default)]
pub struct Serving(RwLock<Option<Arc<CertifiedKey>>>);

impl Serving {
    /// Replaces the serving certificate.
    pub fn show(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
