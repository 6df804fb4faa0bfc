//! Artifacts: what is too large for a plan, named by its digest and fetched from wherever it lies.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::address::Address;
use crate::{Digest, MachinePath, Mode};

/// A file, or a folder that an archive is unpacked into. It is there whole or not at all. Everything below the
/// folder belongs to the plan and leaves the machine with it; it is never changed, so another version is another
/// path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Artifact {
    /// Digest of what is fetched. What has another one is thrown away.
    pub sha256: Digest,

    /// Exact number of bytes that are fetched.
    pub size: u64,

    /// Where it lies. Tried in this order, and all of them again where the step is retried. They do not count as
    /// inputs: the digest says what it is.
    pub sources: Vec<Source>,

    /// Where it is put. Missing folders on the way are made, and belong to the plan as long as it does.
    pub path: MachinePath,

    /// What sort of archive it is. It is put there as it is, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpack: Option<Unpack>,

    /// Who may read, write and execute the file, or the folder itself. What is in the folder has the mode that the
    /// archive says, without the bits beyond `0777`.
    pub mode: Mode,

    /// User ID of the owner, of the folder and of everything in it.
    pub owner: u32,

    /// ID of the group, of the folder and of everything in it.
    pub group: u32,
}

/// Sorts of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unpack {
    /// A tar archive, compressed with gzip.
    TarGz,
    /// A tar archive, compressed with Zstandard.
    TarZst,
}

/// A place where an artifact lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// Its address.
    pub url: SourceUrl,

    /// Certificates, in PEM, of the only authorities whose word on the server is believed. Those that the machine
    /// trusts anyway, if absent. For `https` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

impl Source {
    /// A place that is believed as the machine believes others.
    pub const fn new(url: SourceUrl) -> Self {
        Self { url, ca: None }
    }
}

/// A text that is no place to fetch from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a source must be https://host[:port]/path in at most 2048 plain ASCII characters, without user, password or \
     fragment, or file:///path in its one spelling"
)]
pub struct SourceUrlError;

/// Where an artifact lies.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SourceUrl {
    /// On a server. Redirections are not followed.
    Https(HttpsUrl),
    /// On the machine itself.
    File(MachinePath),
}

/// An `https` address.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpsUrl(Address);

impl HttpsUrl {
    /// Host name or IP address; an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        self.0.host()
    }

    /// Port to connect to.
    pub const fn port(&self) -> u16 {
        self.0.port()
    }

    /// What stands in the `Host` header.
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        self.0.path()
    }
}

const FILE: &str = "file://";

impl SourceUrl {
    /// The place, if the text names one.
    ///
    /// # Errors
    /// If it does not.
    pub fn new(text: impl Into<String>) -> Result<Self, SourceUrlError> {
        let text = text.into();
        if let Some(path) = text.strip_prefix(FILE) {
            return MachinePath::new(path).map(Self::File).map_err(|_| SourceUrlError);
        }
        Address::new(text, "https://", 443).map(HttpsUrl).map(Self::Https).ok_or(SourceUrlError)
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
