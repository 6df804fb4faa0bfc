//! Certificate requests (PKCS#10), read strictly: they come from machines. And whether an answer to one can be read.

use rustls::{
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use x509_parser::{
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    pem::parse_x509_pem,
    prelude::{FromDer as _, X509Certificate},
};

use crate::{der, pem::CERTIFICATE_REQUEST};

/// A request whose signature proves that its sender has the key.
#[derive(Debug)]
pub struct CertificateRequest {
    /// The subject as it was sent: DER.
    pub subject: Vec<u8>,
    /// The organizations of the subject, in order.
    pub organizations: Vec<String>,
    /// The public key with its algorithm: DER.
    pub public_key: Vec<u8>,
    /// Other names: DER of each, in the order upstream writes them.
    pub names: Vec<Vec<u8>>,
}

const WRONG_BLOCK: &str = "PEM block type must be CERTIFICATE REQUEST";

impl CertificateRequest {
    /// Reads a request and checks its signature.
    ///
    /// # Errors
    /// Why it is rejected.
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        let (_, pem) = parse_x509_pem(pem).map_err(|_| WRONG_BLOCK.to_owned())?;
        if pem.label != CERTIFICATE_REQUEST {
            return Err(WRONG_BLOCK.to_owned());
        }
        let malformed = |_| "the request is malformed".to_owned();
        let (rest, request) = X509CertificationRequest::from_der(&pem.contents).map_err(malformed)?;
        if !rest.is_empty() {
            return Err("there is something behind the request".to_owned());
        }
        let Some(parts) = Parts::read(&pem.contents).filter(Parts::are_signed_by_their_own_key) else {
            return Err("the request is not signed by its own key".to_owned());
        };
        let info = &request.certification_request_info;
        // The parser stops without an error at what it cannot read, and so would we sign more, or less, than was judged.
        if count_attributes(parts.subject.whole) != Some(info.subject.iter_attributes().count()) {
            return Err("the subject is malformed".to_owned());
        }
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
            subject: parts.subject.whole.to_vec(),
            organizations: organizations.map(str::to_owned).collect(),
            public_key: parts.public_key.whole.to_vec(),
            names: names(&request),
        })
    }
}

/// Whether a PEM text has certificates, and all of them can be read.
pub fn is_certificates(pem: &[u8]) -> bool {
    let mut any = false;
    let readable = CertificateDer::pem_slice_iter(pem).all(|der| {
        any = true;
        der.is_ok_and(|der| X509Certificate::from_der(&der).is_ok())
    });
    any && readable
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

/// The parts of a request that are signed, signed for, or the signature.
struct Parts<'a> {
    /// What is signed.
    info: der::Read<'a>,
    subject: der::Read<'a>,
    /// The public key with its algorithm.
    public_key: der::Read<'a>,
    /// Content of the algorithm of the key.
    key_algorithm: &'a [u8],
    key: &'a [u8],
    /// Content of the algorithm of the signature.
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Parts<'a> {
    fn read(request: &'a [u8]) -> Option<Self> {
        let request = der::read(der::SEQUENCE, request)?;
        let info = der::read(der::SEQUENCE, request.content)?;
        let algorithm = der::read(der::SEQUENCE, info.rest)?;
        let (signature, []) = bits(algorithm.rest)? else { return None };
        let version = der::read(der::INTEGER, info.content)?;
        let subject = der::read(der::SEQUENCE, version.rest)?;
        let public_key = der::read(der::SEQUENCE, subject.rest)?;
        let key_algorithm = der::read(der::SEQUENCE, public_key.content)?;
        let (key, []) = bits(key_algorithm.rest)? else { return None };
        let (key_algorithm, algorithm) = (key_algorithm.content, algorithm.content);
        Some(Self { info, subject, public_key, key_algorithm, key, algorithm, signature })
    }

    fn are_signed_by_their_own_key(&self) -> bool {
        let known = aws_lc_rs::default_provider().signature_verification_algorithms.all;
        known.iter().any(|candidate| {
            candidate.public_key_alg_id().as_ref() == self.key_algorithm
                && candidate.signature_alg_id().as_ref() == self.algorithm
                && candidate.verify_signature(self.key, self.info.whole, self.signature).is_ok()
        })
    }
}

