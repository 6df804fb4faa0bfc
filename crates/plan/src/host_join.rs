//! The join token of hosts that dial out, and the proof that a machine holds one.
//!
//! A join token is one text with all that a machine needs for its first request. The machine creates a registration with
//! a random name. Every holder of the token may do that, so the registration contains a proof: who holds no token, or
//! another one, cannot make it. The proof covers the public key of the machine.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::fmt;

use crate::{Content, PublicKey, SecretText};

/// Begins every join token, and names its format.
const PREFIX: &str = "capstan-host-1.";
const DOMAIN: &[u8] = b"capstan.dev/host-join/v1\0";
/// Bytes of the key of a join token.
const KEY_BYTES: usize = 32;
/// Characters of a join token. Tokens of ServiceAccounts have about a thousand, and CA bundles are short.
const MOST: usize = 64 * 1024;
const NAME: &str = "host-";

/// Why a text is not a join token. Never repeats any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinTokenError {
    /// The text does not begin like a join token, or is too long.
    #[error("this is not a join token: it must begin with `{PREFIX}`, as `capstan host token` prints it")]
    Format,
    /// A part of the token is missing or changed.
    #[error("the join token is damaged: copy it again, as a whole")]
    Damaged,
}

/// The secret key of a join token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Content", into = "Content")]
pub struct JoinKey([u8; KEY_BYTES]);

impl JoinKey {
    /// The key with these bytes, which must be random.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Parses a key.
    ///
    /// # Errors
    /// If there are not exactly 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JoinTokenError> {
        bytes.try_into().map(Self).map_err(|_| JoinTokenError::Damaged)
    }

    /// Its bytes, for the Secret of the token.
    pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl TryFrom<Content> for JoinKey {
    type Error = JoinTokenError;

    fn try_from(content: Content) -> Result<Self, JoinTokenError> {
        Self::from_bytes(content.as_bytes())
    }
}

impl From<JoinKey> for Content {
    fn from(key: JoinKey) -> Self {
        key.0.to_vec().into()
    }
}

impl fmt::Debug for JoinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinKey")
    }
}

/// Everything that a machine needs to register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinToken {
    /// URL of the API server of the management plane, as reachable from machines.
    pub server: String,
    /// CA bundle of the API server, in PEM.
    pub ca: String,
    /// Namespace of the registration.
    pub namespace: String,
    /// Name of the token.
    pub name: String,
    /// Key of the proof.
    pub key: JoinKey,
    /// Bearer token of the ServiceAccount of the join token.
    pub bearer: SecretText,
    /// Public key that verifies instructions to the machine.
    pub instruction_key: PublicKey,
}

impl JoinToken {
    /// Encodes the token as one word of letters, digits, dots, dashes and underscores.
    pub fn encode(&self) -> SecretText {
        let bytes = serde_json::to_vec(self).expect("texts and bytes can be written as JSON");
        SecretText::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Parses a token. White space around it is ignored.
    ///
    /// # Errors
    /// If it is not a whole join token.
    pub fn parse(text: &str) -> Result<Self, JoinTokenError> {
        let text = text.trim();
        let encoded = text.strip_prefix(PREFIX).filter(|_| text.len() <= MOST);
        let bytes = URL_SAFE_NO_PAD
            .decode(encoded.ok_or(JoinTokenError::Format)?)
            .map_err(|_| JoinTokenError::Damaged)?;
        serde_json::from_slice(&bytes).map_err(|_| JoinTokenError::Damaged)
    }
}

/// A request to register a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinRequest<'a> {
    /// Namespace of the registration.
    pub namespace: &'a str,
    /// Name of the registration.
    pub registration: &'a str,
    /// Public key of the machine: SubjectPublicKeyInfo of a P-256 key, in base64.
    pub public_key: &'a str,
    /// Random text that distinguishes this request from earlier ones.
    pub nonce: &'a str,
}

