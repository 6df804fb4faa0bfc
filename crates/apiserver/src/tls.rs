//! TLS: the server's certificate, and which client certificates it believes.

use std::sync::Arc;

use rustls::{
    RootCertStore, ServerConfig,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

/// The server's certificate and key and the authority of its clients, all PEM.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The certificate, with its chain.
    pub certificate: String,
    /// Its private key.
    pub key: String,
    /// Who signs client certificates; without one, only tokens are believed.
    pub client_ca: Option<String>,
}

/// Why the server cannot speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A text that is not the PEM it should be.
    #[error("cannot read the {0}")]
    Pem(&'static str, #[source] rustls::pki_types::pem::Error),
    /// Certificate, key and protocol do not fit together.
    #[error("cannot use the certificate")]
    Config(#[from] rustls::Error),
    /// The authority of the clients is unusable.
    #[error("cannot use the client authority")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

impl Tls {
    pub(crate) fn config(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let chain = certificates("certificate", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| TlsError::Pem("key", error))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates("client authority", authority)? {
                    roots.add(certificate)?;
                }
                // Without a certificate one may still have a token.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.allow_unauthenticated().build()?)
            }
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Pem(what, error))
}
