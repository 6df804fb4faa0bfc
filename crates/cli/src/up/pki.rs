//! The plane's certificates: a persistent CA, and certificates that are issued at every start.

use anyhow::{Context, Result};
use capstan_files::Durability;
use capstan_pki::folder::KeptAuthority;
use capstan_pki::issue::{self, Identity};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose};
use std::path::Path;

/// Certificates of one plane, as PEM.
pub(super) struct Pki {
    /// CA of client certificates.
    pub(super) authority: Identity,
    pub(super) server: Identity,
    pub(super) admin: Identity,
}

impl Pki {
    /// Reads the CA from `folder`, or creates it at the first start, and issues the certificates of this start.
    pub(super) fn open(folder: &Path, hosts: &[&str]) -> Result<Self> {
        let kept =
            KeptAuthority::open(folder, &issue::authority("capstan", BasicConstraints::Unconstrained))?;
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let issued = |name: &str, group: Option<&str>, hosts: &[String], usage| {
            let params = issue::end_entity(issue::subject(name, group), hosts, usage)?;
            issue::signed(&params, &kept.issuer).context("cannot sign a certificate")
        };
        let server = issued("capstan", None, &hosts, ExtendedKeyUsagePurpose::ServerAuth)?;
        let admin =
            issued("capstan-admin", Some("system:masters"), &[], ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(Self { authority: kept.identity, server, admin })
    }
}

/// Writes a file atomically; only its owner can read it.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    Ok(capstan_files::write(path, text.as_bytes(), 0o600, Durability::Whole)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_authority_lasts_and_its_key_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let first = Pki::open(folder.path(), &["localhost"]).unwrap();
        let second = Pki::open(folder.path(), &["localhost"]).unwrap();
        assert_eq!(first.authority, second.authority);
        assert_ne!(first.server.key, second.server.key);
        let mode = fs::metadata(folder.path().join("ca.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
