//! Addresses of checks and probes, parsed once and strictly: URLs of plain HTTP, and ports of TCP.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::address::Address;

/// Not a valid URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an address must be http://host[:port]/path in at most 2048 plain ASCII characters, without user, password or \
     fragment"
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

/// Not a valid address of a TCP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address must be host:port in plain ASCII characters; put an IPv6 address into brackets")]
pub struct TcpAddressError;

/// A host and a port.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TcpAddress(Address);

const TCP: &str = "tcp://";

impl TcpAddress {
    /// Parses `host:port`.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn new(text: impl AsRef<str>) -> Result<Self, TcpAddressError> {
        let text = text.as_ref();
        // There is no default: port 0 is rejected.
        let address = Address::new(format!("{TCP}{text}/"), TCP, 0);
        address.filter(|address| address.authority() == text).map(Self).ok_or(TcpAddressError)
    }

    /// Host name or IP address; an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.0.port()
    }
}

impl TryFrom<String> for TcpAddress {
    type Error = TcpAddressError;

    fn try_from(text: String) -> Result<Self, TcpAddressError> {
        Self::new(text)
    }
}

impl std::str::FromStr for TcpAddress {
    type Err = TcpAddressError;

    fn from_str(text: &str) -> Result<Self, TcpAddressError> {
        Self::new(text)
    }
}

impl From<TcpAddress> for String {
    fn from(address: TcpAddress) -> Self {
        address.to_string()
    }
}

impl fmt::Debug for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.authority())
    }
}

impl fmt::Display for TcpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.authority())
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

    #[test]
    fn ports_of_tcp_are_taken_apart_and_others_refused() {
        for (text, host, port) in
            [("127.0.0.1:6443", "127.0.0.1", 6443), ("[::1]:22", "::1", 22), ("localhost:1", "localhost", 1)]
        {
            let address = TcpAddress::new(text).expect(text);
            assert_eq!((address.host(), address.port(), address.to_string().as_str()), (host, port, text));
        }
        for bad in [
            "", "a", "a:", ":1", "a:0", "a:65536", "a:1/", "a:1/b", "[::1]", "::1:22", "u@a:1", "a:1#",
            "a b:1",
        ] {
            assert_eq!(TcpAddress::new(bad), Err(TcpAddressError), "{bad:?}");
        }
    }
}
