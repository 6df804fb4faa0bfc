//! Clusters on simulated hosts.

/// The kinds of objects of a cluster on hosts, except Secrets. Each object must exist again after a move.
pub const MOVED_KINDS: &str = "clusters,hostclusters,capstancontrolplanes,machinedeployments,machinesets,machines,\
                               hostmachines,hostmachinetemplates,capstanconfigs,capstanconfigtemplates,hosts,hostpools";

/// The manifest of a pool of hosts that boot quickly.
#[must_use]
pub fn simulated_hosts(count: usize) -> String {
    format!(
        "
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: HostPool
metadata: {{name: simulated, namespace: default}}
spec:
  replicas: {count}
  simulated: {{bootMilliseconds: 100, stepMilliseconds: 20}}
"
    )
}
