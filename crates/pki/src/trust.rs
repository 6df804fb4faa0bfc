//! The CAs of a bundle, for TLS.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, pem};

/// Why a CA bundle cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The text is not PEM.
    #[error(transparent)]
    Pem(#[from] pem::Error),
    /// A block is not a certificate of a CA.
    #[error(transparent)]
    Certificate(#[from] rustls::Error),
}

/// The certificates of a bundle in PEM, which may be none.
///
/// # Errors
/// If one of them cannot be read: a bundle is used whole or not at all.
pub fn roots(bundle: &[u8]) -> Result<RootCertStore, RootsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle) {
        roots.add(certificate?)?;
    }
    Ok(roots)
}

#[cfg(all(test, feature = "issue"))]
mod tests {
    use super::*;
    use crate::issue;
    use rcgen::{BasicConstraints, KeyPair};

    #[test]
    fn a_bundle_is_used_whole_or_not_at_all() {
        let ca = |name| {
            let key = KeyPair::generate().expect("a key");
            issue::authority(name, BasicConstraints::Unconstrained).self_signed(&key).expect("a CA").pem()
        };
        let (one, other) = (ca("one"), ca("other"));
        for (bundle, expected) in
            [(String::new(), 0), ("no PEM".to_owned(), 0), (one.clone(), 1), (format!("{one}\n{other}"), 2)]
        {
            assert_eq!(roots(bundle.as_bytes()).expect("a bundle").len(), expected, "{bundle}");
        }
        let (cut, empty) = (&one[..one.len() / 2], crate::pem::encode(crate::pem::CERTIFICATE, b"no DER"));
        assert!(matches!(roots(format!("{other}{cut}").as_bytes()), Err(RootsError::Pem(_))));
        assert!(matches!(roots(format!("{other}{empty}").as_bytes()), Err(RootsError::Certificate(_))));
    }
}
