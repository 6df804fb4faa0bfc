//! Semantic versions as Kubernetes and its distributions write them.

use std::fmt;

/// A version such as `v1.36.0+k3s1`. Ordered as semver orders it, with builds of one version after each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(semver::Version);

impl Version {
    /// The version, if the text is one, with or without its leading `v`.
    pub fn parse(text: &str) -> Option<Self> {
        semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok().map(Self)
    }

    /// The version, if the text is one with its leading `v`.
    pub fn parse_with_v(text: &str) -> Option<Self> {
        text.strip_prefix('v').and_then(|number| semver::Version::parse(number).ok()).map(Self)
    }

    /// Major, minor and patch version: what every distribution orders its releases by.
    pub const fn numbers(&self) -> (u64, u64, u64) {
        (self.0.major, self.0.minor, self.0.patch)
    }

    /// Major and minor version.
    pub const fn minor(&self) -> (u64, u64) {
        (self.0.major, self.0.minor)
    }

    /// Whether it has neither a prerelease (`-rc.1`) nor a build (`+k3s1`).
    pub fn is_plain(&self) -> bool {
        self.0.pre.is_empty() && self.0.build.is_empty()
    }

    /// All parts, without the leading `v` in their text.
    pub fn into_semver(self) -> semver::Version {
        self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "v{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_written() {
        for text in ["v1.36.0+k3s1", "v1.36.0", "v1.36.10-rc.1+k3s1"] {
            assert_eq!(Version::parse(text).map(|version| version.to_string()).as_deref(), Some(text));
            assert_eq!(Version::parse(&text[1..]), Version::parse(text));
            assert_eq!(Version::parse_with_v(text), Version::parse(text));
            assert_eq!(Version::parse_with_v(&text[1..]), None);
        }
        for bad in
            ["", "v", "v1", "v1.36", "v1.x.0", "v1.36.0.1", "v01.36.0", "vv1.36.0", "v1.36.0+", "latest"]
        {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn versions_are_compared() {
        let version = |text: &str| Version::parse(text).expect("a version");
        let sorted = ["v1.9.3", "v1.36.1-rc.1", "v1.36.1", "v1.36.1+k3s1", "v1.36.1+k3s2", "v1.36.10"];
        assert!(sorted.is_sorted_by_key(|text| version(text)));
        assert!(version("v1.36.2+k3s1").numbers() > version("v1.36.1+k3s9").numbers());
        assert_eq!(version("v1.36.2+k3s1").minor(), (1, 36));
        assert!(version("v1.36.2").is_plain());
        assert!(!version("v1.36.2+k3s1").is_plain() && !version("v1.36.2-rc.1").is_plain());
    }
}
