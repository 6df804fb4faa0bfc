//! Counts Machines and ready Machines from the events of a watch. This module does no I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The label that says which cluster a Machine belongs to.
const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";

/// One Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Machine {
    cluster: String,
    version: String,
    is_ready: bool,
}

/// The desired Machines of each cluster.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Number of Machines.
    pub machines: usize,
    /// Kubernetes version, if it must match.
    pub version: Option<&'a str>,
}

/// All Machines of a plane.
#[derive(Clone, Debug, Default)]
pub struct Census {
    machines: BTreeMap<String, Machine>,
    ever: BTreeSet<String>,
}

impl Census {
    /// Records the state of a Machine.
    pub fn seen(&mut self, name: &str, uid: &str, labels: &BTreeMap<String, String>, object: &Value) {
        let machine = Machine {
            cluster: labels.get(CLUSTER).cloned().unwrap_or_default(),
            version: object["spec"]["version"].as_str().unwrap_or_default().to_owned(),
            is_ready: is_ready(object),
        };
        self.ever.insert(uid.to_owned());
        self.machines.insert(name.to_owned(), machine);
    }

    /// Records that a Machine is deleted.
    pub fn gone(&mut self, name: &str) {
        self.machines.remove(name);
    }

    /// Removes all Machines except these, after a new list.
    pub fn only(&mut self, names: &BTreeSet<String>) {
        self.machines.retain(|name, _| names.contains(name));
    }

    /// Number of Machines.
    pub fn machines(&self) -> usize {
        self.machines.len()
    }

    /// Number of Machines that have existed, including deleted ones.
    pub fn ever(&self) -> usize {
        self.ever.len()
    }

    /// Number of clusters with exactly the desired Machines, all of them ready.
    pub fn ready_clusters(&self, wanted: Wanted<'_>) -> usize {
        let mut clusters = BTreeMap::<&str, (usize, usize)>::new();
        for machine in self.machines.values() {
            let (all, good) = clusters.entry(&machine.cluster).or_default();
            *all += 1;
            let is_good = machine.is_ready && wanted.version.is_none_or(|version| machine.version == version);
            *good += usize::from(is_good);
        }
        clusters.values().filter(|(all, good)| *all == wanted.machines && all == good).count()
    }

    /// Number of ready Machines of one cluster.
    pub fn ready_machines(&self, cluster: &str) -> usize {
        self.machines.values().filter(|machine| machine.cluster == cluster && machine.is_ready).count()
    }

    /// Number of ready Machines.
    pub fn all_ready_machines(&self) -> usize {
        self.machines.values().filter(|machine| machine.is_ready).count()
    }
}

/// Running, ready, and with a Node.
fn is_ready(object: &Value) -> bool {
    let status = &object["status"];
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    status["phase"] == "Running"
        && status["nodeRef"]["name"].is_string()
        && conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(version: &str, ready: &str) -> Value {
        json!({
            "spec": {"version": version},
            "status": {
                "phase": "Running", "nodeRef": {"name": "n"}, "conditions": [{"type": "Ready", "status": ready}],
            },
        })
    }

    #[test]
    fn clusters_are_ready_when_all_their_machines_are() {
        let mut census = Census::default();
        let mut see = |name: &str, cluster: &str, version: &str, ready: &str| {
            let labels = BTreeMap::from([(CLUSTER.to_owned(), cluster.to_owned())]);
            census.seen(name, name, &labels, &machine(version, ready));
            census.ready_clusters(Wanted { machines: 2, version: None })
        };
        assert_eq!(see("a1", "a", "v1", "True"), 0);
        assert_eq!(see("a2", "a", "v1", "False"), 0);
        assert_eq!(see("a2", "a", "v2", "True"), 1);
        assert_eq!(see("b1", "b", "v2", "True"), 1);
        assert_eq!(see("b2", "b", "v2", "True"), 2);
        assert_eq!(census.ready_clusters(Wanted { machines: 2, version: Some("v2") }), 1);
        assert_eq!((census.ready_machines("b"), census.all_ready_machines()), (2, 4));
        census.gone("b1");
        assert_eq!((census.machines(), census.ever()), (3, 4));
        assert_eq!(census.ready_clusters(Wanted { machines: 2, version: None }), 1);
        census.only(&BTreeSet::from(["a1".to_owned()]));
        assert_eq!((census.machines(), census.ever()), (1, 4));
    }

    #[test]
    fn a_machine_without_a_node_is_not_ready() {
        let mut object = machine("v1", "True");
        assert!(is_ready(&object));
        object["status"]["nodeRef"] = Value::Null;
        assert!(!is_ready(&object));
        assert!(!is_ready(&json!({})));
    }
}
