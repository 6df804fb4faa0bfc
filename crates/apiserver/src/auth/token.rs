//! JSON web tokens signed by a key of the plane (ES256). What the claims mean is not decided here.

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
use serde_json::{Value, json};

/// More than any token of ours: what is longer is not even looked at.
const LONGEST: usize = 16 << 10;

/// Signs tokens and knows its own.
pub(super) struct TokenKey {
    pair: EcdsaKeyPair,
    /// Derived from the public key, so that whoever checks a token knows which key to take.
    id: String,
}

impl TokenKey {
    pub(super) fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?;
        let public: PublicKeyX509Der<'_> = pair.public_key().as_der().ok()?;
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, public.as_ref()));
        Some(Self { pair, id })
    }

    /// Its ID, which tokens name.
    pub(super) fn id(&self) -> &str {
        &self.id
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

/// A new key in PKCS#8; nothing if there is no randomness.
pub(super) fn generate() -> Option<Vec<u8>> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).ok()?;
    Some(pair.to_pkcs8v1().ok()?.as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_known_again_and_nothing_else_is() {
        let [key, other] = [(); 2].map(|()| TokenKey::from_pkcs8(&generate().unwrap()).unwrap());
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
}
