//! A throw-away authority, and a kubeconfig that trusts it.

use anyhow::Result;
use base64::{Engine, engine::general_purpose::STANDARD};
use capstan_apiserver::Tls;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};

/// An authority that signs one server and any number of clients.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, "throw-away");
        let key = KeyPair::generate()?;
        let pem = parameters.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(parameters, key), pem })
    }

    /// What a server on loopback needs.
    pub(crate) fn server(&self) -> Result<Tls> {
        self.server_of(&[])
    }

    /// The same for a server that has other names as well.
    pub(crate) fn server_of(&self, names: &[&str]) -> Result<Tls> {
        let mut parameters = CertificateParams::default();
        parameters.subject_alt_names = vec![SanType::IpAddress("127.0.0.1".parse()?)];
        for name in names {
            parameters.subject_alt_names.push(SanType::DnsName((*name).try_into()?));
        }
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?.pem();
        Ok(Tls { certificate, key: key.serialize_pem(), client_ca: Some(self.pem.clone()) })
    }

    pub(crate) fn pem(&self) -> String {
        self.pem.clone()
    }

    pub(crate) fn key(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// A kubeconfig with a client certificate for this user.
    pub(crate) fn kubeconfig(&self, port: u16, user: &str, group: &str) -> Result<String> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, user);
        parameters.distinguished_name.push(DnType::OrganizationName, group);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?.pem();
        Ok(self.kubeconfig_of(port, &certificate, &key.serialize_pem()))
    }

    /// A kubeconfig with this client certificate.
    pub(crate) fn kubeconfig_of(&self, port: u16, certificate: &str, key: &str) -> String {
        let config = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {
                "server": format!("https://127.0.0.1:{port}"),
                "certificate-authority-data": STANDARD.encode(&self.pem),
            }}],
            "users": [{"name": "u", "user": {
                "client-certificate-data": STANDARD.encode(certificate),
                "client-key-data": STANDARD.encode(key),
            }}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        });
        config.to_string()
    }
}
