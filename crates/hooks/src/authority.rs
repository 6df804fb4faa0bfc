//! The certificate authority of the hooks, and the certificates it signs. No I/O; what is random comes from the operating
//! system, the time is an argument.
//!
//! The authority lasts for years and is kept in a Secret, so that every process that serves hooks shows a certificate of
//! the same one. What it signs lasts for weeks and is never written down.

use jiff::civil::Date;
use jiff::{Span, Timestamp, ToSpan as _};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use rustls::sign::CertifiedKey;

const AUTHORITY_DAYS: i64 = 3650;
/// An authority with less than this left makes room for another; both are believed for as long as they last.
const AUTHORITY_RENEWAL_DAYS: i64 = 730;
const SERVING_DAYS: i64 = 90;
const SERVING_RENEWAL_DAYS: i64 = 30;

/// Why something could not be made or read. Says nothing of keys.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The library refuses.
    #[error("cannot make a key or certificate")]
    Library(#[from] rcgen::Error),
    /// The clock is far off.
    #[error("cannot count on the clock")]
    Clock(#[from] jiff::Error),
    /// Not what was once written.
    #[error("what is kept is no certificate and key")]
    Unreadable,
    /// TLS cannot use it.
    #[error("cannot use the certificate")]
    Tls(#[from] rustls::Error),
}

/// Signs the certificates that hooks are served with.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    certificate: String,
    key: String,
    /// Those that came before and still last.
    former: Vec<String>,
    expires: Timestamp,
}

/// A certificate to show.
pub struct Issued {
    /// With its key.
    pub key: CertifiedKey,
    /// Until when it is good.
    pub expires: Timestamp,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn new(now: Timestamp) -> Result<Self, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = params("capstan hooks", now, AUTHORITY_DAYS.days())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        let expires = expires(&certificate).ok_or(AuthorityError::Unreadable)?;
        Ok(Self { certificate, key: key.serialize_pem(), former: vec![], expires })
    }

    /// The one that was kept.
    ///
    /// # Errors
    /// If it is not what was once written.
    pub fn read(bundle: &[u8], key: &[u8]) -> Result<Self, AuthorityError> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| AuthorityError::Unreadable);
        let mut certificates = split(&text(bundle)?).into_iter();
        let certificate = certificates.next().ok_or(AuthorityError::Unreadable)?;
        let expires = expires(&certificate).ok_or(AuthorityError::Unreadable)?;
        let authority = Self { certificate, key: text(key)?, former: certificates.collect(), expires };
        authority.issuer().map_err(|_| AuthorityError::Unreadable)?;
        Ok(authority)
    }

    /// Whether it is time for another one.
    pub fn is_due(&self, now: Timestamp) -> bool {
        is_due(self.expires, now, AUTHORITY_RENEWAL_DAYS)
    }

    /// Another one, that leaves this one believed until it ends.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn renewed(&self, now: Timestamp) -> Result<Self, AuthorityError> {
        let lasts = |certificate: &&String| expires(certificate).is_some_and(|expires| expires > now);
        let former = std::iter::once(&self.certificate).chain(&self.former).filter(lasts).cloned().collect();
        Ok(Self { former, ..Self::new(now)? })
    }

    /// All certificates to believe, as PEM, the current one first.
    pub fn bundle(&self) -> String {
        std::iter::once(&self.certificate).chain(&self.former).map(String::as_str).collect()
    }

    /// Its key, as PEM, to be kept.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A certificate for a server that is reached by these names or addresses.
    ///
    /// # Errors
    /// If a name cannot stand in a certificate.
    pub fn issue(&self, hosts: &[String], now: Timestamp) -> Result<Issued, AuthorityError> {
        let key = KeyPair::generate()?;
        let named = CertificateParams::new(hosts)?.subject_alt_names;
        let mut params = params("capstan", now, SERVING_DAYS.days())?;
        params.subject_alt_names = named;
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer()?)?;
        let expires = expires(&certificate.pem()).ok_or(AuthorityError::Unreadable)?;
        let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(|_| AuthorityError::Unreadable)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(vec![certificate.der().clone()], private, &provider)?;
        Ok(Issued { key, expires })
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, rcgen::Error> {
        Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)
    }
}

impl Issued {
    /// Whether it is time for another one.
    pub fn is_due(&self, now: Timestamp) -> bool {
        is_due(self.expires, now, SERVING_RENEWAL_DAYS)
    }
}

fn is_due(expires: Timestamp, now: Timestamp, days: i64) -> bool {
    expires.duration_since(now) < jiff::SignedDuration::from_hours(24 * days)
}

fn params(name: &str, now: Timestamp, life: Span) -> Result<CertificateParams, AuthorityError> {
    let today = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |date: Date| {
        let number = |value: i8| u8::try_from(value).unwrap_or(1);
        date_time_ymd(date.year().into(), number(date.month()), number(date.day()))
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    // A caller whose clock is behind must not refuse it.
    params.not_before = day(today.checked_sub(1.day())?);
    params.not_after = day(today.checked_add(life)?);
    Ok(params)
}

fn expires(certificate: &str) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(&der).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
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

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    fn later(days: i64) -> Timestamp {
        NOW + SignedDuration::from_hours(24 * days)
    }

    #[test]
    fn what_is_kept_is_what_was_made() {
        let made = Authority::new(NOW).expect("an authority");
        let read = Authority::read(made.bundle().as_bytes(), made.key().as_bytes()).expect("the same");
        assert!(read == made);
        let other = Authority::new(NOW).expect("an authority");
        assert_eq!(read.bundle().matches("BEGIN").count(), 1);
        for (bundle, key) in [("", other.key()), ("nonsense", other.key()), (&*other.bundle(), "nonsense")] {
            assert!(Authority::read(bundle.as_bytes(), key.as_bytes()).is_err());
        }
    }

    #[test]
    fn certificates_are_renewed_before_they_end() {
        let authority = Authority::new(NOW).expect("an authority");
        assert!(!authority.is_due(NOW));
        assert!(!authority.is_due(later(AUTHORITY_DAYS - AUTHORITY_RENEWAL_DAYS - 2)));
        assert!(authority.is_due(later(AUTHORITY_DAYS - AUTHORITY_RENEWAL_DAYS + 1)));
        let issued = authority.issue(&["127.0.0.1".to_owned()], NOW).expect("a certificate");
        assert!(!issued.is_due(NOW));
        assert!(issued.is_due(later(SERVING_DAYS - SERVING_RENEWAL_DAYS + 1)));
    }

    #[test]
    fn a_former_authority_is_believed_until_it_ends() {
        let first = Authority::new(NOW).expect("an authority");
        let second = first.renewed(later(3000)).expect("another");
        assert_eq!(second.bundle().matches("BEGIN").count(), 2);
        assert!(second.bundle().ends_with(&first.bundle()));
        assert!(second.key() != first.key());
        let read = Authority::read(second.bundle().as_bytes(), second.key().as_bytes()).expect("the same");
        assert!(read == second);
        let third = second.renewed(later(6000)).expect("another");
        assert_eq!(third.bundle().matches("BEGIN").count(), 2, "the first one has ended");
    }
}
