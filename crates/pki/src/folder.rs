//! A CA that is kept in a folder: created at the first start, read at every other.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use capstan_files::Durability;
use rcgen::{CertificateParams, Issuer, KeyPair};

use crate::issue::{Identity, issuer, self_signed};

/// Why there is no CA.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file or folder.
    #[error("cannot {doing} {}", .path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The certificate or its key.
    #[error("cannot use the certificate authority in {}", .path.display())]
    Certificate {
        /// The folder.
        path: PathBuf,
        /// What the library said.
        source: rcgen::Error,
    },
}

/// A CA in a folder.
pub struct KeptAuthority {
    /// Its certificate and key.
    pub identity: Identity,
    /// Signs certificates.
    pub issuer: Issuer<'static, KeyPair>,
}

impl KeptAuthority {
    /// Reads `ca.crt` and `ca.key`. If there is no certificate, creates both, and the folder, for the owner only.
    ///
    /// # Errors
    /// If the folder cannot be read or written, or holds no usable CA.
    pub fn open(folder: &Path, params: &CertificateParams) -> Result<Self, FolderError> {
        Self::named(folder, "ca", params)
    }

    /// The same with `name.crt` and `name.key`.
    ///
    /// # Errors
    /// If the folder cannot be read or written, or holds no usable CA of that name.
    pub fn named(folder: &Path, name: &str, params: &CertificateParams) -> Result<Self, FolderError> {
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| FolderError::Io { doing, path, source }
        };
        let unusable = |source| FolderError::Certificate { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed("make", folder))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed("protect", folder))?;
        let (certificate, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        // The certificate is written last: when it exists, its key exists.
        if !certificate.exists() {
            let new = self_signed(params).map_err(unusable)?;
            for (path, text) in [(&key, new.key), (&certificate, new.certificate)] {
                capstan_files::write(path, text.as_bytes(), 0o600, Durability::Whole)
                    .map_err(|error| failed("write", path)(error.source))?;
            }
        }
        let read = |path: &Path| fs::read_to_string(path).map_err(failed("read", path));
        let identity = Identity { certificate: read(&certificate)?, key: read(&key)? };
        let issuer = issuer(&identity).map_err(unusable)?;
        Ok(Self { identity, issuer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issue::authority;
    use rcgen::BasicConstraints;

    fn open(folder: &Path) -> Result<KeptAuthority, FolderError> {
        KeptAuthority::open(folder, &authority("ca", BasicConstraints::Unconstrained))
    }

    #[test]
    fn the_ca_stays_and_its_key_is_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("pki");
        let first = open(&folder).map(|kept| kept.identity).expect("a CA");
        assert_eq!(open(&folder).map(|kept| kept.identity).expect("a CA"), first);
        for (path, expected) in [(folder.clone(), 0o700), (folder.join("ca.key"), 0o600)] {
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, expected, "{}", path.display());
        }
        // A start that was killed before it wrote the certificate.
        fs::remove_file(folder.join("ca.crt")).expect("removed");
        assert_ne!(open(&folder).map(|kept| kept.identity).expect("a CA"), first);
    }

    #[test]
    fn an_unusable_folder_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "").expect("written");
        let error = open(&path.join("pki")).err().expect("no folder");
        assert_eq!(error.to_string(), format!("cannot make {}", path.join("pki").display()));
        fs::write(folder.path().join("ca.crt"), "nonsense").expect("written");
        let error = open(folder.path()).err().expect("no key");
        assert_eq!(error.to_string(), format!("cannot read {}", folder.path().join("ca.key").display()));
        fs::write(folder.path().join("ca.key"), "nonsense").expect("written");
        let error = open(folder.path()).err().expect("no CA");
        let expected = format!("cannot use the certificate authority in {}", folder.path().display());
        assert_eq!(error.to_string(), expected);
    }
}
