//! The number of hosts that a machine made from a template could claim. Pure.

use capstan_api::infrastructure::{Host, HostCluster, HostMachineTemplate};
use std::sync::Arc;

use crate::host::is_reachability_known;
use crate::hostmachine::Obstacle;
use crate::selector::HostSelectors;

/// Inputs of the decision.
pub struct Observed<'a> {
    /// The template.
    pub template: &'a HostMachineTemplate,
    /// The HostCluster of the owning Cluster, whose selector applies too.
    pub host_cluster: Option<&'a HostCluster>,
    /// All hosts of the namespace.
    pub hosts: &'a [Arc<Host>],
}

/// Number of hosts that a machine can claim now. `None` while that is unknown: a selector is invalid, or no host can
/// be claimed and the reachability of one is unknown.
pub fn decide(seen: &Observed<'_>) -> Option<usize> {
    let of_cluster = seen.host_cluster.and_then(|host_cluster| host_cluster.spec.host_selector.as_ref());
    let selectors = HostSelectors::default()
        .and("spec.hostSelector of the HostCluster", of_cluster)
        .and_then(|selectors| {
            let selector = seen.template.spec.template.spec.host_selector.as_ref();
            selectors.and("spec.template.spec.hostSelector", selector)
        })
        .ok()?;
    let wanted: Vec<&Host> =
        seen.hosts.iter().map(AsRef::as_ref).filter(|host| selectors.match_host(host)).collect();
    let claimable = wanted.iter().filter(|host| Obstacle::of(host).is_none()).count();
    let is_unknown =
        |host: &&Host| Obstacle::of(host) == Some(Obstacle::Unreachable) && !is_reachability_known(host);
    (claimable > 0 || !wanted.iter().any(is_unknown)).then_some(claimable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_api::infrastructure::HostClusterSpec;
    use serde_json::{Value, json};

    fn host(name: &str, spec: &Value, labels: &Value) -> Host {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "Host",
            "metadata": {"name": name, "labels": labels}, "spec": spec,
        }))
        .expect("a Host")
    }

    fn claimable(template: &Value, host_cluster: Option<&Value>, hosts: &[Host]) -> Option<usize> {
        let template: HostMachineTemplate = serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "HostMachineTemplate",
            "metadata": {"name": "t"}, "spec": {"template": {"spec": {"hostSelector": template}}},
        }))
        .expect("a HostMachineTemplate");
        let host_cluster = host_cluster.map(|selector| {
            let selector = serde_json::from_value(selector.clone()).expect("a selector");
            HostCluster::new("hc", HostClusterSpec { host_selector: Some(selector), ..Default::default() })
        });
        let hosts: Vec<Arc<Host>> = hosts.iter().cloned().map(Arc::new).collect();
        decide(&Observed { template: &template, host_cluster: host_cluster.as_ref(), hosts: &hosts })
    }

    #[test]
    fn hosts_that_match_and_are_free_are_counted() {
        let simulated = json!({"simulated": {}});
        let ssd = json!({"disk": "ssd"});
        let hosts = [
            host("a", &simulated, &ssd),
            host("b", &simulated, &json!({})),
            host("c", &json!({"simulated": {}, "unschedulable": true}), &ssd),
        ];
        let by_label = json!({"matchLabels": ssd});
        assert_eq!(claimable(&json!(null), None, &hosts), Some(2));
        assert_eq!(claimable(&by_label, None, &hosts), Some(1));
        assert_eq!(claimable(&json!(null), Some(&by_label), &hosts), Some(1));
        assert_eq!(claimable(&by_label, Some(&json!({"matchLabels": {"disk": "tape"}})), &hosts), Some(0));
        let nonsense = json!({"matchExpressions": [{"key": "disk", "operator": "Like"}]});
        assert_eq!(claimable(&nonsense, None, &hosts), None, "a selector that means nothing");
    }

    #[test]
    fn a_host_that_was_never_asked_is_not_known_to_be_missing() {
        let over_ssh = json!({"ssh": {
            "address": "192.0.2.1", "port": 22, "user": "root", "credentialsRef": {"name": "s"},
            "trustOnFirstUse": true}});
        let asked = |status: &str| {
            let mut host = host("a", &over_ssh, &json!({}));
            host.status = serde_json::from_value(json!({"conditions": [{
                "type": "Reachable", "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
            .ok();
            host
        };
        assert_eq!(claimable(&json!(null), None, &[asked("Unknown")]), None);
        assert_eq!(claimable(&json!(null), None, &[asked("False")]), Some(0));
        assert_eq!(claimable(&json!(null), None, &[asked("True")]), Some(1));
    }
}
