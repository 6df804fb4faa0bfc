//! The clusters, from Capstan's own template, and their hosts.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use capstan_testkit::eventually;
use capstan_tests::{capstan, namespaced};
use serde_json::{Value, json};

use crate::objects;

pub(crate) const NAMESPACE: &str = "default";
const POOLS: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";
/// Stands for the name of a cluster in the template, and occurs nowhere else in it.
const NAME: &str = "fleet-cluster-name";
const VERSION: &str = "v1.36.0+k3s1";

/// Manifests of a cluster with one server, under any name.
pub(crate) struct Template(String);

impl Template {
    pub(crate) fn with_workers(workers: usize) -> Result<Self> {
        let workers = workers.to_string();
        let size = ["--control-plane-machine-count", "1", "--worker-machine-count", &workers];
        let version = ["--kubernetes-version", VERSION, "--target-namespace", NAMESPACE];
        Ok(Self(capstan(&[&["generate", "cluster", NAME], &version[..], &size[..]].concat())?))
    }

    pub(crate) fn objects(&self, name: &str) -> Result<Vec<Value>> {
        let text = self.0.replace(NAME, name);
        let documents = text.split("\n---\n").filter(|document| !document.trim().is_empty());
        documents.map(|text| serde_saphyr::from_str(text).context("a manifest is not YAML")).collect()
    }
}

/// Makes so many simulated hosts, in one pool that all clusters take from, and waits until they are available.
pub(crate) async fn hosts(client: &kube::Client, count: usize, deadline: Duration) -> Result<()> {
    let pool = json!({
        "apiVersion": POOLS, "kind": "HostPool", "metadata": {"name": "fleet", "namespace": NAMESPACE},
        "spec": {"replicas": count, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 20}},
    });
    objects::create(client, vec![pool]).await?;
    let pools = namespaced(client, NAMESPACE, POOLS, "HostPool");
    eventually(deadline, "the hosts to be available", async || {
        let pool = pools.get("fleet").await?;
        let available = pool.data["status"]["availableReplicas"].as_u64().unwrap_or_default();
        ensure!(available == count as u64, "{available} of {count} hosts are available");
        Ok(())
    })
    .await
}
