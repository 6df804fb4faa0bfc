//! Kept machines stay kept, as a user of `capstan up` sees it: a health check is configured, the process is killed and
//! started again, Secrets are touched, Nodes are lost and come back, and no machine is ever deleted that nobody asked to
//! delete. A Node that is lost is healed in place; what does not recover is left for the user, with a reason.

#![cfg(test)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_api::core::{Machine, MachineHealthCheck};
use capstan_testkit::{FeatureGates, Manager, UpstreamManagers, eventually};
use capstan_tests::{Running, capstan, condition, namespaced, not_true};
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(300);
const VERSION: &str = "v1.36.0+k3s1";
const CLUSTER: &str = "kept";
const CORE: &str = "cluster.x-k8s.io/v1beta2";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1alpha1";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";
/// How long a Node may take to appear. Every machine is older than that when trouble begins.
const STARTUP_SECONDS: i64 = 30;

/// Where one plane keeps everything.
struct Folder(tempfile::TempDir);

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn up(&self) -> Running {
        self.up_with("all")
    }

    fn up_with(&self, controllers: &str) -> Running {
        let data = self.path("data");
        let data = data.to_str().unwrap();
        // Machines know the plane by its address, so that it must stay.
        let args = ["up", "--listen", "127.0.0.1:0", "--data-dir", data, "--controllers", controllers];
        Running::start(&args, &self.path("capstan.log")).unwrap()
    }
}

/// UIDs of Machines by name.
type Machines = BTreeMap<String, String>;

struct User {
    client: Client,
}

impl User {
    async fn of_plane(folder: &Folder) -> Self {
        eventually(DEADLINE, "the plane to answer", async || {
            let user =
                Self { client: client(Kubeconfig::read_from(folder.path("data/admin.kubeconfig"))?).await? };
            for (group_version, kind) in
                [(CORE, "MachineHealthCheck"), (CONTROL_PLANE, "CapstanControlPlane")]
            {
                user.of(group_version, kind).list(&ListParams::default()).await?;
            }
            Ok(user)
        })
        .await
        .unwrap()
    }

    fn of(&self, group_version: &str, kind: &str) -> Api<DynamicObject> {
        namespaced(&self.client, "default", group_version, kind)
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().context("a text").map(str::to_owned);
        let api = self.of(&text("apiVersion")?, &text("kind")?);
        let name = object["metadata"]["name"].as_str().context("a name")?;
        let parameters = PatchParams::apply("user").force();
        eventually(DEADLINE, &format!("{name} to be taken"), async || {
            api.patch(name, &parameters, &Patch::Apply(object)).await?;
            Ok(())
        })
        .await
    }

