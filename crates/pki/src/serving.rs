//! The certificate authority of a server that API objects refer to by a CA bundle, such as the hooks and the webhooks, and the
//! certificates it signs.
//!
//! The authority lasts for years and is kept, so that every process that serves shows a certificate of the same one. What it signs lasts for weeks and is never written down.

use crate::Certificate;
use crate::issue::{self, Identity, utc_date};
use jiff::{Timestamp, ToSpan as _};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

const AUTHORITY_DAYS: i64 = 3650;
/// An authority with less than this left makes room for another; both are believed for as long as they last.
const AUTHORITY_RENEWAL_DAYS: i64 = 730;
const SERVING_DAYS: i64 = 90;
const SERVING_RENEWAL_DAYS: i64 = 30;

/// Why a certificate cannot be created or read. Contains no keys.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The certificate library returns an error.
    #[error("cannot make a key or certificate")]
    Library(#[from] rcgen::Error),
    /// The system clock is out of range.
    #[error("cannot count on the clock")]
    Clock(#[from] jiff::Error),
    /// The stored CA cannot be read.
    #[error("the stored CA certificate or its private key is malformed")]
    Unreadable,
    /// rustls rejects the certificate.
    #[error("cannot use the certificate")]
    Tls(#[from] rustls::Error),
}

/// The CA that signs serving certificates.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    own: Identity,
    /// Those that came before and still last.
    former: Vec<String>,
    expires: Timestamp,
}

/// A serving certificate.
pub struct Issued {
    /// The certificate and its key.
    pub key: CertifiedKey,
    /// When it expires.
    pub expires: Timestamp,
}

impl Authority {
    /// Creates a CA with this common name.
    ///
    /// # Errors
    /// If the certificate library returns an error.
    pub fn new(name: &str, now: Timestamp) -> Result<Self, AuthorityError> {
        let mut params = issue::authority(name, BasicConstraints::Constrained(0));
        issue::valid_until(&mut params, now, utc_date(now).checked_add(AUTHORITY_DAYS.days())?)?;
        let own = issue::self_signed(&params)?;
        let expires = expires(&own.certificate).ok_or(AuthorityError::Unreadable)?;
        Ok(Self { own, former: vec![], expires })
    }

    /// Reads the stored CA.
    ///
    /// # Errors
    /// If it cannot be parsed.
    pub fn read(bundle: &[u8], key: &[u8]) -> Result<Self, AuthorityError> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| AuthorityError::Unreadable);
        let mut certificates = split(&text(bundle)?).into_iter();
        let certificate = certificates.next().ok_or(AuthorityError::Unreadable)?;
        let expires = expires(&certificate).ok_or(AuthorityError::Unreadable)?;
        let own = Identity { certificate, key: text(key)? };
        let authority = Self { own, former: certificates.collect(), expires };
        authority.issuer().map_err(|_| AuthorityError::Unreadable)?;
        Ok(authority)
    }

    /// Whether the CA must be renewed.
    pub fn is_due(&self, now: Timestamp) -> bool {
        is_due(self.expires, now, AUTHORITY_RENEWAL_DAYS)
    }

    /// Creates the next CA. This one stays in the bundle until it expires.
    ///
    /// # Errors
    /// If the certificate library returns an error.
    pub fn renewed(&self, name: &str, now: Timestamp) -> Result<Self, AuthorityError> {
        let lasts = |certificate: &&String| expires(certificate).is_some_and(|expires| expires > now);
        let former =
            std::iter::once(&self.own.certificate).chain(&self.former).filter(lasts).cloned().collect();
        Ok(Self { former, ..Self::new(name, now)? })
    }

    /// The CA bundle in PEM, the current certificate first.
    pub fn bundle(&self) -> String {
        std::iter::once(&self.own.certificate).chain(&self.former).map(String::as_str).collect()
    }

    /// The private key in PEM, to be stored.
    pub fn key(&self) -> &str {
        &self.own.key
    }

    /// Issues a serving certificate for these names or addresses.
    ///
    /// # Errors
    /// If a name is not valid in a certificate.
    pub fn issue(&self, hosts: &[String], now: Timestamp) -> Result<Issued, AuthorityError> {
        let key = KeyPair::generate()?;
        let subject = issue::subject("capstan", None);
        let mut params = issue::end_entity(subject, hosts, ExtendedKeyUsagePurpose::ServerAuth)?;
        issue::valid_until(&mut params, now, utc_date(now).checked_add(SERVING_DAYS.days())?)?;
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        let expires = expires(&certificate.pem()).ok_or(AuthorityError::Unreadable)?;
        let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| AuthorityError::Unreadable)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(vec![certificate.der().clone()], private, &provider)?;
        Ok(Issued { key, expires })
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, rcgen::Error> {
        issue::issuer(&self.own)
    }
}

