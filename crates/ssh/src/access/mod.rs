//! The access to a host: its address, its pinned host keys, and the credential. Pure.

mod credential;
mod hostkey;
mod opened;

pub use credential::{Credential, CredentialError, Hidden, keys};
pub(crate) use hostkey::line as pinnable;
pub use hostkey::{PinnedKeys, Trust, fingerprint};
pub(crate) use opened::Opened;

use aws_lc_rs::digest::{SHA256, digest};
use capstan_api::infrastructure::SshAccess;
use std::collections::BTreeMap;
use std::fmt;

use crate::error::SshError;

/// Everything that is needed to connect to a host.
#[derive(Clone)]
pub struct Access {
    /// Host name or address.
    pub host: String,
    /// Port of the SSH server.
    pub port: u16,
    /// Login user.
    pub user: String,
    /// Credential of the login user.
    pub credential: Credential,
    /// Name of the Secret with the credential, for errors.
    pub secret: String,
    /// Pinned host keys.
    pub pinned: PinnedKeys,
    /// How the login user becomes root.
    pub sudo: Sudo,
}

/// How a login user becomes root.
#[derive(Clone, PartialEq, Eq)]
pub enum Sudo {
    /// Without `sudo`: the user must be root.
    Never,
    /// With `sudo`, which may require this password.
    Yes(Option<Hidden>),
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Access({}@{})", self.user, self.address())
    }
}

impl Access {
    /// Reads the access from a host's spec and its Secret.
    ///
    /// # Errors
    /// If a pinned key or the credential cannot be parsed.
    pub fn read(ssh: &SshAccess, secret: &BTreeMap<String, Vec<u8>>) -> Result<Self, SshError> {
        Self::read_with(ssh, secret, Credential::read)
    }

    /// The same, where `open` has its own way to a credential.
    pub(crate) fn read_with(
        ssh: &SshAccess,
        secret: &BTreeMap<String, Vec<u8>>,
        open: impl FnOnce(&BTreeMap<String, Vec<u8>>) -> Result<Credential, CredentialError>,
    ) -> Result<Self, SshError> {
        let name = &ssh.credentials_ref.name;
        let refuse = |error: CredentialError| SshError::Credentials(format!("Secret {name}: {error}"));
        let text = |key: &'static str| credential::text(secret, key).map_err(refuse);
        let user = text(keys::USERNAME)?.map_or_else(|| ssh.user.clone(), |name| name.reveal().to_owned());
        let sudo = match ssh.sudo == Some(true) && user != "root" {
            true => Sudo::Yes(text(keys::SUDO_PASSWORD)?),
            false => Sudo::Never,
        };
        Ok(Self {
            credential: open(secret).map_err(refuse)?,
            secret: name.clone(),
            pinned: PinnedKeys::read(&ssh.host_keys, &ssh.address)?,
            // The schema lets no other numbers in.
            port: u16::try_from(ssh.port).unwrap_or(22),
            host: ssh.address.clone(),
            user,
            sudo,
        })
    }

    /// Address of the host, for messages.
    pub fn address(&self) -> String {
        place(&self.host, self.port)
    }

    /// Tells connections apart: whoever has the same key of this sort may share one.
    pub(crate) fn identity(&self) -> [u8; 32] {
        let mut all = Vec::new();
        let mut add = |part: &[u8]| {
            all.extend_from_slice(&(part.len() as u64).to_be_bytes());
            all.extend_from_slice(part);
        };
        add(self.address().as_bytes());
        add(self.user.as_bytes());
        self.credential.feed(&mut add);
        match &self.sudo {
            Sudo::Never => add(b"never"),
            Sudo::Yes(None) => add(b"sudo"),
            Sudo::Yes(Some(word)) => add(word.reveal().as_bytes()),
        }
        for key in self.pinned.lines() {
            add(key.as_bytes());
        }
        let mut sum = [0; 32];
        sum.copy_from_slice(digest(&SHA256, &all).as_ref());
        sum
    }
}

/// Address and port as people write them.
pub(crate) fn place(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::infrastructure::SecretReference;

    pub(super) fn ssh() -> SshAccess {
        SshAccess {
            address: "fd00::1".to_owned(),
            port: 2222,
            user: "admin".to_owned(),
            sudo: Some(true),
            credentials_ref: SecretReference { name: "creds".to_owned() },
            host_keys: vec![],
            trust_on_first_use: Some(true),
        }
    }

    fn secret(pairs: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn the_secret_may_name_the_user_and_root_needs_no_sudo() {
        let access =
            Access::read(&ssh(), &secret(&[("password", "hunter2"), ("sudo-password", "s")])).unwrap();
        assert_eq!((access.user.as_str(), access.address().as_str()), ("admin", "[fd00::1]:2222"));
        assert!(matches!(&access.sudo, Sudo::Yes(Some(word)) if word.reveal() == "s"));
        let access =
            Access::read(&ssh(), &secret(&[("password", "hunter2"), ("username", "root\n")])).unwrap();
        assert!(access.user == "root" && access.sudo == Sudo::Never);
        assert!(!format!("{access:?}").contains("hunter2"));
    }

    #[test]
    fn other_credentials_are_another_connection() {
        let one = Access::read(&ssh(), &secret(&[("password", "a")])).unwrap();
        let other = Access::read(&ssh(), &secret(&[("password", "b")])).unwrap();
        assert_eq!(one.identity(), one.clone().identity());
        assert_ne!(one.identity(), other.identity());
    }

    #[test]
    fn another_address_is_another_connection() {
        let secret = secret(&[("password", "a")]);
        let one = Access::read(&ssh(), &secret).unwrap();
        let moved = Access::read(&SshAccess { address: "fd00::2".to_owned(), ..ssh() }, &secret).unwrap();
        assert_eq!(moved.address(), "[fd00::2]:2222");
        assert_ne!(one.identity(), moved.identity());
    }

    #[test]
    fn errors_name_the_secret_and_the_key() {
        let error = Access::read(&ssh(), &secret(&[])).unwrap_err().to_string();
        assert!(error.starts_with("spec.ssh.credentialsRef: Secret creds"), "{error}");
        assert!(error.contains("ssh-privatekey") && error.contains("password"), "{error}");
    }
}
