//! Authentication: from a client certificate or a token to a user.

use http::{HeaderMap, header::AUTHORIZATION};
use jiff::Timestamp;

use crate::{
    auth::{client_certificate::ClientCertificate, service_account::Authenticated},
    authority::BACKDATE,
    plane::Plane,
    status::{ApiError, Result},
    user::User,
};

/// The user of a request: that of the certificate, else that of the token, else anonymous. An invalid credential is rejected
/// and not ignored.
pub(crate) fn user(plane: &Plane, certificate: &ClientCertificate, headers: &HeaderMap) -> Result<User> {
    let now = plane.now();
    if let Some(user) = by_certificate(plane, certificate, now) {
        return Ok(user);
    }
    match (headers.get(AUTHORIZATION), certificate) {
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
        (None, ClientCertificate::Absent) => Ok(User::anonymous()),
        (None, _) => Err(ApiError::unauthorized()),
    }
}

fn by_certificate(plane: &Plane, certificate: &ClientCertificate, now: Timestamp) -> Option<User> {
    let ClientCertificate::Trusted { user, from, until } = certificate else { return None };
    let is_valid = (*from..=*until).contains(&now.as_second());
    // Every certificate that the client CA signs begins some time before it is issued.
    let issued = from.saturating_add(BACKDATE.as_secs());
    (is_valid && !plane.revocations.cover(&plane.store, user, issued)).then(|| user.clone())
}

/// The user of a token that is valid for one of the audiences, or why it is not valid.
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
            return Ok(Authenticated { user: user.clone(), audiences, issued: None });
        }
    }
    match plane.issuer.authenticate(&plane.store, now, token, audiences) {
        None => Err("invalid bearer token".to_owned()),
        Some(Ok(authenticated)) => {
            let issued = authenticated.issued.unwrap_or(i64::MIN);
            if plane.revocations.cover(&plane.store, &authenticated.user, issued) {
                return Err("[invalid bearer token, the token has been revoked]".to_owned());
            }
            Ok(authenticated)
        }
        Some(Err(why)) => Err(format!("[invalid bearer token, {why}]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Storage};

    fn self_signed(name: &str) -> ClientCertificate {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "ops");
        let key = rcgen::KeyPair::generate().unwrap();
        ClientCertificate::from_der(parameters.self_signed(&key).unwrap().der())
    }

    #[test]
    fn certificates_tokens_and_anonymous() {
        let mut options = Options::new(Storage::Memory);
        options.tokens.insert("secret".to_owned(), User::admin());
        let plane = Plane::open(options).unwrap();
        let find = |certificate: &ClientCertificate, token: &str| {
            let mut headers = HeaderMap::new();
            if !token.is_empty() {
                headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            }
            user(&plane, certificate, &headers).map_err(|error| error.code())
        };
        let jane = self_signed("jane");
        for token in ["", "secret", "wrong"] {
            let found = find(&jane, token).unwrap();
            assert_eq!((found.name.as_str(), found.is_in("ops")), ("jane", true));
        }
        assert_eq!(find(&ClientCertificate::Absent, ""), Ok(User::anonymous()));
        assert_eq!(find(&ClientCertificate::Absent, "secret"), Ok(User::admin()));
        assert_eq!(find(&ClientCertificate::Absent, "wrong"), Err(401));
        assert_eq!(find(&ClientCertificate::Untrusted, ""), Err(401));
        assert_eq!(find(&ClientCertificate::Untrusted, "secret"), Ok(User::admin()));
        let ClientCertificate::Trusted { user: jane, .. } = jane else { panic!("{jane:?}") };
        let expired = ClientCertificate::Trusted { user: jane, from: 0, until: 1 };
        assert_eq!(find(&expired, ""), Err(401), "a connection outlives its certificate");
    }
}
