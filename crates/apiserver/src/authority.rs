//! The CA that signs client certificates: subject and key come from the request, all else from the CA.

use std::sync::Arc;

use capstan_pki::{CertificateRequest, der, pem};
use jiff::{SignedDuration, Timestamp};
use rustls::{
    SignatureScheme,
    crypto::aws_lc_rs,
    pki_types::{AlgorithmIdentifier, CertificateDer, PrivateKeyDer, alg_id, pem::PemObject as _},
    sign::SigningKey,
};
use x509_parser::{
    extensions::ParsedExtension,
    prelude::{FromDer as _, X509Certificate},
};

/// Certificate and private key of a CA, both in PEM.
#[derive(Clone)]
pub struct Authority {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Why a CA cannot sign.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The named input is not valid PEM.
    #[error("cannot read the authority's {0}")]
    Pem(&'static str, #[source] rustls::pki_types::pem::Error),
    /// The certificate cannot be parsed.
    #[error("the authority's certificate is none")]
    Certificate,
    /// The key is of a type that is not supported.
    #[error("cannot use the authority's key")]
    Key(#[from] rustls::Error),
    /// The key does not belong to the certificate.
    #[error("the authority's key does not belong to its certificate")]
    Mismatch,
    /// The certificate has expired, so nothing it signs would be valid.
    #[error("the authority's certificate has expired")]
    Expired,
}

/// How long before it is issued a certificate begins, because clocks disagree. Revocation derives the time of issue from it.
pub(crate) const BACKDATE: SignedDuration = SignedDuration::from_secs(capstan_pki::BACKDATE_SECONDS);
/// What lives shorter than this is not shortened by being backdated.
const SHORT: SignedDuration = SignedDuration::from_hours(8);
/// For whoever does not say, and the most that anybody gets.
const LONGEST: SignedDuration = SignedDuration::from_hours(365 * 24);
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);

/// What a client certificate may be used for, beside client authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyUsages {
    pub(crate) digital_signature: bool,
    pub(crate) key_encipherment: bool,
}

/// Signs client certificates.
pub(crate) struct Signer {
    key: Arc<dyn SigningKey>,
    subject: Vec<u8>,
    key_id: Option<Vec<u8>>,
    until: i64,
}

impl Signer {
    pub(crate) fn new(authority: &Authority) -> Result<Self, AuthorityError> {
        let certificate = CertificateDer::from_pem_slice(authority.certificate.as_bytes())
            .map_err(|error| AuthorityError::Pem("certificate", error))?;
        let key = PrivateKeyDer::from_pem_slice(authority.key.as_bytes())
            .map_err(|error| AuthorityError::Pem("key", error))?;
        let key = aws_lc_rs::sign::any_supported_type(&key)?;
        let (_, certificate) =
            X509Certificate::from_der(&certificate).map_err(|_| AuthorityError::Certificate)?;
        if key.public_key().is_some_and(|own| own.as_ref() != certificate.public_key().raw) {
            return Err(AuthorityError::Mismatch);
        }
        let key_id =
            certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                _ => None,
            });
        Ok(Self {
            key,
            subject: certificate.subject().as_raw().to_vec(),
            key_id,
            until: certificate.validity().not_after.timestamp(),
        })
    }

    /// A certificate for a client, PEM.
    pub(crate) fn sign(
        &self,
        request: &CertificateRequest,
        usages: KeyUsages,
        now: Timestamp,
        life: Option<SignedDuration>,
    ) -> Result<String, AuthorityError> {
        let until = Timestamp::from_second(self.until).unwrap_or(Timestamp::MAX);
        let (from, until) = validity(now, life, until).ok_or(AuthorityError::Expired)?;
        let (scheme, algorithm) = SCHEMES
            .iter()
            .find_map(|(scheme, algorithm)| Some((self.key.choose_scheme(&[*scheme])?, algorithm)))
            .ok_or_else(|| rustls::Error::General("no algorithm for this sort of key".to_owned()))?;
        let algorithm = der::sequence(&[algorithm.as_ref()]);
        let body = der::sequence(&[
            // Version 3.
            &[0xa0, 0x03, 0x02, 0x01, 0x02],
            &serial()?,
            &algorithm,
            &self.subject,
            &der::sequence(&[&time(from), &time(until)]),
            &request.subject,
            &request.public_key,
            &self.extensions(request, usages),
        ]);
        let signature = scheme.sign(&body)?;
        let whole = der::sequence(&[&body, &algorithm, &der::write(der::BIT_STRING, &[&[0], &signature])]);
        Ok(pem::encode(pem::CERTIFICATE, &whole))
    }

    fn extensions(&self, request: &CertificateRequest, usages: KeyUsages) -> Vec<u8> {
        let mut all = Vec::new();
        if let Some(bits) = usage_bits(usages) {
            all.extend(extension(KEY_USAGE, true, &bits));
        }
        all.extend(extension(EXTENDED_KEY_USAGE, false, &der::sequence(&[CLIENT_AUTH])));
        all.extend(extension(BASIC_CONSTRAINTS, true, &der::sequence(&[])));
        if let Some(id) = &self.key_id {
            all.extend(extension(AUTHORITY_KEY_ID, false, &der::sequence(&[&der::write(0x80, &[id])])));
        }
        if !request.names.is_empty() {
            let names: Vec<&[u8]> = request.names.iter().map(Vec::as_slice).collect();
            // Critical if there is no other name.
            let nameless = request.subject == der::sequence(&[]);
            all.extend(extension(ALTERNATIVE_NAME, nameless, &der::sequence(&names)));
        }
        der::write(0xa3, &[&der::sequence(&[&all])])
    }
}

