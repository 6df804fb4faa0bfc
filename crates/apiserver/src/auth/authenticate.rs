//! From a certificate or a token to a user.

use http::{HeaderMap, header::AUTHORIZATION};
use jiff::Timestamp;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{User, service_account::Authenticated};
use crate::{
    plane::Plane,
    status::{ApiError, Result},
};

/// What a connection has shown. It is judged again at every request: a connection may outlive it.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// No certificate.
    Nothing,
    /// A certificate that we do not believe.
    Disbelieved,
    /// A certificate that our clients' authority signed.
    Certificate { user: User, from: i64, until: i64 },
}

impl Shown {
    /// What a certificate stands for, whoever signed it: common name and organizations. Nothing if there are
    /// two names: one reader would take the first and another the last.
    pub(crate) fn certificate(der: &[u8]) -> Self {
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
            Some(Self::Certificate { user, from, until })
        };
        read().unwrap_or(Self::Disbelieved)
    }
}

fn fingerprint(der: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Who sends a request: the certificate's user, else the token's, else nobody. A credential that is not
/// believed is refused rather than ignored.
pub(crate) fn user(plane: &Plane, shown: &Shown, headers: &HeaderMap) -> Result<User> {
    let now = plane.now();
    if let Some(user) = by_certificate(shown, now) {
        return Ok(user);
    }
    match (headers.get(AUTHORIZATION), shown) {
        (Some(header), _) => {
            let token = header.to_str().ok().and_then(|header| header.strip_prefix("Bearer "));
            let found = token.map(|token| by_token(plane, now, token.trim(), &plane.issuer.audiences()));
            match found {
                Some(Ok(Authenticated { user, .. })) => Ok(user),
                Some(Err(why)) => {
                    tracing::debug!(why, "a token is refused");
                    Err(ApiError::unauthorized())
                }
                None => Err(ApiError::unauthorized()),
            }
        }
        (None, Shown::Nothing) => Ok(User::anonymous()),
        (None, _) => Err(ApiError::unauthorized()),
    }
}

fn by_certificate(shown: &Shown, now: Timestamp) -> Option<User> {
    match shown {
        Shown::Certificate { user, from, until } if (*from..=*until).contains(&now.as_second()) => {
            Some(user.clone())
        }
        _ => None,
    }
}

/// Whose token this is, if it is meant for one of the audiences; or why it is nobody's.
pub(crate) fn by_token(
    plane: &Plane,
    now: Timestamp,
    token: &str,
    audiences: &[String],
) -> Result<Authenticated, String> {
    if let Some(user) = plane.tokens.get(token) {
        let own = plane.issuer.audiences();
        let audiences: Vec<String> =
            own.into_iter().filter(|audience| audiences.contains(audience)).collect();
        if !audiences.is_empty() {
            return Ok(Authenticated { user: user.clone(), audiences });
        }
    }
    match plane.issuer.authenticate(&plane.store, now, token, audiences) {
        None => Err("invalid bearer token".to_owned()),
        Some(Ok(authenticated)) => Ok(authenticated),
        Some(Err(why)) => Err(format!("[invalid bearer token, {why}]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Storage};

    fn certificate(name: &str) -> Shown {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "ops");
        let key = rcgen::KeyPair::generate().unwrap();
        Shown::certificate(parameters.self_signed(&key).unwrap().der())
    }

    #[test]
    fn certificates_tokens_and_nobody() {
        let mut options = Options::new(Storage::Memory);
        options.tokens.insert("secret".to_owned(), User::admin());
        let plane = Plane::open(options).unwrap();
        let find = |shown: &Shown, token: &str| {
            let mut headers = HeaderMap::new();
            if !token.is_empty() {
                headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            }
            user(&plane, shown, &headers).map_err(|error| error.code().as_u16())
        };
        let jane = certificate("jane");
        for token in ["", "secret", "wrong"] {
            let found = find(&jane, token).unwrap();
            assert_eq!((found.name.as_str(), found.is_in("ops")), ("jane", true));
        }
        assert_eq!(find(&Shown::Nothing, ""), Ok(User::anonymous()));
        assert_eq!(find(&Shown::Nothing, "secret"), Ok(User::admin()));
        assert_eq!(find(&Shown::Nothing, "wrong"), Err(401));
        assert_eq!(find(&Shown::Disbelieved, ""), Err(401));
        assert_eq!(find(&Shown::Disbelieved, "secret"), Ok(User::admin()));
        let Shown::Certificate { user: jane, .. } = jane else { panic!("{jane:?}") };
        let expired = Shown::Certificate { user: jane, from: 0, until: 1 };
        assert_eq!(find(&expired, ""), Err(401), "a connection outlives its certificate");
    }
}
