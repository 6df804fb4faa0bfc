//! PEM with one block in it and nothing else. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// The bytes of the only block, if its label is this one.
pub(super) fn decode(text: &str, label: &str) -> Option<Vec<u8>> {
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

/// One block.
pub(super) fn encode(bytes: &[u8], label: &str) -> String {
    let text = BASE64_STANDARD.encode(bytes);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_and_nothing_else() {
        for length in [0, 1, 47, 48, 49, 500] {
            let bytes = vec![7; length];
            let text = encode(&bytes, "X");
            assert_eq!(decode(&text, "X"), Some(bytes.clone()));
            assert_eq!(decode(&text.replace('\n', "\r\n"), "X"), Some(bytes));
            assert_eq!(decode(&text, "Y"), None);
            assert_eq!(decode(&format!("{text}{text}"), "X"), None);
            assert_eq!(decode(&format!("hello\n{text}"), "X"), None);
            assert_eq!(decode(&format!("{text}hello"), "X"), None);
        }
        for bad in ["", "-----BEGIN X-----", "-----BEGIN X-----\n!\n-----END X-----"] {
            assert_eq!(decode(bad, "X"), None, "{bad}");
        }
    }
}
