//! Pinned host keys. Pure.

use russh::keys::{Algorithm, HashAlg, PublicKey};

use crate::error::SshError;

/// The result of checking a host key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The key is pinned.
    Pinned,
    /// The key is not pinned.
    Unknown,
}

/// The pinned keys of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedKeys(Vec<PublicKey>);

impl PinnedKeys {
    /// Parses the keys of `Host.spec.ssh.hostKeys`.
    ///
    /// # Errors
    /// If one of them is not a public key.
    pub fn read(lines: &[String], address: &str) -> Result<Self, SshError> {
        let read = |(index, line): (usize, &String)| {
            PublicKey::from_openssh(line).map_err(|error| SshError::PinnedKey {
                index,
                why: error.to_string(),
                address: address.to_owned(),
            })
        };
        lines.iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether no key is pinned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks a key that the host presents. Comments of keys are ignored.
    pub fn judge(&self, seen: &PublicKey) -> Trust {
        match self.0.iter().any(|key| key.key_data() == seen.key_data()) {
            true => Trust::Pinned,
            false => Trust::Unknown,
        }
    }

    /// The key algorithms to offer to the host, so that it presents a pinned key if it has one. RSA only with hashes
    /// that are still secure.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let mut wanted = Vec::new();
        for key in &self.0 {
            let sorts = match key.algorithm() {
                Algorithm::Rsa { .. } => vec![
                    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
                    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
                ],
                other => vec![other],
            };
            for sort in sorts {
                if !wanted.contains(&sort) {
                    wanted.push(sort);
                }
            }
        }
        wanted
    }

    /// Fingerprints of the pinned keys.
    pub fn fingerprints(&self) -> Vec<String> {
        self.0.iter().map(fingerprint).collect()
    }

    /// As OpenSSH writes them, without comments.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().filter_map(line)
    }
}

/// A key as it is pinned.
pub(crate) fn line(key: &PublicKey) -> Option<String> {
    PublicKey::new(key.key_data().clone(), "").to_openssh().ok().map(|line| line.trim_end().to_owned())
}

/// Type and fingerprint of a key, with the fingerprint as in `ssh-keygen -l`.
pub fn fingerprint(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

#[cfg(test)]
mod tests {
    use super::*;
    use russh::keys::key::safe_rng;
    use russh::keys::{EcdsaCurve, PrivateKey};

    fn key(algorithm: Algorithm) -> PublicKey {
        PrivateKey::random(&mut safe_rng(), algorithm).unwrap().public_key().clone()
    }

    #[test]
    fn only_pinned_keys_are_good_whatever_their_comment() {
        let (good, other) = (key(Algorithm::Ed25519), key(Algorithm::Ed25519));
        let with_comment = format!("{} rack-1", line(&good).unwrap());
        let pinned = PinnedKeys::read(&[with_comment], "h").unwrap();
        assert_eq!(pinned.judge(&good), Trust::Pinned);
        assert_eq!(pinned.judge(&other), Trust::Unknown);
        assert_eq!(PinnedKeys::default().judge(&good), Trust::Unknown);
        assert!(pinned.fingerprints()[0].starts_with("ssh-ed25519 SHA256:"), "{:?}", pinned.fingerprints());
    }

    #[test]
    fn the_host_is_asked_for_the_sorts_that_are_pinned() {
        let ecdsa = Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 };
        let lines: Vec<String> = [key(ecdsa.clone()), key(Algorithm::Ed25519), key(Algorithm::Ed25519)]
            .iter()
            .filter_map(line)
            .collect();
        let pinned = PinnedKeys::read(&lines, "h").unwrap();
        assert_eq!(pinned.algorithms(), [ecdsa, Algorithm::Ed25519]);
    }

    #[test]
    fn a_broken_key_is_named() {
        let good = line(&key(Algorithm::Ed25519)).unwrap();
        let error =
            PinnedKeys::read(&[good, "ssh-ed25519 AAAA".to_owned()], "10.0.0.1").unwrap_err().to_string();
        assert!(error.starts_with("spec.ssh.hostKeys[1]: "), "{error}");
        assert!(error.contains("ssh-keyscan 10.0.0.1"), "{error}");
    }
}
