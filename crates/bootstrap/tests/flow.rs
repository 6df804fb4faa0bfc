//! The bootstrap provider on a real API server, with the test in the part of core and control plane.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

use std::time::Duration;

use anyhow::{Result, ensure};
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::{Cluster, Machine};
use capstan_bootstrap::PlaneAddress;
use capstan_testkit::{RealPlane, eventually, install_crds};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(60);

struct World {
    client: Client,
    configs: Api<CapstanConfig>,
    secrets: Api<Secret>,
}

impl World {
    async fn start(plane: &RealPlane) -> Self {
        let client = plane.client();
        install_crds(&client, &capstan_api::crd::all()).await.unwrap();
        let served = PlaneAddress { server: "https://plane:6443".to_owned(), ca: b"PEM".to_vec() };
        let software = capstan_artifacts::Software::default();
        tokio::spawn(capstan_bootstrap::run(
            capstan_controller::Caches::new(client.clone()),
            served,
            software,
            capstan_controller::Scope::default(),
            std::future::pending(),
        ));
        let configs = Api::namespaced(client.clone(), "default");
        let secrets = Api::namespaced(client.clone(), "default");
        Self { client, configs, secrets }
    }

    async fn make<K>(&self, object: Value) -> K
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + serde::de::DeserializeOwned
            + serde::Serialize
            + Clone
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), "default");
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    async fn reason(&self) -> Result<String> {
        let config = self.configs.get("web-0").await?;
        let conditions = config.status.map(|status| status.conditions).unwrap_or_default();
        let found = conditions.iter().find(|condition| condition.type_ == "DataSecretAvailable");
        Ok(found.map(|condition| condition.reason.clone()).unwrap_or_default())
    }

    async fn waits_for(&self, reason: &str) {
        eventually(DEADLINE, reason, async || {
            let found = self.reason().await?;
            ensure!(found == reason, "{found}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_gets_its_identity_and_its_data_once() {
    let plane = RealPlane::start().await.unwrap();
    let world = World::start(&plane).await;
    let label = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let reference = |kind: &str, group: &str| json!({"kind": kind, "name": "x", "apiGroup": group});
    let cluster: Cluster = world
        .make(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"infrastructureRef": reference("HostCluster", "infrastructure.cluster.x-k8s.io")},
        }))
        .await;
    world
        .make::<CapstanConfig>(json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig",
            "metadata": {"name": "web-0", "labels": label}, "spec": {},
        }))
        .await;
    world.waits_for("WaitingForMachine").await;

    let machine: Machine = world
        .make(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "web-0", "labels": label},
            "spec": {
                "clusterName": "c",
                "bootstrap": {"configRef": {
                    "kind": "CapstanConfig", "name": "web-0", "apiGroup": "bootstrap.cluster.x-k8s.io",
                }},
                "infrastructureRef": reference("HostMachine", "infrastructure.cluster.x-k8s.io"),
            },
        }))
        .await;
    let owner = json!([{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "web-0",
        "uid": machine.uid(), "controller": true,
    }]);
    let merge = PatchParams::default();
    let owned = Patch::Merge(json!({"metadata": {"ownerReferences": owner}}));
    world.configs.patch("web-0", &merge, &owned).await.unwrap();
    world.waits_for("WaitingForClusterInfrastructureReady").await;

    let clusters: Api<Cluster> = Api::namespaced(world.client.clone(), "default");
    let ready = Patch::Merge(json!({"status": {"initialization": {"infrastructureProvisioned": true}}}));
    clusters.patch_status(&cluster.name_any(), &merge, &ready).await.unwrap();
    world.waits_for("WaitingForPlanKey").await;

    world
        .make::<Secret>(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c-plan-key", "labels": label},
            "stringData": {"public": "12345678901234567890123456789012"},
        }))
        .await;
    world.waits_for("Available").await;
    let config = world.configs.get("web-0").await.unwrap();
    let status = config.status.clone().unwrap();
    assert_eq!(status.data_secret_name.as_deref(), Some("web-0"));
    assert_eq!(status.initialization.unwrap().data_secret_created, Some(true));
    let secret = world.secrets.get("web-0").await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
    let id = &config.annotations()["capstan.dev/machine-id"];
    assert_eq!(&secret.annotations()["capstan.dev/machine-id"], id);
    let data = secret.data.clone().unwrap();
    let text = String::from_utf8(data["value"].0.clone()).unwrap();
    assert!(text.starts_with("#cloud-config\n") && text.contains(id) && text.contains("https://plane:6443"));

    // Neither a change nor a loss makes another one.
    let change = Patch::Merge(json!({"spec": {"settings": {"disable": ["traefik"]}}}));
    world.configs.patch("web-0", &merge, &change).await.unwrap();
    world.secrets.delete("web-0", &DeleteParams::default()).await.unwrap();
    let poke = Patch::Merge(json!({"metadata": {"annotations": {"poke": "1"}}}));
    world.configs.patch("web-0", &merge, &poke).await.unwrap();
    world.waits_for("DataSecretDeleted").await;
    assert!(world.secrets.get_opt("web-0").await.unwrap().is_none());
}
