//! The controllers, the API server they run on, and a driver that answers what a test sets for each host.

use anyhow::Result;
use capstan_api::conditions::get;
use capstan_api::core::{Cluster, Machine, MachineAddress, MachineAddressType};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine};
use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_controller::owners;
use capstan_infrastructure::{
    BootstrapData, BootstrapFailure, BootstrapState, DriverError, Drivers, HostDriver, HostKind,
    Infrastructure, Reached, ResetState, controllers,
};
use capstan_testkit::{eventually, install_crds};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// What the driver answers for one host.
#[derive(Clone, Default)]
pub(crate) struct HostAnswers {
    /// Every call fails with this.
    pub(crate) error: Option<String>,
    /// No call returns.
    pub(crate) hangs: bool,
    pub(crate) addresses: Vec<String>,
    /// Bootstrap data fails, with this as the last line it printed.
    pub(crate) fails: Option<String>,
    /// What is left on the host after a reset.
    pub(crate) left: Vec<String>,
    /// A reset does not end.
    pub(crate) keeps_resetting: bool,
    /// Claims that the host was reset for.
    pub(crate) resets: Vec<String>,
}

/// Answers what a test has set.
#[derive(Clone, Default)]
pub(crate) struct Bench(Arc<Mutex<BTreeMap<String, HostAnswers>>>);

impl Bench {
    pub(crate) fn set(&self, host: &str, change: impl FnOnce(&mut HostAnswers)) {
        change(self.0.lock().unwrap().entry(host.to_owned()).or_default());
    }

    pub(crate) fn of(&self, host: &str) -> HostAnswers {
        self.0.lock().unwrap().get(host).cloned().unwrap_or_default()
    }

    async fn ask(&self, host: &Host) -> Result<HostAnswers, DriverError> {
        let answers = self.of(&host.name_any());
        if answers.hangs {
            futures::future::pending::<()>().await;
        }
        match answers.error {
            Some(why) => Err(DriverError::Unreachable(why)),
            None => Ok(answers),
        }
    }
}

impl HostDriver for Bench {
    fn facts<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Reached, DriverError>> {
        Box::pin(async {
            let addresses = self.ask(host).await?.addresses.into_iter();
            let address = |address| MachineAddress { type_: MachineAddressType::InternalIP, address };
            Ok(Reached { addresses: addresses.map(address).collect(), ..Reached::default() })
        })
    }

    fn bootstrap<'a>(
        &'a self,
        host: &'a Host,
        _: &'a str,
        _: &'a BootstrapData,
    ) -> BoxFuture<'a, Result<BootstrapState, DriverError>> {
        Box::pin(async {
            Ok(match self.ask(host).await?.fails {
                Some(line) => BootstrapState::Failed(BootstrapFailure {
                    step: "runcmd 1".to_owned(),
                    exit_code: Some(7),
                    last_lines: vec![line],
                }),
                None => BootstrapState::Done,
            })
        })
    }

    fn reset<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
    ) -> BoxFuture<'a, Result<ResetState, DriverError>> {
        Box::pin(async {
            let answers = self.ask(host).await?;
            self.set(&host.name_any(), |answers| answers.resets.push(claim_id.to_owned()));
            Ok(match (answers.keeps_resetting, answers.left) {
                (true, _) => ResetState::Running,
                (false, left) if left.is_empty() => ResetState::Clean,
                (false, left) => ResetState::Dirty { left },
            })
        })
    }
}

pub(crate) struct Yard {
    server: Arc<ApiServer>,
    pub(crate) bench: Bench,
    pokes: AtomicUsize,
    _controllers: JoinSet<()>,
}

