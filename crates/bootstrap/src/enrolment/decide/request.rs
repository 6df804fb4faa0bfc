//! A machine's request for a certificate, looked at as what it is: a text from somebody who may mean no good. Pure.
//!
//! There is one shape that a request may have, so it is taken apart, put together again from the few parts that may
//! differ, and compared byte by byte. What a reader of certificates somewhere else might understand differently cannot
//! be in it.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey, VerificationAlgorithm};
use capstan_pki::der::{self, BIT_STRING, INTEGER, OID, PRINTABLE_STRING, SET, UTF8_STRING};
use capstan_pki::pem::{self, CERTIFICATE_REQUEST};
use capstan_plan::Digest;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

/// Organization in the certificate of every machine, which is its group.
pub const GROUP: &str = "capstan:machines";

/// More than this is no request. The API says the same.
const LONGEST: usize = 8192;

/// Everything before the key itself in the SubjectPublicKeyInfo of a P-256 key, up to the byte that says that both
/// coordinates follow.
const P256: [u8; 27] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00, 0x04,
];
/// The same of an Ed25519 key.
const ED25519_KEY: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// AlgorithmIdentifiers of their signatures.
const ECDSA_WITH_SHA256: [u8; 12] = [0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const ED25519_SIGNATURE: [u8; 7] = [0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];

/// Parts of a name, and how texts in them may be written.
const COMMON_NAME: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x03];
const ORGANISATION: [u8; 5] = [0x06, 0x03, 0x55, 0x04, 0x0a];

/// A request that may be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Digest of the public key it is for.
    pub(crate) key: Digest,
    /// Digest of the request itself.
    pub(crate) digest: Digest,
    /// The same request, written by us.
    pub(crate) pem: String,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it has more than {LONGEST} bytes")]
    Size,
    #[error("it is not one PEM block of a PKCS #10 request")]
    Encoding,
    #[error("its key is neither ECDSA P-256 nor Ed25519")]
    Key,
    #[error("its subject is not exactly the common name of this machine and the organisation {GROUP}")]
    Subject,
    #[error("it asks for more than a name: attributes or extensions are in it")]
    Extras,
    #[error("it is not signed with its own key")]
    Signature,
}

