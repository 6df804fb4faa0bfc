//! What servers of images answer besides images: challenges, and redirects. Pure.

use capstan_plan::HttpsUrl;
use serde::Deserialize;
use std::fmt::Write as _;

/// A request has to say who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// With user and password.
    Basic,
    /// With a token.
    Bearer {
        /// The server that gives tokens.
        realm: HttpsUrl,
        /// For which service.
        service: Option<String>,
        /// For what.
        scope: Option<String>,
    },
}

/// Why a challenge is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    /// There is none, or none that is supported.
    #[error("it asks for a credential in a way that is not supported")]
    Unsupported,
    /// The server of tokens has no address over TLS.
    #[error("it names a token server that is not https://")]
    Realm,
}

impl Challenge {
    /// The first challenge in these headers that is supported; one for a token is preferred.
    ///
    /// # Errors
    /// If there is none.
    pub fn of<'a>(headers: impl Iterator<Item = &'a str>) -> Result<Self, ChallengeError> {
        let schemes: Vec<Scheme> = headers.flat_map(schemes).collect();
        let named = |name: &str| schemes.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name));
        if let Some(bearer) = named("bearer") {
            let realm = bearer.value("realm").unwrap_or_default();
            let after = realm.split_once("://").map_or("", |(_, after)| after);
            let realm = if after.contains('/') { realm.to_owned() } else { format!("{realm}/") };
            let realm = HttpsUrl::new(realm).map_err(|_| ChallengeError::Realm)?;
            let owned = |name: &str| bearer.value(name).filter(|text| !text.is_empty()).map(str::to_owned);
            return Ok(Self::Bearer { realm, service: owned("service"), scope: owned("scope") });
        }
        named("basic").map(|_| Self::Basic).ok_or(ChallengeError::Unsupported)
    }
}

/// Values of a request for a token, as a query or a form.
pub fn form(values: &[(&str, &str)]) -> String {
    let values: Vec<String> =
        values.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    values.join("&")
}

/// An address with more values in its query. `None`: it would be too long.
pub fn with_query(url: &HttpsUrl, query: &str) -> Option<HttpsUrl> {
    let sign = if url.path().contains('?') { '&' } else { '?' };
    HttpsUrl::long(format!("{url}{sign}{query}")).ok()
}

/// A text in the query of a URL.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The target of a redirect. `None`: it is not over TLS.
pub fn redirected(from: &HttpsUrl, location: &str) -> Option<HttpsUrl> {
    let location = location.split('#').next().unwrap_or_default();
    let next = if let Some(rest) = location.strip_prefix("//") {
        format!("https://{rest}")
    } else if location.starts_with('/') {
        format!("https://{}{location}", from.authority())
    } else {
        location.to_owned()
    };
    HttpsUrl::long(next).ok()
}

/// Whether two addresses are of the same server, which may then see the same credential.
pub fn is_same_server(a: &HttpsUrl, b: &HttpsUrl) -> bool {
    a.host().eq_ignore_ascii_case(b.host()) && a.port() == b.port()
}

/// The code of the first error in the body of an answer, such as `MANIFEST_UNKNOWN`. Nothing else of it is repeated: it may
/// contain what was sent.
pub fn code(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Error>,
    }
    #[derive(Deserialize)]
    struct Error {
        code: String,
    }
    let code = serde_json::from_slice::<Errors>(body).ok()?.errors.into_iter().next()?.code;
    let is_code = code.len() <= 40 && code.bytes().all(|c| c.is_ascii_uppercase() || c == b'_');
    is_code.then_some(code).filter(|code| !code.is_empty())
}

