//! The plane's own certificates: one authority that lasts, and certificates made anew at every start.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Certificates of one plane, as PEM.
pub(super) struct Pki {
    pub(super) authority: String,
    /// Signs the certificates of clients.
    pub(super) authority_key: String,
    pub(super) server: Identity,
    pub(super) admin: Identity,
}

/// A certificate and its key.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Pki {
    /// Reads the authority from `folder`, or makes it the first time, and signs what a start needs.
    pub(super) fn open(folder: &Path, hosts: &[&str]) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
            .with_context(|| format!("cannot protect {}", folder.display()))?;
        let (certificate_file, key_file) = (folder.join("ca.crt"), folder.join("ca.key"));
        // The certificate is written last: when it is there, so is its key.
        if !certificate_file.exists() {
            let key = new_key()?;
            let certificate = authority_params()
                .self_signed(&key)
                .context("cannot make the plane's certificate authority")?;
            write_secret(&key_file, &key.serialize_pem())?;
            write_secret(&certificate_file, &certificate.pem())?;
        }
        let read =
            |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
        let (authority, key) = (read(&certificate_file)?, read(&key_file)?);
        let authority_key = key.clone();
        let key = KeyPair::from_pem(&key).with_context(|| format!("{} holds no key", key_file.display()))?;
        let issuer = Issuer::from_ca_cert_pem(&authority, key)
            .with_context(|| format!("{} holds no certificate", certificate_file.display()))?;
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let server = issue(
            &issuer,
            CertificateParams::new(hosts)?,
            "capstan",
            None,
            ExtendedKeyUsagePurpose::ServerAuth,
        )?;
        let admin = issue(
            &issuer,
            CertificateParams::default(),
            "capstan-admin",
            Some("system:masters"),
            ExtendedKeyUsagePurpose::ClientAuth,
        )?;
        Ok(Self { authority, authority_key, server, admin })
    }
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("capstan", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn issue(
    issuer: &Issuer<'_, KeyPair>,
    mut params: CertificateParams,
    common_name: &str,
    group: Option<&str>,
    usage: ExtendedKeyUsagePurpose,
) -> Result<Identity> {
    params.distinguished_name = name(common_name, group);
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    let key = new_key()?;
    let certificate = params.signed_by(&key, issuer).context("cannot sign a certificate")?;
    Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn name(common_name: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name.push(DnType::CommonName, common_name);
    name
}

fn new_key() -> Result<KeyPair> {
    KeyPair::generate().context("cannot make a key")
}

/// Writes a file whole or not at all, readable by its owner only.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    let partial = path.with_extension("partial");
    let write = || -> std::io::Result<()> {
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

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
