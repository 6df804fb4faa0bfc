//! A stage for machines that enrol: a plane, the objects of one cluster in a namespace of its own, and the hands of
//! core, the control plane and the machines themselves, played by the test.

#![allow(dead_code, reason = "each test program uses a part")]

pub(crate) mod story;

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_api::agent::{CredentialRequest, MachineReport};
use capstan_api::bootstrap::{AGENT_ENROLLED, CapstanConfig};
use capstan_api::conditions::{ConditionStatus, get};
use capstan_api::core::{Cluster, Machine};
use capstan_artifacts::Software;
use capstan_bootstrap::{Bootstrap, PlaneAddress};
use capstan_pki::machine_token::TokenQuery;
use capstan_testkit::{RealPlane, eventually, install_crds};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, Resource, ResourceExt as _};
use rcgen::{KeyPair, PublicKeyData as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Where a plane is after it was moved.
pub(crate) const ELSEWHERE: &str = "https://elsewhere.example:6443";

pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// How a plane is reached.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) server: String,
    pub(crate) ca: String,
}

impl Address {
    pub(crate) fn of(plane: &RealPlane) -> Self {
        let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.clone().unwrap();
        let ca = BASE64_STANDARD.decode(cluster.certificate_authority_data.unwrap()).unwrap();
        Self { server: cluster.server.unwrap(), ca: String::from_utf8(ca).unwrap() }
    }

    /// Somebody who shows this, as users of kubeconfigs do.
    pub(crate) async fn client(&self, user: Value) -> Client {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {
                "server": self.server, "certificate-authority-data": BASE64_STANDARD.encode(&self.ca)}}],
            "users": [{"name": "x", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        });
        let kubeconfig = Kubeconfig::from_yaml(&text.to_string()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    pub(crate) async fn with_token(&self, token: &str) -> Client {
        self.client(json!({"token": token})).await
    }
}

/// One cluster in a namespace of its own.
pub(crate) struct Stage {
    pub(crate) admin: Client,
    pub(crate) address: Address,
    pub(crate) namespace: String,
}

