//! The serving certificate of a simulated API server, signed by the CA of its cluster.

use capstan_apiserver::Tls;
use capstan_pki::issue;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};
use std::collections::BTreeSet;

use super::config::Authorities;

/// Names every API server has.
const OWN_NAMES: [&str; 7] = [
    "127.0.0.1",
    "::1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// Makes a certificate for this start. The key never leaves memory.
///
/// # Errors
/// If the authority cannot sign. The words hold no key.
pub(super) fn serving(authorities: &Authorities) -> Result<Tls, String> {
    let unusable = |what: &str| format!("{what} under /var/lib/rancher/k3s/server/tls cannot be used");
    let key = KeyPair::from_pem(&authorities.server_ca_key).map_err(|_| unusable("server-ca.key"))?;
    let issuer =
        Issuer::from_ca_cert_pem(&authorities.server_ca, key).map_err(|_| unusable("server-ca.crt"))?;
    let names: BTreeSet<String> =
        OWN_NAMES.iter().map(ToString::to_string).chain(authorities.names.iter().cloned()).collect();
    let names: Vec<String> = names.into_iter().collect();
    let mut params = CertificateParams::new(names).map_err(|_| "a name in tls-san is none".to_owned())?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let own = issue::signed(&params, &issuer).map_err(|_| unusable("server-ca"))?;
    Ok(Tls { certificate: own.certificate, key: own.key, client_ca: Some(authorities.client_ca.clone()) })
}
