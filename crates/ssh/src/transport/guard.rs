//! Checks the host key before anything is sent to the host.

use russh::client::Handler;
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use std::sync::{Arc, Mutex, PoisonError};

use crate::access::{PinnedKeys, Trust};

/// The key that the host has shown.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Option<PublicKey>>>);

impl Seen {
    /// The key, if the handshake came that far.
    pub(super) fn key(&self) -> Option<PublicKey> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Lets a connection go on only if the host has shown a pinned key. With nothing pinned it never goes on, so that
/// a first key can be looked at and no more.
pub(super) struct Guard {
    pinned: PinnedKeys,
    seen: Seen,
}

impl Guard {
    pub(super) fn new(pinned: PinnedKeys) -> (Self, Seen) {
        let seen = Seen::default();
        (Self { pinned, seen: seen.clone() }, seen)
    }
}

impl Handler for Guard {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, russh::Error> {
        // Certificates are not asked for, so none should come; one that comes is nobody's key.
        let PublicKeyOrCertificate::PublicKey { key, .. } = shown else { return Ok(false) };
        *self.seen.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(key.clone());
        Ok(self.pinned.judge(key) == Trust::Pinned)
    }
}