/// From when to when; nothing if the authority ends before that.
fn validity(
    now: Timestamp,
    life: Option<SignedDuration>,
    authority: Timestamp,
) -> Option<(Timestamp, Timestamp)> {
    if now >= authority {
        return None;
    }
    let life = life.unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
    let until = now.checked_add(if life < SHORT { life } else { life - BACKDATE }).ok()?;
    Some((now.checked_sub(BACKDATE).ok()?, until.min(authority)))
}

const SCHEMES: [(SignatureScheme, AlgorithmIdentifier); 5] = [
    (SignatureScheme::ECDSA_NISTP256_SHA256, alg_id::ECDSA_SHA256),
    (SignatureScheme::ECDSA_NISTP384_SHA384, alg_id::ECDSA_SHA384),
    (SignatureScheme::ECDSA_NISTP521_SHA512, alg_id::ECDSA_SHA512),
    (SignatureScheme::RSA_PKCS1_SHA256, alg_id::RSA_PKCS1_SHA256),
    (SignatureScheme::ED25519, alg_id::ED25519),
];

// Object identifiers, as they stand in DER.
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
/// With its tag and length.
const CLIENT_AUTH: &[u8] = &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { &[0x01, 0x01, 0xff] } else { &[] };
    der::sequence(&[&der::write(der::OID, &[id]), critical, &der::write(der::OCTET_STRING, &[value])])
}

fn usage_bits(usages: KeyUsages) -> Option<Vec<u8>> {
    let (unused, bits): (u8, u8) = match (usages.digital_signature, usages.key_encipherment) {
        (false, false) => return None,
        (true, false) => (7, 0b1000_0000),
        (false, true) => (5, 0b0010_0000),
        (true, true) => (5, 0b1010_0000),
    };
    Some(der::write(der::BIT_STRING, &[&[unused, bits]]))
}

/// Random, positive and never zero.
fn serial() -> Result<Vec<u8>, rustls::Error> {
    let mut bytes = [0_u8; 16];
    ::aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| rustls::Error::General("there is no randomness".to_owned()))?;
    bytes[0] = (bytes[0] & 0x7f) | 0x40;
    Ok(der::write(der::INTEGER, &[&bytes]))
}