    /// One server, three workers, a spare host, and a health check of all workers, which says so of the remedy.
    async fn makes_a_cluster(&self, remediation: Option<&Value>) -> Result<()> {
        self.apply(&json!({
            "apiVersion": INFRASTRUCTURE, "kind": "HostPool", "metadata": {"name": "simulated"},
            "spec": {"replicas": 5, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 20}},
        }))
        .await?;
        let size = ["--control-plane-machine-count", "1", "--worker-machine-count", "3"];
        let generate = ["generate", "cluster", CLUSTER, "--kubernetes-version", VERSION];
        for document in capstan(&[&generate[..], &size[..]].concat())?.split("\n---\n") {
            self.apply(&serde_saphyr::from_str(document)?).await?;
        }
        let mut check = json!({
            "apiVersion": CORE, "kind": "MachineHealthCheck", "metadata": {"name": "workers"},
            "spec": {
                "clusterName": CLUSTER,
                "selector": {"matchLabels": {"cluster.x-k8s.io/deployment-name": "kept-workers"}},
                "checks": {
                    "nodeStartupTimeoutSeconds": STARTUP_SECONDS,
                    "unhealthyNodeConditions": [
                        {"type": "Ready", "status": "Unknown", "timeoutSeconds": 2},
                        {"type": "Ready", "status": "False", "timeoutSeconds": 2}],
                },
            },
        });
        if let Some(remediation) = remediation {
            check["spec"]["remediation"] = remediation.clone();
        }
        self.apply(&check).await?;
        eventually(DEADLINE, "all machines to be Nodes, and older than a Node may take", async || {
            let cluster = self.of(CORE, "Cluster").get(CLUSTER).await?;
            ensure!(condition(&cluster, "Available") == Some("True"), not_true(&cluster));
            let machines = self.list().await?;
            ensure!(machines.len() == 4, "{} machines", machines.len());
            for machine in machines {
                let created = machine.creation_timestamp().context("no age")?.0;
                let age = Timestamp::now().duration_since(created).as_secs();
                ensure!(age > STARTUP_SECONDS + 1, "{} is {age} s old", machine.name_any());
            }
            self.are_healthy(3).await
        })
        .await
    }

    async fn list(&self) -> Result<Vec<Machine>> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), "default");
        Ok(machines.list(&ListParams::default()).await?.items)
    }

    async fn machines(&self) -> Result<Machines> {
        let alive =
            self.list().await?.into_iter().filter(|machine| machine.metadata.deletion_timestamp.is_none());
        Ok(alive.map(|machine| (machine.name_any(), machine.uid().unwrap_or_default())).collect())
    }

    async fn are_healthy(&self, number: i32) -> Result<()> {
        let checks: Api<MachineHealthCheck> = Api::namespaced(self.client.clone(), "default");
        let status = checks.get("workers").await?.status.unwrap_or_default();
        ensure!(status.current_healthy == Some(number), "{status:?}");
        Ok(())
    }

    async fn workload(&self) -> Result<Client> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "default");
        let secret = secrets.get("kept-kubeconfig").await?;
        let kubeconfig = secret.data.as_ref().and_then(|data| data.get("value")).context("no kubeconfig")?;
        client(Kubeconfig::from_yaml(std::str::from_utf8(&kubeconfig.0)?)?).await
    }

    /// Every look for a while sees the same Machines, and nobody deletes one.
    async fn keeps(&self, before: &Machines, seconds: u64) -> Result<()> {
        let until = std::time::Instant::now() + Duration::from_secs(seconds);
        while std::time::Instant::now() < until {
            let now = self.machines().await?;
            ensure!(now == *before, "{before:?} became {now:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    /// Sets `Ready` of a Node, as a kubelet or the lack of one would.
    async fn node_is(&self, name: &str, ready: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.workload().await?);
        let conditions =
            nodes.get(name).await?.status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == ready) {
            // It has been so for a while, which must go on counting.
            return Ok(());
        }
        let now = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": ready, "reason": "Test",
            "message": "", "lastTransitionTime": now, "lastHeartbeatTime": now}]}});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(&patch)).await?;
        Ok(())
    }

    async fn machine_says(&self, name: &str, type_: &str) -> Result<(String, String, String)> {
        let machine = self.of(CORE, "Machine").get(name).await?;
        let conditions = machine.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition =
            conditions.into_iter().find(|condition| condition["type"] == type_).context("not told")?;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        Ok((text("status"), text("reason"), text("message")))
    }
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_healthy_machine_is_deleted_by_mistake() {
    let folder = Folder(tempfile::Builder::new().prefix("capstan-kept-").tempdir().unwrap());
    let mut plane = folder.up();
    let mut user = User::of_plane(&folder).await;
    user.makes_a_cluster(None).await.unwrap();
    let before = user.machines().await.unwrap();

    // The process dies and comes back: until it has listed the Nodes it knows nothing of them.
    for _ in 0..2 {
        plane.kill().unwrap();
        plane = folder.up();
        user = User::of_plane(&folder).await;
        user.keeps(&before, 8).await.unwrap();
    }
    // Somebody touches the kubeconfig, without and with another content.
    let secrets: Api<Secret> = Api::namespaced(user.client.clone(), "default");
    let touch = json!({"metadata": {"annotations": {"example.com/touched": "yes"}}});
    secrets.patch("kept-kubeconfig", &PatchParams::default(), &Patch::Merge(&touch)).await.unwrap();
    user.keeps(&before, 5).await.unwrap();
    let secret = secrets.get("kept-kubeconfig").await.unwrap();
    let mut kubeconfig = secret.data.unwrap()["value"].0.clone();
    kubeconfig.extend(b"\n# touched\n");
    let value = k8s_openapi::ByteString(kubeconfig);
    let touch = json!({"data": {"value": value}});
    secrets.patch("kept-kubeconfig", &PatchParams::default(), &Patch::Merge(&touch)).await.unwrap();
    user.keeps(&before, 5).await.unwrap();
    eventually(DEADLINE, "all workers to be healthy", async || user.are_healthy(3).await).await.unwrap();

    // The CA is overwritten: nothing is made from it.
    let ca = secrets.get("kept-ca").await.unwrap();
    let other = json!({"data": {"tls.crt": k8s_openapi::ByteString(b"another".to_vec())}});
    secrets.patch("kept-ca", &PatchParams::default(), &Patch::Merge(&other)).await.unwrap();
    eventually(DEADLINE, "the edited Secret to be refused", async || {
        let owner = user.of(CONTROL_PLANE, "CapstanControlPlane").get("kept-control-plane").await?;
        let condition = owner.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = condition
            .iter()
            .find(|condition| condition["type"] == "CertificatesAvailable")
            .context("not told")?;
        let message = condition["message"].as_str().unwrap_or_default();
        ensure!(message.contains("Secret kept-ca was changed after the cluster began"), "{condition}");
        Ok(())
    })
    .await
    .unwrap();
    let back = json!({ "data": ca.data });
    secrets.patch("kept-ca", &PatchParams::default(), &Patch::Merge(&back)).await.unwrap();
    user.keeps(&before, 3).await.unwrap();
    plane.ensure_running().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ill_machine_is_healed_in_place_and_then_left_to_the_user() {
    let folder = Folder(tempfile::Builder::new().prefix("capstan-kept-").tempdir().unwrap());
    let mut plane = folder.up();
    let user = User::of_plane(&folder).await;
    user.makes_a_cluster(None).await.unwrap();
    let before = user.machines().await.unwrap();
    let worker = before.keys().find(|name| name.contains("workers")).unwrap().clone();
    let steps = json!([{"type": "RestartKubernetes", "timeoutSeconds": 10}]);
    let healing = json!({"spec": {"healing": {"steps": steps}}});
    let control_planes = user.of(CONTROL_PLANE, "CapstanControlPlane");
    control_planes
        .patch("kept-control-plane", &PatchParams::default(), &Patch::Merge(&healing))
        .await
        .unwrap();

    let revision = async || -> Result<u64> {
        let report = user.of("agent.capstan.dev/v1alpha1", "MachineReport").get(&worker).await?;
        report.data["status"]["applied"]["revision"].as_u64().context("nothing applied")
    };
    let first = revision().await.unwrap();
    user.node_is(&worker, "False").await.unwrap();
    eventually(DEADLINE, "Kubernetes to be restarted on the machine", async || {
        ensure!(
            revision().await? > first,
            "still revision {first}: {:?}",
            user.machine_says(&worker, "HealedInPlace").await
        );
        Ok(())
    })
    .await
    .unwrap();
    // Whatever the restart has brought, the Node is said to be ill again until nothing is left to try.
    eventually(DEADLINE, "the machine to need attention", async || {
        user.node_is(&worker, "False").await?;
        let (status, reason, message) = user.machine_says(&worker, "HealedInPlace").await?;
        ensure!(
            (status.as_str(), reason.as_str()) == ("False", "NeedsAttention"),
            "{status} {reason}: {message}"
        );
        ensure!(
            message.contains("capstan.dev/replace-policy") && message.contains("capstan why"),
            "{message}"
        );
        let (_, _, kept) = user.machine_says(&worker, "OwnerRemediated").await?;
        ensure!(kept.contains("Machine is kept"), "{kept}");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(user.machines().await.unwrap(), before);
    user.node_is(&worker, "True").await.unwrap();
    eventually(DEADLINE, "the machine to be well again", async || {
        let (status, reason, _) = user.machine_says(&worker, "HealedInPlace").await?;
        ensure!((status.as_str(), reason.as_str()) == ("True", "Healthy"), "{status} {reason}");
        ensure!(user.machine_says(&worker, "OwnerRemediated").await.is_err(), "its owner is still asked");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(user.machines().await.unwrap(), before);
    plane.ensure_running().unwrap();
}

/// Cluster API's own core knows nothing of the policy: its MachineSets replace a Machine as soon as a health check asks. A
/// health check that names a CapstanRemediationTemplate, as those of Capstan's templates do, does not ask.
#[tokio::test(flavor = "multi_thread")]
async fn upstreams_core_leaves_machines_to_capstan() {
    let folder = Folder(tempfile::Builder::new().prefix("capstan-kept-").tempdir().unwrap());
    let mut plane = folder.up_with("infrastructure,bootstrap,control-plane");
    let user = User::of_plane(&folder).await;
    let kubeconfig = folder.path("data/admin.kubeconfig");
    let mut core =
        UpstreamManagers::start_on(&kubeconfig, &[Manager::Core], &FeatureGates::new()).await.unwrap();
    let template = json!({
        "apiVersion": CONTROL_PLANE, "kind": "CapstanRemediationTemplate", "metadata": {"name": "in-place"},
        "spec": {"template": {"spec": {}}},
    });
    user.apply(&template).await.unwrap();
    let reference = json!({
        "apiVersion": CONTROL_PLANE, "kind": "CapstanRemediationTemplate", "name": "in-place"});
    user.makes_a_cluster(Some(&json!({"templateRef": reference}))).await.unwrap();
    let before = user.machines().await.unwrap();
    let worker = before.keys().find(|name| name.contains("workers")).unwrap().clone();
    let requests = user.of(CONTROL_PLANE, "CapstanRemediation");

    user.node_is(&worker, "False").await.unwrap();
    eventually(DEADLINE, "the machine to be healed in place", async || {
        user.node_is(&worker, "False").await?;
        ensure!(requests.get_opt(&worker).await?.is_some(), "nobody has asked for a remedy");
        let (status, reason, message) = user.machine_says(&worker, "HealedInPlace").await?;
        ensure!(
            (status.as_str(), reason.as_str()) == ("False", "RestartingKubernetes"),
            "{status} {reason}: {message}"
        );
        Ok(())
    })
    .await
    .unwrap();
    user.keeps(&before, 5).await.unwrap();
    eventually(DEADLINE, "the machine to be well again", async || {
        user.node_is(&worker, "True").await?;
        let (status, reason, _) = user.machine_says(&worker, "HealedInPlace").await?;
        ensure!((status.as_str(), reason.as_str()) == ("True", "Healthy"), "{status} {reason}");
        ensure!(requests.get_opt(&worker).await?.is_none(), "the request is still there");
        Ok(())
    })
    .await
    .unwrap();
    assert_eq!(user.machines().await.unwrap(), before);
    plane.ensure_running().unwrap();
    core.ensure_running().unwrap();
}