impl Issued {
    /// Whether the certificate must be renewed.
    pub fn is_due(&self, now: Timestamp) -> bool {
        is_due(self.expires, now, SERVING_RENEWAL_DAYS)
    }
}

fn is_due(expires: Timestamp, now: Timestamp, days: i64) -> bool {
    expires.duration_since(now) < jiff::SignedDuration::from_hours(24 * days)
}

fn expires(certificate: &str) -> Option<Timestamp> {
    Some(Certificate::first_in(certificate.as_bytes())?.not_after)
}

/// The certificates of a bundle, one by one, in its own words.
fn split(bundle: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let parts = bundle.split_inclusive(END).filter(|part| part.contains(END));
    parts.map(|part| format!("{}\n", part.trim_start())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    const NAME: &str = "capstan test";
    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn later(days: i64) -> Timestamp {
        NOW + SignedDuration::from_hours(24 * days)
    }

    #[test]
    fn what_is_kept_is_what_was_made() {
        let made = Authority::new(NAME, NOW).expect("an authority");
        let read = Authority::read(made.bundle().as_bytes(), made.key().as_bytes()).expect("the same");
        assert!(read == made);
        let other = Authority::new(NAME, NOW).expect("an authority");
        assert_eq!(read.bundle().matches("BEGIN").count(), 1);
        for (bundle, key) in [("", other.key()), ("nonsense", other.key()), (&*other.bundle(), "nonsense")] {
            assert!(Authority::read(bundle.as_bytes(), key.as_bytes()).is_err());
        }
    }

    #[test]
    fn certificates_are_renewed_before_they_end() {
        let authority = Authority::new(NAME, NOW).expect("an authority");
        assert!(!authority.is_due(NOW));
        assert!(!authority.is_due(later(AUTHORITY_DAYS - AUTHORITY_RENEWAL_DAYS - 2)));
        assert!(authority.is_due(later(AUTHORITY_DAYS - AUTHORITY_RENEWAL_DAYS + 1)));
        let issued = authority.issue(&["127.0.0.1".to_owned()], NOW).expect("a certificate");
        assert!(!issued.is_due(NOW));
        assert!(issued.is_due(later(SERVING_DAYS - SERVING_RENEWAL_DAYS + 1)));
    }

    #[test]
    fn a_former_authority_is_believed_until_it_ends() {
        let first = Authority::new(NAME, NOW).expect("an authority");
        let second = first.renewed(NAME, later(3000)).expect("another");
        assert_eq!(second.bundle().matches("BEGIN").count(), 2);
        assert!(second.bundle().ends_with(&first.bundle()));
        assert!(second.key() != first.key());
        let read = Authority::read(second.bundle().as_bytes(), second.key().as_bytes()).expect("the same");
        assert!(read == second);
        let third = second.renewed(NAME, later(6000)).expect("another");
        assert_eq!(third.bundle().matches("BEGIN").count(), 2, "the first one has ended");
    }
}
