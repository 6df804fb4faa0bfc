//! Volumes that are on one Node of a workload cluster and cannot be reached without it.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::ResourceExt as _;

pub use capstan_planner::facts::LocalVolumes;

/// Label of a Node by which local volumes name it.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Sorts volumes that only one Node can reach by that Node. A volume that several Nodes can reach is not lost with one.
pub(super) fn by_node(volumes: &[PersistentVolume]) -> LocalVolumes {
    let mut found = LocalVolumes::new();
    for volume in volumes {
        let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
        let terms = affinity
            .and_then(|affinity| affinity.required.as_ref())
            .map(|required| &required.node_selector_terms);
        let expressions =
            terms.into_iter().flatten().filter_map(|term| term.match_expressions.as_ref()).flatten();
        let mut nodes = expressions
            .filter(|expression| expression.key == HOSTNAME && expression.operator == "In")
            .flat_map(|expression| expression.values.clone().unwrap_or_default());
        if let (Some(node), None) = (nodes.next(), nodes.next()) {
            found.entry(node).or_default().push(volume.name_any());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(name: &str, nodes: &[&str]) -> PersistentVolume {
        let terms: Vec<_> = nodes
            .iter()
            .map(|node| json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}))
            .collect();
        let affinity = (!nodes.is_empty()).then(|| json!({"required": {"nodeSelectorTerms": terms}}));
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"nodeAffinity": affinity}}))
            .expect("a volume")
    }

    #[test]
    fn only_volumes_of_one_node_are_lost_with_it() {
        let found = by_node(&[
            volume("a", &["n1"]),
            volume("b", &["n1"]),
            volume("c", &["n1", "n2"]),
            volume("d", &[]),
        ]);
        assert_eq!(found, LocalVolumes::from([("n1".to_owned(), vec!["a".to_owned(), "b".to_owned()])]));
    }
}
