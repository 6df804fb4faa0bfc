//! Bearer tokens of service accounts.

use std::sync::OnceLock;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use capstan_apiserver::{Options, Storage};
use capstan_pki::pem;
use http::Request;
use serde_json::{Value, json};

use crate::server::FuzzedPlane;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Stands for the UID of the service account, which is another one in every process.
const UID: &str = "{uid}";

/// The server, whose signing key is known.
struct Issuer {
    plane: FuzzedPlane,
    key: EcdsaKeyPair,
    uid: String,
}

fn issuer() -> &'static Issuer {
    static ISSUER: OnceLock<Issuer> = OnceLock::new();
    ISSUER.get_or_init(|| {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let key = EcdsaKeyPair::generate(algorithm).expect("a key can be made");
        let encoded = key.to_pkcs8v1().expect("a key can be written");
        // The fuzzer ends without cleaning up: `xtask fuzz` removes the folder for temporary files.
        let folder = tempfile::tempdir().expect("a temporary folder can be made").keep();
        let file = folder.join("service-account.key");
        std::fs::write(file, pem::encode("PRIVATE KEY", encoded.as_ref())).expect("the key can be stored");
        let plane = FuzzedPlane::open(Options::new(Storage::Folder(folder)));
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "fuzz"}});
        let uid = plane.create(ACCOUNTS, &account)["metadata"]["uid"].as_str().expect("a UID").to_owned();
        Issuer { plane, key, uid }
    })
}

/// A token as it is, and one whose header and claims are the lines of the input and whose signature is right.
pub(crate) fn token(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    assert!(!is_believed(&text), "a token without a signature is believed");
    let (header, claims) = text.split_once('\n').unwrap_or((r#"{"alg":"ES256"}"#, &text));
    let claims = claims.replace(UID, &issuer().uid);
    let encode = |part: &str| BASE64_URL_SAFE_NO_PAD.encode(part);
    let signed = format!("{}.{}", encode(header), encode(&claims));
    let signature = issuer().key.sign(&SystemRandom::new(), signed.as_bytes()).expect("the key signs");
    if is_believed(&format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))) {
        let claims: Value = serde_json::from_str(&claims).expect("a token that is believed has claims");
        let account = &claims["kubernetes.io"]["serviceaccount"];
        assert_eq!((&account["name"], &account["uid"]), (&json!("fuzz"), &json!(issuer().uid)));
    }
}

fn is_believed(token: &str) -> bool {
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let request = Request::post(REVIEWS).header("content-type", "application/json");
    let answer = issuer().plane.ask(request, review.to_string().as_bytes()).expect("a request");
    answer.body["status"]["authenticated"] == true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise no claim is ever looked at.
    #[test]
    fn a_token_with_our_signature_is_believed() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({
            "iss": "https://kubernetes.default.svc", "aud": ["https://kubernetes.default.svc"], "exp": now + 600,
            "iat": now, "nbf": now, "sub": "system:serviceaccount:default:fuzz",
            "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "fuzz", "uid": issuer().uid}},
        });
        let encode = |part: &str| BASE64_URL_SAFE_NO_PAD.encode(part);
        let signed = format!("{}.{}", encode(r#"{"alg":"ES256"}"#), encode(&claims.to_string()));
        let signature = issuer().key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        assert!(is_believed(&format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))));
    }
}
