//! Seals a text to the holder of a key (HPKE, RFC 9180: P-256, HKDF-SHA256, AES-128-GCM).
//!
//! Keys are those of certificates: a SubjectPublicKeyInfo, and a PKCS #8 document. A sealed text is the encapsulated key and the
//! ciphertext, one after the other. Sealing says nothing about the sender: each holder of the public key can seal.

use aws_lc_rs::agreement::{ECDH_P256, ParsedPublicKey, PrivateKey, UnparsedPublicKey};
use aws_lc_rs::encoding::{AsBigEndian as _, EcPrivateKeyBin};
use rustls::crypto::aws_lc_rs::hpke::DH_KEM_P256_HKDF_SHA256_AES_128 as SUITE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke as _, HpkePrivateKey, HpkePublicKey};

/// Everything before the coordinates in the SubjectPublicKeyInfo of a P-256 key. The last byte says that both follow.
const P256: [u8; 27] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];
/// Bytes of a point: the byte that says that both coordinates follow, and the coordinates.
const POINT: usize = 65;

/// Why a text cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The key is of another kind, or is no point of the curve.
    #[error("the key is not a P-256 key")]
    Key,
    /// The text was sealed to another key, in another context, or was changed.
    #[error("the text is not sealed to this key in this context")]
    Text,
}

/// Whether a text can be sealed to this public key.
pub fn is_key(public_key: &[u8]) -> bool {
    point(public_key)
        .is_some_and(|point| ParsedPublicKey::try_from(&UnparsedPublicKey::new(&ECDH_P256, point)).is_ok())
}

/// The point in a SubjectPublicKeyInfo, if that is of a P-256 key.
fn point(public_key: &[u8]) -> Option<&[u8]> {
    let (prefix, _) = public_key.split_last_chunk::<{ POINT - 1 }>()?;
    (prefix == P256).then(|| &public_key[P256.len() - 1..])
}

/// Seals a text to the holder of a public key. It can be opened in the same context only.
///
/// # Errors
/// If the key is not a P-256 key.
pub fn seal(public_key: &[u8], context: &[u8], text: &[u8]) -> Result<Vec<u8>, SealError> {
    let point = HpkePublicKey(point(public_key).ok_or(SealError::Key)?.to_vec());
    let (EncapsulatedSecret(mut sealed), ciphertext) =
        SUITE.seal(context, &[], text, &point).map_err(|_| SealError::Key)?;
    sealed.extend(ciphertext);
    Ok(sealed)
}

/// Opens a text with the private key.
///
/// # Errors
/// If the key is not a P-256 key, or the text was not sealed to it in this context.
pub fn open(private_key: &[u8], context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, SealError> {
    let key = PrivateKey::from_private_key_der(&ECDH_P256, private_key).map_err(|_| SealError::Key)?;
    let scalar: EcPrivateKeyBin<'_> = key.as_be_bytes().map_err(|_| SealError::Key)?;
    let key = HpkePrivateKey::from(scalar.as_ref().to_vec());
    let (encapsulated, ciphertext) = sealed.split_at_checked(POINT).ok_or(SealError::Text)?;
    let encapsulated = EncapsulatedSecret(encapsulated.to_vec());
    SUITE.open(&encapsulated, context, &[], ciphertext, &key).map_err(|_| SealError::Text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{KeyPair, PublicKeyData as _};

    #[test]
    fn only_the_holder_of_the_key_opens_and_only_in_the_same_context() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let sealed = seal(&key.subject_public_key_info(), b"here", b"token").unwrap();
        assert_eq!(open(&key.serialize_der(), b"here", &sealed).as_deref(), Ok(&b"token"[..]));
        assert_eq!(open(&other.serialize_der(), b"here", &sealed), Err(SealError::Text));
        assert_eq!(open(&key.serialize_der(), b"there", &sealed), Err(SealError::Text));
        for place in [0, 1, POINT, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(open(&key.serialize_der(), b"here", &changed), Err(SealError::Text), "byte {place}");
        }
        for length in [0, POINT - 1, POINT, sealed.len() - 1] {
            let cut = &sealed[..length];
            assert_eq!(open(&key.serialize_der(), b"here", cut), Err(SealError::Text), "{length} bytes");
        }
        // The same text is sealed with another key each time.
        assert_ne!(seal(&key.subject_public_key_info(), b"here", b"token").unwrap(), sealed);
    }

    #[test]
    fn only_points_of_the_curve_are_keys() {
        let good = KeyPair::generate().unwrap().subject_public_key_info();
        let mut off_the_curve = good.clone();
        *off_the_curve.last_mut().unwrap() ^= 1;
        let ed25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().subject_public_key_info();
        let longer = [&good[..], &[0]].concat();
        let infinity = [&P256[..], &[0; POINT - 1]].concat();
        for key in [&off_the_curve[..], &ed25519, &good[1..], &good[..90], &longer, &infinity, &[]] {
            assert_eq!(seal(key, b"", b"x"), Err(SealError::Key), "{key:02x?}");
            assert!(!is_key(key), "{key:02x?}");
        }
        assert!(is_key(&good));
        assert_eq!(open(b"nonsense", b"", &[0; 100]), Err(SealError::Key));
    }
}
