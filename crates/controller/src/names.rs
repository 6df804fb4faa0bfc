//! Names and label values that fit.

use rand::Rng as _;

pub use capstan_text::{LONGEST_LABEL_VALUE, label_value};

/// Letters and digits that cannot be misread or spell words: what Kubernetes uses for generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

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
}
