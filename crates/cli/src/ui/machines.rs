//! The machines of one cluster, or of all.

use anyhow::Result;
use capstan_api::core::{Cluster, Machine};
use capstan_api::meta::labels::CONTROL_PLANE;
use capstan_ui::model::{ClusterRow, Tone, Waiting};
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Seen;
use super::fleet::row as cluster_row;
use super::machine::phase_tone;
use super::objects::{Objects, value};
use super::text::{cluster_waits, machine_waits};
use crate::describe::Snapshot;

/// Machines, control plane machines of a cluster before its workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machines {
    /// Their cluster, if only its machines are shown.
    pub(crate) cluster: Option<ClusterRow>,
    pub(crate) machines: Vec<MachineRow>,
    /// What could not be read, with the reason.
    pub(crate) notices: Vec<String>,
}

/// A machine as a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MachineRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) is_server: bool,
    pub(crate) phase: String,
    pub(crate) tone: Tone,
    pub(crate) version: String,
    pub(crate) node: String,
    pub(crate) host: String,
    pub(crate) waiting: Option<Waiting>,
}

/// Machines as rows. What a machine waits for is determined only for those that are seen.
pub(super) async fn list(
    objects: &Objects,
    of: Option<(&str, &str)>,
    seen: &Seen,
    now: Timestamp,
) -> Result<Machines> {
    let mut machines = match of {
        Some((namespace, cluster)) => objects.machines.of_cluster(namespace, cluster).await?,
        None => objects.machines.all().await?,
    };
    machines.sort_by_cached_key(|machine| key(machine));
    let cluster = match of {
        Some((namespace, name)) => objects.clusters.get(namespace, name).await?,
        None => None,
    };
    let cluster = match cluster {
        Some(cluster) => {
            let waiting = cluster_waits(&objects.snapshot(&cluster).await?, now);
            Some(ClusterRow { waiting, ..cluster_row(&cluster) })
        }
        None => None,
    };
    let mut snapshots = Snapshots { objects, taken: BTreeMap::new() };
    let mut rows = Vec::new();
    for machine in &machines {
        let snapshot = match seen.has(&**machine) {
            true => snapshots.of(machine).await?,
            false => None,
        };
        let waiting = snapshot.and_then(|snapshot| machine_waits(snapshot, &value(&**machine), now));
        rows.push(MachineRow { waiting, host: host(objects, machine).await?, ..row(machine) });
    }
    Ok(Machines { cluster, machines: rows, notices: objects.notices.clone() })
}

/// Control plane machines first, as they are made and changed first.
fn key(machine: &Machine) -> (String, String, bool, String) {
    let cluster = machine.spec.cluster_name.clone();
    (machine.namespace().unwrap_or_default(), cluster, !is_server(machine), machine.name_any())
}

fn is_server(machine: &Machine) -> bool {
    machine.labels().contains_key(CONTROL_PLANE)
}

/// A machine as a row, without its host and what it waits for.
fn row(machine: &Machine) -> MachineRow {
    let status = machine.status.as_ref();
    let phase = match machine.metadata.deletion_timestamp {
        Some(_) => "Deleting".to_owned(),
        None => status.and_then(|status| status.phase).map(|phase| format!("{phase:?}")).unwrap_or_default(),
    };
    MachineRow {
        namespace: machine.namespace().unwrap_or_default(),
        name: machine.name_any(),
        cluster: machine.spec.cluster_name.clone(),
        is_server: is_server(machine),
        tone: phase_tone(&phase),
        phase,
        version: machine.spec.version.clone().unwrap_or_default(),
        node: status
            .and_then(|status| status.node_ref.as_ref())
            .map(|node| node.name.clone())
            .unwrap_or_default(),
        host: String::new(),
        waiting: None,
    }
}

/// The host that a machine has claimed; none on the infrastructure of another provider.
async fn host(objects: &Objects, machine: &Machine) -> Result<String> {
    let namespace = machine.namespace().unwrap_or_default();
    let claim = objects.host_machines.get(&namespace, &machine.spec.infrastructure_ref.name).await?;
    Ok(claim.and_then(|claim| claim.spec.host_name.clone()).unwrap_or_default())
}

/// One snapshot for all machines of a cluster.
struct Snapshots<'a> {
    objects: &'a Objects,
    taken: BTreeMap<(String, String), Option<Snapshot>>,
}

impl Snapshots<'_> {
    async fn of(&mut self, machine: &Machine) -> Result<Option<&Snapshot>> {
        let key = (machine.namespace().unwrap_or_default(), machine.spec.cluster_name.clone());
        if !self.taken.contains_key(&key) {
            let cluster: Option<Arc<Cluster>> = self.objects.clusters.get(&key.0, &key.1).await?;
            let snapshot = match cluster {
                Some(cluster) => Some(self.objects.snapshot(&cluster).await?),
                None => None,
            };
            self.taken.insert(key.clone(), snapshot);
        }
        Ok(self.taken.get(&key).and_then(Option::as_ref))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn machine(name: &str, labels: &Value) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": {"clusterName": "shop", "version": "v1.36.0", "bootstrap": {"dataSecretName": "x"},
                "infrastructureRef": {"apiGroup": "g", "kind": "HostMachine", "name": name}},
            "status": {"phase": "Running", "nodeRef": {"name": "node-1"}},
        }))
        .expect("a Machine")
    }

    #[test]
    fn servers_come_before_workers() {
        let mut machines =
            [machine("a", &json!({})), machine("b", &json!({"cluster.x-k8s.io/control-plane": ""}))];
        machines.sort_by_key(key);
        assert_eq!(machines.map(|machine| machine.name_any()), ["b", "a"]);
    }

    #[test]
    fn a_row_has_phase_version_and_node() {
        let row = row(&machine("a", &json!({})));
        let told = (row.phase.as_str(), row.version.as_str(), row.node.as_str(), row.tone);
        assert_eq!(told, ("Running", "v1.36.0", "node-1", Tone::Good));
    }

    #[test]
    fn a_machine_that_is_deleted_says_so() {
        let mut machine = machine("a", &json!({}));
        machine.metadata.deletion_timestamp =
            serde_json::from_value(json!("1970-01-01T00:00:00Z")).expect("a time");
        assert_eq!((row(&machine).phase.as_str(), row(&machine).tone), ("Deleting", Tone::Waiting));
    }
}
