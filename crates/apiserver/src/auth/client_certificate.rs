//! Client certificates: from a certificate to a user.

use x509_parser::prelude::{FromDer, X509Certificate};

use crate::user::User;

/// The client certificate of a connection. Its validity is checked at every request: a connection may outlive it.
#[derive(Clone, Debug)]
pub(crate) enum ClientCertificate {
    /// The client sent no certificate.
    Absent,
    /// The certificate does not chain to the client CA bundle, or has no usable subject.
    Untrusted,
    /// The client CA signed the certificate. `from` and `until` are its validity in Unix seconds.
    Trusted { user: User, from: i64, until: i64 },
}

impl ClientCertificate {
    /// Reads common name and organizations, without verification of the signature. A certificate with two common names is
    /// untrusted: one parser would use the first and another the last.
    pub(crate) fn from_der(der: &[u8]) -> Self {
        let read = || {
            let (_, certificate) = X509Certificate::from_der(der).ok()?;
            let subject = certificate.subject();
            let mut names = subject.iter_common_name();
            let name = names.next()?.as_str().ok().filter(|name| !name.is_empty())?;
            if names.next().is_some() {
                return None;
            }
            let groups = subject.iter_organization().filter_map(|organization| organization.as_str().ok());
            let validity = certificate.validity();
            let user = User::new(name, groups).with_credential(format!("X509SHA256={}", fingerprint(der)));
            let (from, until) = (validity.not_before.timestamp(), validity.not_after.timestamp());
            Some(Self::Trusted { user, from, until })
        };
        read().unwrap_or(Self::Untrusted)
    }
}

fn fingerprint(der: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
