//! Names and label values that fit.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rand::Rng as _;

/// Letters and digits that cannot be misread or spell words: what Kubernetes uses for generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A label value may not be longer; nor may a name that is used as one.
const LONGEST_LABEL_VALUE: usize = 63;

/// Five random characters that make names unique.
pub fn random_suffix() -> String {
    let mut rng = rand::rng();
    (0..5).map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())])).collect()
}

/// Five characters of the same alphabet, derived from these bytes, such as a digest.
pub fn suffix_of(bytes: &[u8; 32]) -> String {
    let five = bytes.iter().take(5);
    five.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

/// `base-suffix`, with `base` truncated so that the result fits into a label value.
pub fn with_suffix(base: &str, suffix: &str) -> String {
    let room = LONGEST_LABEL_VALUE - suffix.len() - 1;
    let base = base.get(..room).unwrap_or(base).trim_end_matches(['-', '.']);
    format!("{base}-{suffix}")
}

/// A label value for the name of an object: the name, or if it is too long a hash of it, the same that upstream's
/// managers use.
pub fn label_value(name: &str) -> String {
    if name.len() <= LONGEST_LABEL_VALUE {
        return name.to_owned();
    }
    format!("hash_{}_z", BASE64_URL_SAFE_NO_PAD.encode(fnv1a(name.as_bytes()).to_be_bytes()))
}

/// FNV-1a with 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_of_the_alphabet() {
        let suffix = random_suffix();
        assert_eq!(suffix.len(), 5);
        assert!(suffix.bytes().all(|byte| ALPHABET.contains(&byte)), "{suffix}");
        let mut bytes = [0; 32];
        assert_eq!(suffix_of(&bytes), "bbbbb");
        bytes[..5].copy_from_slice(&[0, 1, 26, 27, 255]);
        assert_eq!(suffix_of(&bytes), "bc9bq");
    }

    #[test]
    fn names_fit_a_label() {
        assert_eq!(with_suffix("md", "abcde"), "md-abcde");
        let long = with_suffix(&"m".repeat(80), "abcde");
        assert_eq!(long.len(), LONGEST_LABEL_VALUE);
        assert!(long.ends_with("m-abcde"));
        assert_eq!(
            with_suffix(&format!("{}-tail", "m".repeat(56)), "abcde"),
            format!("{}-abcde", "m".repeat(56))
        );
    }

    #[test]
    fn long_names_become_short_values() {
        assert_eq!(label_value("short"), "short");
        let value = label_value(&"n".repeat(64));
        assert!(value.len() <= LONGEST_LABEL_VALUE && value.starts_with("hash_"), "{value}");
        assert_ne!(value, label_value(&"o".repeat(64)));
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0x811c_9dc5);
        assert_eq!(fnv1a(b"foobar"), 0xbf9c_f968);
    }
}