impl Stage {
    pub(crate) async fn new(admin: Client, address: Address, namespace: &str) -> Self {
        install_crds(&admin, &capstan_api::crd::all()).await.unwrap();
        let stage = Self { admin, address, namespace: namespace.to_owned() };
        let namespaces: Api<Namespace> = Api::all(stage.admin.clone());
        let named = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        _ = namespaces.create(&PostParams::default(), &named).await;
        let label = json!({"cluster.x-k8s.io/cluster-name": "c"});
        stage
            .make::<Cluster>(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
                "spec": {"infrastructureRef": {
                    "kind": "HostCluster", "name": "c", "apiGroup": "infrastructure.cluster.x-k8s.io"}},
            }))
            .await;
        let ready = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
        let clusters: Api<Cluster> = stage.api();
        clusters.patch_status("c", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
        stage
            .make::<Secret>(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c-plan-key", "labels": label},
                "stringData": {"public": "12345678901234567890123456789012"},
            }))
            .await;
        stage
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.admin.clone(), &self.namespace)
    }

    /// How the stage looks to somebody else.
    pub(crate) fn as_seen_by<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(client.clone(), &self.namespace)
    }

    pub(crate) async fn make<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    /// A Machine with its CapstanConfig, as core would have made them.
    pub(crate) async fn machine(&self, name: &str) {
        let label = json!({"cluster.x-k8s.io/cluster-name": "c"});
        let machine: Machine = self
            .make(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": name, "labels": label},
                "spec": {
                    "clusterName": "c",
                    "bootstrap": {"configRef": {
                        "kind": "CapstanConfig", "name": name, "apiGroup": "bootstrap.cluster.x-k8s.io"}},
                    "infrastructureRef": {
                        "kind": "HostMachine", "name": name, "apiGroup": "infrastructure.cluster.x-k8s.io"},
                },
            }))
            .await;
        self.make::<CapstanConfig>(json!({
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1alpha1", "kind": "CapstanConfig",
            "metadata": {"name": name, "labels": label, "ownerReferences": [{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name,
                "uid": machine.uid(), "controller": true,
            }]},
            "spec": {},
        }))
        .await;
        // What the planner writes.
        self.make::<Secret>(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{name}-plan"), "labels": label}, "stringData": {"plan": name},
        }))
        .await;
        let told = Patch::Merge(json!({"status": {"plan": plan_in_status()}}));
        self.api::<CapstanConfig>().patch_status(name, &PatchParams::default(), &told).await.unwrap();
    }

    /// Runs the controller for as long as the test.
    pub(crate) fn run(&self) -> tokio::task::JoinHandle<()> {
        let client = self.admin.clone();
        tokio::spawn(capstan_bootstrap::run(
            capstan_controller::Caches::new(client),
            self.plane(),
            Software::default(),
            capstan_controller::Scope::default(),
            std::future::pending(),
        ))
    }

    /// The controller, to be run by hand.
    pub(crate) fn reconciler(&self, client: Client) -> Bootstrap {
        Bootstrap::new(capstan_controller::Caches::live(client), self.plane(), Software::default())
    }

    /// The controller of a plane that machines know by another address.
    pub(crate) fn reconciler_elsewhere(&self, client: Client) -> Bootstrap {
        let plane = PlaneAddress { server: ELSEWHERE.to_owned(), ..self.plane() };
        Bootstrap::new(capstan_controller::Caches::live(client), plane, Software::default())
    }

    /// What the machine is told on its standard input, if it is told anything.
    pub(crate) async fn follow_input(&self, name: &str) -> Option<Value> {
        let secret = self.api::<Secret>().get(name).await.unwrap();
        let asked = secret.labels().contains_key("capstan.dev/follow");
        let data = secret.data.and_then(|mut data| data.remove("follow"));
        assert_eq!(asked, data.is_some(), "the label and what it stands for come and go together");
        data.map(|bytes| serde_json::from_slice(&bytes.0).unwrap())
    }

    fn plane(&self) -> PlaneAddress {
        PlaneAddress { server: self.address.server.clone(), ca: self.address.ca.clone().into_bytes() }
    }

    /// What the machine finds in its agent.json.
    pub(crate) async fn agent_config(&self, name: &str) -> Result<Value> {
        let data = self.api::<Secret>().get(name).await?.data.context("no data")?;
        let text = String::from_utf8(data["value"].0.clone())?;
        let document: Value = serde_saphyr::from_str(&text)?;
        Ok(serde_json::from_str(document["write_files"][0]["content"].as_str().context("no file")?)?)
    }

    /// Waits for the bootstrap data, and gives the machine in it.
    pub(crate) async fn started(&self, name: &str) -> Enrolling {
        let config = eventually(DEADLINE, "the bootstrap data", async || self.agent_config(name).await);
        let config = config.await.unwrap();
        let text = |key: &str| config[key].as_str().unwrap().to_owned();
        assert_eq!(
            (text("server"), text("namespace")),
            (self.address.server.clone(), self.namespace.clone())
        );
        let (machine_id, token) = (text("machineID"), text("token"));
        let client = self.address.with_token(&token).await;
        Enrolling { name: name.to_owned(), machine_id, token, client, key: KeyPair::generate().unwrap() }
    }

    /// Writes a request into the status of a report, with any credential.
    pub(crate) async fn ask(
        &self,
        client: &Client,
        name: &str,
        request: &CredentialRequest,
    ) -> Result<(), kube::Error> {
        let patch = json!({"status": {"credentialRequest": request}});
        let api: Api<MachineReport> = self.as_seen_by(client);
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
    }

    /// Waits for a reason of `AgentEnrolled`, and gives the message.
    pub(crate) async fn says(&self, name: &str, reason: &str) -> String {
        eventually(DEADLINE, reason, async || {
            let config = self.api::<CapstanConfig>().get(name).await?;
            let found = get(&config, AGENT_ENROLLED).context("nothing is said")?;
            ensure!(found.reason == reason, "{}: {}", found.reason, found.message);
            ensure!((found.status == ConditionStatus::True) == (reason == "Enrolled"));
            Ok(found.message.clone())
        })
        .await
        .unwrap()
    }

    /// Waits until the report has a token that answers the last request of the machine, and is another one than this.
    pub(crate) async fn token(&self, machine: &Enrolling, not: Option<&str>) -> String {
        eventually(DEADLINE, "a token", async || {
            let token = machine.open(&self.api::<MachineReport>().get(&machine.name).await?);
            ensure!(token.as_deref() != not, "it is still the old one");
            token.context("there is none")
        })
        .await
        .unwrap()
    }
}

/// A machine that has started, with its enrolment token.
pub(crate) struct Enrolling {
    pub(crate) name: String,
    pub(crate) machine_id: String,
    pub(crate) token: String,
    pub(crate) client: Client,
    pub(crate) key: KeyPair,
}

impl Enrolling {
    /// The request it should write: another one each time.
    pub(crate) fn request(&self) -> CredentialRequest {
        request(&self.key)
    }

    /// The token in its report, if that answers its last request.
    pub(crate) fn open(&self, report: &MachineReport) -> Option<String> {
        let CredentialRequest { public_key, nonce } = report.status.as_ref()?.credential_request.as_ref()?;
        let query = TokenQuery { machine_id: &self.machine_id, public_key, nonce };
        query.open(&self.key.serialize_der(), &report.spec.credential.as_ref()?.sealed_token).ok()
    }
}

/// What the planner says in the status of a CapstanConfig.
pub(crate) fn plan_in_status() -> Value {
    json!({"digest": "0a".repeat(32), "revision": 1, "setup": "0b".repeat(32), "machineID": "0c"})
}

/// A request for any key.
pub(crate) fn request(key: &KeyPair) -> CredentialRequest {
    let public_key = BASE64_STANDARD.encode(key.subject_public_key_info());
    let nonce = Timestamp::now().as_nanosecond().to_string();
    CredentialRequest { public_key, nonce }
}
