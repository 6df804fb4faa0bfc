//! JSON web tokens signed by the plane's own key (ES256), and where that key is kept. What the claims mean
//! is not decided here.

use std::{fs, io, path::PathBuf};

use aws_lc_rs::{
    digest,
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
        UnparsedPublicKey,
    },
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use capstan_files::Durability;
use capstan_pki::pem;
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::{Value, json};

use crate::store::{Storage, backup::OWN};

/// The key's file in the data folder.
const FILE: &str = "service-account.key";
/// More than any token of ours: what is longer is not even looked at.
const LONGEST: usize = 16 << 10;

/// Why there is no signing key for tokens.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error("cannot use {}", .0.display())]
    File(PathBuf, #[source] io::Error),
    /// The file does not contain a private key.
    #[error("{} holds no private key: move it away, and a new one is made", .0.display())]
    Content(PathBuf),
    /// No key can be generated.
    #[error("cannot make a key")]
    Generate,
}

/// Signs tokens and knows its own.
pub(crate) struct TokenKey {
    pair: EcdsaKeyPair,
    /// Derived from the public key, so that whoever checks a token knows which key to take.
    id: String,
}

impl TokenKey {
    /// The key of a store: read from its folder, made the first time.
    pub(crate) fn open(storage: &Storage) -> Result<Self, KeyError> {
        let Storage::Folder(folder) = storage else {
            return Self::from_pkcs8(&generate()?).ok_or(KeyError::Generate);
        };
        let path = folder.join(FILE);
        let failed = |error| KeyError::File(path.clone(), error);
        if !path.try_exists().map_err(failed)? {
            let text = pem::encode("PRIVATE KEY", &generate()?);
            capstan_files::write(&path, text.as_bytes(), 0o600, Durability::Lasting)
                .map_err(|error| failed(error.source))?;
        }
        let text = fs::read(&path).map_err(failed)?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(&text).ok();
        let key = der.and_then(|der| Self::from_pkcs8(der.secret_pkcs8_der()));
        key.ok_or_else(|| KeyError::Content(path.clone()))
    }

    fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?;
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().ok()?;
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, public.as_ref()));
        Some(Self { pair, id })
    }

    /// A token that says this; nothing if there is no randomness.
    pub(crate) fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"alg": "ES256", "kid": self.id}).to_string();
        let signed =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// What a token says, if this key signed it.
    pub(crate) fn verify(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.').filter(|_| token.len() <= LONGEST)?;
        let (header, claims) = signed.split_once('.')?;
        let header = decode(header)?;
        // One algorithm and one key: a token does not choose how it is checked.
        let ours = header["alg"] == "ES256" && header.get("kid").is_none_or(|id| *id == self.id.as_str());
        if !ours || header.get("crit").is_some() {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(signed.as_bytes(), &signature).ok()?;
        decode(claims)
    }
}

/// What a token says, whoever signed it: only good for finding out whether to look at it at all.
pub(crate) fn unverified_issuer(token: &str) -> Option<String> {
    let mut parts = token.split('.').filter(|_| token.len() <= LONGEST);
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let issuer = decode(claims)?["iss"].as_str().map(str::to_owned);
    issuer.filter(|_| parts.next().is_none())
}

fn decode(part: &str) -> Option<Value> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn generate() -> Result<Vec<u8>, KeyError> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|_| KeyError::Generate)?;
    Ok(pair.to_pkcs8v1().map_err(|_| KeyError::Generate)?.as_ref().to_vec())
}

/// What belongs into a backup, by its name there: without the key no token of before would be known again.
pub(crate) fn own_files(storage: &Storage) -> Option<(String, PathBuf)> {
    match storage {
        Storage::Folder(folder) => Some((format!("{OWN}{FILE}"), folder.join(FILE))),
        Storage::Memory => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn tokens_are_known_again_and_nothing_else_is() {
        let key = TokenKey::open(&Storage::Memory).unwrap();
        let other = TokenKey::open(&Storage::Memory).unwrap();
        let claims = json!({"sub": "x", "iss": "here"});
        let token = key.sign(&claims).unwrap();
        assert_eq!(key.verify(&token), Some(claims));
        assert_eq!(unverified_issuer(&token).as_deref(), Some("here"));
        assert_eq!(other.verify(&token), None);
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let parts: Vec<&str> = token.split('.').collect();
        let (head, body, signature) = (parts[0], parts[1], parts[2]);
        let forged = part(&json!({"sub": "system:admin", "iss": "here"}));
        for token in [
            format!("{head}.{forged}.{signature}"),
            format!("{}.{body}.", part(&json!({"alg": "none"}))),
            format!("{}.{body}.{signature}", part(&json!({"alg": "HS256"}))),
            format!("{head}.{body}.{signature}x"),
            format!("{head}.{body}"),
            format!("{head}.{body}.{signature}.{signature}"),
            "x".repeat(LONGEST + 1),
            String::new(),
        ] {
            assert_eq!(key.verify(&token), None, "{token}");
        }
    }

    #[test]
    fn the_key_lasts_and_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let storage = Storage::Folder(folder.path().to_owned());
        let token = TokenKey::open(&storage).unwrap().sign(&json!({"a": 1})).unwrap();
        assert!(TokenKey::open(&storage).unwrap().verify(&token).is_some());
        let path = folder.path().join(FILE);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "nonsense").unwrap();
        assert!(matches!(TokenKey::open(&storage), Err(KeyError::Content(_))));
    }
}
