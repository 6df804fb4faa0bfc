//! Kubernetes versions, as far as they can be compared.

use std::fmt;

/// A version such as `v1.36.0+k3s1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    /// What stands after the numbers: builds of one version differ in it and cannot be ordered by anybody.
    rest: String,
}

impl Version {
    /// The version, if the text is one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let end = text.find(['-', '+']).unwrap_or(text.len());
        let mut numbers = text[..end].split('.').map(|part| part.parse().ok());
        let (major, minor, patch) = (numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then(|| Self { major, minor, patch, rest: text[end..].to_owned() })
    }

    /// Numbers only, to be compared.
    pub const fn numbers(&self) -> (u64, u64, u64) {
        (self.major, self.minor, self.patch)
    }

    /// Major and minor.
    pub const fn minor(&self) -> (u64, u64) {
        (self.major, self.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}{}", self.major, self.minor, self.patch, self.rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        for text in ["v1.36.0+k3s1", "v1.36.0", "v1.36.10-rc.1+k3s1"] {
            assert_eq!(Version::parse(text).map(|version| version.to_string()).as_deref(), Some(text));
        }
        for bad in ["", "v1", "v1.36", "v1.x.0", "v1.36.0.1", "latest"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
        let numbers = |text| Version::parse(text).map(|version| version.numbers());
        assert!(numbers("v1.36.2+k3s1") > numbers("v1.36.1+k3s9"));
        assert!(numbers("v1.36.10") > numbers("v1.36.9"));
    }
}
