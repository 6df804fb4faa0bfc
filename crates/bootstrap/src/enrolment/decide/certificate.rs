//! A certificate that a request was answered with. Pure.

use capstan_plan::Digest;
use jiff::Timestamp;
use x509_parser::pem::Pem;

use super::pem;

const LABEL: &str = "CERTIFICATE";
/// What the report has room for.
const LONGEST: usize = 16384;

/// What matters of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// Digest of the public key it is for.
    pub(crate) key: Digest,
    /// Whom it is for.
    pub(crate) user: String,
    not_before: Timestamp,
    not_after: Timestamp,
    /// It, and what else came with it, written by us.
    pub(crate) pem: String,
}

impl Certificate {
    /// Reads the first certificate of a chain.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let blocks: Vec<Pem> = Pem::iter_from_buffer(text).collect::<Result<_, _>>().ok()?;
        let first = blocks.first()?.parse_x509().ok()?;
        let mut names = first.subject().iter_common_name();
        let (user, None) = (names.next()?.as_str().ok()?, names.next()) else { return None };
        let validity = first.validity();
        let time = |seconds| Timestamp::from_second(seconds).ok();
        let pem: String = blocks.iter().map(|block| pem::encode(&block.contents, LABEL)).collect();
        Some(Self {
            key: Digest::of(first.public_key().raw),
            user: user.to_owned(),
            not_before: time(validity.not_before.timestamp())?,
            not_after: time(validity.not_after.timestamp())?,
            pem,
        })
        .filter(|read| blocks.iter().all(|block| block.label == LABEL) && read.pem.len() <= LONGEST)
    }

    /// From when on it should be replaced: two thirds of its life.
    pub(crate) fn renewal(&self) -> Timestamp {
        let life = self.not_after.duration_since(self.not_before);
        self.not_before.saturating_add(life * 2 / 3).unwrap_or(self.not_after)
    }

    /// When it ends.
    pub(crate) const fn end(&self) -> Timestamp {
        self.not_after
    }
}

#[cfg(test)]
pub(in crate::enrolment) mod tests {
    #![allow(clippy::unwrap_used)]

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