/// Looks at a request that must be for this user.
pub(crate) fn check(text: &str, user: &str) -> Result<Request, Refusal> {
    if text.len() > LONGEST {
        return Err(Refusal::Size);
    }
    let der = pem::decode_only(CERTIFICATE_REQUEST, text).ok_or(Refusal::Encoding)?;
    let (rest, request) = X509CertificationRequest::from_der(&der).map_err(|_| Refusal::Encoding)?;
    let info = &request.certification_request_info;
    let key = info.subject_pki.raw;
    let (algorithm, public, signature): (&'static dyn VerificationAlgorithm, &[u8], &[u8]) =
        if key.starts_with(&P256) && key.len() == P256.len() + 64 {
            (&ECDSA_P256_SHA256_ASN1, &key[P256.len() - 1..], &ECDSA_WITH_SHA256)
        } else if key.starts_with(&ED25519_KEY) && key.len() == ED25519_KEY.len() + 32 {
            (&ED25519, &key[ED25519_KEY.len()..], &ED25519_SIGNATURE)
        } else {
            return Err(Refusal::Key);
        };
    let subject = subject(&info.subject, user).ok_or(Refusal::Subject)?;
    if !info.attributes().is_empty() {
        return Err(Refusal::Extras);
    }
    let version_0 = [INTEGER, 0x01, 0x00];
    let no_attributes = [0xa0, 0x00];
    let info = der::sequence(&[&version_0, &subject, key, &no_attributes]);
    let value = &request.signature_value.data;
    let whole = der::sequence(&[&info, signature, &der::write(BIT_STRING, &[&[0], value])]);
    if !rest.is_empty() || whole != der {
        return Err(Refusal::Encoding);
    }
    UnparsedPublicKey::new(algorithm, public).verify(&info, value).map_err(|_| Refusal::Signature)?;
    Ok(Request {
        key: Digest::of(key),
        digest: Digest::of(&der),
        pem: pem::encode(CERTIFICATE_REQUEST, &der),
    })
}

/// The subject written anew, if it is what it must be, in either order.
fn subject(name: &X509Name<'_>, user: &str) -> Option<Vec<u8>> {
    let mut wanted = vec![(COMMON_NAME, user), (ORGANISATION, GROUP)];
    let mut parts = Vec::new();
    for part in name.iter() {
        let mut attributes = part.iter();
        let (attribute, None) = (attributes.next()?, attributes.next()) else { return None };
        let oid = der::write(OID, &[attribute.attr_type().as_bytes()]);
        let place = wanted.iter().position(|(wanted, _)| wanted[..] == oid[..])?;
        let (oid, text) = wanted.swap_remove(place);
        let value = attribute.attr_value();
        let tag = u8::try_from(value.tag().0).ok()?;
        if !matches!(tag, UTF8_STRING | PRINTABLE_STRING) || value.data != text.as_bytes() {
            return None;
        }
        let pair = der::sequence(&[&oid, &der::write(tag, &[text.as_bytes()])]);
        parts.push(der::write(SET, &[&pair]));
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    wanted.is_empty().then(|| der::sequence(&parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::string::PrintableString;
    use rcgen::{
        Attribute, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, KeyPair,
        KeyUsagePurpose, SignatureAlgorithm,
    };

    const USER: &str = "capstan:machine:default:0123";

    /// What a request is made from.
    struct Asked {
        algorithm: &'static SignatureAlgorithm,
        params: CertificateParams,
    }

    impl Asked {
        fn usual() -> Self {
            Self::named(&[(DnType::CommonName, USER), (DnType::OrganizationName, GROUP)])
        }

        fn named(parts: &[(DnType, &str)]) -> Self {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            for (part, text) in parts {
                params.distinguished_name.push(part.clone(), *text);
            }
            Self { algorithm: &rcgen::PKCS_ECDSA_P256_SHA256, params }
        }

        fn with(mut self, change: impl FnOnce(&mut CertificateParams)) -> Self {
            change(&mut self.params);
            self
        }

        fn by(self, algorithm: &'static SignatureAlgorithm) -> Self {
            Self { algorithm, ..self }
        }

        fn pem(&self) -> String {
            let key = KeyPair::generate_for(self.algorithm).unwrap();
            self.params.serialize_request(&key).unwrap().pem().unwrap()
        }
    }

    #[test]
    fn a_request_for_the_machine_itself_is_taken() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let text = Asked::usual().params.serialize_request(&key).unwrap().pem().unwrap();
            let request = check(&text, USER).unwrap();
            assert_eq!(request.key, Digest::of(&rcgen::PublicKeyData::subject_public_key_info(&key)));
            // What we write is the same request.
            assert_eq!(check(&request.pem, USER), Ok(request));
        }
        let turned = Asked::named(&[(DnType::OrganizationName, GROUP), (DnType::CommonName, USER)]);
        assert!(check(&turned.pem(), USER).is_ok());
        let printable = Asked::usual().with(|params| {
            let text = PrintableString::try_from(USER).unwrap();
            params.distinguished_name.push(DnType::CommonName, DnValue::PrintableString(text));
        });
        assert!(check(&printable.pem(), USER).is_ok());
    }

    #[test]
    fn everything_else_is_refused() {
        let (cn, o) = (DnType::CommonName, DnType::OrganizationName);
        let more = (DnType::OrganizationalUnitName, "more");
        let named = |parts: &[(DnType, &str)]| Asked::named(parts).pem();
        let san = rcgen::SanType::DnsName("kubernetes".try_into().unwrap());
        let usual = Asked::usual().pem();
        for (text, refusal) in [
            (named(&[(cn.clone(), "capstan:machine:default:9999"), (o.clone(), GROUP)]), Refusal::Subject),
            (named(&[(cn.clone(), "system:admin"), (o.clone(), GROUP)]), Refusal::Subject),
            (named(&[(cn.clone(), USER), (o.clone(), "system:masters")]), Refusal::Subject),
            (named(&[(cn.clone(), USER)]), Refusal::Subject),
            (named(&[(o.clone(), GROUP)]), Refusal::Subject),
            (named(&[]), Refusal::Subject),
            (named(&[(cn.clone(), USER), (o.clone(), GROUP), more]), Refusal::Subject),
            (
                Asked::usual()
                    .with(|params| {
                        let masters = DnType::CustomDnType(vec![2, 5, 4, 10]);
                        params.distinguished_name.push(masters, "system:masters");
                    })
                    .pem(),
                Refusal::Subject,
            ),
            (
                Asked::usual()
                    .with(|params| {
                        let text = rcgen::string::TeletexString::try_from(USER).unwrap();
                        params.distinguished_name.push(cn.clone(), DnValue::TeletexString(text));
                    })
                    .pem(),
                Refusal::Subject,
            ),
            (Asked::usual().with(|params| params.subject_alt_names.push(san)).pem(), Refusal::Extras),
            (
                Asked::usual().with(|params| params.key_usages.push(KeyUsagePurpose::KeyCertSign)).pem(),
                Refusal::Extras,
            ),
            (
                Asked::usual()
                    .with(|params| params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth))
                    .pem(),
                Refusal::Extras,
            ),
            (Asked::usual().by(&rcgen::PKCS_ECDSA_P384_SHA384).pem(), Refusal::Key),
            (Asked::usual().by(&rcgen::PKCS_RSA_SHA256).pem(), Refusal::Key),
            (format!("{usual}{usual}"), Refusal::Encoding),
            (usual.replace("CERTIFICATE REQUEST", "CERTIFICATE"), Refusal::Encoding),
            (String::new(), Refusal::Encoding),
            ("x".repeat(LONGEST + 1), Refusal::Size),
        ] {
            assert_eq!(check(&text, USER), Err(refusal), "{text}");
        }
        let key = KeyPair::generate().unwrap();
        let password =
            Attribute { oid: &[1, 2, 840, 113_549, 1, 9, 7], values: vec![0x31, 0x03, 0x0c, 0x01, b'x'] };
        let params = Asked::usual().params;
        let text = params.serialize_request_with_attributes(&key, vec![password]).unwrap().pem().unwrap();
        assert_eq!(check(&text, USER), Err(Refusal::Extras));
    }

    #[test]
    fn a_key_of_somebody_else_is_refused() {
        // The request of one machine with the key of another put in: the right size, the wrong signature.
        let [one, other] = [Asked::usual().pem(), Asked::usual().pem()]
            .map(|text| pem::decode_only(CERTIFICATE_REQUEST, &text).unwrap());
        let key = |der: &[u8]| der.windows(P256.len()).position(|window| window == P256).unwrap();
        let (mut forged, from) = (one.clone(), key(&other));
        let to = key(&one);
        forged[to..to + 91].copy_from_slice(&other[from..from + 91]);
        assert_eq!(check(&pem::encode(CERTIFICATE_REQUEST, &forged), USER), Err(Refusal::Signature));
    }

    #[test]
    fn trailing_bytes_have_no_place_to_hide() {
        let der = pem::decode_only(CERTIFICATE_REQUEST, &Asked::usual().pem()).unwrap();
        let mut longer = der.clone();
        longer.push(0);
        assert_eq!(check(&pem::encode(CERTIFICATE_REQUEST, &longer), USER), Err(Refusal::Encoding));
        // Inside the outermost sequence, whose length says that they belong to it.
        let header = if der[1] < 0x80 { 2 } else { 2 + usize::from(der[1] & 0x7f) };
        let inside = der::sequence(&[&der[header..], &[0x05, 0x00]]);
        assert_eq!(check(&pem::encode(CERTIFICATE_REQUEST, &inside), USER), Err(Refusal::Encoding));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(check(&pem::encode(CERTIFICATE_REQUEST, &bytes), USER).is_err());
            prop_assert!(check(&String::from_utf8_lossy(&bytes), USER).is_err());
        }

        #[test]
        fn no_change_is_overlooked(place in any::<prop::sample::Index>(), flip in 1_u8..) {
            let mut der = pem::decode_only(CERTIFICATE_REQUEST, &Asked::usual().pem()).unwrap();
            let place = place.index(der.len());
            der[place] ^= flip;
            prop_assert!(check(&pem::encode(CERTIFICATE_REQUEST, &der), USER).is_err());
        }
    }
}
