//! The token of a machine on its way from the manager to the machine: sealed to the key of the machine, and bound to the
//! request that it answers.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::seal::{self, SealError};

/// A machine's request for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenQuery<'a> {
    /// ID of the machine.
    pub machine_id: &'a str,
    /// Its public key: SubjectPublicKeyInfo of a P-256 key, in base64.
    pub public_key: &'a str,
    /// Distinguishes this request from earlier ones.
    pub nonce: &'a str,
}

impl TokenQuery<'_> {
    /// What an answer is bound to: as the answer to another request it cannot be opened.
    fn context(&self) -> Vec<u8> {
        let Self { machine_id, public_key, nonce } = self;
        format!("capstan machine token v1\n{machine_id}\n{public_key}\n{nonce}").into_bytes()
    }

    /// Seals a token to the machine, in base64.
    ///
    /// # Errors
    /// If the public key is not a P-256 key.
    pub fn seal(&self, token: &str) -> Result<String, SealError> {
        let key = BASE64_STANDARD.decode(self.public_key).map_err(|_| SealError::Key)?;
        let sealed = seal::seal(&key, &self.context(), token.as_bytes())?;
        Ok(BASE64_STANDARD.encode(sealed))
    }

    /// Opens a token with the private key of the machine, a PKCS #8 document.
    ///
    /// # Errors
    /// If the token is not the answer to this request.
    pub fn open(&self, private_key: &[u8], sealed: &str) -> Result<String, SealError> {
        let sealed = BASE64_STANDARD.decode(sealed).map_err(|_| SealError::Text)?;
        let token = seal::open(private_key, &self.context(), &sealed)?;
        String::from_utf8(token).map_err(|_| SealError::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{KeyPair, PublicKeyData as _};

    #[test]
    fn a_token_belongs_to_one_request_of_one_machine() {
        let key = KeyPair::generate().unwrap();
        let public_key = BASE64_STANDARD.encode(key.subject_public_key_info());
        let asked = TokenQuery { machine_id: "id", public_key: &public_key, nonce: "1" };
        let sealed = asked.seal("token").unwrap();
        let open = |query: TokenQuery<'_>| query.open(&key.serialize_der(), &sealed);
        assert_eq!(open(asked).as_deref(), Ok("token"));
        assert_eq!(open(TokenQuery { nonce: "2", ..asked }), Err(SealError::Text));
        assert_eq!(open(TokenQuery { machine_id: "other", ..asked }), Err(SealError::Text));
        for bad in ["", "?", "aGVsbG8="] {
            assert_eq!(TokenQuery { public_key: bad, ..asked }.seal("token"), Err(SealError::Key));
            assert_eq!(asked.open(&key.serialize_der(), bad), Err(SealError::Text));
        }
    }
}