/// The token in the answer of a server of tokens.
pub fn token(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Answer {
        token: Option<String>,
        access_token: Option<String>,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    let tokens = [answer.token, answer.access_token];
    tokens
        .into_iter()
        .flatten()
        .find(|token| !token.is_empty() && token.bytes().all(|c| c.is_ascii_graphic()))
}

/// A scheme of a header, with its parameters.
struct Scheme {
    name: String,
    values: Vec<(String, String)>,
}

impl Scheme {
    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The schemes of one header: `Name key=value, key="value", Other`.
fn schemes(header: &str) -> Vec<Scheme> {
    let mut schemes: Vec<Scheme> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        if end == 0 {
            return schemes;
        }
        let word = &rest[..end];
        rest = rest[end..].trim_start_matches([' ', '\t']);
        match (rest.strip_prefix('='), schemes.last_mut()) {
            (Some(after), Some(scheme)) => {
                let (value, after) = value(after.trim_start_matches([' ', '\t']));
                scheme.values.push((word.to_owned(), value));
                rest = after;
            }
            (Some(_), None) => return schemes,
            (None, _) => schemes.push(Scheme { name: word.to_owned(), values: Vec::new() }),
        }
    }
}

/// A value, quoted or not, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HttpsUrl {
        HttpsUrl::long(text).expect(text)
    }

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        Challenge::Bearer {
            realm: url(realm),
            service: service.map(Into::into),
            scope: scope.map(Into::into),
        }
    }

    #[test]
    fn challenges_are_read() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let table: &[(&[&str], Result<Challenge, ChallengeError>)] = &[
            (
                &[hub],
                Ok(bearer(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:a/b:pull,push"),
                )),
            ),
            (&["bearer REALM=https://a/t , service = x"], Ok(bearer("https://a/t", Some("x"), None))),
            (&[r#"Bearer realm="https://a""#], Ok(bearer("https://a/", None, None))),
            (
                &[r#"Basic realm="a, b", Bearer realm="https://a/t",scope="""#],
                Ok(bearer("https://a/t", None, None)),
            ),
            (&["Negotiate", r#"Basic realm="a \" Bearer""#], Ok(Challenge::Basic)),
            (&["basic"], Ok(Challenge::Basic)),
            (&[r#"Bearer realm="http://a/t""#], Err(ChallengeError::Realm)),
            (&[r#"Bearer realm="https://u:p@a/t""#], Err(ChallengeError::Realm)),
            (&["Bearer"], Err(ChallengeError::Realm)),
            (&["Negotiate"], Err(ChallengeError::Unsupported)),
            (&["=x", "", ",,,", "\""], Err(ChallengeError::Unsupported)),
            (&[], Err(ChallengeError::Unsupported)),
        ];
        for (headers, expected) in table {
            assert_eq!(Challenge::of(headers.iter().copied()), *expected, "{headers:?}");
        }
    }

    #[test]
    fn redirects_stay_on_tls() {
        let from = url("https://a:5000/v2/x/blobs/y?q");
        for (location, expected) in [
            ("/z?q", Some("https://a:5000/z?q")),
            ("//b/z", Some("https://b/z")),
            ("https://b/z?signature=%2F#f", Some("https://b/z?signature=%2F")),
            ("http://a:5000/z", None),
            ("file:///etc/passwd", None),
            ("https://u:p@b/z", None),
            ("z", None),
            ("", None),
        ] {
            assert_eq!(redirected(&from, location), expected.map(url), "{location}");
        }
        assert!(is_same_server(&from, &url("https://A:5000/")));
        assert!(
            !is_same_server(&from, &url("https://a/")) && !is_same_server(&from, &url("https://b:5000/"))
        );
    }

    #[test]
    fn bodies_are_not_repeated() {
        let error = |code: &str| format!(r#"{{"errors":[{{"code":"{code}","message":"hunter2"}}]}}"#);
        assert_eq!(code(error("MANIFEST_UNKNOWN").as_bytes()).as_deref(), Some("MANIFEST_UNKNOWN"));
        for bad in [
            error("hunter2"),
            error(""),
            error(&"X".repeat(41)),
            "hunter2".to_owned(),
            r#"{"errors":[]}"#.to_owned(),
        ] {
            assert_eq!(code(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(token(br#"{"token":"a","access_token":"b"}"#).as_deref(), Some("a"));
        assert_eq!(token(br#"{"token":"","access_token":"b"}"#).as_deref(), Some("b"));
        for bad in [&br#"{"token":"a\nb"}"#[..], b"{}", b"[]", b""] {
            assert_eq!(token(bad), None);
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(
            form(&[("service", "a b"), ("scope", "repository:x/y:pull")]),
            "service=a%20b&scope=repository%3Ax%2Fy%3Apull"
        );
        assert_eq!(with_query(&url("https://a/t"), "x=1"), Some(url("https://a/t?x=1")));
        assert_eq!(with_query(&url("https://a/t?y=2"), "x=1"), Some(url("https://a/t?y=2&x=1")));
        assert_eq!(with_query(&url("https://a/t"), &"x".repeat(20_000)), None);
    }
}
