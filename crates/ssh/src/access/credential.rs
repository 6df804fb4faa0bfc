//! SSH credentials: a private key, or a password. Pure. Values of this module cannot be printed.

use russh::keys::{PrivateKey, decode_secret_key};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;
use zeroize::Zeroizing;

/// Keys of a Secret with SSH credentials. They are those of Kubernetes where it defines one.
pub mod keys {
    /// A private key in any format that OpenSSH reads.
    pub const PRIVATE_KEY: &str = "ssh-privatekey";
    /// Passphrase of the private key.
    pub const PASSPHRASE: &str = "passphrase";
    /// A password, if there is no private key.
    pub const PASSWORD: &str = "password";
    /// Login user, instead of `spec.ssh.user`.
    pub const USERNAME: &str = "username";
    /// Password for `sudo`.
    pub const SUDO_PASSWORD: &str = "sudo-password";
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Zeroizing<String>);

impl Hidden {
    /// Wraps a text so that it is not printed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text. The caller may only send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

/// Why a Secret contains no usable credential. Errors never repeat a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CredentialError {
    /// The Secret has neither a private key nor a password.
    #[error("has neither the key `{}` nor the key `{}`", keys::PRIVATE_KEY, keys::PASSWORD)]
    Missing,
    /// A value is not text.
    #[error("the value of `{0}` is not text")]
    NotText(&'static str),
    /// The private key is encrypted, and the Secret has no passphrase.
    #[error("the private key is encrypted: add the key `{}`", keys::PASSPHRASE)]
    Locked,
    /// The passphrase does not decrypt the private key.
    #[error("the private key cannot be opened with the value of `{}`", keys::PASSPHRASE)]
    WrongPassphrase,
    /// The private key cannot be parsed.
    #[error("the value of `{}` is not a private key that can be used", keys::PRIVATE_KEY)]
    NotAKey,
}

/// A credential for SSH authentication.
#[derive(Clone)]
pub enum Credential {
    /// Public key authentication with this key.
    Key(Arc<PrivateKey>),
    /// Password authentication.
    Password(Hidden),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method())
    }
}

impl Credential {
    /// Reads the credential from a Secret.
    ///
    /// # Errors
    /// If the Secret contains no credential, or it is unusable.
    pub fn read(secret: &BTreeMap<String, Vec<u8>>) -> Result<Self, CredentialError> {
        if let Some(key) = text(secret, keys::PRIVATE_KEY)? {
            let passphrase = text(secret, keys::PASSPHRASE)?;
            return Self::key(key.reveal(), passphrase.as_ref().map(Hidden::reveal));
        }
        text(secret, keys::PASSWORD)?.map(Self::Password).ok_or(CredentialError::Missing)
    }

    /// Parses a private key, which may be encrypted.
    ///
    /// # Errors
    /// If it cannot be parsed, or not be decrypted with this passphrase.
    pub fn key(text: &str, passphrase: Option<&str>) -> Result<Self, CredentialError> {
        let failure = match decode_secret_key(text, passphrase) {
            Ok(key) if !key.is_encrypted() => return Ok(Self::Key(Arc::new(key))),
            Ok(_) => None,
            Err(error) => Some(error),
        };
        Err(match (failure, passphrase) {
            (None | Some(russh::keys::Error::KeyIsEncrypted), None) => CredentialError::Locked,
            (_, None) => CredentialError::NotAKey,
            // Without its passphrase it would only be locked: so it is a key.
            (_, Some(_)) => match Self::key(text, None) {
                Err(CredentialError::NotAKey) => CredentialError::NotAKey,
                _ => CredentialError::WrongPassphrase,
            },
        })
    }

    /// Name of the authentication method, for messages.
    pub const fn method(&self) -> &'static str {
        match self {
            Self::Key(_) => "the public key",
            Self::Password(_) => "the password",
        }
    }

    /// What must not be printed, whatever a host says.
    pub(crate) fn words(&self) -> Vec<String> {
        match self {
            Self::Key(_) => Vec::new(),
            Self::Password(word) => vec![word.reveal().to_owned()],
        }
    }

    /// What tells it from others.
    pub(crate) fn feed(&self, add: &mut impl FnMut(&[u8])) {
        match self {
            Self::Key(key) => add(&key.public_key().to_bytes().unwrap_or_default()),
            Self::Password(word) => add(word.reveal().as_bytes()),
        }
    }
}

/// A value of a Secret, without the line end that editors add. Nothing counts as absent.
pub(super) fn text(
    secret: &BTreeMap<String, Vec<u8>>,
    key: &'static str,
) -> Result<Option<Hidden>, CredentialError> {
    let Some(bytes) = secret.get(key) else { return Ok(None) };
    let text = std::str::from_utf8(bytes).map_err(|_| CredentialError::NotText(key))?;
    let text = text.trim_end_matches(['\r', '\n']);
    Ok((!text.is_empty()).then(|| Hidden::new(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use russh::keys::ssh_key::LineEnding;
    use russh::keys::{Algorithm, key::safe_rng};

    fn new_key() -> PrivateKey {
        PrivateKey::random(&mut safe_rng(), Algorithm::Ed25519).unwrap()
    }

    fn secret(pairs: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect()
    }

    #[test]
    fn a_key_comes_before_a_password() {
        let key = new_key().to_openssh(LineEnding::LF).unwrap();
        let both = secret(&[(keys::PRIVATE_KEY, key.as_bytes()), (keys::PASSWORD, b"hunter2")]);
        assert!(matches!(Credential::read(&both), Ok(Credential::Key(_))));
        let password = Credential::read(&secret(&[(keys::PASSWORD, b"hunter2\n")])).unwrap();
        assert!(matches!(&password, Credential::Password(word) if word.reveal() == "hunter2"));
        assert!(!format!("{password:?}").contains("hunter2"));
    }

    #[test]
    fn a_locked_key_is_distinguished_from_a_broken_one() {
        let locked = new_key().encrypt(&mut safe_rng(), "open sesame").unwrap();
        let locked = locked.to_openssh(LineEnding::LF).unwrap();
        assert!(Credential::key(&locked, Some("open sesame")).is_ok());
        assert_eq!(Credential::key(&locked, None).unwrap_err(), CredentialError::Locked);
        assert_eq!(Credential::key(&locked, Some("wrong")).unwrap_err(), CredentialError::WrongPassphrase);
        for passphrase in [None, Some("any")] {
            assert_eq!(Credential::key("s3cret", passphrase).unwrap_err(), CredentialError::NotAKey);
        }
    }

    #[test]
    fn what_is_no_credential_is_refused_by_name() {
        assert_eq!(Credential::read(&secret(&[])).unwrap_err(), CredentialError::Missing);
        assert_eq!(
            Credential::read(&secret(&[(keys::PASSWORD, b"\n")])).unwrap_err(),
            CredentialError::Missing
        );
        let binary = secret(&[(keys::PASSWORD, &[0xff])]);
        assert_eq!(Credential::read(&binary).unwrap_err(), CredentialError::NotText(keys::PASSWORD));
    }
}
