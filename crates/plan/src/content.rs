//! Values that must not be printed by accident: contents of files, and secrets.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::{Digest, base64_text};

/// Content of a file. Its `Debug` output shows only the size.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Content(#[serde(with = "base64_text")] Vec<u8>);

impl Content {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Digest of the bytes.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

/// A text that must never be printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a text so that it cannot be printed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for its use. The caller must not print it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_value() {
        assert_eq!(format!("{:?}", Content::from("hunter2")), "[7 bytes]");
        assert_eq!(format!("{:?}", SecretText::new("hunter2")), "[secret]");
    }

    #[test]
    fn base64_has_one_spelling() {
        let read = |text: &str| serde_json::from_str::<Content>(&format!("{text:?}"));
        assert_eq!(read("aGk=").expect("valid").as_bytes(), b"hi");
        for other in ["aGk", "aGl=", "aGk=\n", "aG k=", "_-8="] {
            assert!(read(other).is_err(), "{other:?}");
        }
        let error = read("hunter2!").expect_err("not base64").to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
