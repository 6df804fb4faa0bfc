//! ClusterResourceSets: applied once or again, recorded, and removed from the record.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::common::provider::{self, object};
use crate::common::{NAMESPACE, Stage, condition_of, merge, until, until_gone};
use crate::{CORE, at, cluster, provision, publish_kubeconfig, says};

const ADDONS: &str = "addons.cluster.x-k8s.io/v1beta2";

fn set(name: &str, strategy: &str, resources: &Value) -> Value {
    json!({
        "apiVersion": ADDONS, "kind": "ClusterResourceSet", "metadata": {"name": name},
        "spec": {
            "clusterSelector": {"matchLabels": {"env": "test"}},
            "strategy": strategy,
            "resources": resources,
        },
    })
}

/// The manifest of a ConfigMap in a Namespace of its own.
fn manifests(namespace: &str, value: &str) -> String {
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: made, namespace: {namespace}}}\ndata: {{k: {value}}}\n"
    );
    format!("{map}---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n")
}

async fn made(stage: &Stage, namespace: &str) -> Result<String> {
    let map = Api::<ConfigMap>::namespaced(stage.client.clone(), namespace).get("made").await?;
    Ok(map.data.unwrap_or_default().remove("k").unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_are_applied_to_selected_clusters_and_recorded() -> Result<()> {
    let stage = Stage::start(provider::install).await?;
    let (sets, bindings, clusters, maps) = (
        stage.api(ADDONS, "ClusterResourceSet"),
        stage.api(ADDONS, "ClusterResourceSetBinding"),
        stage.api(CORE, "Cluster"),
        stage.api("v1", "ConfigMap"),
    );
    for kind in ["TestCluster", "TestControlPlane"] {
        stage.create(object(kind, "demo")).await?;
    }
    for (name, namespace) in [("once", "once"), ("again", "again")] {
        let data = json!({"all.yaml": manifests(namespace, "first")});
        stage
            .create(
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}),
            )
            .await?;
    }
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "made", "namespace": "default"}});
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "account"}, "type": "addons.cluster.x-k8s.io/resource-set",
        "stringData": {"account.json": account.to_string()},
    }))?;
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    secrets.create(&PostParams::default(), &secret).await?;
    let resources = json!([{"kind": "ConfigMap", "name": "once"}, {"kind": "Secret", "name": "account"}]);
    stage.create(set("once", "ApplyOnce", &resources)).await?;
    let resources = json!([{"kind": "ConfigMap", "name": "again"}, {"kind": "ConfigMap", "name": "late"}]);
    stage.create(set("again", "Reconcile", &resources)).await?;

    let mut demo = cluster();
    demo["metadata"]["labels"] = json!({"env": "test"});
    stage.create(demo).await?;
    provision(&stage).await?;
    publish_kubeconfig(&stage).await?;

    until(&sets, "once", "everything to be applied", |set| says(set, "ResourcesApplied", "True/Applied"))
        .await?;
    assert_eq!(made(&stage, "once").await?, "first");
    Api::<ServiceAccount>::namespaced(stage.client.clone(), "default").get("made").await?;
    let missing = "False/NotApplied: Failed to apply ClusterResourceSet resources to Cluster:\n\
                   * ConfigMap late does not exist";
    until(&sets, "again", "a resource to be missed", |set| says(set, "ResourcesApplied", missing)).await?;
    assert_eq!(made(&stage, "again").await?, "first");
    let owners = |owners: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference]| {
        owners.iter().map(|owner| format!("{}/{}", owner.kind, owner.name)).collect::<Vec<_>>()
    };
    assert_eq!(owners(maps.get("once").await?.owner_references()), ["ClusterResourceSet/once"]);
    assert_eq!(owners(secrets.get("account").await?.owner_references()), ["ClusterResourceSet/once"]);

    // One set follows its ConfigMaps, and the other does not.
    let late = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"},
        "data": {"late.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: late}\n"}});
    stage.create(late).await?;
    for name in ["once", "again"] {
        merge(&maps, name, &json!({"data": {"all.yaml": manifests(name, "second")}})).await?;
    }
    until(&sets, "again", "all resources to be applied", |set| says(set, "ResourcesApplied", "True/Applied"))
        .await?;
    Api::<Namespace>::all(stage.client.clone()).get("late").await?;
    capstan_testkit::eventually(crate::common::PATIENCE, "the change to be applied", async || {
        let value = made(&stage, "again").await?;
        ensure!(value == "second", "{value}");
        Ok(())
    })
    .await?;
    assert_eq!(made(&stage, "once").await?, "first");

    // Everything is recorded, and nothing is written without a change.
    let recorded = until(&bindings, "demo", "the record", |binding| {
        let applied = at(binding, "/spec/bindings").to_string().matches("\"applied\":true").count();
        ensure!(applied == 4, "{}", binding.data["spec"]);
        Ok(())
    })
    .await?;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(bindings.get("demo").await?.resource_version(), recorded.resource_version());

    // What was applied stays when the set is deleted.
    sets.delete("once", &DeleteParams::default()).await?;
    until_gone(&sets, "once").await?;
    let names = at(&bindings.get("demo").await?, "/spec/bindings");
    let names: Vec<&Value> =
        names.as_array().into_iter().flatten().map(|one| &one["clusterResourceSetName"]).collect();
    assert_eq!(names, [&json!("again")]);
    assert_eq!(made(&stage, "once").await?, "first");

    // The record ends with the cluster.
    clusters.delete("demo", &DeleteParams::default()).await?;
    until_gone(&bindings, "demo").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_accepted_is_tried_again() -> Result<()> {
    let stage = Stage::start(provider::install).await?;
    let sets = stage.api(ADDONS, "ClusterResourceSet");
    for kind in ["TestCluster", "TestControlPlane"] {
        stage.create(object(kind, "demo")).await?;
    }
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made, namespace: later}\ndata: {k: v}\n";
    let early = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "early"},
        "data": {"all.yaml": map}});
    stage.create(early).await?;
    stage.create(set("retried", "ApplyOnce", &json!([{"kind": "ConfigMap", "name": "early"}]))).await?;
    let mut demo = cluster();
    demo["metadata"]["labels"] = json!({"env": "test"});
    stage.create(demo).await?;
    provision(&stage).await?;
    publish_kubeconfig(&stage).await?;
    until(&sets, "retried", "the object to be rejected", |set| {
        let said = condition_of(set, "ResourcesApplied");
        let names = "* Cluster demo: ConfigMap early: ConfigMap later/made: ";
        ensure!(said.starts_with("False/NotApplied: ") && said.contains(names), "{said}");
        Ok(())
    })
    .await?;

    // Nothing that the controller watches changes.
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "later"}}))?;
    Api::<Namespace>::all(stage.client.clone()).create(&PostParams::default(), &namespace).await?;
    until(&sets, "retried", "another try", |set| says(set, "ResourcesApplied", "True/Applied")).await?;
    assert_eq!(made(&stage, "later").await?, "v");
    Ok(())
}
