//! A certificate that a request was answered with. Pure.

use capstan_pki::pem::{self, CERTIFICATE};
use capstan_plan::Digest;
use jiff::Timestamp;
use x509_parser::pem::Pem;

/// What the report has room for.
const LONGEST: usize = 16384;

/// What matters of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// Digest of the public key it is for.
    pub(crate) key: Digest,
    /// Whom it is for.
    pub(crate) user: String,
    renewal: Timestamp,
    not_after: Timestamp,
    /// It, and what else came with it, written by us.
    pub(crate) pem: String,
}

impl Certificate {
    /// Reads the first certificate of a chain.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let blocks: Vec<Pem> = Pem::iter_from_buffer(text).collect::<Result<_, _>>().ok()?;
        let pem: String = blocks.iter().map(|block| pem::encode(CERTIFICATE, &block.contents)).collect();
        if blocks.iter().any(|block| block.label != CERTIFICATE) || pem.len() > LONGEST {
            return None;
        }
        let first = capstan_pki::Certificate::first_in(text)?;
        Some(Self {
            key: Digest::of(&first.public_key),
            renewal: first.renewal(),
            not_after: first.not_after,
            user: first.common_name?,
            pem,
        })
    }

    /// From when on it should be replaced: two thirds of its life.
    pub(crate) const fn renewal(&self) -> Timestamp {
        self.renewal
    }

    /// When it ends.
    pub(crate) const fn end(&self) -> Timestamp {
        self.not_after
    }
}

#[cfg(test)]
pub(in crate::enrolment) mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    /// A certificate for a user that is valid from one second to another.
    pub(in crate::enrolment) fn certificate(user: &str, key: &KeyPair, from: i64, to: i64) -> String {
        let time = |second: i64| {
            let year = rcgen::date_time_ymd(1970, 1, 1);
            year + std::time::Duration::from_secs(second.unsigned_abs())
        };
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        (params.not_before, params.not_after) = (time(from), time(to));
        params.self_signed(key).unwrap().pem()
    }

    #[test]
    fn a_certificate_is_read_and_written_anew() {
        let key = KeyPair::generate().unwrap();
        let text = certificate("who", &key, 3000, 6000);
        let read = Certificate::read(text.as_bytes()).unwrap();
        assert_eq!(read.user, "who");
        assert_eq!(read.key, Digest::of(&rcgen::PublicKeyData::subject_public_key_info(&key)));
        assert_eq!(read.renewal(), Timestamp::from_second(5000).unwrap());
        assert_eq!(read.end(), Timestamp::from_second(6000).unwrap());
        assert_eq!(Certificate::read(read.pem.as_bytes()), Some(read));
        let chain = format!("{text}{}", certificate("authority", &KeyPair::generate().unwrap(), 0, 9));
        assert_eq!(Certificate::read(chain.as_bytes()).unwrap().user, "who");
        for bad in ["", "hello", &text.replace("CERTIFICATE", "X"), &key.serialize_pem()] {
            assert_eq!(Certificate::read(bad.as_bytes()), None, "{bad}");
        }
    }
}
