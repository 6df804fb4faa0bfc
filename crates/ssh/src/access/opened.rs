//! A cache of decrypted private keys: decryption with a passphrase is slow by design, and the driver connects often.

use aws_lc_rs::digest::{SHA256, digest};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::credential::{Credential, CredentialError, keys};

/// More than there are Secrets with passphrases; then all are opened anew.
const MOST: usize = 1024;

/// Credentials by what they were read from. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Opened(Arc<Mutex<HashMap<[u8; 32], Credential>>>);

impl Opened {
    /// The credential in a Secret, opened once.
    pub(crate) fn read(&self, secret: &BTreeMap<String, Vec<u8>>) -> Result<Credential, CredentialError> {
        let (Some(key), Some(passphrase)) = (secret.get(keys::PRIVATE_KEY), secret.get(keys::PASSPHRASE))
        else {
            return Credential::read(secret);
        };
        let mut name = [0; 32];
        name.copy_from_slice(digest(&SHA256, &[key.as_slice(), b"\0", passphrase].concat()).as_ref());
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(credential) = lock().get(&name) {
            return Ok(credential.clone());
        }
        let credential = Credential::read(secret)?;
        let mut all = lock();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(name, credential.clone());
        Ok(credential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use russh::keys::key::safe_rng;
    use russh::keys::ssh_key::LineEnding;
    use russh::keys::{Algorithm, PrivateKey};

    #[test]
    fn a_key_is_opened_once_and_only_by_its_passphrase() {
        let key = PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap();
        let locked = key.encrypt(&mut safe_rng(), "open").unwrap().to_openssh(LineEnding::LF).unwrap();
        let secret = |passphrase: &str| {
            BTreeMap::from([
                (keys::PRIVATE_KEY.to_owned(), locked.as_bytes().to_vec()),
                (keys::PASSPHRASE.to_owned(), passphrase.as_bytes().to_vec()),
            ])
        };
        let opened = Opened::default();
        let (Credential::Key(one), Credential::Key(two)) =
            (opened.read(&secret("open")).unwrap(), opened.read(&secret("open")).unwrap())
        else {
            panic!("keys")
        };
        assert!(Arc::ptr_eq(&one, &two));
        assert_eq!(opened.read(&secret("shut")).unwrap_err(), CredentialError::WrongPassphrase);
    }
}
