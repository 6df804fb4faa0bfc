//! Impersonation, with the `Impersonate-` headers, for users with that right.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::authorize;
use crate::{
    rbac::Access,
    status::{ApiError, Result},
    store::Store,
    user::{ANONYMOUS, AUTHENTICATED, SERVICE_ACCOUNT, UNAUTHENTICATED, User},
};

const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The user a request acts as: its sender, or whom the headers name if the sender may.
pub(crate) fn user(store: &Store, sender: User, headers: &HeaderMap) -> Result<User> {
    let Some(wanted) = wanted(headers)? else { return Ok(sender) };
    let may = |group, resource, subresource, namespace, name| {
        let access = Access::Resource { verb: "impersonate", group, namespace, resource, subresource, name };
        authorize::require(store, &sender, &access)
    };
    match account(&wanted.name) {
        Some((namespace, name)) => may("", "serviceaccounts", "", namespace, name)?,
        None => may("", "users", "", "", &wanted.name)?,
    }
    for group in &wanted.groups {
        may("", "groups", "", "", group)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            may(AUTHENTICATION, "userextras", key, "", value)?;
        }
    }
    if !wanted.uid.is_empty() {
        may(AUTHENTICATION, "uids", "", "", &wanted.uid)?;
    }
    Ok(complete(wanted))
}

/// Whether a request has headers for impersonation.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}

/// What the headers say, to the letter.
fn wanted(headers: &HeaderMap) -> Result<Option<User>> {
    // Who cannot be read must not turn into nobody: the request would be its sender's.
    let texts = |name: &str| -> Result<Vec<String>> {
        let unreadable = |_| ApiError::bad_request(format!("the header {name} is not plain text"));
        let values = headers.get_all(name).iter();
        values.map(|value| Ok(value.to_str().map_err(unreadable)?.to_owned())).collect()
    };
    let first = |name: &str| Ok::<_, ApiError>(texts(name)?.into_iter().next().unwrap_or_default());
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            extra.insert(unescape(key), texts(name.as_str())?);
        }
    }
    let wanted = User {
        name: first("impersonate-user")?,
        groups: texts("impersonate-group")?,
        uid: first("impersonate-uid")?,
        extra,
    };
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    if !wanted.groups.is_empty() || !wanted.uid.is_empty() || !wanted.extra.is_empty() {
        return Err(ApiError::bad_request(
            "requested groups, uid or extra without impersonating a user name",
        ));
    }
    Ok(None)
}

/// Keys may hold what header names may not.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = key.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = tail.get(..2).filter(|_| *first == b'%').and_then(|hex| str::from_utf8(hex).ok());
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

/// The namespace and the name of a service account.
fn account(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Adds the groups that everybody of the sort is in, unless groups were named.
fn complete(mut wanted: User) -> User {
    if wanted.groups.is_empty()
        && let Some((namespace, name)) = account(&wanted.name)
    {
        wanted.groups = User::service_account(namespace, name, "").groups;
    }
    let is_in = |group| wanted.groups.iter().any(|own| own == group);
    let everybody = match wanted.name.as_str() {
        ANONYMOUS if !is_in(UNAUTHENTICATED) => Some(UNAUTHENTICATED),
        ANONYMOUS => None,
        _ if !is_in(AUTHENTICATED) && !is_in(UNAUTHENTICATED) => Some(AUTHENTICATED),
        _ => None,
    };
    wanted.groups.extend(everybody.map(str::to_owned));
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn headers_name_a_user() {
        assert_eq!(wanted(&headers(&[])).unwrap(), None);
        assert!(wanted(&headers(&[("impersonate-group", "g")])).is_err());
        let user = wanted(&headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("impersonate-extra-example.com%2fx", "1"),
        ]));
        let user = complete(user.unwrap().unwrap());
        assert_eq!(user.groups, ["a", "b", AUTHENTICATED]);
        assert_eq!(user.extra["example.com/x"], ["1"]);
    }

    #[test]
    fn everybody_is_in_their_groups() {
        let groups = |name: &str| {
            let user = User { name: name.to_owned(), groups: Vec::new(), ..User::anonymous() };
            complete(user).groups
        };
        assert_eq!(groups(ANONYMOUS), [UNAUTHENTICATED]);
        assert_eq!(groups("jane"), [AUTHENTICATED]);
        assert_eq!(
            groups("system:serviceaccount:ns:a"),
            ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]
        );
        assert_eq!(account("system:serviceaccount:ns:a:b"), None);
    }
}
