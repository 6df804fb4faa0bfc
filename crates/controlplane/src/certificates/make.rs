//! Generates keys and certificates. No I/O; randomness comes from the operating system.

use capstan_controller::identity;
use capstan_controller::secrets::{self, Purpose, pair, plan_key};
use capstan_pki::issue::{self, Identity, utc_date};
use capstan_pki::{der, pem};
use capstan_plan::SigningKey;
use jiff::{Timestamp, ToSpan as _};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RsaKeySize,
};

use super::decide::FIRST_EPOCH;

/// Validity of a CA.
const CA_YEARS: i64 = 10;

/// Why a key or certificate could not be generated. Contains no key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MakeError {
    /// The certificate library returns an error.
    #[error("cannot make a key or certificate")]
    Library(#[from] rcgen::Error),
    /// The system clock is out of range.
    #[error("cannot count on the clock")]
    Clock(#[from] jiff::Error),
    /// A CA that the user provides cannot be used.
    #[error("the CA or its key cannot be read: it must be one certificate and one unencrypted key as PEM")]
    Authority,
    /// A key that the user provides cannot be used.
    #[error("the library gave a key in an unknown form")]
    Key,
}

/// A new CA with an ECDSA key, as k3s generates: an RSA key takes a thousand times as long.
pub(crate) fn authority(name: &str, now: Timestamp) -> Result<Identity, MakeError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = issue::subject(name, None);
    issue::valid_until(&mut params, now, utc_date(now).checked_add(CA_YEARS.years())?)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&key)?.pem();
    Ok(Identity { certificate, key: key.serialize_pem() })
}

/// A new RSA key, because not every verifier of tokens supports other keys, and its public key in the place of the
/// certificate.
pub(crate) fn signing_pair() -> Result<Identity, MakeError> {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?;
    Ok(Identity { certificate: key.public_key_pem(), key: pkcs1_pem(&key)? })
}

/// A client certificate, signed by the CA, valid until `expires`.
pub(crate) fn client(
    ca: &Identity,
    user: &str,
    group: &str,
    expires: Timestamp,
    now: Timestamp,
) -> Result<Identity, MakeError> {
    let issuer = issue::issuer(ca).map_err(|_| MakeError::Authority)?;
    let subject = issue::subject(user, Some(group));
    let mut params = issue::end_entity(subject, &[], ExtendedKeyUsagePurpose::ClientAuth)?;
    issue::valid_until(&mut params, now, utc_date(expires))?;
    Ok(issue::signed(&params, &issuer)?)
}

/// An RSA key in the form that Cluster API writes: PKCS#1, which PKCS#8 wraps.
fn pkcs1_pem(key: &KeyPair) -> Result<String, MakeError> {
    let pkcs1 = unwrapped(key.serialized_der()).ok_or(MakeError::Key)?;
    Ok(pem::encode("RSA PRIVATE KEY", pkcs1))
}

/// The key inside PKCS#8: the last element of `SEQUENCE { INTEGER, SEQUENCE, OCTET STRING }`.
fn unwrapped(pkcs8: &[u8]) -> Option<&[u8]> {
    let outer = der::read(der::SEQUENCE, pkcs8)?.content;
    let rest = der::read(der::INTEGER, outer)?.rest;
    let rest = der::read(der::SEQUENCE, rest)?.rest;
    Some(der::read(der::OCTET_STRING, rest)?.content)
}

/// The content of a Secret, by key.
type Data = Vec<(&'static str, Vec<u8>)>;

/// The content of a new Secret. An RSA key takes some hundred milliseconds.
pub(crate) fn contents(purpose: Purpose, now: Timestamp) -> Result<Data, MakeError> {
    let pair_of = |pair: Identity| {
        vec![(pair::CERTIFICATE, pair.certificate.into_bytes()), (pair::KEY, pair.key.into_bytes())]
    };
    Ok(match purpose {
        Purpose::Ca => pair_of(authority("kubernetes", now)?),
        Purpose::Etcd => pair_of(authority("etcd-ca", now)?),
        Purpose::Proxy => pair_of(authority("front-proxy-ca", now)?),
        Purpose::ServiceAccounts => pair_of(signing_pair()?),
        Purpose::Token => {
            let token = || identity::random_secret().into_bytes();
            vec![(secrets::VALUE, token()), (secrets::AGENT_TOKEN, token())]
        }
        Purpose::Kubeconfig => vec![(secrets::VALUE, identity::random_secret().into_bytes())],
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

/// A CA for tests of other modules.
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
        assert!(ca.key.starts_with("-----BEGIN PRIVATE KEY-----"), "PKCS#8");
        let expires = "2027-11-15T12:00:00Z".parse().expect("a time");
        let client = client(&ca, "kubernetes-admin", "system:masters", expires, now).expect("a certificate");
        assert!(client.certificate.contains("BEGIN CERTIFICATE"));
        let garbage = Identity { certificate: "x".to_owned(), key: ca.key };
        assert!(matches!(super::client(&garbage, "a", "b", expires, now), Err(MakeError::Authority)));
    }

    #[test]
    fn service_account_keys_come_with_their_public_half() {
        let pair = signing_pair().expect("a key");
        assert!(pair.certificate.starts_with("-----BEGIN PUBLIC KEY-----"));
        assert!(KeyPair::from_pem(&pair.key).is_ok());
    }
}
