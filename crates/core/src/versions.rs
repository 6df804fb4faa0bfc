//! Kubernetes versions of many machines, counted. Pure.

use capstan_api::core::Machine;
use capstan_api::meta::StatusVersion;
use capstan_text::Version;
use std::cmp::Ordering;

/// One entry for each version of the machines: that of the Node, or that of the spec if there is no Node.
pub fn of_machines<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Vec<StatusVersion> {
    aggregate(machines.into_iter().filter_map(|machine| {
        let kubelet = machine.status.as_ref().and_then(|status| status.node_info.as_ref());
        let kubelet = kubelet.map(|info| info.kubelet_version.clone()).filter(|version| !version.is_empty());
        let version = kubelet.or_else(|| machine.spec.version.clone())?;
        Some(StatusVersion { version, replicas: Some(1) })
    }))
}

/// Merges entries of the same version, oldest version first.
pub fn aggregate(versions: impl IntoIterator<Item = StatusVersion>) -> Vec<StatusVersion> {
    let mut counted: Vec<StatusVersion> = Vec::new();
    for next in versions.into_iter().filter(|next| !next.version.is_empty()) {
        match counted.iter_mut().find(|seen| seen.version == next.version) {
            Some(seen) => {
                seen.replicas = Some(seen.replicas.unwrap_or_default() + next.replicas.unwrap_or_default());
            }
            None => counted.push(next),
        }
    }
    counted.sort_by(|a, b| compare(&a.version, &b.version));
    counted
}

/// Older before newer; what is no version comes last, by name.
fn compare(a: &str, b: &str) -> Ordering {
    match (Version::parse(a), Version::parse(b)) {
        (Some(left), Some(right)) => left.cmp(&right).then_with(|| a.cmp(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_counted_and_sorted() {
        let version =
            |version: &str, replicas| StatusVersion { version: version.into(), replicas: Some(replicas) };
        let counted = aggregate([
            version("v1.36.1", 1),
            version("nonsense", 1),
            version("v1.9.0", 2),
            version("v1.36.1", 2),
            version("v1.36.1-rc.1", 1),
            version("", 4),
        ]);
        let expected =
            [version("v1.9.0", 2), version("v1.36.1-rc.1", 1), version("v1.36.1", 3), version("nonsense", 1)];
        assert_eq!(counted, expected);
    }
}
