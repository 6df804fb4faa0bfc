//! Notes on machines that are drained and restarted in maintenance windows of their own, of their Machine or of their Host. Those of
//! the cluster are noted once, with the control plane.

use anyhow::Result;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine};
use capstan_controlplane::foresee::maintenance;
use capstan_distro::HostFacts;
use jiff::Timestamp;
use kube::ResourceExt as _;
use std::collections::{BTreeMap, BTreeSet};

use super::future::Future;
use super::report::{Machine as PlannedMachine, Outcome};

/// What the windows of the machines of a namespace depend on.
struct Objects {
    machines: BTreeMap<String, Machine>,
    hosts: BTreeMap<String, HostFacts>,
    /// By the name of the Cluster.
    control_planes: BTreeMap<String, CapstanControlPlane>,
}

impl Future<'_> {
    /// Adds a note to each of these machines that waits for windows besides those of its cluster.
    pub(super) async fn note_own_windows(&self, planned: &mut [PlannedMachine]) -> Result<()> {
        let waits = |machine: &&mut PlannedMachine| {
            matches!(machine.outcome, Outcome::Restart | Outcome::DrainAndRestart | Outcome::Reboot)
        };
        let namespaces: BTreeSet<String> =
            planned.iter_mut().filter(waits).map(|machine| machine.namespace.clone()).collect();
        for namespace in namespaces {
            let objects = self.objects(&namespace).await?;
            for machine in planned.iter_mut().filter(waits).filter(|machine| machine.namespace == namespace) {
                machine.notes.extend(note(&objects, &machine.name, self.core.now()));
            }
        }
        Ok(())
    }

    async fn objects(&self, namespace: &str) -> Result<Objects> {
        let machines: Vec<Machine> = self.all(namespace).await?;
        let hosts = self.hosts(namespace, &machines).await?;
        let mut control_planes = BTreeMap::new();
        for cluster in self.all::<Cluster>(namespace).await? {
            let reference = cluster.spec.control_plane_ref.as_ref();
            let Some(reference) = reference.filter(|reference| reference.kind == "CapstanControlPlane")
            else {
                continue;
            };
            let name = (namespace.to_owned(), reference.name.clone());
            control_planes.extend(self.then(&name).await?.map(|owner| (cluster.name_any(), owner)));
        }
        let machines = machines.into_iter().map(|machine| (machine.name_any(), machine)).collect();
        Ok(Objects { machines, hosts, control_planes })
    }
}

fn note(objects: &Objects, name: &str, now: Timestamp) -> Option<String> {
    let machine = objects.machines.get(name)?;
    let owner = objects.control_planes.get(&machine.spec.cluster_name);
    let own = maintenance(owner, machine, objects.hosts.get(name));
    if own == maintenance(owner, &Machine { metadata: Default::default(), ..machine.clone() }, None) {
        return None;
    }
    let forecast = own.forecast(now)?;
    Some(format!("it is drained and restarted in maintenance windows only: {forecast}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn objects(annotations: &Value, of_host: &[&str]) -> Objects {
        let machine = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "m", "annotations": annotations},
            "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {
                "kind": "HostMachine", "name": "m", "apiGroup": "infrastructure.cluster.x-k8s.io"}},
        }));
        let owner = serde_json::from_value(json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1alpha1", "kind": "CapstanControlPlane",
            "metadata": {"name": "cp"},
            "spec": {"version": "v1.36.0", "rollout": {"windows": ["daily 01:00-05:00"]}, "machineTemplate": {"spec": {
                "infrastructureRef": {"kind": "HostMachineTemplate", "name": "t",
                    "apiGroup": "infrastructure.cluster.x-k8s.io"}}}},
        }));
        let windows = of_host.iter().map(|window| (*window).to_owned()).collect();
        let host = HostFacts { name: "h".to_owned(), windows, ..HostFacts::default() };
        Objects {
            machines: BTreeMap::from([("m".to_owned(), machine.expect("a Machine"))]),
            hosts: BTreeMap::from([("m".to_owned(), host)]),
            control_planes: BTreeMap::from([("c".to_owned(), owner.expect("a control plane"))]),
        }
    }

    #[test]
    fn a_machine_has_a_note_if_its_windows_are_not_those_of_its_cluster() {
        // A Friday.
        let now = "2026-11-20T02:00:00Z".parse().expect("a time");
        let noted = |annotations: &Value, of_host: &[&str]| note(&objects(annotations, of_host), "m", now);
        assert_eq!(noted(&json!({}), &[]), None);
        let own = json!({"capstan.dev/maintenance-windows": "Sun 01:00-02:00"});
        let only = "it is drained and restarted in maintenance windows only:";
        assert_eq!(
            noted(&json!({}), &["Sat 03:00-09:00"]),
            Some(format!(
                "{only} spec.rollout.windows has one open until 2026-11-20T05:00:00Z; the next one of Host h spec.windows opens at \
                 2026-11-21T03:00:00Z"
            ))
        );
        assert_eq!(
            noted(&own, &[]),
            Some(format!(
                "{only} the next one of annotation capstan.dev/maintenance-windows opens at 2026-11-22T01:00:00Z"
            ))
        );
        assert_eq!(note(&objects(&own, &[]), "other", now), None);
    }
}
