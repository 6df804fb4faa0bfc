//! The server's own authority, which lasts, and a certificate that is made anew at every start.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What was read or made.
    #[error("cannot use the certificate authority in {path}: {source}")]
    Certificate {
        /// Where it lies.
        path: PathBuf,
        /// Why not.
        source: rcgen::Error,
    },
}

/// A certificate for serving, as PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Who vouches for the server. Machines are given it and trust nobody else.
pub(super) struct Authority {
    pub(super) certificate: String,
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Reads it from `folder`, or makes it the first time.
    pub(super) fn open(folder: &Path) -> Result<Self, AuthorityError> {
        let io = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| AuthorityError::Io { doing, path, source }
        };
        let wrong = |source| AuthorityError::Certificate { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(io("make", folder))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(io("protect", folder))?;
        let (certificate_file, key_file) = (folder.join("ca.crt"), folder.join("ca.key"));
        // The certificate is written last: when it is there, so is its key.
        if !certificate_file.exists() {
            let key = KeyPair::generate().map_err(wrong)?;
            let certificate = params("capstan artifacts").self_signed(&key).map_err(wrong)?;
            write_secret(&key_file, &key.serialize_pem()).map_err(io("write", &key_file))?;
            write_secret(&certificate_file, &certificate.pem()).map_err(io("write", &certificate_file))?;
        }
        let read = |path: &Path| fs::read_to_string(path).map_err(io("read", path));
        let certificate = read(&certificate_file)?;
        let key = KeyPair::from_pem(&read(&key_file)?).map_err(wrong)?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(wrong)?;
        Ok(Self { certificate, folder: folder.to_owned(), issuer })
    }

    /// A certificate for these names and addresses.
    pub(super) fn serving(&self, hosts: &[String]) -> Result<Identity, AuthorityError> {
        let wrong = |source| AuthorityError::Certificate { path: self.folder.clone(), source };
        let mut params = CertificateParams::new(hosts.to_vec()).map_err(wrong)?;
        params.distinguished_name = name("capstan artifacts server");
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(wrong)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(wrong)?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

/// Whole or not at all, readable by its owner only.
fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)
}
