//! A cluster of simulated hosts, made and looked at with clusterctl.

use anyhow::ensure;
use capstan_api::access;
use capstan_testkit::{eventually, kubectl};
use capstan_tests::right_of_clusters;
use std::fs;

use crate::stage::{DEADLINE, Stage};

pub(crate) const NAMESPACE: &str = "fleet";
pub(crate) const OLD: &str = "v1.36.0+k3s1";
pub(crate) const NEW: &str = "v1.36.1+k3s1";
const CLUSTER: &str = "blue";

pub(crate) struct Fleet<'a> {
    stage: &'a Stage,
    /// Whose managers look after it.
    controllers: &'a [&'a str],
}

impl<'a> Fleet<'a> {
    pub(crate) fn of(stage: &'a Stage, controllers: &'a [&'a str]) -> Self {
        Self { stage, controllers }
    }

    /// Applies what clusterctl makes of our template, and waits until the cluster is there.
    pub(crate) async fn comes(&self) {
        self.stage.kubectl(&["create", "namespace", NAMESPACE]).await.unwrap();
        self.lets_managers_in().await;
        let manifests = self.stage.clusterctl(&[
            "generate",
            "cluster",
            CLUSTER,
            "--flavor=simulated",
            "--infrastructure=capstan",
            "--kubernetes-version",
            OLD,
            "--control-plane-machine-count=1",
            "--worker-machine-count=1",
            "--target-namespace",
            NAMESPACE,
        ]);
        self.stage.plane.apply_yaml(&manifests).await.unwrap();
        self.is_available().await;
    }

    /// Every template does that too. Here it comes first, because an API server takes a moment to notice a right, and the
    /// managers would be quicker under load.
    async fn lets_managers_in(&self) {
        let access = ["generate", "cluster", "any", "--flavor=access", "--infrastructure=capstan"];
        let access = self.stage.clusterctl(&[&access[..], &["--target-namespace", NAMESPACE]].concat());
        self.stage.plane.apply_yaml(&access).await.unwrap();
        for group in access::access().iter().filter(|group| self.controllers.contains(&group.controllers)) {
            let (controllers, (verb, _, resource)) = (group.controllers, right_of_clusters(group));
            eventually(DEADLINE, &format!("{controllers} to be let in"), async || {
                ensure!(self.stage.may(controllers, &verb, &resource, NAMESPACE).await, "not yet");
                Ok(())
            })
            .await
            .unwrap();
        }
    }

    async fn is_available(&self) {
        eventually(DEADLINE, "the cluster to be available", async || {
            let cluster = self.stage.get(&["cluster", CLUSTER, "--namespace", NAMESPACE]).await?;
            let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let available = conditions.iter().find(|condition| condition["type"] == "Available");
            ensure!(available.is_some_and(|it| it["status"] == "True"), "{available:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// `clusterctl describe` shows what it is made of.
    pub(crate) fn is_described(&self) {
        let tree =
            self.stage.clusterctl(&["describe", "cluster", CLUSTER, "--namespace", NAMESPACE, "--echo"]);
        for part in [
            "Cluster fleet/blue",
            "HostCluster fleet/blue",
            "CapstanControlPlane fleet/blue-control-plane",
            "MachineDeployment fleet/blue-workers",
        ] {
            assert!(tree.contains(part), "{part} is not in\n{tree}");
        }
    }

    /// Its own API server, reached with what `clusterctl get kubeconfig` prints, has so many Nodes of this version.
    pub(crate) async fn nodes_run(&self, version: &str, count: usize) {
        let text = self.stage.clusterctl(&["get", "kubeconfig", CLUSTER, "--namespace", NAMESPACE]);
        let kubeconfig = self.stage.path("blue.kubeconfig");
        fs::write(&kubeconfig, text).unwrap();
        let versions = "--output=jsonpath={.items[*].status.nodeInfo.kubeletVersion}";
        eventually(DEADLINE, &format!("{count} nodes to run {version}"), async || {
            let found = kubectl(&kubeconfig, &["get", "nodes", versions], None).await?.success()?;
            let all: Vec<&str> = found.split_whitespace().collect();
            ensure!(all.len() == count && all.iter().all(|one| *one == version), "{found}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Another version, in place: the same Machines as before.
    pub(crate) async fn changes(&self) {
        let before = self.machines().await;
        self.patch(
            "capstancontrolplane",
            "blue-control-plane",
            &format!(r#"{{"spec":{{"version":"{NEW}"}}}}"#),
        )
        .await;
        let workers = format!(r#"{{"spec":{{"template":{{"spec":{{"version":"{NEW}"}}}}}}}}"#);
        self.patch("machinedeployment", "blue-workers", &workers).await;
        self.nodes_run(NEW, 2).await;
        assert_eq!(before, self.machines().await);
    }

    /// One worker more.
    pub(crate) async fn grows(&self) {
        self.patch("machinedeployment", "blue-workers", r#"{"spec":{"replicas":2}}"#).await;
    }

    async fn machines(&self) -> String {
        let names = "--output=jsonpath={.items[*].metadata.name}";
        self.stage.kubectl(&["get", "machines", names, "--namespace", NAMESPACE]).await.unwrap()
    }

    async fn patch(&self, kind: &str, name: &str, patch: &str) {
        let words = ["patch", kind, name, "--type=merge", "--patch", patch, "--namespace", NAMESPACE];
        self.stage.kubectl(&words).await.unwrap();
    }

    /// The cluster is deleted, its hosts are clean, and then everything else in its namespace goes.
    pub(crate) async fn goes(&self) {
        self.stage
            .kubectl(&["delete", "cluster", CLUSTER, "--namespace", NAMESPACE, "--wait=false"])
            .await
            .unwrap();
        eventually(DEADLINE, "everything to be gone and every host to be clean", async || {
            let kinds = "clusters,machines,machinesets,hostmachines,capstanconfigs,machinereports,secrets";
            let left = self.stage.kubectl(&["get", kinds, "--output=name", "--namespace", NAMESPACE]).await?;
            ensure!(left.is_empty(), "still there: {left}");
            let states = "--output=jsonpath={.items[*].status.state}";
            let states = self.stage.kubectl(&["get", "hosts", states, "--namespace", NAMESPACE]).await?;
            ensure!(states == "Available Available Available Available Available", "hosts: {states}");
            Ok(())
        })
        .await
        .unwrap();
        self.stage
            .kubectl(&["delete", "hostpools", "--all", "--namespace", NAMESPACE, "--wait=false"])
            .await
            .unwrap();
        eventually(DEADLINE, "hosts and templates to be gone", async || {
            let templates = "hostmachinetemplates,capstanconfigtemplates";
            self.stage.kubectl(&["delete", templates, "--all", "--namespace", NAMESPACE]).await?;
            let left = self
                .stage
                .kubectl(&["get", "hosts,hostpools", "--output=name", "--namespace", NAMESPACE])
                .await?;
            ensure!(left.is_empty(), "still there: {left}");
            Ok(())
        })
        .await
        .unwrap();
    }
}
