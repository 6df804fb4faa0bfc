//! TLS: the serving certificate, and the CAs of client certificates.
//!
//! A client that shows a certificate proves that it has the key, or the handshake fails. A certificate that is not
//! trusted gets a response (401), as upstream does, and not a closed connection, so that the client learns that its
//! certificate has expired.

use std::{sync::Arc, time::Duration};

use capstan_pki::RootsError;
use jiff::Timestamp;
use rustls::{
    DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use crate::auth::client_certificate::ClientCertificate;

/// Serving certificate and key, and the CA bundle for client certificates, all in PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The serving certificate, followed by its chain.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// CA bundle for client certificates. Without it, clients authenticate with tokens only.
    pub client_ca: Option<String>,
}

/// Why the server cannot serve TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The named input is not valid PEM.
    #[error("cannot read the {0}")]
    Pem(&'static str, #[source] rustls::pki_types::pem::Error),
    /// rustls rejects the certificate or the key.
    #[error("cannot use the certificate")]
    Config(#[from] rustls::Error),
    /// The CA bundle for client certificates cannot be used.
    #[error("cannot use the client authority")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

impl Tls {
    pub(crate) fn config(&self) -> Result<(ServerConfig, Clients), TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = certificates("certificate", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| TlsError::Pem("key", error))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let (builder, clients) = match &self.client_ca {
            None => (builder.with_no_client_auth(), Clients(None)),
            Some(authority) => {
                let roots = capstan_pki::roots(authority.as_bytes()).map_err(|error| match error {
                    RootsError::Pem(error) => TlsError::Pem("client authority", error),
                    RootsError::Certificate(error) => TlsError::Config(error),
                })?;
                // Without a certificate one may still have a token.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.allow_unauthenticated().build()?;
                let proof = Arc::new(Proof(Arc::clone(&verifier)));
                (builder.with_client_cert_verifier(proof), Clients(Some(verifier)))
            }
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok((config, clients))
    }
}

/// Whose certificates are believed.
#[derive(Clone)]
pub(crate) struct Clients(Option<Arc<dyn ClientCertVerifier>>);

impl Clients {
    /// What to make of the certificates that a connection has shown.
    pub(crate) fn judge(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> ClientCertificate {
        let (Some(verifier), [own, above @ ..]) = (&self.0, chain) else { return ClientCertificate::Absent };
        let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
        match verifier.verify_client_cert(own, above, UnixTime::since_unix_epoch(now)) {
            Ok(_) => ClientCertificate::from_der(own),
            Err(error) => {
                tracing::debug!(%error, "a client certificate is refused");
                ClientCertificate::Untrusted
            }
        }
    }
}

/// Asks for the proof that a client has the key, and for nothing else.
#[derive(Debug)]
struct Proof(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Proof {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // See [`Clients::judge`], which every connection goes through.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Pem(what, error))
}
