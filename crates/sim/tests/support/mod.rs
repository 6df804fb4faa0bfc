//! Test fixture: a real management plane with Capstan's controllers and simulated hosts. The test plays the other
//! providers (core, bootstrap, control plane) in the hand-offs.

pub(crate) mod objects;
pub(crate) mod plans;

use anyhow::{Context as _, Result, ensure};
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostPool, HostState};
use capstan_infrastructure::{Drivers, HostKind, Infrastructure, controllers};
use capstan_sim::Sim;
use capstan_testkit::{RealPlane, eventually, install_crds};
use futures::FutureExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

pub(crate) const NAMESPACE: &str = "default";
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Yard {
    running: Mutex<Option<Running>>,
    pub(crate) plane: RealPlane,
    pub(crate) folder: TempDir,
    pub(crate) trust: plans::Trust,
}

/// Our process: inside the test, where it is cut off at its awaits, or a child, which is killed wherever it is.
enum Running {
    Here { sim: Sim, controllers: JoinSet<()> },
    Child(std::process::Child),
}

/// Tells the child what to work on.
const CHILD: &str = "CAPSTAN_SIM_CHILD";

async fn run(client: kube::Client, folder: &Path) -> Result<(Sim, JoinSet<()>)> {
    let sim = Sim::open(folder).await?;
    let drivers = Drivers::none().with(HostKind::Simulated, Arc::new(sim.clone()));
    let never = futures::future::pending::<()>().shared();
    let all = controllers(&Infrastructure::new(client, drivers), &never);
    Ok((sim, all.into_iter().collect()))
}

/// If this process is the child of a yard, works for it until it is killed.
pub(crate) async fn be_the_child() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    capstan_testkit::install_crypto_provider();
    let client = kube::Client::try_default().await.expect("the plane's kubeconfig");
    let (_sim, mut controllers) = run(client, Path::new(&folder)).await.expect("the simulation");
    while controllers.join_next().await.is_some() {}
}

