//! PEM: base64 between two lines.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Label of a certificate.
pub const CERTIFICATE: &str = "CERTIFICATE";
/// Label of a certificate request (PKCS #10).
pub const CERTIFICATE_REQUEST: &str = "CERTIFICATE REQUEST";

/// Characters in a line, as RFC 7468 has it.
const WIDTH: usize = 64;

/// Writes one block.
pub fn encode(label: &str, der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for start in (0..encoded.len()).step_by(WIDTH) {
        text.push_str(&encoded[start..encoded.len().min(start + WIDTH)]);
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// The bytes of the only block, if it has this label and there is no other text.
pub fn decode_only(label: &str, text: &str) -> Option<Vec<u8>> {
    let mut lines = text.trim_end().lines();
    if lines.next()? != format!("-----BEGIN {label}-----") {
        return None;
    }
    let lines: Vec<&str> = lines.collect();
    let (end, body) = lines.split_last()?;
    if *end != format!("-----END {label}-----") {
        return None;
    }
    BASE64_STANDARD.decode(body.concat()).ok()
}

/// The bytes of every block with this label, in order. Text between blocks, blocks with another label and blocks that are
/// not base64 are skipped.
pub fn decode_all(label: &str, text: &str) -> Vec<Vec<u8>> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let mut found = Vec::new();
    let mut body: Option<String> = None;
    for line in text.lines().map(str::trim_end) {
        if line == begin {
            body = Some(String::new());
        } else if line == end {
            found.extend(body.take().and_then(|body| BASE64_STANDARD.decode(body).ok()));
        } else if let Some(body) = &mut body {
            body.push_str(line);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_blocks_of_a_label() {
        let blocks = [encode("X", &[1; 100]), encode("Y", &[2]), encode("X", &[3])];
        let text = format!("hello\n{}between\n{}{}end", blocks[0], blocks[1], blocks[2]);
        assert_eq!(decode_all("X", &text), [vec![1; 100], vec![3]]);
        assert_eq!(decode_all("X", &text.replace('\n', "\r\n")), [vec![1; 100], vec![3]]);
        assert_eq!(decode_all("Y", &text), [vec![2]]);
        for bad in ["", "-----BEGIN X-----", "-----BEGIN X-----\n!\n-----END X-----", "-----END X-----"] {
            assert!(decode_all("X", bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn one_block_and_no_other_text() {
        for length in [0, 1, 47, 48, 49, 100, 500] {
            let bytes = vec![7; length];
            let text = encode("X", &bytes);
            assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
            assert_eq!(decode_only("X", &text), Some(bytes.clone()));
            assert_eq!(decode_only("X", &text.replace('\n', "\r\n")), Some(bytes));
            assert_eq!(decode_only("Y", &text), None);
            assert_eq!(decode_only("X", &format!("{text}{text}")), None);
            assert_eq!(decode_only("X", &format!("hello\n{text}")), None);
            assert_eq!(decode_only("X", &format!("{text}hello")), None);
        }
        for bad in ["", "-----BEGIN X-----", "-----BEGIN X-----\n!\n-----END X-----"] {
            assert_eq!(decode_only("X", bad), None, "{bad}");
        }
    }

    #[cfg(feature = "trust")]
    #[test]
    fn other_readers_understand_it() {
        use rustls::pki_types::{CertificateDer, pem::PemObject as _};

        for length in [1, 47, 48, 49, 100] {
            let der = vec![7; length];
            let text = encode(CERTIFICATE, &der);
            let read = CertificateDer::from_pem_slice(text.as_bytes()).expect("a certificate");
            assert_eq!(read.as_ref(), der);
        }
    }
}
