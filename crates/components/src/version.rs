//! Release versions.

use std::fmt;
use std::str::FromStr;

use crate::series::{SERIES, serves};

/// A release version, such as `v0.1.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) patch: u32,
}

/// Why a text is not a valid release version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The text does not have the form of a version.
    #[error("{0:?} is not the version of a release: write it as vX.Y.Z, such as v0.1.0")]
    Form(String),

    /// The version belongs to a series that `metadata.yaml` does not list. clusterctl looks up the series.
    #[error(
        "{version} belongs to the series {}.{}, which metadata.yaml does not name (it has {}): add the series first",
        .version.major, .version.minor, known()
    )]
    Series {
        /// The version.
        version: Version,
    },
}

fn known() -> String {
    let names: Vec<String> = SERIES.iter().map(|(major, minor, _)| format!("{major}.{minor}")).collect();
    names.join(", ")
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let parsed = capstan_text::Version::parse_with_v(text).filter(capstan_text::Version::is_plain);
        let parsed = parsed.and_then(|version| {
            let (major, minor, patch) = version.numbers();
            let number = |number: u64| u32::try_from(number).ok();
            Some(Self { major: number(major)?, minor: number(minor)?, patch: number(patch)? })
        });
        let version = parsed.ok_or_else(|| VersionError::Form(text.to_owned()))?;
        match serves(version) {
            Some(_) => Ok(version),
            None => Err(VersionError::Series { version }),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_written_in_one_way() {
        assert_eq!("v0.1.12".parse::<Version>().map(|version| version.to_string()), Ok("v0.1.12".to_owned()));
        for wrong in
            ["", "v", "0.1.0", "v0.1", "v0.1.0.0", "v0.1.x", "v0.01.0", "v0.1.0-rc.1", "v0.1.+1", "v 0.1.0"]
        {
            let error = wrong.parse::<Version>().expect_err("no version");
            assert_eq!(error, VersionError::Form(wrong.to_owned()));
            assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn a_version_needs_its_series() {
        let error = "v7.3.0".parse::<Version>().expect_err("no such series");
        assert_eq!(
            error.to_string(),
            "v7.3.0 belongs to the series 7.3, which metadata.yaml does not name (it has 0.1): add the series first"
        );
    }
}
