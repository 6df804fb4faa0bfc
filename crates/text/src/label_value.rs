//! Label values.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// A label value may not be longer; nor may a name that is used as one.
pub const LONGEST_LABEL_VALUE: usize = 63;

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
