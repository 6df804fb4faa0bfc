//! Artifacts: files that are too large for a plan, identified by their digest and downloaded from one of several
//! sources.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::TcpAddress;
use super::address::Address;
use crate::{Digest, MachinePath, Mode, SecretText};

/// A file, or a folder that an archive is unpacked into. It is installed atomically. Everything below the folder
/// belongs to the plan and is removed with it. It is never changed, so another version has another path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Artifact {
    /// Digest of the downloaded file. A file with another digest is discarded.
    pub sha256: Digest,

    /// Exact size of the downloaded file in bytes.
    pub size: u64,

    /// Download sources. They are tried in this order, and again in each retry of the step. They are not inputs of the
    /// step, because the digest identifies the content.
    pub sources: Vec<Source>,

    /// Path to install at. Missing parent folders are created, and belong to the plan as long as the artifact does.
    pub path: MachinePath,

    /// Format of the archive. If absent, the file is installed as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpack: Option<Unpack>,

    /// Permissions of the file, or of the folder itself. Files in the folder have the mode from the archive, without
    /// the bits beyond `0777`.
    pub mode: Mode,

    /// User ID of the owner of the file, or of the folder and everything in it.
    pub owner: u32,

    /// Group ID of the file, or of the folder and everything in it.
    pub group: u32,
}

/// Archive formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unpack {
    /// A tar archive, compressed with gzip.
    TarGz,
    /// A tar archive, compressed with Zstandard.
    TarZst,
}

/// A source of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// URL of the artifact.
    pub url: SourceUrl,

    /// CA bundle, in PEM, that replaces the machine's trust store for this server. If absent, the machine's trust store
    /// is used. For `https` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,

    /// HTTP proxy that the server is reached through, with the request `CONNECT`. If absent, the server is reached directly. For
    /// `https` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<SourceProxy>,
}

/// An HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SourceProxy {
    /// Its host and port.
    pub address: TcpAddress,

    /// The credentials for it. If absent, it requires none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ProxyCredentials>,
}

/// User name and password for a proxy, for HTTP basic authentication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProxyCredentials {
    /// The user name.
    pub username: String,

    /// The password. It never appears in a report.
    pub password: SecretText,
}

impl Source {
    /// A source that is verified with the machine's trust store.
    pub const fn new(url: SourceUrl) -> Self {
        Self { url, ca: None, proxy: None }
    }
}

/// Error: the text is not a valid URL of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a source must be https://host[:port]/path in at most 2048 plain ASCII characters, without user, password or \
     fragment, or file:///path in its one spelling"
)]
pub struct SourceUrlError;

/// Error: the text is not a valid `https` URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an address must be https://host[:port]/path in at most 2048 plain ASCII characters, without user, password or fragment"
)]
pub struct HttpsUrlError;

/// URL of an artifact.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SourceUrl {
    /// On a server. Redirects are not followed.
    Https(HttpsUrl),
    /// A file on the machine itself.
    File(MachinePath),
}

/// An `https` URL.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpsUrl(Address);

impl HttpsUrl {
    /// Parses the URL.
    ///
    /// # Errors
    /// If it is not valid, or its scheme is not `https`.
    pub fn new(text: impl Into<String>) -> Result<Self, HttpsUrlError> {
        Address::new(text.into(), "https://", 443).map(Self).ok_or(HttpsUrlError)
    }

    /// Parses a URL that is not in a plan, such as the target of a redirect, which may carry a signature: at most 16 KiB.
    ///
    /// # Errors
    /// If it is not valid, or its scheme is not `https`.
    pub fn long(text: impl Into<String>) -> Result<Self, HttpsUrlError> {
        Address::within(16 * 1024, text.into(), "https://", 443).map(Self).ok_or(HttpsUrlError)
    }

    /// Host name or IP address; an IPv6 address without its brackets.
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

impl TryFrom<String> for HttpsUrl {
    type Error = HttpsUrlError;

    fn try_from(text: String) -> Result<Self, HttpsUrlError> {
        Self::new(text)
    }
}

impl From<HttpsUrl> for String {
    fn from(url: HttpsUrl) -> Self {
        url.0.into_string()
    }
}

impl fmt::Display for HttpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

const FILE: &str = "file://";

impl SourceUrl {
    /// Parses the URL.
    ///
    /// # Errors
    /// If it is not valid.
    pub fn new(text: impl Into<String>) -> Result<Self, SourceUrlError> {
        let text = text.into();
        if let Some(path) = text.strip_prefix(FILE) {
            return MachinePath::new(path).map(Self::File).map_err(|_| SourceUrlError);
        }
        HttpsUrl::new(text).map(Self::Https).map_err(|_| SourceUrlError)
    }
}

impl TryFrom<String> for SourceUrl {
    type Error = SourceUrlError;

    fn try_from(text: String) -> Result<Self, SourceUrlError> {
        Self::new(text)
    }
}

impl std::str::FromStr for SourceUrl {
    type Err = SourceUrlError;

    fn from_str(text: &str) -> Result<Self, SourceUrlError> {
        Self::new(text)
    }
}

impl From<SourceUrl> for String {
    fn from(url: SourceUrl) -> Self {
        url.to_string()
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Https(url) => f.write_str(url.0.as_str()),
            Self::File(path) => write!(f, "{FILE}{path}"),
        }
    }
}

impl fmt::Debug for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl fmt::Debug for HttpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_apart() {
        let url = SourceUrl::new("https://mirror.example:8443/k3s/v1?a=b").expect("a place");
        assert_eq!(url.to_string(), "https://mirror.example:8443/k3s/v1?a=b");
        let SourceUrl::Https(url) = url else { panic!("{url:?}") };
        assert_eq!((url.host(), url.port(), url.path()), ("mirror.example", 8443, "/k3s/v1?a=b"));
        let SourceUrl::Https(url) = SourceUrl::new("https://[::1]/").expect("a place") else { panic!() };
        assert_eq!((url.host(), url.port(), url.authority()), ("::1", 443, "[::1]"));
        let file = SourceUrl::new("file:///srv/k3s.tar.zst").expect("a place");
        assert_eq!(file, SourceUrl::File(MachinePath::new("/srv/k3s.tar.zst").expect("a path")));
        assert_eq!(file.to_string(), "file:///srv/k3s.tar.zst");
    }

    #[test]
    fn targets_of_redirects_may_be_longer() {
        let url = format!("https://a/b?signature={}", "x".repeat(4000));
        assert!(HttpsUrl::new(url.clone()).is_err());
        assert_eq!(HttpsUrl::long(url.clone()).expect("a URL").to_string(), url);
        for bad in
            ["http://a/b".to_owned(), "https://a".to_owned(), format!("https://a/{}", "x".repeat(16 * 1024))]
        {
            assert!(HttpsUrl::long(bad).is_err());
        }
    }

    #[test]
    fn other_places_are_refused() {
        for bad in [
            "",
            "http://a/b",
            "ftp://a/b",
            "https://a",
            "https://u:p@a/b",
            "https://a/#f",
            "https://a/b c",
            "HTTPS://a/b",
            "file://host/path",
            "file:///",
            "file:///a/../b",
            "file:///a//b",
            "/a",
        ] {
            assert_eq!(SourceUrl::new(bad), Err(SourceUrlError), "{bad:?}");
        }
    }
}
