//! A cluster that is made from a ClusterClass on simulated hosts, by the flavor `topology`: it comes up, is scaled, changed and
//! upgraded in place, loses a MachineDeployment, changes its class, and goes away.

#![cfg(test)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::eventually;
use capstan_tests::{Running, capstan, declared_writers, kubectl, simulated_hosts};
use serde_json::{Value, json};

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
const DEADLINE: Duration = Duration::from_secs(300);
/// Longer than any status is held back, and than what controllers do some time after a change.
const STABLE_FOR: Duration = Duration::from_secs(12);
const OLD: &str = "v1.36.0+k3s1";
const NEW: &str = "v1.36.1+k3s1";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_a_class_lives_on_simulated_hosts() {
    let folder = tempfile::Builder::new().prefix("capstan-topology-").tempdir().unwrap();
    let data = folder.path().join("data");
    let args = ["up", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
    let mut plane = Running::start(&args, &folder.path().join("capstan.log")).unwrap();
    let user = User { kubeconfig: data.join("admin.kubeconfig") };
    let manifests = manifests();
    eventually(DEADLINE, "the manifests to be taken", async || {
        user.kubectl(&["apply", "-f", "-"], &manifests)
    })
    .await
    .unwrap();
    user.machines_run(3, OLD).await;
    user.reconciled().await;
    let first = user.machines().unwrap();

    user.patch(&json!([{"op": "replace", "path": "/spec/topology/workers/machineDeployments/0/replicas", "value": 3}]));
    user.machines_run(4, OLD).await;
    let machines = user.machines().unwrap();
    assert!(machines.is_superset(&first), "{first:?} {machines:?}");

    user.labels_and_settings_reach_the_machines(&machines).await;
    user.upgrades(&machines).await;
    user.writes_nothing_at_rest().await;
    user.finds_declared_writers_only();
    user.loses_a_deployment(&machines).await;
    user.changes_its_class(&machines).await;
    user.goes().await;
    plane.ensure_running().unwrap();
}

/// A pool of hosts, and a cluster of the flavor with one control plane machine and two workers.
fn manifests() -> String {
    let size = ["--control-plane-machine-count", "1", "--worker-machine-count", "2"];
    let flavor = ["--flavor", "topology", "--kubernetes-version", OLD];
    let manifests = capstan(&[&["generate", "cluster", "shop"], &flavor[..], &size[..]].concat()).unwrap();
    format!("{}---\n{manifests}", simulated_hosts(6))
}

/// A user with kubectl.
struct User {
    kubeconfig: PathBuf,
}

impl User {
    fn kubectl(&self, args: &[&str], input: &str) -> Result<String> {
        kubectl(&self.kubeconfig, args, input)
    }

    fn get(&self, what: &[&str]) -> Result<Value> {
        let text = self.kubectl(&[&["get", "-o", "json"], what].concat(), "")?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Objects of a kind, without those that are being deleted.
    fn list(&self, kind: &str) -> Result<Vec<Value>> {
        let found = self.get(&[kind])?;
        let items = found["items"].as_array().cloned().unwrap_or_default();
        Ok(items.into_iter().filter(|one| one["metadata"]["deletionTimestamp"].is_null()).collect())
    }

    /// Changes the Cluster.
    fn patch(&self, patch: &Value) {
        let patch = patch.to_string();
        self.kubectl(&["patch", "cluster", "shop", "--type=json", "-p", &patch], "").unwrap();
    }

    /// UIDs of all Machines.
    fn machines(&self) -> Result<BTreeSet<String>> {
        let all = self.list("machines")?;
        Ok(all.iter().map(|one| one["metadata"]["uid"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// Waits until there are so many Machines, and their Nodes run this version.
    async fn machines_run(&self, number: usize, version: &str) {
        eventually(DEADLINE, "every Machine to run that version", async || {
            let all = self.list("machines")?;
            let runs = |one: &&Value| {
                one["status"]["nodeInfo"]["kubeletVersion"] == version && is_true(one, "Ready")
            };
            let running = all.iter().filter(runs).count();
            ensure!(all.len() == number && running == number, "{running} of {} run {version}", all.len());
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Waits until the topology is reconciled, and the cluster is available.
    async fn reconciled(&self) {
        eventually(DEADLINE, "the topology to be reconciled", async || {
            let cluster = self.get(&["cluster", "shop"])?;
            ensure!(
                is_true(&cluster, "TopologyReconciled") && is_true(&cluster, "Available"),
                "{}",
                cluster["status"]["conditions"]
            );
            let observed = condition(&cluster, "TopologyReconciled")["observedGeneration"].clone();
            ensure!(observed == cluster["metadata"]["generation"], "it is about an older generation");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Labels change objects, settings change machines, and neither replaces a Machine.
    async fn labels_and_settings_reach_the_machines(&self, machines: &BTreeSet<String>) {
        let path = "/spec/topology/workers/machineDeployments/0/metadata";
        // Admission has set the defaults of all variables.
        let cluster = self.list("clusters").unwrap().remove(0);
        let variables = cluster["spec"]["topology"]["variables"].as_array().unwrap();
        let place = variables.iter().position(|one| one["name"] == "workerSettings").unwrap();
        self.patch(&json!([
            {"op": "add", "path": path, "value": {"labels": {"team": "shop"}}},
            {"op": "replace", "path": format!("/spec/topology/variables/{place}/value"), "value": {"kubelet-arg": ["max-pods=50"]}},
        ]));
        eventually(DEADLINE, "label and settings to reach the workers", async || {
            let labelled = self.list("machines")?;
            let labelled = labelled.iter().filter(|one| one["metadata"]["labels"]["team"] == "shop").count();
            ensure!(labelled == 3, "{labelled} Machines have the label");
            let configs = self.list("capstanconfigs")?;
            let set = configs.iter().filter(|one| !one["spec"]["settings"]["kubelet-arg"].is_null()).count();
            ensure!(set == 3, "{set} configs have the setting");
            let up_to_date = self.list("machines")?;
            let up_to_date = up_to_date.iter().filter(|one| is_true(one, "UpToDate")).count();
            ensure!(up_to_date == 4, "{up_to_date} Machines are up to date");
            Ok(())
        })
        .await
        .unwrap();
        self.reconciled().await;
        assert_eq!(&self.machines().unwrap(), machines, "a Machine was replaced");
        // The template with the old content has gone with its MachineSet.
        eventually(DEADLINE, "one template of each kind for the workers", async || {
            let configs = self.owned("capstanconfigtemplates")?;
            ensure!(configs == 1, "{configs} CapstanConfigTemplates");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Objects of a kind that the topology has made.
    fn owned(&self, kind: &str) -> Result<usize> {
        let all = self.list(kind)?;
        let is_owned = |one: &&Value| !one["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"].is_null();
        Ok(all.iter().filter(is_owned).count())
    }

    /// The control plane is upgraded before the workers, and every Machine stays.
    async fn upgrades(&self, machines: &BTreeSet<String>) {
        self.patch(&json!([{"op": "replace", "path": "/spec/topology/version", "value": NEW}]));
        let mut was_upgrading = false;
        eventually(DEADLINE, "the workers to get the new version", async || {
            // Read before the control plane, which never goes back.
            let workers = self.list("machinedeployments")?;
            let version = &workers.first().context("workers")?["spec"]["template"]["spec"]["version"];
            let is_due = version == NEW;
            let control_plane = self.list("capstancontrolplanes")?;
            let is_done = control_plane[0]["status"]["versions"] == json!([{"version": NEW, "replicas": 1}]);
            assert!(!is_due || is_done, "workers before the control plane: {}", control_plane[0]["status"]);
            let cluster = self.get(&["cluster", "shop"])?;
            was_upgrading |= condition(&cluster, "TopologyReconciled")["reason"] == "ClusterUpgrading";
            ensure!(is_due, "{}", condition(&cluster, "TopologyReconciled"));
            Ok(())
        })
        .await
        .unwrap();
        assert!(was_upgrading, "the condition says so");
        self.machines_run(4, NEW).await;
        self.reconciled().await;
        assert_eq!(&self.machines().unwrap(), machines, "a Machine was replaced");
    }

    async fn writes_nothing_at_rest(&self) {
        const KINDS: &str = "clusters,clusterclasses,machines,machinesets,machinedeployments,machinehealthchecks,\
            hostclusters,hostmachines,capstanconfigs,capstanconfigtemplates,capstancontrolplanes,events";
        let path =
            r#"jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}"#;
        let read = || self.kubectl(&["get", KINDS, "--output", path], "");
        let mut last = read().unwrap();
        eventually(DEADLINE, "the controllers to write nothing for a while", async || {
            tokio::time::sleep(STABLE_FOR).await;
            let now = read()?;
            let is_same = now == last;
            last = now;
            ensure!(is_same, "something was written");
            Ok(())
        })
        .await
        .unwrap();
    }

    fn finds_declared_writers_only(&self) {
        const KINDS: &str = "clusters,clusterclasses,machines,machinesets,machinedeployments,machinehealthchecks,\
            hosts,hostclusters,hostclustertemplates,hostmachines,hostmachinetemplates,capstanconfigs,\
            capstanconfigtemplates,capstancontrolplanes,capstancontrolplanetemplates";
        let listed = self.kubectl(&["get", KINDS, "--output=json", "--show-managed-fields"], "").unwrap();
        let writers = declared_writers(&serde_json::from_str(&listed).unwrap());
        for writer in ["clusterclass", "clustertopology", "machinedeployment", "controlplane"] {
            assert!(writers.contains(&writer), "{writer} has written nothing: {writers:?}");
        }
    }

    /// A second MachineDeployment comes and goes; the first stays.
    async fn loses_a_deployment(&self, machines: &BTreeSet<String>) {
        let more = json!({"class": "worker", "name": "more", "replicas": 1});
        let list = "/spec/topology/workers/machineDeployments";
        self.patch(&json!([{"op": "add", "path": format!("{list}/-"), "value": more}]));
        self.machines_run(5, NEW).await;
        self.patch(&json!([{"op": "remove", "path": format!("{list}/1")}]));
        eventually(DEADLINE, "the second MachineDeployment to be gone", async || {
            let all = self.get(&["machines"])?["items"].as_array().map_or(0, Vec::len);
            ensure!(all == 4, "{all} Machines");
            let (configs, checks) =
                (self.owned("capstanconfigtemplates")?, self.owned("machinehealthchecks")?);
            ensure!(configs == 1 && checks == 1, "{configs} templates, {checks} health checks");
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(&self.machines().unwrap(), machines, "another Machine has gone");
    }

    /// The same class under another name, with one more setting for workers.
    async fn changes_its_class(&self, machines: &BTreeSet<String>) {
        let mut class = self.get(&["clusterclass", "capstan-k3s"]).unwrap();
        class["metadata"] = json!({"name": "other", "namespace": "default"});
        class["status"] = Value::Null;
        let worker = &mut class["spec"]["workers"]["machineDeployments"][0];
        worker["metadata"] = json!({"labels": {"class": "other"}});
        self.kubectl(&["create", "-f", "-"], &class.to_string()).unwrap();
        self.patch(&json!([{"op": "replace", "path": "/spec/topology/classRef/name", "value": "other"}]));
        eventually(DEADLINE, "the label of the other class", async || {
            let labelled = self.list("machines")?;
            let labelled =
                labelled.iter().filter(|one| one["metadata"]["labels"]["class"] == "other").count();
            ensure!(labelled == 3, "{labelled} Machines");
            Ok(())
        })
        .await
        .unwrap();
        self.reconciled().await;
        assert_eq!(&self.machines().unwrap(), machines, "a Machine was replaced");
    }

    async fn goes(&self) {
        self.kubectl(&["delete", "cluster", "shop", "--wait=false"], "").unwrap();
        eventually(DEADLINE, "everything to be gone and every host to be clean", async || {
            let kinds = "clusters,machines,machinesets,machinedeployments,machinehealthchecks,hostclusters,\
                         hostmachines,capstanconfigs,capstancontrolplanes";
            let left = self.kubectl(&["get", kinds, "-o", "name"], "")?;
            ensure!(left.is_empty(), "still there: {left}");
            for kind in ["capstanconfigtemplates", "hostmachinetemplates"] {
                ensure!(self.owned(kind)? == 0, "{kind} are left");
            }
            let states = self.kubectl(&["get", "hosts", "-o", "jsonpath={.items[*].status.state}"], "")?;
            ensure!(states == ["Available"; 6].join(" "), "hosts: {states}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

fn condition(object: &Value, type_: &str) -> Value {
    let all = object["status"]["conditions"].as_array();
    all.into_iter().flatten().find(|one| one["type"] == type_).cloned().unwrap_or_default()
}

fn is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_)["status"] == "True"
}
