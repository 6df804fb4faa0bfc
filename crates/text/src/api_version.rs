//! The order of API versions in Kubernetes: `v2` before `v1` before `v1beta2` before `v1beta1` before `v1alpha1`, and any
//! other name last.

use std::cmp::{Ordering, Reverse};

/// The preferred version comes first; names that are not versions are in alphabetical order.
pub fn compare(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability (2 is the best), major, minor.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    for (word, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, major.parse().ok()?, minor.parse().ok()?));
        }
    }
    Some((2, rest.parse().ok()?, 0))
}

#[cfg(test)]
mod tests {
    #[test]
    fn stable_first_then_newest() {
        let mut versions = vec!["v1alpha1", "foo1", "v1", "v1beta2", "v11alpha2", "v2", "v1beta1", "bar"];
        versions.sort_by(|a, b| super::compare(a, b));
        assert_eq!(versions, ["v2", "v1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha1", "bar", "foo1"]);
    }
}
