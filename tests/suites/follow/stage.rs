//! Management planes that a cluster is moved between, and the machines it is made of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use capstan_plan::{Epoch, SealedPlan, SigningKey};
use capstan_testkit::{RealPlane, eventually, install_crds};
use capstan_tests::{Running, capstan, clusterctl, condition, namespaced, not_true};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

/// Some twenty seconds are usual for the longest wait; a loaded machine needs more.
pub(crate) const DEADLINE: Duration = Duration::from_secs(400);
pub(crate) const OLD: &str = "v1.36.0+k3s1";
pub(crate) const NEW: &str = "v1.36.1+k3s1";
pub(crate) const CORE: &str = "cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1alpha1";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1alpha1";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1alpha1";
const REPORTS: &str = "agent.capstan.dev/v1alpha1";
const CLUSTER: &str = "moving";
const WORKERS: &str = "moving-workers";

/// Where simulated machines are.
pub(crate) struct Yard(tempfile::TempDir);

impl Yard {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("capstan-follow-").tempdir().unwrap())
    }

    /// The folder of the machines that clusters are made of.
    pub(crate) fn hosts(&self) -> PathBuf {
        self.folder("hosts")
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What must not change by a move: which machine it is, since when it runs, and every run of its services.
    pub(crate) fn machines(&self) -> Result<BTreeMap<String, Value>> {
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(self.hosts().join("sim/hosts/default"))? {
            let entry = entry?;
            let state: Value = serde_json::from_slice(&std::fs::read(entry.path().join("vm.json"))?)?;
            let life = &state["life"];
            let kept = json!({
                "machineId": state["machineId"], "bootId": state["bootId"], "units": state["units"],
                "data": state["data"], "claim": life["claimId"], "resetting": life["resetting"],
                "reset": state["lastReset"],
            });
            all.insert(entry.file_name().to_string_lossy().into_owned(), kept);
        }
        ensure!(!all.is_empty(), "there is no machine");
        Ok(all)
    }
}

/// A management plane, and somebody who uses it.
pub(crate) struct Side {
    name: &'static str,
    plane: RealPlane,
}

/// A cluster as it stands, by the names of its Machines.
#[derive(Debug, PartialEq)]
pub(crate) struct Standing(BTreeMap<String, Stands>);

#[derive(Clone, Debug, PartialEq)]
struct Stands {
    /// UID of the Machine.
    machine: String,
    machine_id: String,
    claim: String,
    host: String,
    /// UID of the Node.
    node: String,
    /// What it has carried out.
    applied: Value,
}

impl Standing {
    /// The same machines, hosts and Nodes, with the same plans, as other objects.
    pub(crate) fn is_the_same_elsewhere(&self, other: &Self) -> Result<()> {
        let without = |standing: &Self| {
            let mut all = standing.0.clone();
            all.values_mut().for_each(|stands| stands.machine.clear());
            all
        };
        ensure!(without(self) == without(other), "{self:#?}\nbecame\n{other:#?}");
        ensure!(self.0.iter().all(|(name, stands)| stands.machine != other.0[name].machine), "not moved");
        Ok(())
    }

    /// The same machines, hosts and Nodes.
    pub(crate) fn is_the_same_with_other_plans(&self, other: &Self) -> Result<()> {
        let without = |standing: &Self| {
            let mut all = standing.0.clone();
            for stands in all.values_mut() {
                stands.machine.clear();
                stands.applied = Value::Null;
            }
            all
        };
        ensure!(without(self) == without(other), "{self:#?}\nbecame\n{other:#?}");
        Ok(())
    }
}

impl Side {
    /// A plane with everything that clusterctl would have put on it, but for what runs.
    pub(crate) async fn start(name: &'static str) -> Result<Self> {
        let plane = RealPlane::start().await?;
        let mut crds =
            capstan_api::crd::all().iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
        for crd in &mut crds {
            crd["metadata"]["labels"]["clusterctl.cluster.x-k8s.io"] = json!("");
        }
        install_crds(&plane.client(), &crds).await?;
        Ok(Self { name, plane })
    }

