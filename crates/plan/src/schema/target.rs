//! Targets of checks and probes.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::Argv;
use super::address::Address;
use crate::StepName;

/// The target of a check or a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// A command, which succeeds with exit code 0. It must have no effects.
    Exec(Argv),
    /// A GET request, which succeeds with a status of 200 to 299. Redirects are not followed.
    Http(HttpUrl),
}

/// A probe that runs after the last step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probe {
    /// Its name, unique among the probes of the plan.
    pub name: StepName,

    /// The target.
    pub target: Target,

    /// Interval between two runs.
    pub interval_seconds: u32,

    /// Timeout of one run.
    pub timeout_seconds: u32,

    /// Consecutive successes that make it healthy.
    pub success_threshold: u32,

    /// Consecutive failures that make it unhealthy.
    pub failure_threshold: u32,
}

impl Probe {
    /// A probe with an interval of ten seconds, healthy after one success, unhealthy after three failures.
    pub const fn new(name: StepName, target: Target) -> Self {
        Self {
            name,
            target,
            interval_seconds: 10,
            timeout_seconds: 5,
            success_threshold: 1,
            failure_threshold: 3,
        }
    }
}

/// Not a valid URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an address must be http://host[:port]/path in at most 2048 plain ASCII characters, without user, password or \
     fragment; https is not supported yet, use a command"
)]
pub struct UrlError;

/// An `http` URL.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpUrl(Address);

impl HttpUrl {
    /// Parses the URL.
    ///
    /// # Errors
    /// If it is not valid, or its scheme is not `http`.
    pub fn new(text: impl Into<String>) -> Result<Self, UrlError> {
        Address::new(text.into(), "http://", 80).map(Self).ok_or(UrlError)
    }

    /// The URL as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Host name or IP address; an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// Port to connect to.
    pub const fn port(&self) -> u16 {
        self.0.port()
    }

    /// The value of the `Host` header.
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        self.0.path()
    }
}

impl TryFrom<String> for HttpUrl {
    type Error = UrlError;

    fn try_from(text: String) -> Result<Self, UrlError> {
        Self::new(text)
    }
}

impl From<HttpUrl> for String {
    fn from(url: HttpUrl) -> Self {
        url.0.into_string()
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (text, host, port, authority, path) in [
            ("http://127.0.0.1:10248/healthz", "127.0.0.1", 10248, "127.0.0.1:10248", "/healthz"),
            ("http://localhost/", "localhost", 80, "localhost", "/"),
            ("http://[::1]:8080/a?b=c", "::1", 8080, "[::1]:8080", "/a?b=c"),
            ("http://[::1]/", "::1", 80, "[::1]", "/"),
        ] {
            let url = HttpUrl::new(text).expect(text);
            assert_eq!((url.host(), url.port(), url.authority(), url.path()), (host, port, authority, path));
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for bad in [
            "",
            "https://a/",
            "http://a",
            "http:///",
            "http://:80/",
            "http://a:0/",
            "http://a:65536/",
            "http://a:b/",
            "http://u:p@a/",
            "http://[zz]/",
            "http://[::1/",
            "http://::1/",
            "http://a/b c",
            "http://a/\r\nX: y",
            "http://a/#f",
            "http://ä/",
        ] {
            assert_eq!(HttpUrl::new(bad), Err(UrlError), "{bad:?}");
        }
    }
}