impl JoinRequest<'_> {
    /// The proof that the author of the request has this key, in hexadecimal.
    pub fn prove(&self, key: &JoinKey) -> String {
        let tag = hmac::sign(&key.hmac(), &self.sentence());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether the proof was made with this key for this request.
    pub fn is_proven(&self, key: &JoinKey, proof: &str) -> bool {
        let Ok(proof) = proof.parse::<crate::Digest>() else { return false };
        hmac::verify(&key.hmac(), &self.sentence(), proof.as_bytes()).is_ok()
    }

    /// Every part has its length before it, so that no two requests have the same sentence.
    fn sentence(&self) -> Vec<u8> {
        let mut sentence = DOMAIN.to_vec();
        for text in [self.namespace, self.registration, self.public_key, self.nonce] {
            sentence.extend((text.len() as u64).to_be_bytes());
            sentence.extend(text.as_bytes());
        }
        sentence
    }
}

/// The name of a registration, from a random number. It cannot be guessed.
pub fn registration_name(random: u128) -> String {
    format!("{NAME}{random:032x}")
}

/// Whether a text has the form of [`registration_name`].
pub fn is_registration_name(name: &str) -> bool {
    let digits = name.strip_prefix(NAME).unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningKey;

    fn token() -> JoinToken {
        JoinToken {
            server: "https://10.0.0.1:6443".to_owned(),
            ca: "-----BEGIN CERTIFICATE-----\n".to_owned(),
            namespace: "default".to_owned(),
            name: "edge".to_owned(),
            key: JoinKey::new([1; 32]),
            bearer: SecretText::new("bearer-secret"),
            instruction_key: SigningKey::from_seed(&[7; 32]).public(),
        }
    }

    #[test]
    fn a_token_is_one_word_and_is_read_as_it_was_written() {
        let text = token().encode();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        assert!(text.expose().bytes().all(is_plain));
        assert_eq!(JoinToken::parse(&format!(" {}\n", text.expose())), Ok(token()));
        let shown = format!("{:?} {text:?}", token());
        assert!(!shown.contains("bearer-secret") && !shown.contains("[1, 1"), "{shown}");
    }

    #[test]
    fn what_is_not_a_whole_token_is_refused() {
        let text = token().encode();
        let (text, half) = (text.expose(), &text.expose()[..100]);
        let long = format!("{PREFIX}{}", "a".repeat(MOST));
        for (case, text, error) in [
            ("nothing", "", JoinTokenError::Format),
            ("another token", "eyJhbGciOiJSUzI1NiJ9.e30.x", JoinTokenError::Format),
            ("a later format", "capstan-host-2.e30", JoinTokenError::Format),
            ("too long", &long, JoinTokenError::Format),
            ("half of it", half, JoinTokenError::Damaged),
            ("two lines", &text.replacen('e', "\n", 1), JoinTokenError::Damaged),
            ("an empty document", "capstan-host-1.e30", JoinTokenError::Damaged),
        ] {
            assert_eq!(JoinToken::parse(text), Err(error), "{case}");
        }
    }

    #[test]
    fn a_proof_is_for_one_request_and_one_key() {
        let (key, other) = (JoinKey::new([1; 32]), JoinKey::new([2; 32]));
        let request = JoinRequest { namespace: "a", registration: "b", public_key: "c", nonce: "d" };
        let proof = request.prove(&key);
        assert!(request.is_proven(&key, &proof));
        assert!(!request.is_proven(&other, &proof), "another token");
        for changed in [
            JoinRequest { namespace: "b", ..request },
            JoinRequest { registration: "c", ..request },
            JoinRequest { public_key: "d", ..request },
            JoinRequest { nonce: "e", ..request },
            JoinRequest { namespace: "ab", registration: "", ..request },
        ] {
            assert!(!changed.is_proven(&key, &proof), "{changed:?}");
        }
        for wrong in [String::new(), "0".repeat(64), proof.to_uppercase(), proof[1..].to_owned()] {
            assert!(!request.is_proven(&key, &wrong), "{wrong}");
        }
    }

    #[test]
    fn names_of_registrations_are_recognised() {
        assert!(
            is_registration_name(&registration_name(0))
                && is_registration_name(&registration_name(u128::MAX))
        );
        for other in ["", "host-", "host-1", "web-0", &registration_name(7).to_uppercase()] {
            assert!(!is_registration_name(other), "{other}");
        }
    }
}