    pub(crate) fn manager(&self, folder: impl AsRef<Path>) -> Running {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).unwrap();
        let log = folder.with_extension(format!("{}.log", self.name));
        let (folder, kubeconfig) = (folder.to_str().unwrap(), self.plane.kubeconfig().to_str().unwrap());
        let args = ["manager", "--kubeconfig", kubeconfig, "--controllers", "all", "--data-dir", folder];
        Running::start(&args, &log).unwrap()
    }

    fn of(&self, group_version: &str, kind: &str) -> Api<DynamicObject> {
        namespaced(&self.plane.client(), "default", group_version, kind)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.plane.client(), "default")
    }

    pub(crate) async fn list(&self, group_version: &str, kind: &str) -> Result<Vec<DynamicObject>> {
        let found = self.of(group_version, kind).list(&ListParams::default()).await;
        Ok(found.with_context(|| format!("cannot list {kind} {}", self.name))?.items)
    }

    async fn apply(&self, object: &Value) -> Result<()> {
        let text = |field: &str| object[field].as_str().context("a text").map(str::to_owned);
        let api = self.of(&text("apiVersion")?, &text("kind")?);
        let name = object["metadata"]["name"].as_str().context("a name")?;
        api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(object)).await?;
        Ok(())
    }

    pub(crate) async fn makes_a_cluster(&self) -> Result<()> {
        self.apply(&json!({
            "apiVersion": INFRASTRUCTURE, "kind": "HostPool", "metadata": {"name": "simulated"},
            "spec": {"replicas": 3, "simulated": {"bootMilliseconds": 100, "stepMilliseconds": 5}},
        }))
        .await?;
        let version = ["--kubernetes-version", OLD];
        let size = ["--control-plane-machine-count", "1", "--worker-machine-count", "1"];
        let manifests = capstan(&[&["generate", "cluster", CLUSTER], &version[..], &size[..]].concat())?;
        for document in manifests.split("\n---\n") {
            self.apply(&serde_saphyr::from_str(document)?).await?;
        }
        Ok(())
    }

    pub(crate) async fn asks_for(&self, version: &str) -> Result<()> {
        let parameters = PatchParams::default();
        let change = Patch::Merge(json!({"spec": {"version": version}}));
        self.of(CONTROL_PLANE, "CapstanControlPlane")
            .patch("moving-control-plane", &parameters, &change)
            .await?;
        let change = Patch::Merge(json!({"spec": {"template": {"spec": {"version": version}}}}));
        self.of(CORE, "MachineDeployment").patch(WORKERS, &parameters, &change).await?;
        Ok(())
    }

    /// Moves everything with the real clusterctl.
    pub(crate) async fn move_to(&self, other: &Self) -> Result<()> {
        let [from, to] = [self, other].map(|side| side.plane.kubeconfig().to_str().unwrap());
        let args = ["move", "--namespace", "default", "-v", "5", "--kubeconfig", from, "--to-kubeconfig", to];
        clusterctl(&args, &[], "").map(drop)
    }

    /// Nothing of the cluster or its hosts is left.
    pub(crate) async fn is_empty(&self) -> Result<()> {
        eventually(DEADLINE, "nothing to be left", async || {
            for kind in ["Cluster", "MachineDeployment", "MachineSet", "Machine"] {
                ensure!(self.list(CORE, kind).await?.is_empty(), "{kind}");
            }
            for kind in ["HostPool", "Host", "HostMachine", "HostCluster"] {
                ensure!(self.list(INFRASTRUCTURE, kind).await?.is_empty(), "{kind}");
            }
            ensure!(self.list(REPORTS, "MachineReport").await?.is_empty(), "MachineReport");
            Ok(())
        })
        .await
    }

    async fn plane_name(&self) -> Result<String> {
        let namespaces: Api<Namespace> = Api::all(self.plane.client());
        namespaces.get("kube-system").await?.uid().context("no UID")
    }

    /// Waits until the cluster runs this version, its agents have enrolled here and carried their plans out, and are
    /// fenced at this epoch; and says how it stands.
    pub(crate) async fn until_up_to_date(&self, version: &str, epoch: u64) -> Result<Standing> {
        let what = format!("the cluster to stand {}", self.name);
        eventually(DEADLINE, &what, async || self.standing(version, epoch).await).await
    }

    async fn standing(&self, version: &str, epoch: u64) -> Result<Standing> {
        let cluster = self.of(CORE, "Cluster").get(CLUSTER).await?;
        ensure!(condition(&cluster, "Available") == Some("True"), not_true(&cluster));
        let plane = self.plane_name().await?;
        let key = self.secrets().get("moving-plan-key").await?.data.context("no key")?;
        let (at, by) = (text(&key, "epoch")?, text(&key, "plane")?);
        ensure!((at.as_str(), &by) == (epoch.to_string().as_str(), &plane), "epoch {at} of {by}");
        let nodes = self.nodes().await?;
        let mut all = BTreeMap::new();
        for machine in self.list(CORE, "Machine").await? {
            let name = machine.name_any();
            ensure!(condition(&machine, "Ready") == Some("True"), "{name}: {}", not_true(&machine));
            ensure!(condition(&machine, "UpToDate") == Some("True"), "{name}: {}", not_true(&machine));
            ensure!(
                machine.data["spec"]["version"] == version,
                "{name}: {}",
                machine.data["spec"]["version"]
            );
            let of = |key: &str| machine.data["spec"][key]["name"].as_str().unwrap_or_default().to_owned();
            let config = machine.data.pointer("/spec/bootstrap/configRef/name").and_then(Value::as_str);
            let config = self.of(BOOTSTRAP, "CapstanConfig").get(config.context("no config")?).await?;
            ensure!(condition(&config, "AgentEnrolled") == Some("True"), "{name}: {}", not_true(&config));
            let data = self.secrets().get(&config.name_any()).await?;
            ensure!(!data.labels().contains_key("capstan.dev/follow"), "{name} is told to follow");
            let host = self.of(INFRASTRUCTURE, "HostMachine").get(&of("infrastructureRef")).await?;
            let spec = &host.data["spec"];
            let host =
                self.of(INFRASTRUCTURE, "Host").get(spec["hostName"].as_str().unwrap_or_default()).await?;
            ensure!(host.data["spec"]["claim"]["id"] == spec["claimID"], "{name}: not claimed");
            ensure!(host.data["spec"]["quarantine"].is_null(), "{name}: quarantined");
            let report = self.of(REPORTS, "MachineReport").get(&name).await?;
            let with = &report.data["spec"]["enrolledWith"];
            ensure!(
                with["plane"] == plane.as_str() && with["server"] == self.plane.server(),
                "{name}: {with}"
            );
            let status = &report.data["status"];
            ensure!(status["phase"] == "Applied", "{name}: {status}");
            let plan = self.secrets().get(&format!("{name}-plan")).await?.data.context("no plan")?;
            ensure!(status["applied"]["digest"] == text(&plan, "digest")?.as_str(), "{name}: {status}");
            let node = nodes.iter().find(|node| node.name_any() == name).context("no Node")?;
            let runs = node.status.as_ref().and_then(|status| status.node_info.as_ref());
            let runs = runs.map(|info| info.kubelet_version.as_str());
            ensure!(runs == Some(version), "{name} runs {runs:?}");
            let id = config.annotations().get("capstan.dev/machine-id").cloned();
            let stands = Stands {
                machine: machine.uid().unwrap_or_default(),
                machine_id: id.context("no identity")?,
                claim: spec["claimID"].as_str().unwrap_or_default().to_owned(),
                host: host.name_any(),
                node: node.uid().unwrap_or_default(),
                applied: status["applied"].clone(),
            };
            all.insert(name, stands);
        }
        ensure!(all.len() == 2 && nodes.len() == 2, "{} machines, {} Nodes", all.len(), nodes.len());
        ensure!(self.list(INFRASTRUCTURE, "Host").await?.len() == 3, "not three hosts");
        // An old MachineSet that goes during a move stops clusterctl, which has already listed it.
        let sets = self.list(CORE, "MachineSet").await?;
        ensure!(sets.len() == 1, "{} MachineSets", sets.len());
        Ok(Standing(all))
    }

    /// The Nodes, asked of the workload cluster itself.
    async fn nodes(&self) -> Result<Vec<Node>> {
        let secret = self.secrets().get("moving-kubeconfig").await?;
        let kubeconfig = secret.data.as_ref().and_then(|data| data.get("value")).context("no kubeconfig")?;
        let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(&kubeconfig.0)?)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let nodes: Api<Node> = Api::all(Client::try_from(config)?);
        Ok(nodes.list(&ListParams::default()).await?.items)
    }

    /// The key that signs plans.
    pub(crate) async fn plan_key(&self) -> Result<SigningKey> {
        let key = self.secrets().get("moving-plan-key").await?.data.context("no key")?;
        Ok(SigningKey::from_pkcs8(&key["private"].0)?)
    }

    /// Replaces the key that signs plans, and gives what the command prints.
    pub(crate) fn rotates_the_plan_key(&self) -> Result<String> {
        let kubeconfig = self.plane.kubeconfig().to_str().context("a path")?;
        capstan(&["rotate", "plan-key", CLUSTER, "--namespace", "default", "--kubeconfig", kubeconfig])
    }

    /// A machine refuses a plan that somebody has signed with this key for this epoch: what the plane that was left could have
    /// written, had its manager not been stopped in time, or somebody who has found an old key.
    pub(crate) async fn is_refused(&self, key: &SigningKey, epoch: u64, said: &str) -> Result<()> {
        let paused = |so: Option<bool>| Patch::Merge(json!({"spec": {"paused": so}}));
        let (clusters, parameters) = (self.of(CORE, "Cluster"), PatchParams::default());
        clusters.patch(CLUSTER, &parameters, &paused(Some(true))).await?;
        let machine = self.list(CORE, "Machine").await?[0].name_any();
        let name = format!("{machine}-plan");
        let data = self.secrets().get(&name).await?.data.context("no plan")?;
        let mut plan = SealedPlan::parse(&data["plan"].0)?.plan().clone();
        plan.revision = plan.revision.next().context("a revision")?;
        plan.epoch = Epoch(epoch);
        let forged = plan.seal()?.sign(key).to_secret_data();
        let forged: BTreeMap<String, ByteString> =
            forged.into_iter().map(|(key, value)| (key, ByteString(value))).collect();
        self.secrets().patch(&name, &parameters, &Patch::Merge(json!({"data": forged}))).await?;
        eventually(DEADLINE, "the order to be refused", async || {
            let report = self.of(REPORTS, "MachineReport").get(&machine).await?;
            let status = &report.data["status"];
            let message = status["message"].as_str().unwrap_or_default();
            ensure!(status["phase"] == "Refused" && message.contains(said), "{status}");
            Ok(())
        })
        .await?;
        clusters.patch(CLUSTER, &parameters, &paused(None)).await?;
        Ok(())
    }

    /// Copies every object as a backup would have it: with spec, without status, with owners by their new UIDs.
    pub(crate) async fn copies_to(&self, other: &Self) -> Result<()> {
        let folder = self.plane.folder().join("backup");
        std::fs::create_dir_all(&folder)?;
        let folder = folder.to_str().context("a path")?;
        let [from, to] = [self, other].map(|side| side.plane.kubeconfig().to_str().unwrap());
        for (folder_flag, plane_flag, plane) in
            [("--to-directory", "--kubeconfig", from), ("--from-directory", "--to-kubeconfig", to)]
        {
            let args = ["move", "--namespace", "default", folder_flag, folder, plane_flag, plane];
            clusterctl(&args, &[], "")?;
        }
        // It was paused to be copied, here and there.
        let paused = |so: Option<bool>| Patch::Merge(json!({"spec": {"paused": so}}));
        self.of(CORE, "Cluster").patch(CLUSTER, &PatchParams::default(), &paused(None)).await?;
        other.of(CORE, "Cluster").patch(CLUSTER, &PatchParams::default(), &paused(Some(true))).await?;
        Ok(())
    }

    pub(crate) async fn resumes(&self) -> Result<()> {
        let paused = Patch::Merge(json!({"spec": {"paused": null}}));
        self.of(CORE, "Cluster").patch(CLUSTER, &PatchParams::default(), &paused).await?;
        Ok(())
    }

    pub(crate) async fn deletes_the_cluster(&self) -> Result<()> {
        self.of(CORE, "Cluster").delete(CLUSTER, &DeleteParams::default()).await?;
        eventually(DEADLINE, "everything to be gone and every host to be clean", async || {
            for kind in ["Cluster", "MachineSet", "Machine"] {
                ensure!(self.list(CORE, kind).await?.is_empty(), "{kind}");
            }
            for host in self.list(INFRASTRUCTURE, "Host").await? {
                ensure!(
                    host.data["status"]["state"] == "Available",
                    "{}: {}",
                    host.name_any(),
                    host.data["status"]
                );
            }
            Ok(())
        })
        .await
    }
}

fn text(data: &BTreeMap<String, ByteString>, key: &str) -> Result<String> {
    Ok(String::from_utf8(data.get(key).with_context(|| format!("no {key}"))?.0.clone())?)
}
