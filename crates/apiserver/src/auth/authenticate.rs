//! From a certificate or a token to a user.

use std::collections::HashMap;

use http::{HeaderMap, header::AUTHORIZATION};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::User;
use crate::status::{ApiError, Result};

/// The user a verified client certificate stands for: common name and organizations.
pub(crate) fn certificate_user(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject.iter_organization().filter_map(|organization| organization.as_str().ok());
    Some(User::new(name, groups))
}

/// Who sends a request: the certificate's user, else the token's, else nobody. A token nobody knows is
/// refused.
pub(crate) fn user(
    certificate: Option<&User>,
    headers: &HeaderMap,
    tokens: &HashMap<String, User>,
) -> Result<User> {
    if let Some(user) = certificate {
        return Ok(user.clone());
    }
    let Some(header) = headers.get(AUTHORIZATION) else {
        return Ok(User::anonymous());
    };
    let token = header.to_str().ok().and_then(|header| header.strip_prefix("Bearer "));
    token.and_then(|token| tokens.get(token.trim())).cloned().ok_or_else(ApiError::unauthorized)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_tokens_and_nobody() {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "jane");
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "ops");
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = parameters.self_signed(&key).unwrap();
        let jane = certificate_user(certificate.der()).unwrap();
        assert_eq!(jane, User::new("jane", ["ops"]));

        let tokens = HashMap::from([("secret".to_owned(), User::admin())]);
        let mut headers = HeaderMap::new();
        assert_eq!(user(None, &headers, &tokens).unwrap(), User::anonymous());
        headers.insert(AUTHORIZATION, "Bearer secret".parse().unwrap());
        assert_eq!(user(None, &headers, &tokens).unwrap(), User::admin());
        assert_eq!(user(Some(&jane), &headers, &tokens).unwrap(), jane);
        headers.insert(AUTHORIZATION, "Bearer wrong".parse().unwrap());
        assert_eq!(user(None, &headers, &tokens).unwrap_err().code(), 401);
    }
}
