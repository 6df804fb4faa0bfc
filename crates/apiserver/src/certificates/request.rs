//! Certificate requests (PKCS#10), read strictly: they come from machines.

use capstan_pki::{der, pem::CERTIFICATE_REQUEST};
use rustls::crypto::aws_lc_rs;
use x509_parser::{
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    pem::parse_x509_pem,
    prelude::FromDer as _,
};

/// A request whose signature proves that its sender has the key.
#[derive(Debug)]
pub(crate) struct Request {
    /// The subject as it was sent: DER.
    pub(crate) subject: Vec<u8>,
    pub(crate) organizations: Vec<String>,
    /// The public key with its algorithm: DER.
    pub(crate) public_key: Vec<u8>,
    /// Other names: DER of each, in the order upstream writes them.
    pub(crate) names: Vec<Vec<u8>>,
}

const WRONG_BLOCK: &str = "PEM block type must be CERTIFICATE REQUEST";

impl Request {
    /// Reads a request and checks its signature.
    pub(crate) fn parse(pem: &[u8]) -> Result<Self, String> {
        let (_, pem) = parse_x509_pem(pem).map_err(|_| WRONG_BLOCK.to_owned())?;
        if pem.label != CERTIFICATE_REQUEST {
            return Err(WRONG_BLOCK.to_owned());
        }
        let malformed = |_| "the request is malformed".to_owned();
        let (rest, request) = X509CertificationRequest::from_der(&pem.contents).map_err(malformed)?;
        if !rest.is_empty() {
            return Err("there is something behind the request".to_owned());
        }
        if !is_signed_by_its_own_key(&pem.contents) {
            return Err("the request is not signed by its own key".to_owned());
        }
        let info = &request.certification_request_info;
        // What we cannot read, we cannot judge.
        let readable = info.subject.iter_attributes().all(|attribute| attribute.as_str().is_ok());
        if !readable {
            return Err("the subject holds something else than text".to_owned());
        }
        // Of two names, one reader takes the first and another the last.
        if info.subject.iter_common_name().count() > 1 {
            return Err("the subject has more than one common name".to_owned());
        }
        let organizations = info.subject.iter_organization().filter_map(|name| name.as_str().ok());
        Ok(Self {
            subject: info.subject.as_raw().to_vec(),
            organizations: organizations.map(str::to_owned).collect(),
            public_key: info.subject_pki.raw.to_vec(),
            names: names(&request),
        })
    }
}

/// The names that may stand in a certificate beside its subject.
fn names(request: &X509CertificationRequest<'_>) -> Vec<Vec<u8>> {
    let mut names: Vec<(u8, Vec<u8>)> = Vec::new();
    for extension in request.requested_extensions().into_iter().flatten() {
        let ParsedExtension::SubjectAlternativeName(alternative) = extension else { continue };
        for name in &alternative.general_names {
            let (order, tag, value) = match name {
                GeneralName::DNSName(name) => (0, 0x82, name.as_bytes()),
                GeneralName::RFC822Name(name) => (1, 0x81, name.as_bytes()),
                GeneralName::IPAddress(address) => (2, 0x87, *address),
                GeneralName::URI(uri) => (3, 0x86, uri.as_bytes()),
                _ => continue,
            };
            names.push((order, der::write(tag, &[value])));
        }
    }
    names.sort_by_key(|(order, _)| *order);
    names.into_iter().map(|(_, name)| name).collect()
}

fn is_signed_by_its_own_key(request: &[u8]) -> bool {
    let check = || {
        let request = der::read(der::SEQUENCE, request)?;
        let info = der::read(der::SEQUENCE, request.content)?;
        let algorithm = der::read(der::SEQUENCE, info.rest)?;
        let signature = bits(algorithm.rest)?;
        let version = der::read(der::INTEGER, info.content)?;
        let subject = der::read(der::SEQUENCE, version.rest)?;
        let public_key = der::read(der::SEQUENCE, subject.rest)?;
        let key_algorithm = der::read(der::SEQUENCE, public_key.content)?;
        let key = bits(key_algorithm.rest)?;
        let known = aws_lc_rs::default_provider().signature_verification_algorithms.all;
        let verified = known.iter().any(|candidate| {
            candidate.public_key_alg_id().as_ref() == key_algorithm.content
                && candidate.signature_alg_id().as_ref() == algorithm.content
                && candidate.verify_signature(key, info.whole, signature).is_ok()
        });
        Some(verified)
    };
    check() == Some(true)
}

/// A string of whole bytes.
fn bits(bytes: &[u8]) -> Option<&[u8]> {
    der::read(der::BIT_STRING, bytes)?.content.strip_prefix(&[0])
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn request(algorithm: &'static rcgen::SignatureAlgorithm) -> String {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "jane");
        parameters.distinguished_name.push(DnType::OrganizationName, "ops");
        parameters.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "more");
        parameters.subject_alt_names =
            vec![SanType::URI("spiffe://x".try_into().unwrap()), SanType::DnsName("a.b".try_into().unwrap())];
        let key = KeyPair::generate_for(algorithm).unwrap();
        parameters.serialize_request(&key).unwrap().pem().unwrap()
    }

    #[test]
    fn what_is_asked_for() {
        for algorithm in
            [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P384_SHA384]
        {
            let request = Request::parse(request(algorithm).as_bytes()).unwrap();
            assert_eq!(request.organizations, ["ops", "more"], "all of them, in order");
            assert_eq!(request.names, [b"\x82\x03a.b".to_vec(), b"\x86\x0aspiffe://x".to_vec()]);
        }
    }

    #[test]
    fn two_names_are_refused() {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "me");
        parameters.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "somebody else");
        let key = KeyPair::generate().unwrap();
        let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
        assert!(Request::parse(pem.as_bytes()).unwrap_err().contains("more than one common name"));
    }

    #[test]
    fn what_is_refused() {
        let good = request(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(Request::parse(b"").unwrap_err(), WRONG_BLOCK);
        let other = good.replace("CERTIFICATE REQUEST", "CERTIFICATE");
        assert_eq!(Request::parse(other.as_bytes()).unwrap_err(), WRONG_BLOCK);
        // Every bit counts: changed anywhere, it is not a request any more.
        let (_, pem) = parse_x509_pem(good.as_bytes()).unwrap();
        for at in 0..pem.contents.len() {
            let mut changed = pem.contents.clone();
            changed[at] ^= 1;
            let text = capstan_pki::pem::encode(CERTIFICATE_REQUEST, &changed);
            assert!(Request::parse(text.as_bytes()).is_err(), "byte {at}");
        }
    }
}
