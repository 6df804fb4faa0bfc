//! Paths and permissions on a machine.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Not a valid path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a path must be absolute and plain: no empty, `.` or `..` part, no control character, no `/` at the end, \
     parts of at most 255 bytes and at most 4095 in all"
)]
pub struct PathError;

/// An absolute path on a machine in canonical form: without empty segments, `.` and `..`, and not `/`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MachinePath(String);

impl MachinePath {
    /// Parses a path.
    ///
    /// # Errors
    /// If it is not absolute and canonical.
    pub fn new(text: impl Into<String>) -> Result<Self, PathError> {
        let text = text.into();
        let plain = |part: &str| (1..=255).contains(&part.len()) && part != "." && part != "..";
        match text.strip_prefix('/') {
            Some(rest)
                if text.len() <= 4095
                    && rest.split('/').all(plain)
                    && !text.chars().any(char::is_control) =>
            {
                Ok(Self(text))
            }
            _ => Err(PathError),
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its segments, the outermost first.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').skip(1)
    }

    /// Its last segment.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The folder it is in; `None` if that is `/`.
    pub fn parent(&self) -> Option<Self> {
        match self.0.rfind('/') {
            None | Some(0) => None,
            Some(end) => Some(Self(self.0[..end].to_owned())),
        }
    }

    /// Whether it is in that folder, at any depth.
    pub fn is_within(&self, folder: &Self) -> bool {
        self.0.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl TryFrom<String> for MachinePath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        Self::new(text)
    }
}

impl std::str::FromStr for MachinePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::new(text)
    }
}

impl From<MachinePath> for String {
    fn from(path: MachinePath) -> Self {
        path.0
    }
}

impl fmt::Display for MachinePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MachinePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Not a valid mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a mode must be four octal digits from 0000 to 0777: a plan sets no set-user-ID, set-group-ID or sticky bit"
)]
pub struct ModeError;

/// File permissions. Written as four octal digits, because a number in JSON is decimal and `644` would be misread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mode(u16);

impl Mode {
    /// The owner may read and write.
    pub const PRIVATE: Self = Self(0o600);
    /// The owner may read and write, all others read.
    pub const READABLE: Self = Self(0o644);
    /// The owner may read, write and execute, all others read and execute: programs and folders.
    pub const EXECUTABLE: Self = Self(0o755);

    /// The mode with these bits.
    ///
    /// # Errors
    /// If there is a bit beyond `0777`.
    pub const fn new(bits: u32) -> Result<Self, ModeError> {
        if bits > 0o777 { Err(ModeError) } else { Ok(Self(bits as u16)) }
    }

    /// Its bits.
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }
}

impl TryFrom<String> for Mode {
    type Error = ModeError;

    fn try_from(text: String) -> Result<Self, ModeError> {
        if text.len() != 4 || !text.bytes().all(|digit| (b'0'..=b'7').contains(&digit)) {
            return Err(ModeError);
        }
        u32::from_str_radix(&text, 8).map_err(|_| ModeError).and_then(Self::new)
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        mode.to_string()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_spelling() {
        for good in ["/a", "/etc/rancher/k3s/config.yaml", "/a b/ü", "/..."] {
            assert!(MachinePath::new(good).is_ok(), "{good}");
        }
        let long = format!("/{}", "a".repeat(256));
        for bad in
            ["", "/", "a", "a/b", "/a/", "//a", "/a//b", "/.", "/a/../b", "/a/./b", "/a\n", "/a\0b", &long]
        {
            assert_eq!(MachinePath::new(bad), Err(PathError), "{bad:?}");
        }
    }

    #[test]
    fn paths_know_their_parents() {
        let path = MachinePath::new("/etc/k3s/a").expect("a path");
        let etc = MachinePath::new("/etc").expect("a path");
        assert_eq!(path.name(), "a");
        assert_eq!(path.parts().collect::<Vec<_>>(), ["etc", "k3s", "a"]);
        assert_eq!(path.parent().and_then(|parent| parent.parent()), Some(etc.clone()));
        assert_eq!(etc.parent(), None);
        assert!(path.is_within(&etc));
        assert!(!etc.is_within(&etc));
        assert!(!MachinePath::new("/etcetera").expect("a path").is_within(&etc));
    }

    #[test]
    fn modes_are_octal_text() {
        let read = |text: &str| Mode::try_from(text.to_owned());
        assert_eq!(read("0644"), Ok(Mode::READABLE));
        assert_eq!(Mode::READABLE.to_string(), "0644");
        for bad in ["644", "00644", "0888", "4755", "", "+644", "0x1f"] {
            assert_eq!(read(bad), Err(ModeError), "{bad}");
        }
    }
}