/// In whole seconds; in two digits of the year as long as those are enough.
fn time(at: Timestamp) -> Vec<u8> {
    let text = at.strftime("%Y%m%d%H%M%SZ").to_string();
    match text.get(..4).and_then(|year| year.parse::<u32>().ok()) {
        Some(1950..2050) => der::write(0x17, &[&text.as_bytes()[2..]]),
        _ => der::write(0x18, &[text.as_bytes()]),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
    use rustls::{RootCertStore, pki_types::UnixTime, server::WebPkiClientVerifier};

    use super::*;

    fn authority(algorithm: &'static rcgen::SignatureAlgorithm) -> Authority {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate_for(algorithm).unwrap();
        let pem = key.serialize_pem();
        let issuer = CertifiedIssuer::self_signed(parameters, key).unwrap();
        Authority { certificate: issuer.pem(), key: pem }
    }

    fn request() -> CertificateRequest {
        let mut parameters = CertificateParams::new(vec!["a.b".to_owned()]).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, "jane");
        parameters.distinguished_name.push(DnType::OrganizationName, "ops");
        parameters.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "more");
        let key = KeyPair::generate().unwrap();
        CertificateRequest::parse(parameters.serialize_request(&key).unwrap().pem().unwrap().as_bytes())
            .unwrap()
    }

    #[test]
    fn a_certificate_is_believed_until_it_ends() {
        let now = Timestamp::now();
        let life = SignedDuration::from_hours(1);
        for algorithm in
            [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519, &rcgen::PKCS_ECDSA_P384_SHA384]
        {
            let authority = authority(algorithm);
            let usages = KeyUsages { digital_signature: true, key_encipherment: false };
            let signer = Signer::new(&authority).unwrap();
            let pem = signer.sign(&request(), usages, now, Some(life)).unwrap();
            let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            let at = |seconds: i64| {
                let at = u64::try_from(now.as_second() + seconds).unwrap();
                let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
                verifier.verify_client_cert(&der, &[], at).is_ok()
            };
            assert_eq!([at(-301), at(-299), at(0), at(3599), at(3602)], [false, true, true, true, false]);
            let (_, parsed) = X509Certificate::from_der(&der).unwrap();
            let organizations: Vec<_> =
                parsed.subject().iter_organization().map(|name| name.as_str().unwrap()).collect();
            assert_eq!(organizations, ["ops", "more"]);
            assert!(parsed.key_usage().unwrap().unwrap().value.digital_signature());
            assert!(!parsed.is_ca());
            assert_eq!(parsed.subject_alternative_name().unwrap().unwrap().value.general_names.len(), 1);
        }
    }

    #[test]
    fn lives() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let far: Timestamp = "2040-01-01T00:00:00Z".parse().unwrap();
        let life = |seconds: Option<i64>, authority| {
            let (from, until) = validity(now, seconds.map(SignedDuration::from_secs), authority)?;
            Some((from.duration_until(now).as_secs(), now.duration_until(until).as_secs()))
        };
        assert_eq!(life(Some(1), far), Some((300, 600)), "never less than ten minutes");
        assert_eq!(life(Some(3600), far), Some((300, 3600)));
        assert_eq!(life(Some(7 * 86400), far), Some((300, 7 * 86400 - 300)));
        assert_eq!(life(None, far), Some((300, 365 * 86400 - 300)));
        assert_eq!(life(Some(1 << 40), far), Some((300, 365 * 86400 - 300)), "never more than a year");
        let soon: Timestamp = "2026-01-01T00:20:00Z".parse().unwrap();
        assert_eq!(life(Some(3600), soon), Some((300, 1200)), "never beyond the authority");
        assert_eq!(life(Some(3600), now), None);
    }

    #[test]
    fn times_of_all_centuries() {
        let der = |text: &str| time(text.parse().unwrap());
        assert_eq!(der("2049-12-31T23:59:59Z"), b"\x17\x0d491231235959Z");
        assert_eq!(der("2050-01-01T00:00:00Z"), b"\x18\x0f20500101000000Z");
    }

    #[test]
    fn a_key_of_another_is_refused() {
        let (one, other) = (authority(&rcgen::PKCS_ED25519), authority(&rcgen::PKCS_ED25519));
        let mixed = Authority { certificate: one.certificate, key: other.key };
        assert!(matches!(Signer::new(&mixed), Err(AuthorityError::Mismatch)));
        assert!(!format!("{mixed:?}").contains("PRIVATE"));
    }
}
