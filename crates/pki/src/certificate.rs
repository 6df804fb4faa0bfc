//! A certificate that was read: whose key it is for, and when it is valid.

use jiff::Timestamp;
use x509_parser::pem::Pem;

/// The parts of a certificate that its owner and its issuer look at. Who signed it is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The public key with its algorithm (SubjectPublicKeyInfo): DER.
    pub public_key: Vec<u8>,
    /// The common name of the subject. None if there is no name or more than one: readers disagree on which one counts.
    pub common_name: Option<String>,
    /// From when on it is valid.
    pub not_before: Timestamp,
    /// Until when it is valid.
    pub not_after: Timestamp,
}

impl Certificate {
    /// Reads the first block of a PEM text.
    pub fn first_in(pem: &[u8]) -> Option<Self> {
        Self::of_block(&Pem::iter_from_buffer(pem).next()?.ok()?)
    }

    /// Reads the blocks of a PEM text that are certificates.
    pub fn all_in(pem: &[u8]) -> Vec<Self> {
        Pem::iter_from_buffer(pem).flatten().filter_map(|block| Self::of_block(&block)).collect()
    }

    fn of_block(block: &Pem) -> Option<Self> {
        let certificate = block.parse_x509().ok()?;
        let mut names = certificate.subject().iter_common_name();
        let common_name = match (names.next(), names.next()) {
            (Some(name), None) => name.as_str().ok().map(str::to_owned),
            _ => None,
        };
        let time = |seconds| Timestamp::from_second(seconds).ok();
        Some(Self {
            public_key: certificate.public_key().raw.to_vec(),
            common_name,
            not_before: time(certificate.validity().not_before.timestamp())?,
            not_after: time(certificate.validity().not_after.timestamp())?,
        })
    }

    /// When its owner requests another one: two thirds of its life are over.
    pub fn renewal(&self) -> Timestamp {
        let (from, to) = (self.not_before.as_second(), self.not_after.as_second());
        Timestamp::from_second(from + (to - from) * 2 / 3).unwrap_or(self.not_after)
    }
}

#[cfg(all(test, feature = "issue"))]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, PublicKeyData as _, date_time_ymd};

    fn certificate(key: &KeyPair, names: &[(DnType, &str)]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 1, 31));
        params.self_signed(key).expect("signed").pem()
    }

    #[test]
    fn the_first_certificate_is_read() {
        let key = KeyPair::generate().expect("a key");
        let second = DnType::CustomDnType(vec![2, 5, 4, 3]);
        let table = [
            (vec![(DnType::CommonName, "a"), (DnType::OrganizationName, "b")], Some("a")),
            (vec![(DnType::OrganizationName, "b")], None),
            (vec![(DnType::CommonName, "a"), (second, "b")], None),
        ];
        for (names, expected) in table {
            let text = certificate(&key, &names);
            let other = certificate(&KeyPair::generate().expect("a key"), &[]);
            let read = Certificate::first_in(format!("# a comment\n{text}{other}").as_bytes()).expect("read");
            assert_eq!(Certificate::all_in(format!("{other}{text}").as_bytes())[1], read);
            assert_eq!(read.common_name.as_deref(), expected, "{names:?}");
            assert_eq!(read.public_key, key.subject_public_key_info());
            assert_eq!(read.not_before.to_string(), "2026-01-01T00:00:00Z");
            assert_eq!(read.renewal().to_string(), "2026-01-21T00:00:00Z");
            assert_eq!(read.not_after.to_string(), "2026-01-31T00:00:00Z");
        }
        for bad in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(Certificate::first_in(bad.as_bytes()), None, "{bad}");
            assert_eq!(Certificate::all_in(bad.as_bytes()), [], "{bad}");
        }
        assert_eq!(Certificate::first_in(key.serialize_pem().as_bytes()), None);
    }
}