impl Drop for Yard {
    fn drop(&mut self) {
        if let Some(Running::Child(child)) = self.running.get_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Yard {
    pub(crate) async fn start() -> Result<Self> {
        let plane = RealPlane::start().await?;
        install_crds(&plane.client(), &capstan_api::crd::all()).await?;
        let yard = Self {
            running: Mutex::default(),
            plane,
            folder: tempfile::tempdir()?,
            trust: plans::Trust::new()?,
        };
        yard.open().await?;
        Ok(yard)
    }

    /// Starts our process: the simulation and the controllers.
    pub(crate) async fn open(&self) -> Result<()> {
        let (sim, controllers) = run(self.plane.client(), self.folder.path()).await?;
        *self.running.lock().await = Some(Running::Here { sim, controllers });
        Ok(())
    }

    /// The same as a process of its own: this test program again, which finds out in [`be_the_child`].
    pub(crate) async fn open_child(&self, test: &str) -> Result<()> {
        let child = std::process::Command::new(std::env::current_exe()?)
            .args(["--exact", test])
            .env(CHILD, self.folder.path())
            .env("KUBECONFIG", self.plane.kubeconfig())
            .stdout(std::process::Stdio::null())
            .spawn()?;
        *self.running.lock().await = Some(Running::Child(child));
        Ok(())
    }

    /// Cuts our process off, wherever it is. Only what is on disk and in objects is left.
    pub(crate) async fn kill(&self) {
        match self.running.lock().await.take() {
            Some(Running::Here { sim, mut controllers }) => {
                controllers.shutdown().await;
                sim.close().await;
            }
            Some(Running::Child(mut child)) => {
                // SIGKILL. An error says that it ended by itself, which the next wait will tell.
                let _ = child.kill();
                let _ = child.wait();
            }
            None => {}
        }
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.plane.client(), NAMESPACE)
    }

    pub(crate) async fn create<K>(&self, object: Value) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object)?;
        Ok(self.api().create(&PostParams::default(), &object).await?)
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: Value) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        Ok(self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?)
    }

    pub(crate) async fn pool(&self, replicas: i32) -> Result<()> {
        self.create::<HostPool>(objects::pool(replicas)).await?;
        eventually(DEADLINE, "the hosts of the pool", async || {
            let pool = self.api::<HostPool>().get("yard").await?;
            let available = pool.status.and_then(|status| status.available_replicas);
            ensure!(available == Some(replicas), "{available:?}");
            Ok(())
        })
        .await
    }

    /// A Cluster whose HostCluster is provisioned, as core would leave it. Gives the port of its endpoint.
    pub(crate) async fn cluster(&self) -> Result<u16> {
        let cluster: Cluster = self.create(objects::cluster()).await?;
        self.create::<HostCluster>(objects::host_cluster(&cluster)).await?;
        let endpoint = eventually(DEADLINE, "the HostCluster to be provisioned", async || {
            let found = self.api::<HostCluster>().get("c").await?;
            let provisioned =
                found.status.and_then(|status| status.initialization).and_then(|init| init.provisioned);
            ensure!(provisioned == Some(true));
            found.spec.control_plane_endpoint.context("no endpoint")
        })
        .await?;
        let status = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
        self.api::<Cluster>().patch_status("c", &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(endpoint.port.try_into()?)
    }

    /// A Machine with all that others make for it.
    pub(crate) async fn machine(&self, name: &str) -> Result<()> {
        let kubeconfig = std::fs::read_to_string(self.plane.kubeconfig())?;
        let token = self.administrator_token(name).await?;
        let data = objects::bootstrap_secret(name, &self.trust, &serde_json::from_str(&kubeconfig)?, &token);
        self.create::<k8s_openapi::api::core::v1::Secret>(data).await?;
        self.create::<capstan_api::agent::MachineReport>(objects::report(name)).await?;
        let machine: Machine = self.create(objects::machine(name)).await?;
        self.create::<HostMachine>(objects::host_machine(&machine)).await?;
        Ok(())
    }

    /// A token of an account that may do everything.
    async fn administrator_token(&self, name: &str) -> Result<String> {
        let account = json!({"metadata": {"name": name}});
        self.create::<ServiceAccount>(account).await?;
        let binding = json!({
            "metadata": {"name": format!("machine-{name}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        });
        let bindings: Api<ClusterRoleBinding> = Api::all(self.plane.client());
        bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
        let accounts = self.api::<ServiceAccount>();
        let token =
            accounts.create_token_request(name, &PostParams::default(), &TokenRequest::default()).await?;
        token.status.context("no token")?.token.context("no token")
    }

    /// Waits until the machine runs, and gives its provider ID.
    pub(crate) async fn provisioned(&self, name: &str) -> Result<String> {
        eventually(DEADLINE, &format!("HostMachine {name} to be provisioned"), async || {
            let found = self.api::<HostMachine>().get(name).await?;
            let status = found.status.clone().unwrap_or_default();
            let provisioned = status.initialization.clone().and_then(|init| init.provisioned);
            ensure!(provisioned == Some(true), "{}", json!(status));
            found.spec.provider_id.context("no provider ID")
        })
        .await
    }

    pub(crate) async fn delete_machine(&self, name: &str) -> Result<()> {
        self.api::<HostMachine>().delete(name, &DeleteParams::default()).await?;
        eventually(DEADLINE, &format!("HostMachine {name} to go"), async || {
            let found = self.api::<HostMachine>().get_opt(name).await?;
            ensure!(found.is_none(), "{}", json!(found.and_then(|found| found.status)));
            Ok(())
        })
        .await
    }

    /// Waits until all hosts are in a state, and nobody's.
    pub(crate) async fn all_hosts_are(&self, state: HostState) -> Result<()> {
        eventually(DEADLINE, &format!("all hosts to be {state:?}"), async || {
            for host in self.api::<Host>().list(&Default::default()).await? {
                let found = host.status.as_ref().and_then(|status| status.state);
                ensure!(found == Some(state), "{} is {found:?}: {}", host.name_any(), json!(host.spec));
                ensure!(host.spec.claim.is_none(), "{} is claimed", host.name_any());
            }
            Ok(())
        })
        .await
    }

    /// A kubeconfig for the workload cluster, as its Secret would hold it.
    pub(crate) fn workload_kubeconfig(&self, port: u16) -> Result<PathBuf> {
        let path = self.plane.folder().join("workload.kubeconfig");
        std::fs::write(&path, self.trust.kubeconfig(port)?)?;
        Ok(path)
    }

    pub(crate) async fn workload(&self, port: u16, args: &[&str]) -> Result<String> {
        self.plane.kubectl_as(&self.workload_kubeconfig(port)?, args).await?.success()
    }
}
