//! Defaults and rules of Cluster API's kinds that depend on other objects or on the object before: one table of requests, on
//! the embedded plane, on a real API server with the webhooks of `capstan manager`, which has no rights but those of its
//! manifest, and on a real API server with the webhooks of upstream's core.

#![cfg(test)]

mod objects;
mod table;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use capstan_testkit::{
    CrdSet, FeatureGates, Manager, RealPlane, UpstreamManagers, client, eventually, install_crds,
    install_upstream_crds,
};
use capstan_tests::{Embedded, Running, admission, namespaced};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, Status};
use serde_json::{Value, json};

use objects::object;
use table::{Expected, Request, Step, steps};

const DEADLINE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "default";
const HOME: &str = "capstan-core-system";
const MANAGER: &str = "system:serviceaccount:capstan-core-system:capstan-core-manager";
const REGISTRATION: &str = "admissionregistration.k8s.io/v1";

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_plane_admits_in_process() {
    let plane = Embedded::start().await.unwrap();
    let client = client(&plane.kubeconfig()).await.unwrap();
    are_served(&client).await;
    ours(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_calls_the_webhooks_of_the_manager() {
    let plane = RealPlane::start().await.unwrap();
    let client = plane.client();
    install_crds(&client, &capstan_api::crd::all()).await.unwrap();
    plane.kubectl(&["create", "namespace", HOME]).await.unwrap().success().unwrap();
    plane.apply_yaml(&installed()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = plane.kubeconfig_for(MANAGER, &[]).unwrap();
    let manager = manager(&kubeconfig, folder.path());
    is_called(&client).await;
    ours(&client).await;

    // Another CA: the bundle follows.
    let bundle = bundle(&client).await.unwrap();
    let secrets = namespaced(&client, HOME, "v1", "Secret");
    secrets.delete("capstan-admission", &DeleteParams::default()).await.unwrap();
    eventually(DEADLINE, "another CA bundle", async || {
        ensure!(self::bundle(&client).await? != bundle, "the bundle is the same");
        Ok(())
    })
    .await
    .unwrap();
    is_called(&client).await;

    // As upstream: without the webhooks nothing is written.
    manager.kill().unwrap();
    let refused = create(&client, &object("Machine", "late")).await.expect_err("no webhook");
    assert!(refused.to_string().contains("failed calling webhook"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_core_decides_alike() {
    let plane = RealPlane::start().await.unwrap();
    let client = plane.client();
    install_upstream_crds(&client, &[CrdSet::Core]).await.unwrap();
    let gates: FeatureGates = ["ClusterTopology", "MachineTaintPropagation", "RuntimeSDK"]
        .map(|gate| (gate.to_owned(), true))
        .into_iter()
        .collect();
    let managers = UpstreamManagers::start_on(plane.kubeconfig(), &[Manager::Core], &gates).await.unwrap();
    let configurations = json!({"apiVersion": "v1", "kind": "List", "items": admission(&managers)});
    plane.apply_yaml(&configurations.to_string()).await.unwrap();
    is_called(&client).await;
    let mut wrong = Vec::new();
    for step in steps().into_iter().filter(|step| !step.only_ours) {
        let outcome = send(&client, &step).await;
        if let Err(error) = is_alike(&step, outcome) {
            wrong.push(format!("{}: {error:#}", step.about));
        }
    }
    assert!(wrong.is_empty(), "{} steps differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs the table on a plane of ours.
async fn ours(client: &Client) {
    let mut wrong = Vec::new();
    for step in steps() {
        let outcome = send(client, &step).await;
        if let Err(error) = is_expected(&step, outcome) {
            wrong.push(format!("{}: {error:#}", step.about));
        }
    }
    assert!(wrong.is_empty(), "{} steps went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The manifest that users apply, and the rights of nothing else.
fn installed() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/admission/webhooks.yaml");
    std::fs::read_to_string(path).unwrap()
}

fn manager(kubeconfig: &Path, folder: &Path) -> Running {
    let data = folder.join("data");
    let args = [
        "manager",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--controllers",
        "none",
        "--data-dir",
        data.to_str().unwrap(),
        "--diagnostics-address",
        "0",
        "--admission-listen",
        "127.0.0.1:0",
        "--admission-namespace",
        HOME,
    ];
    Running::start(&args, &folder.join("log")).unwrap()
}

/// Waits until all kinds of the table are served: the plane answers before it has its CRDs.
async fn are_served(client: &Client) {
    let kinds: BTreeSet<&str> = steps().iter().map(|step| step.kind).collect();
    for kind in kinds {
        eventually(DEADLINE, kind, async || Ok(api(client, kind).list(&ListParams::default()).await?))
            .await
            .unwrap();
    }
}

/// Waits until the plane sets defaults.
async fn is_called(client: &Client) {
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    eventually(DEADLINE, "a default to be set", async || {
        let machine = object("Machine", "probe");
        let created = api(client, "Machine").create(&dry, &serde_json::from_value(machine)?).await?;
        let label = created.metadata.labels.unwrap_or_default();
        ensure!(label.contains_key("cluster.x-k8s.io/cluster-name"), "no default is set");
        Ok(())
    })
    .await
    .unwrap();
}

/// The CA bundle of the first validating webhook.
async fn bundle(client: &Client) -> Result<Value> {
    let configurations = everywhere(client, REGISTRATION, "ValidatingWebhookConfiguration");
    let found = configurations.get("capstan-admission").await?;
    found.data.pointer("/webhooks/0/clientConfig/caBundle").cloned().context("there is no bundle")
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let object = object(kind, "x");
    let api_version = object["apiVersion"].as_str().unwrap();
    match kind {
        "ExtensionConfig" => everywhere(client, api_version, kind),
        _ => namespaced(client, NAMESPACE, api_version, kind),
    }
}

fn everywhere(client: &Client, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::all_with(client.clone(), &resource)
}

async fn create(client: &Client, object: &Value) -> Result<Value> {
    let kind = object["kind"].as_str().context("an object without a kind")?;
    let object = serde_json::from_value(object.clone())?;
    Ok(json!(api(client, kind).create(&PostParams::default(), &object).await?))
}

/// Sends the request of a step. The inner error is the answer of the API server.
async fn send(client: &Client, step: &Step) -> Result<Result<Value, Status>> {
    let api = api(client, step.kind);
    let merge = PatchParams::default();
    let sent = match &step.request {
        Request::Create(object) => {
            api.create(&PostParams::default(), &serde_json::from_value(object.clone())?).await
        }
        Request::Change(name, patch) => api.patch(name, &merge, &Patch::Merge(patch)).await,
        Request::Status(name, patch) => api.patch_status(name, &merge, &Patch::Merge(patch)).await,
        Request::Delete(name) => match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => return Ok(Ok(Value::Null)),
            Err(error) => Err(error),
        },
    };
    match sent {
        Ok(object) => Ok(Ok(json!(object))),
        Err(kube::Error::Api(status)) => Ok(Err(*status)),
        Err(error) => Err(error.into()),
    }
}

fn fields(status: &Status) -> Vec<&str> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.map(|cause| cause.field.as_str()).collect()
}

fn is_expected(step: &Step, outcome: Result<Result<Value, Status>>) -> Result<()> {
    match (&step.expected, outcome?) {
        (Expected::Admitted(fields), Ok(object)) => has(&object, fields),
        (Expected::Admitted(_), Err(status)) => Err(anyhow!("rejected: {}", status.message)),
        (Expected::Rejected { .. }, Ok(_)) => bail!("admitted"),
        (Expected::Rejected { code, field, says, .. }, Err(status)) => {
            let is_named = field.is_empty() || fields(&status).contains(field);
            let is_right = status.code == *code && is_named && status.message.contains(says);
            ensure!(is_right, "{code} {field} {says:?} expected: {} {}", status.code, status.message);
            Ok(())
        }
    }
}

fn has(object: &Value, fields: &[(&'static str, Value)]) -> Result<()> {
    for (pointer, expected) in fields {
        let found = object.pointer(pointer).unwrap_or(&Value::Null);
        ensure!(found == expected, "{pointer} is {found}, not {expected}");
    }
    Ok(())
}

/// Whether upstream admits what we admit, with the same defaults, and rejects what we reject, at the same field or one around
/// or inside it.
fn is_alike(step: &Step, outcome: Result<Result<Value, Status>>) -> Result<()> {
    match (&step.expected, outcome?) {
        (Expected::Admitted(fields), Ok(object)) => has(&object, fields),
        (Expected::Admitted(_), Err(status)) => Err(anyhow!("rejected: {}", status.message)),
        (Expected::Rejected { .. }, Ok(_)) => bail!("admitted"),
        (Expected::Rejected { upstream: Some(_), .. }, Err(_)) => Ok(()),
        (Expected::Rejected { code, field, .. }, Err(status)) => {
            let is_near = |other: &&str| other.starts_with(field) || field.starts_with(*other);
            let is_named = field.is_empty() || fields(&status).iter().any(is_near);
            ensure!(
                status.code == *code && is_named,
                "{code} {field} expected: {} {}",
                status.code,
                status.message
            );
            Ok(())
        }
    }
}