/// How many attributes a name has, if it consists of attributes and nothing else.
fn count_attributes(name: &[u8]) -> Option<usize> {
    let mut count = 0;
    let mut sets = der::read(der::SEQUENCE, name)?.content;
    while !sets.is_empty() {
        let set = der::read(der::SET, sets)?;
        let mut attributes = set.content;
        while !attributes.is_empty() {
            let attribute = der::read(der::SEQUENCE, attributes)?;
            let value = der::read(der::OID, attribute.content)?.rest;
            if !der::read(*value.first()?, value)?.rest.is_empty() {
                return None;
            }
            count += 1;
            attributes = attribute.rest;
        }
        sets = set.rest;
    }
    Some(count)
}

/// A string of whole bytes, and the bytes after it.
fn bits(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let read = der::read(der::BIT_STRING, bytes)?;
    Some((read.content.strip_prefix(&[0])?, read.rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, SigningKey as _};

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
            let request = CertificateRequest::parse(request(algorithm).as_bytes()).unwrap();
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
        assert!(CertificateRequest::parse(pem.as_bytes()).unwrap_err().contains("more than one common name"));
    }

    /// The parser ends such a name at its first good part. The certificate would have the header of the whole name with the bytes of
    /// that part, so that what follows it would be read as a part of the name.
    #[test]
    fn a_subject_that_is_not_read_to_its_end_is_refused() {
        let attribute = |id: u8, value: &[u8]| {
            let id = der::write(der::OID, &[&[0x55, 0x04, id]]);
            der::sequence(&[&id, &der::write(der::UTF8_STRING, &[value])])
        };
        let set = |parts: &[&[u8]]| der::write(der::SET, parts);
        let (jane, ops) = (attribute(3, b"jane"), attribute(10, b"ops"));
        let mut cut = set(&[&ops]);
        cut[3] = 0xc7;
        let more =
            der::sequence(&[&der::write(der::OID, &[&[0x55, 0x04, 10]]), &[0x0c, 0x01, b'a', 0x0c, 0x00]]);
        for (name, good) in [
            (der::sequence(&[&set(&[&jane]), &set(&[&ops])]), true),
            (der::sequence(&[&set(&[&jane, &ops])]), true),
            (der::sequence(&[]), true),
            (der::sequence(&[&set(&[&jane]), &cut]), false),
            (der::sequence(&[&set(&[&jane]), &ops]), false),
            (der::sequence(&[&set(&[&jane, &[0x30, 0x00]])]), false),
            (der::sequence(&[&set(&[&jane, &more])]), false),
        ] {
            let parsed = CertificateRequest::parse(signed(&name).as_bytes());
            assert_eq!(
                parsed.as_ref().err().map(String::as_str),
                (!good).then_some("the subject is malformed")
            );
            assert!(parsed.is_ok_and(|request| request.subject == name) == good, "{name:02x?}");
        }
    }

    /// A request for a subject, which need not be one.
    fn signed(subject: &[u8]) -> String {
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let algorithm = der::sequence(&[&der::write(der::OID, &[&[0x2b, 0x65, 0x70]])]);
        let bits = |bytes: &[u8]| der::write(der::BIT_STRING, &[&[0], bytes]);
        let public = der::sequence(&[&algorithm, &bits(key.public_key_raw())]);
        let info = der::sequence(&[&der::write(der::INTEGER, &[&[0]]), subject, &public, &[0xa0, 0]]);
        let signature = key.sign(&info).unwrap();
        let whole = der::sequence(&[&info, &algorithm, &bits(&signature)]);
        crate::pem::encode(CERTIFICATE_REQUEST, &whole)
    }

    #[test]
    fn what_is_refused() {
        let good = request(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(CertificateRequest::parse(b"").unwrap_err(), WRONG_BLOCK);
        let other = good.replace("CERTIFICATE REQUEST", "CERTIFICATE");
        assert_eq!(CertificateRequest::parse(other.as_bytes()).unwrap_err(), WRONG_BLOCK);
        // Every bit counts: changed anywhere, it is not a request any more.
        let (_, pem) = parse_x509_pem(good.as_bytes()).unwrap();
        for at in 0..pem.contents.len() {
            let mut changed = pem.contents.clone();
            changed[at] ^= 1;
            let text = crate::pem::encode(CERTIFICATE_REQUEST, &changed);
            assert!(CertificateRequest::parse(text.as_bytes()).is_err(), "byte {at}");
        }
    }
}
