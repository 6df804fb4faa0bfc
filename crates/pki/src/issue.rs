//! Keys and certificates, made with rcgen.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// A certificate and its private key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// The subject of a client or server: its name, and for clients of Kubernetes its group.
pub fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name
}

/// A CA.
pub fn authority(common_name: &str, constraints: BasicConstraints) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(common_name, None);
    params.is_ca = IsCa::Ca(constraints);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

/// A server that is reached by these names and addresses, or a client, which has none.
///
/// # Errors
/// If a host is neither a name nor an address.
pub fn end_entity(
    subject: DistinguishedName,
    hosts: &[String],
    usage: ExtendedKeyUsagePurpose,
) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = subject;
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    Ok(params)
}

/// The day in UTC.
pub fn utc_date(time: Timestamp) -> Date {
    time.to_zoned(TimeZone::UTC).date()
}

/// Makes a certificate valid until the beginning of a day, and from the day before today on: machines whose clocks are
/// behind must not reject it.
///
/// # Errors
/// If there is no day before today.
pub fn valid_until(params: &mut CertificateParams, now: Timestamp, end: Date) -> Result<(), jiff::Error> {
    let midnight = |date: Date| {
        let number = |value: i8| u8::try_from(value).unwrap_or(1);
        date_time_ymd(date.year().into(), number(date.month()), number(date.day()))
    };
    params.not_before = midnight(utc_date(now).checked_sub(1.day())?);
    params.not_after = midnight(end);
    Ok(())
}

/// Makes a certificate valid for `life` from now on. It begins [`crate::BACKDATE_SECONDS`] earlier.
///
/// # Errors
/// If there is no such time.
pub fn valid_for(
    params: &mut CertificateParams,
    now: Timestamp,
    life: SignedDuration,
) -> Result<(), jiff::Error> {
    let begin = now.checked_sub(SignedDuration::from_secs(crate::BACKDATE_SECONDS))?;
    let end = now.checked_add(life)?;
    let time = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or(0);
        date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
    };
    (params.not_before, params.not_after) = (time(begin), time(end));
    Ok(())
}

/// A CA that signs, from its certificate and key in PEM.
///
/// # Errors
/// If they are not one certificate and one unencrypted key.
pub fn issuer(ca: &Identity) -> Result<Issuer<'static, KeyPair>, Error> {
    Issuer::from_ca_cert_pem(&ca.certificate, KeyPair::from_pem(&ca.key)?)
}

/// A certificate with a new key.
///
/// # Errors
/// If the library cannot make a key or sign.
pub fn signed(params: &CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Result<Identity, Error> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A CA with a new key.
///
/// # Errors
/// If the library cannot make a key or sign.
pub fn self_signed(params: &CertificateParams) -> Result<Identity, Error> {
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(all(test, feature = "read", feature = "trust"))]
mod tests {
    use super::*;
    use crate::{Certificate, roots};

    const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

    #[test]
    fn a_ca_signs_after_being_read_back() {
        let mut params = authority("ca", BasicConstraints::Constrained(0));
        valid_until(&mut params, NOW, utc_date(NOW).checked_add(1.year()).expect("a day")).expect("valid");
        let ca = self_signed(&params).expect("a CA");
        let read = Certificate::first_in(ca.certificate.as_bytes()).expect("read");
        assert_eq!(read.common_name.as_deref(), Some("ca"));
        assert_eq!(read.not_before.to_string(), "2027-01-14T00:00:00Z");
        assert_eq!(read.not_after.to_string(), "2028-01-15T00:00:00Z");
        assert_eq!(roots(ca.certificate.as_bytes()).expect("roots").len(), 1);
        let issuer = issuer(&ca).expect("an issuer");
        let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params =
            end_entity(subject("server", Some("group")), &hosts, ExtendedKeyUsagePurpose::ServerAuth)
                .expect("hosts");
        let server = signed(&params, &issuer).expect("a certificate");
        let read = Certificate::first_in(server.certificate.as_bytes()).expect("read");
        assert_eq!(read.common_name.as_deref(), Some("server"));
        assert!(!format!("{server:?}").contains("PRIVATE KEY"));
        for bad in [
            Identity { certificate: ca.certificate.clone(), key: "x".to_owned() },
            Identity { certificate: "x".to_owned(), key: ca.key.clone() },
        ] {
            assert!(super::issuer(&bad).is_err());
        }
    }

    #[test]
    fn a_life_is_exact_to_the_second() {
        let mut params =
            end_entity(subject("user", None), &[], ExtendedKeyUsagePurpose::ClientAuth).expect("no hosts");
        valid_for(&mut params, NOW, SignedDuration::from_mins(90)).expect("valid");
        let read = Certificate::first_in(self_signed(&params).expect("signed").certificate.as_bytes());
        let read = read.expect("read");
        assert_eq!(read.not_before, NOW - SignedDuration::from_mins(5));
        assert_eq!(read.not_after, NOW + SignedDuration::from_mins(90));
    }
}
