//! A temporary CA. All keys are elliptic curve keys, because generating an RSA key takes longer than starting etcd.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Signs every certificate of one plane.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Where an [`Identity`] was written.
pub(crate) struct IdentityFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Result<Self> {
        let mut params = params(name, &[], &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, new_key()?).context("cannot make a CA")?;
        Ok(Self(issuer))
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// Its key, as PEM.
    pub(crate) fn key(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// For a server on loopback, and perhaps elsewhere, that is also its own peers' client, as etcd's is.
    pub(crate) fn server(&self, name: &str, elsewhere: &[&str]) -> Result<Identity> {
        let addresses = [&["localhost", "127.0.0.1", "::1"], elsewhere].concat();
        self.issue(
            params(name, &[], &addresses)?,
            &[ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        )
    }

    /// For the client `user`, a member of `groups`.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        self.issue(params(user, groups, &[])?, &[ExtendedKeyUsagePurpose::ClientAuth])
    }

    fn issue(&self, mut params: CertificateParams, usages: &[ExtendedKeyUsagePurpose]) -> Result<Identity> {
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        let key = new_key()?;
        let certificate = params.signed_by(&key, &self.0).context("cannot sign a certificate")?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl Identity {
    /// Writes `<name>.crt` and `<name>.key`.
    pub(crate) fn write(&self, folder: &Path, name: &str) -> Result<IdentityFiles> {
        let files = IdentityFiles {
            certificate: folder.join(format!("{name}.crt")),
            key: folder.join(format!("{name}.key")),
        };
        write(&files.certificate, &self.certificate)?;
        write(&files.key, &self.key)?;
        Ok(files)
    }
}

/// A key for signing service account tokens: the private and the public half, as PEM.
pub(crate) fn signing_key() -> Result<(String, String)> {
    let key = new_key()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn new_key() -> Result<KeyPair> {
    KeyPair::generate().context("cannot make a key")
}

fn params(name: &str, groups: &[&str], addresses: &[&str]) -> Result<CertificateParams> {
    let addresses: Vec<String> = addresses.iter().map(|address| (*address).to_owned()).collect();
    let mut params = CertificateParams::new(addresses).context("bad address for a certificate")?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // rcgen keeps one value for each type, so that a second group needs a second spelling of "organization".
    ensure!(groups.len() <= 2, "a certificate of this kit holds two groups at most, not {groups:?}");
    let organization = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (kind, group) in organization.into_iter().zip(groups) {
        params.distinguished_name.push(kind, *group);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
