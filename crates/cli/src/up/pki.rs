//! The certificates of an embedded plane, which are issued again and again by CAs that are kept.

use anyhow::{Context, Result};
use capstan_files::Durability;
use capstan_pki::issue::{self, Identity};
use jiff::{SignedDuration, Timestamp};
use rcgen::{ExtendedKeyUsagePurpose, Issuer, KeyPair};
use std::path::Path;

use super::authorities::Authorities;

/// User name of the administrator.
pub(crate) const ADMINISTRATOR: &str = "capstan-admin";
/// The group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// How long the certificate in `admin.kubeconfig` is valid. The plane renews it while it runs and when it starts.
pub(super) const ADMINISTRATOR_LIFE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// How long a serving certificate is valid. Each start issues a new one, and a plane may run for years.
const SERVER_LIFE: SignedDuration = SignedDuration::from_hours(10 * 366 * 24);

/// Certificates of one plane.
pub(crate) struct Pki {
    /// Signs the certificates of clients.
    pub(super) clients: Identity,
    issuer: Issuer<'static, KeyPair>,
    pub(super) server: Identity,
    /// The CAs that machines and kubeconfigs trust.
    pub(crate) bundle: String,
}

impl Pki {
    /// Reads the CAs from `folder`, or creates one the first time, and issues a serving certificate.
    pub(crate) fn open(folder: &Path, hosts: &[&str], now: Timestamp) -> Result<Self> {
        let Authorities { server, clients, clients_issuer, bundle } = Authorities::open(folder)?;
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let subject = issue::subject("capstan", None);
        let mut params = issue::end_entity(subject, &hosts, ExtendedKeyUsagePurpose::ServerAuth)?;
        issue::valid_for(&mut params, now, SERVER_LIFE)?;
        let server = issue::signed(&params, &server).context("cannot sign a certificate")?;
        Ok(Self { clients, issuer: clients_issuer, server, bundle })
    }

    /// A certificate of the administrator.
    pub(crate) fn administrator(&self, now: Timestamp, life: SignedDuration) -> Result<Identity> {
        let subject = issue::subject(ADMINISTRATOR, Some(MASTERS));
        let mut params = issue::end_entity(subject, &[], ExtendedKeyUsagePurpose::ClientAuth)?;
        issue::valid_for(&mut params, now, life)?;
        issue::signed(&params, &self.issuer).context("cannot sign a certificate")
    }
}

/// Writes a file whole or not at all, readable by its owner only.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    Ok(capstan_files::write(path, text.as_bytes(), 0o600, Durability::Whole)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_pki::Certificate;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_authority_lasts_and_its_key_is_private() {
        let (folder, now) = (tempfile::tempdir().unwrap(), Timestamp::now());
        let first = Pki::open(folder.path(), &["localhost"], now).unwrap();
        let second = Pki::open(folder.path(), &["localhost"], now).unwrap();
        assert_eq!(first.bundle, second.bundle);
        assert_ne!(first.server.key, second.server.key);
        let mode = fs::metadata(folder.path().join("ca.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_administrator_has_a_short_life_and_a_server_a_long_one() {
        let (folder, now) = (tempfile::tempdir().unwrap(), Timestamp::from_second(1_800_000_000).unwrap());
        let pki = Pki::open(folder.path(), &["localhost"], now).unwrap();
        let read = |identity: &Identity| Certificate::first_in(identity.certificate.as_bytes()).unwrap();
        let administrator = read(&pki.administrator(now, ADMINISTRATOR_LIFE).unwrap());
        assert_eq!(administrator.not_after, now + ADMINISTRATOR_LIFE);
        assert_eq!(administrator.common_name.as_deref(), Some(ADMINISTRATOR));
        assert_eq!(read(&pki.server).not_after, now + SERVER_LIFE);
    }
}
