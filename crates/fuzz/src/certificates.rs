//! Certificate requests and certificates.

use std::sync::OnceLock;
use std::time::Duration;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use capstan_pki::{Certificate, der, pem, roots};
use http::Request;
use serde_json::{Value, json};

use crate::server::plane;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A request as it is, in PEM or DER, and its first two parts, subject and attributes, in a request that is signed: random bytes
/// never have the right signature.
pub(crate) fn request(input: &[u8]) {
    let text = match input.starts_with(b"-----BEGIN") {
        true => input.to_vec(),
        false => pem::encode(pem::CERTIFICATE_REQUEST, input).into_bytes(),
    };
    judge(&text);
    let (subject, attributes) = match der::read(der::SEQUENCE, input) {
        Some(read) => (read.whole, read.rest),
        None => (&[der::SEQUENCE, 0][..], input),
    };
    let text = pem::encode(pem::CERTIFICATE_REQUEST, &signed(subject, attributes));
    if judge(text.as_bytes()) {
        issue(text.as_bytes());
    }
}

/// Whether the server would accept a request.
fn judge(text: &[u8]) -> bool {
    let create = Request::post(format!("{REQUESTS}?dryRun=All")).header("content-type", "application/json");
    plane().ask(create, object(text).to_string().as_bytes()).is_some_and(|answer| answer.code == 201)
}

/// Approves a request and waits for its certificate, which must be readable, and for the key of the request.
fn issue(text: &[u8]) {
    let mut made = plane().create(REQUESTS, &object(text));
    let path = format!("{REQUESTS}/fuzz");
    let json = |request: http::request::Builder| request.header("content-type", "application/json");
    made["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Fuzz"}]);
    let approved = plane().ask(json(Request::put(format!("{path}/approval"))), made.to_string().as_bytes());
    assert!(approved.is_some_and(|answer| answer.code == 200), "the request cannot be approved");
    let certificate = (0..2500).find_map(|_| {
        plane().wait(Duration::from_millis(2));
        let found = plane().ask(Request::get(&path), &[])?.body;
        let failed = found["status"]["conditions"].as_array()?.iter().any(|one| one["type"] == "Failed");
        assert!(!failed, "the server has accepted a request that it cannot sign: {found}");
        found["status"]["certificate"].as_str().map(str::to_owned)
    });
    plane().ask(json(Request::delete(&path)), b"{}");
    let certificate = certificate.expect("an approved request is answered within five seconds");
    let certificate = BASE64_STANDARD.decode(certificate).expect("base64");
    let read = Certificate::first_in(&certificate).expect("an issued certificate can be read");
    assert_eq!(read.public_key, public_key(), "the certificate is for another key");
}

fn object(text: &[u8]) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "fuzz"},
        "spec": {
            "request": BASE64_STANDARD.encode(text), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    })
}

/// The same for every process, so that an input means the same.
fn key() -> &'static Ed25519KeyPair {
    static KEY: OnceLock<Ed25519KeyPair> = OnceLock::new();
    KEY.get_or_init(|| Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("any 32 bytes are a seed"))
}

/// SEQUENCE { OID 1.3.101.112 }: Ed25519.
fn algorithm() -> Vec<u8> {
    der::sequence(&[&der::write(der::OID, &[&[0x2b, 0x65, 0x70]])])
}

fn public_key() -> Vec<u8> {
    der::sequence(&[&algorithm(), &der::write(der::BIT_STRING, &[&[0], key().public_key().as_ref()])])
}

/// A request (PKCS #10) with the signature of our key.
fn signed(subject: &[u8], attributes: &[u8]) -> Vec<u8> {
    let info = der::sequence(&[&der::write(der::INTEGER, &[&[0]]), subject, &public_key(), attributes]);
    let signature = key().sign(&info);
    der::sequence(&[&info, &algorithm(), &der::write(der::BIT_STRING, &[&[0], signature.as_ref()])])
}

/// A certificate as DER, and any text as PEM.
pub(crate) fn certificate(input: &[u8]) {
    let whole = pem::encode(pem::CERTIFICATE, input);
    assert_eq!(pem::decode_only(pem::CERTIFICATE, &whole).as_deref(), Some(input));
    assert_eq!(pem::decode_all(pem::CERTIFICATE, &whole), [input]);
    for text in [whole.as_bytes(), input] {
        let all = Certificate::all_in(text);
        if let Some(first) = Certificate::first_in(text) {
            assert_eq!(all.first(), Some(&first));
        }
        for certificate in &all {
            _ = certificate.renewal();
        }
        _ = roots(text);
        let text = String::from_utf8_lossy(text);
        for found in pem::decode_all(pem::CERTIFICATE, &text) {
            assert_eq!(
                pem::decode_only(pem::CERTIFICATE, &pem::encode(pem::CERTIFICATE, &found)),
                Some(found)
            );
        }
        _ = pem::decode_only(pem::CERTIFICATE_REQUEST, &text);
    }
    for tag in [der::SEQUENCE, der::INTEGER, der::BIT_STRING] {
        if let Some(read) = der::read(tag, input) {
            assert_eq!([read.whole, read.rest].concat(), input);
            assert!(read.whole.ends_with(read.content));
        }
    }
}