impl Yard {
    /// With a Cluster `c` whose infrastructure is provisioned.
    pub(crate) async fn start() -> Self {
        let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let client = Client::new(server.service(User::admin()), "default");
        install_crds(&client, &capstan_api::crd::all()).await.unwrap();
        let bench = Bench::default();
        let drivers = Drivers::none().with(HostKind::Simulated, Arc::new(bench.clone()));
        let drivers = drivers.with_time_limit(Duration::from_secs(2));
        let infrastructure = Infrastructure::new(client, drivers);
        let never = futures::future::pending::<()>().shared();
        let mut running = JoinSet::new();
        for controller in controllers(&infrastructure, &never) {
            running.spawn(controller);
        }
        let yard = Self { server, bench, pokes: AtomicUsize::default(), _controllers: running };
        yard.furnish().await;
        yard
    }

    async fn furnish(&self) {
        let secret = json!({"metadata": {"name": "data"}, "stringData": {"value": "x"}});
        let secret: Secret = serde_json::from_value(secret).unwrap();
        self.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
        let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "c"});
        let spec = json!({
            "infrastructureRef": reference(GROUP, "HostCluster"),
            "controlPlaneRef": reference("controlplane.cluster.x-k8s.io", "CapstanControlPlane"),
            "controlPlaneEndpoint": {"host": "api.example", "port": 6443},
        });
        let cluster: Cluster = self.create("c", json!({}), spec).await;
        let owned = json!({"ownerReferences": [owners::plain(&cluster)]});
        self.create::<HostCluster>("c", owned, json!({})).await;
        self.change_status::<Cluster>("c", json!({"initialization": {"infrastructureProvisioned": true}}))
            .await;
    }

    pub(crate) fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(Client::new(self.server.service(User::admin()), "default"), "default")
    }

    pub(crate) async fn create<K>(&self, name: &str, mut metadata: Value, spec: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        metadata["name"] = json!(name);
        let object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata, "spec": spec});
        let object: K = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn change<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    async fn change_status<K>(&self, name: &str, status: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap()
    }

    pub(crate) async fn host(&self, name: &str, domain: &str, address: &str) {
        self.bench.set(name, |answers| answers.addresses = vec![address.to_owned()]);
        let spec = json!({"simulated": {}, "failureDomain": domain});
        self.create::<Host>(name, json!({"labels": {"name": name}}), spec).await;
    }

    /// Makes the Host controller ask the host again, as its timer does after some minutes.
    pub(crate) async fn ask_again(&self, host: &str) {
        let number = self.pokes.fetch_add(1, Ordering::Relaxed).to_string();
        self.change::<Host>(host, json!({"metadata": {"annotations": {"poke": number}}})).await;
    }

    /// A Machine and its HostMachine, which claims the host with the label of this name.
    pub(crate) async fn machine(&self, name: &str, host: &str) {
        self.machine_with(name, json!({"hostSelector": {"matchLabels": {"name": host}}})).await;
    }

    /// A Machine and its HostMachine with this spec.
    pub(crate) async fn machine_with(&self, name: &str, of_host: Value) {
        let labels =
            json!({"labels": {"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/control-plane": ""}});
        let reference = json!({"apiGroup": GROUP, "kind": "HostMachine", "name": name});
        let spec = json!({"clusterName": "c", "bootstrap": {"dataSecretName": "data"}, "infrastructureRef": reference});
        let machine: Machine = self.create(name, labels.clone(), spec).await;
        let mut metadata = labels;
        metadata["ownerReferences"] = json!([owners::controller(&machine)]);
        self.create::<HostMachine>(name, metadata, of_host).await;
    }

    /// Waits until the condition has this reason, and gives its message.
    pub(crate) async fn says<K>(&self, name: &str, condition: &str, reason: &str) -> String
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + capstan_api::conditions::Conditioned,
    {
        eventually(DEADLINE, &format!("{condition} of {name} to say {reason}"), async || {
            let found = self.api::<K>().get(name).await?;
            let said = get(&found, condition).map(|said| (said.reason.clone(), said.message.clone()));
            match said {
                Some((found, message)) if found == reason => Ok(message),
                other => anyhow::bail!("{other:?}"),
            }
        })
        .await
        .unwrap()
    }
}
