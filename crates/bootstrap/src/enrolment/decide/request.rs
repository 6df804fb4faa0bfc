//! Validates a machine's request for a credential. The machine may be hostile. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::agent::CredentialRequest;
use capstan_pki::seal;
use capstan_plan::Digest;

/// Longest key and nonce. The API has the same limits.
const LONGEST_KEY: usize = 256;
const LONGEST_NONCE: usize = 64;

/// A valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Digest of the public key of the request.
    pub(crate) key: Digest,
    /// Digest of the request itself.
    pub(crate) digest: Digest,
    /// The request as the machine wrote it.
    pub(crate) written: CredentialRequest,
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("publicKey has more than {LONGEST_KEY} characters or nonce more than {LONGEST_NONCE}")]
    Size,
    #[error("publicKey is not a P-256 key in base64")]
    Key,
    #[error("nonce must be printable ASCII without spaces")]
    Nonce,
}

/// Checks a request.
pub(crate) fn check(written: &CredentialRequest) -> Result<Request, Refusal> {
    let CredentialRequest { public_key, nonce } = written;
    if public_key.len() > LONGEST_KEY || nonce.len() > LONGEST_NONCE {
        return Err(Refusal::Size);
    }
    if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::Nonce);
    }
    let key = BASE64_STANDARD.decode(public_key).ok().filter(|key| seal::is_key(key)).ok_or(Refusal::Key)?;
    Ok(Request {
        key: Digest::of(&key),
        digest: Digest::of(format!("{public_key}\n{nonce}").as_bytes()),
        written: written.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{KeyPair, PublicKeyData as _};

    fn request(key: &[u8], nonce: &str) -> CredentialRequest {
        CredentialRequest { public_key: BASE64_STANDARD.encode(key), nonce: nonce.to_owned() }
    }

    #[test]
    fn a_key_and_a_nonce_are_a_request() {
        let key = KeyPair::generate().unwrap().subject_public_key_info();
        let one = check(&request(&key, "1")).unwrap();
        assert_eq!((one.key, &one.written), (Digest::of(&key), &request(&key, "1")));
        let other = check(&request(&key, "2")).unwrap();
        assert_eq!(other.key, one.key);
        assert_ne!(other.digest, one.digest, "the machine asks again");
    }

    #[test]
    fn everything_else_is_refused() {
        let key = KeyPair::generate().unwrap().subject_public_key_info();
        let other = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().subject_public_key_info();
        let mut off_the_curve = key.clone();
        *off_the_curve.last_mut().unwrap() ^= 1;
        for (written, refusal) in [
            (request(&key, ""), Refusal::Nonce),
            (request(&key, "a\nb"), Refusal::Nonce),
            (request(&key, "é"), Refusal::Nonce),
            (request(&key, &"x".repeat(65)), Refusal::Size),
            (request(&[0; 400], "1"), Refusal::Size),
            (request(&other, "1"), Refusal::Key),
            (request(&off_the_curve, "1"), Refusal::Key),
            (request(&key[1..], "1"), Refusal::Key),
            (request(&[], "1"), Refusal::Key),
            (CredentialRequest { public_key: "?".to_owned(), nonce: "1".to_owned() }, Refusal::Key),
        ] {
            assert_eq!(check(&written), Err(refusal), "{written:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_does_harm(public_key in ".{0,300}", nonce in ".{0,80}") {
            let request = CredentialRequest { public_key, nonce };
            prop_assert!(check(&request).is_err());
        }
    }
}
