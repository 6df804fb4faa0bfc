//! The cost of a version change.

use super::Cost;
use crate::Version;

/// From one version to another.
pub(super) fn cost(old: Option<&str>, new: Option<&str>) -> (Cost, &'static str) {
    let (Some(old), Some(new)) = (old.and_then(Version::parse), new.and_then(Version::parse)) else {
        return (Cost::Refused, "is not a Kubernetes version: write it like v1.36.0+k3s1");
    };
    let ((old_major, old_minor), (major, minor)) = (old.minor(), new.minor());
    if new.minor() < old.minor() {
        (Cost::Refused, "Kubernetes cannot go back to an earlier minor version: restore a snapshot instead")
    } else if major != old_major || minor > old_minor + 1 {
        (Cost::Refused, "Kubernetes goes from one minor version to the next: go there step by step")
    } else {
        (Cost::DrainAndRestart, "another version is installed and started")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_go_forward_one_minor_at_a_time() {
        for (old, new, expected) in [
            ("v1.36.0+k3s1", "v1.36.1+k3s1", Cost::DrainAndRestart),
            ("v1.36.1+k3s1", "v1.36.0+k3s1", Cost::DrainAndRestart),
            ("v1.36.0+k3s1", "v1.36.0+k3s2", Cost::DrainAndRestart),
            ("v1.35.9+k3s1", "v1.36.0+k3s1", Cost::DrainAndRestart),
            ("v1.34.0+k3s1", "v1.36.0+k3s1", Cost::Refused),
            ("v1.36.0+k3s1", "v1.35.0+k3s1", Cost::Refused),
            ("v1.36.0+k3s1", "v2.0.0", Cost::Refused),
            ("v1.36.0", "latest", Cost::Refused),
        ] {
            assert_eq!(cost(Some(old), Some(new)).0, expected, "{old} -> {new}");
        }
    }
}
