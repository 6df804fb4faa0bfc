//! The server's CA, which is persistent, and its serving certificate, which is issued at every start.

use capstan_pki::folder::{FolderError, KeptAuthority};
use capstan_pki::issue::{self, Identity};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose};
use std::path::{Path, PathBuf};

/// Who vouches for the server. Machines are given it and trust nobody else.
pub(super) struct Authority {
    kept: KeptAuthority,
    folder: PathBuf,
}

impl Authority {
    /// Reads it from `folder`, or makes it the first time.
    pub(super) fn open(folder: &Path) -> Result<Self, FolderError> {
        let params = issue::authority("capstan artifacts", BasicConstraints::Constrained(0));
        Ok(Self { kept: KeptAuthority::open(folder, &params)?, folder: folder.to_owned() })
    }

    /// Its certificate, as PEM.
    pub(super) fn certificate(&self) -> &str {
        &self.kept.identity.certificate
    }

    /// A certificate for these names and addresses.
    pub(super) fn serving(&self, hosts: &[String]) -> Result<Identity, FolderError> {
        let subject = issue::subject("capstan artifacts server", None);
        issue::end_entity(subject, hosts, ExtendedKeyUsagePurpose::ServerAuth)
            .and_then(|params| issue::signed(&params, &self.kept.issuer))
            .map_err(|source| FolderError::Certificate { path: self.folder.clone(), source })
    }
}
