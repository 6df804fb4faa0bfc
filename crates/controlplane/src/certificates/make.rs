//! Keys and certificates. No I/O; what is random comes from the operating system.

use capstan_controller::identity;
use capstan_controller::secrets::{self, Purpose, pair, plan_key};
use capstan_plan::SigningKey;
use jiff::{Timestamp, ToSpan as _};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_RSA_SHA256, RsaKeySize, date_time_ymd,
};

use super::decide::FIRST_EPOCH;

/// For how long a CA is good.
const CA_YEARS: i64 = 10;

/// A certificate, or a public key, and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Why something could not be made. Says nothing of keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    /// The library refuses.
    #[error("cannot make a key or certificate")]
    Library(#[from] rcgen::Error),
    /// The clock is far off.
    #[error("cannot count on the clock")]
    Clock(#[from] jiff::Error),
    /// A CA or key that somebody brought.
    #[error("the CA or its key cannot be read: it must be one certificate and one unencrypted key as PEM")]
    Authority,
    /// A key that is not what it should be.
    #[error("the library gave a key in an unknown form")]
    Key,
}

/// A new CA with an RSA key.
pub(crate) fn authority(name: &str, now: Timestamp) -> Result<Pair, MakeError> {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
    let mut params = params(name, now, CA_YEARS.years())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    let certificate = params.self_signed(&key)?.pem();
    Ok(Pair { certificate, key: pkcs1_pem(&key)? })
}

/// A new RSA key and its public half.
pub(crate) fn signing_pair() -> Result<Pair, MakeError> {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
    Ok(Pair { certificate: key.public_key_pem(), key: pkcs1_pem(&key)? })
}

/// A certificate for a client, signed by the CA, good until `expires`.
pub(crate) fn client(
    ca: &Pair,
    user: &str,
    group: &str,
    expires: Timestamp,
    now: Timestamp,
) -> Result<Pair, MakeError> {
    let ca_key = KeyPair::from_pem(&ca.key).map_err(|_| MakeError::Authority)?;
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate, ca_key).map_err(|_| MakeError::Authority)?;
    let key = KeyPair::generate()?;
    let mut params = params(user, now, 1.day())?;
    let (year, month, day) = day(expires);
    params.not_after = date_time_ymd(year, month, day);
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer)?.pem();
    Ok(Pair { certificate, key: key.serialize_pem() })
}

fn params(name: &str, now: Timestamp, life: jiff::Span) -> Result<CertificateParams, MakeError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let utc = now.to_zoned(jiff::tz::TimeZone::UTC);
    // Machines whose clocks are behind must not refuse it.
    let (year, month, first) = day(utc.checked_sub(1.day())?.timestamp());
    params.not_before = date_time_ymd(year, month, first);
    let (year, month, last) = day(utc.checked_add(life)?.timestamp());
    params.not_after = date_time_ymd(year, month, last);
    Ok(params)
}

/// The day, in UTC: a certificate needs no more.
fn day(time: Timestamp) -> (i32, u8, u8) {
    let date = time.to_zoned(jiff::tz::TimeZone::UTC).date();
    let number = |value: i8| u8::try_from(value).unwrap_or(1);
    (date.year().into(), number(date.month()), number(date.day()))
}

/// An RSA key in the form that Cluster API writes: what PKCS#8 wraps.
fn pkcs1_pem(key: &KeyPair) -> Result<String, MakeError> {
    let pkcs1 = unwrapped(key.serialized_der()).ok_or(MakeError::Key)?;
    Ok(pem("RSA PRIVATE KEY", pkcs1))
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;

/// The key inside PKCS#8: `SEQUENCE { INTEGER, SEQUENCE, OCTET STRING }`, the last of which it is.
fn unwrapped(pkcs8: &[u8]) -> Option<&[u8]> {
    let (outer, _) = element(pkcs8, SEQUENCE)?;
    let (_, rest) = element(outer, INTEGER)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    element(rest, OCTETS).map(|(key, _)| key)
}

/// Content of the DER element at the beginning, and what comes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length))?
}

fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::prelude::BASE64_STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        // Base64 is ASCII.
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

/// What a Secret holds, by key.
type Data = Vec<(&'static str, Vec<u8>)>;

/// What goes into a Secret that is made.
pub(crate) fn contents(purpose: Purpose, now: Timestamp) -> Result<Data, MakeError> {
    let pair_of = |pair: Pair| {
        vec![(pair::CERTIFICATE, pair.certificate.into_bytes()), (pair::KEY, pair.key.into_bytes())]
    };
    Ok(match purpose {
        Purpose::Ca => pair_of(authority("kubernetes", now)?),
        Purpose::Etcd => pair_of(authority("etcd-ca", now)?),
        Purpose::Proxy => pair_of(authority("front-proxy-ca", now)?),
        Purpose::ServiceAccounts => pair_of(signing_pair()?),
        Purpose::Token | Purpose::Kubeconfig => {
            vec![(secrets::VALUE, identity::random_secret().into_bytes())]
        }
        Purpose::PlanKey => {
            let key = SigningKey::generate().map_err(|_| MakeError::Key)?;
            let private = key.to_pkcs8().map_err(|_| MakeError::Key)?;
            vec![
                (plan_key::PRIVATE, private),
                (plan_key::PUBLIC, key.public().as_bytes().to_vec()),
                (plan_key::EPOCH, FIRST_EPOCH.to_string().into_bytes()),
            ]
        }
    })
}

/// A CA for the tests of others.
#[cfg(test)]
pub(crate) fn tests_ca(now: Timestamp) -> k8s_openapi::api::core::v1::Secret {
    let data = contents(Purpose::Ca, now).expect("a CA");
    secrets::build("default", "c", "c-ca".to_owned(), data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ca_signs_clients_after_being_read_back() {
        let now: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
        let ca = authority("kubernetes", now).expect("a CA");
        assert!(ca.key.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
        let expires = "2027-11-15T12:00:00Z".parse().expect("a time");
        let client = client(&ca, "kubernetes-admin", "system:masters", expires, now).expect("a certificate");
        assert!(client.certificate.contains("BEGIN CERTIFICATE"));
        let garbage = Pair { certificate: "x".to_owned(), key: ca.key };
        assert!(matches!(super::client(&garbage, "a", "b", expires, now), Err(MakeError::Authority)));
    }

    #[test]
    fn service_account_keys_come_with_their_public_half() {
        let pair = signing_pair().expect("a key");
        assert!(pair.certificate.starts_with("-----BEGIN PUBLIC KEY-----"));
        assert!(KeyPair::from_pem(&pair.key).is_ok());
    }
}
