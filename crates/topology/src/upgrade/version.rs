//! Kubernetes versions, of which builds cannot always be ordered: `+k3s1` and `+rke2r1` differ, and that is all.

use super::UpgradeError;
use semver::{BuildMetadata, Prerelease, Version};
use std::cmp::Ordering;

/// How two versions relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first is older.
    Less,
    /// Both are the same.
    Equal,
    /// The first is newer.
    Greater,
    /// Both are builds of one version, and neither is newer.
    Different,
}

/// A version with or without a leading `v`. Minor and patch may be absent, and numbers may have leading zeros.
///
/// # Errors
/// If the text is not a version.
pub fn parse(text: &str) -> Result<Version, UpgradeError> {
    tolerant(text).ok_or_else(|| UpgradeError::NotAVersion(text.to_string()))
}

fn tolerant(text: &str) -> Option<Version> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (text, pre) = text.split_once('-').map_or((text, None), |(text, pre)| (text, Some(pre)));
    let parts: Vec<&str> = text.split('.').collect();
    let has_rest = pre.is_some() || build.is_some();
    if parts.len() > 3 || (parts.len() < 3 && has_rest) {
        return None;
    }
    let mut numbers = [0; 3];
    for (number, part) in numbers.iter_mut().zip(&parts) {
        *number = part.chars().all(|digit| digit.is_ascii_digit()).then(|| part.parse().ok()).flatten()?;
    }
    let is_sound = |part: Option<&str>| part != Some("");
    if !is_sound(pre) || !is_sound(build) {
        return None;
    }
    Some(Version {
        major: numbers[0],
        minor: numbers[1],
        patch: numbers[2],
        pre: Prerelease::new(pre.unwrap_or_default()).ok()?,
        build: BuildMetadata::new(build.unwrap_or_default()).ok()?,
    })
}

/// Compares versions and then their builds, part by part. Numbers are ordered and come before texts; texts are not
/// ordered; of two builds of which one begins with the other, the longer is newer.
pub fn order(a: &Version, b: &Version) -> Order {
    match a.cmp_precedence(b) {
        Ordering::Less => return Order::Less,
        Ordering::Greater => return Order::Greater,
        Ordering::Equal => {}
    }
    let parts = |version: &Version| -> Vec<String> {
        let build = version.build.as_str();
        build.split('.').filter(|_| !build.is_empty()).map(ToString::to_string).collect()
    };
    let (a, b) = (parts(a), parts(b));
    for (a, b) in a.iter().zip(&b) {
        match (number(a), number(b)) {
            (Some(a), Some(b)) if a < b => return Order::Less,
            (Some(a), Some(b)) if a > b => return Order::Greater,
            (Some(_), Some(_)) => {}
            (Some(_), None) => return Order::Less,
            (None, Some(_)) => return Order::Greater,
            (None, None) if a != b => return Order::Different,
            (None, None) => {}
        }
    }
    match a.len().cmp(&b.len()) {
        Ordering::Less => Order::Less,
        Ordering::Equal => Order::Equal,
        Ordering::Greater => Order::Greater,
    }
}

fn number(part: &str) -> Option<u64> {
    part.chars().all(|digit| digit.is_ascii_digit()).then(|| part.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_far_as_they_can_be() {
        for (a, b, expected) in [
            ("v1.30.0", "1.30.0", Order::Equal),
            ("v1.30", "v1.30.0", Order::Equal),
            ("v1.30.0", "v1.30.1", Order::Less),
            ("v1.31.0-rc.1", "v1.31.0", Order::Less),
            ("v1.30.0+k3s1", "v1.30.0+k3s2", Order::Different),
            ("v1.30.0+k3s1", "v1.30.0+k3s1", Order::Equal),
            ("v1.30.0+build.2", "v1.30.0+build.10", Order::Less),
            ("v1.30.0", "v1.30.0+k3s1", Order::Less),
            ("v1.30.0+1", "v1.30.0+k3s1", Order::Less),
            ("v1.30.1+k3s1", "v1.30.0+k3s2", Order::Greater),
        ] {
            let (first, second) = (parse(a).expect(a), parse(b).expect(b));
            assert_eq!(order(&first, &second), expected, "{a} {b}");
        }
        for bad in ["", "v", "v1.x", "1.30.0.1", "latest", "v1.30+k3s1", "v1.30.0-", "v1.30.0+"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
