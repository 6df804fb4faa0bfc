//! The serving certificate of diagnostics: self-signed, made at each start, as controller-runtime does. It encrypts bearer
//! tokens and answers; it does not prove to callers which server they reached.

use anyhow::{Context as _, Result};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// A TLS acceptor with a new certificate.
pub(super) fn acceptor() -> Result<TlsAcceptor> {
    let (certificate, key) = identity()?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn identity() -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "capstan-diagnostics");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().context("cannot make a key")?;
    let certificate = params.self_signed(&key).context("cannot make a certificate")?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok((certificate.der().clone(), key))
}
