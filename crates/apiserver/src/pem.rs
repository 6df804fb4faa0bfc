//! PEM: base64 between two lines.

use base64::{Engine, engine::general_purpose::STANDARD};

/// Writes a block.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for start in (0..encoded.len()).step_by(64) {
        text.push_str(&encoded[start..encoded.len().min(start + 64)]);
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};

    #[test]
    fn there_and_back() {
        for length in [1, 47, 48, 49, 100] {
            let der = vec![7; length];
            let text = super::encode("CERTIFICATE", &der);
            assert!(text.lines().all(|line| line.len() <= 64), "{text}");
            assert_eq!(CertificateDer::from_pem_slice(text.as_bytes()).unwrap().as_ref(), der);
        }
    }
}
