//! Two planes in memory, a cluster on one of them as controllers would have left it, and ways to look at both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use capstan_apiserver::{ApiServer, Options, Storage, User};
use capstan_mover::{Error, MoveEndpoint, MoveProgress, Transfer, Waits};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tower::Layer as _;

use capstan_testkit::crash::CrashPoint;

/// How long anything may take that usually takes no time.
const DEADLINE: Duration = Duration::from_secs(60);

/// Waits that end at once: nobody is there to be waited for.
pub(crate) const SHORT: Waits =
    Waits { blocked: Duration::from_millis(200), paused: Duration::ZERO, look: Duration::from_millis(10) };

/// A plane in memory with all kinds of ours.
pub(crate) struct Stage {
    pub(crate) server: Arc<ApiServer>,
    pub(crate) client: Client,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        let server = ApiServer::open(Options::new(Storage::Memory)).await.unwrap();
        let client = Client::new(server.service(User::admin()), "default");
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in capstan_api::crd::all() {
            crds.create(&PostParams::default(), &crd).await.unwrap();
        }
        let stage = Self { server, client };
        tokio::time::timeout(DEADLINE, async {
            while !stage.serves_all().await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
        stage
    }

    async fn serves_all(&self) -> bool {
        for (kind, plural, _) in KINDS {
            if self.api(kind, plural).list(&ListParams::default()).await.is_err() {
                return false;
            }
        }
        true
    }

    /// A client that lives for so many writes.
    pub(crate) fn crashing_client(&self, crash_point: &CrashPoint) -> Client {
        Client::new(crash_point.layer(self.server.service(User::admin())), "default")
    }

    fn api(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        let version = KINDS.iter().find(|known| known.0 == kind).map_or("v1", |known| known.2);
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    pub(crate) fn of(&self, kind: &str) -> Api<DynamicObject> {
        let plural = KINDS.iter().find(|known| known.0 == kind).unwrap().1;
        self.api(kind, plural)
    }

    /// Makes an object of namespace `default`, with a status if it has one, and gives a reference to it.
    pub(crate) async fn make(&self, kind: &str, name: &str, owner: Option<&Value>, fields: Value) -> Value {
        let version = KINDS.iter().find(|known| known.0 == kind).unwrap().2;
        let mut body = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        for (key, value) in fields.as_object().unwrap() {
            match (key.as_str(), value) {
                ("metadata", Value::Object(more)) => {
                    body["metadata"].as_object_mut().unwrap().extend(more.clone());
                }
                _ => body[key] = value.clone(),
            }
        }
        if let Some(owner) = owner {
            body["metadata"]["ownerReferences"] = json!([owner]);
        }
        let api = self.of(kind);
        let body: DynamicObject = serde_json::from_value(body).unwrap();
        let made = api
            .create(&PostParams::default(), &body)
            .await
            .unwrap_or_else(|error| panic!("{kind} {name}: {error}"));
        if let Some(status) = fields.get("status") {
            let patch = json!({"status": status});
            api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        }
        json!({"apiVersion": version, "kind": kind, "name": name, "uid": made.metadata.uid, "controller": true})
    }

    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: Value) {
        self.of(kind).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Everything there is, by `MovableKind/name`.
    pub(crate) async fn all(&self) -> BTreeMap<String, DynamicObject> {
        let mut all = BTreeMap::new();
        for (kind, plural, _) in KINDS {
            for object in self.api(kind, plural).list(&ListParams::default()).await.unwrap().items {
                all.insert(format!("{kind}/{}", object.metadata.name.clone().unwrap()), object);
            }
        }
        all
    }
}

/// The kinds in play, with their plurals and versions.
const KINDS: [(&str, &str, &str); 11] = [
    ("Cluster", "clusters", "cluster.x-k8s.io/v1beta2"),
    ("Machine", "machines", "cluster.x-k8s.io/v1beta2"),
    ("CapstanControlPlane", "capstancontrolplanes", "controlplane.cluster.x-k8s.io/v1alpha1"),
    ("CapstanConfig", "capstanconfigs", "bootstrap.cluster.x-k8s.io/v1alpha1"),
    ("HostCluster", "hostclusters", "infrastructure.cluster.x-k8s.io/v1alpha1"),
    ("HostMachine", "hostmachines", "infrastructure.cluster.x-k8s.io/v1alpha1"),
    ("HostMachineTemplate", "hostmachinetemplates", "infrastructure.cluster.x-k8s.io/v1alpha1"),
    ("Host", "hosts", "infrastructure.cluster.x-k8s.io/v1alpha1"),
    ("HostPool", "hostpools", "infrastructure.cluster.x-k8s.io/v1alpha1"),
    ("Secret", "secrets", "v1"),
    ("ConfigMap", "configmaps", "v1"),
];

/// A cluster of one machine on a host of a pool, with everything that belongs to it, and a Secret that does not.
pub(crate) async fn cluster(stage: &Stage) {
    let cluster = stage
        .make(
            "Cluster",
            "c",
            None,
            json!({
                "metadata": {"finalizers": ["cluster.cluster.x-k8s.io"], "labels": {"a": "b"}},
                "spec": {
                    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostCluster", "name": "c"},
                    "controlPlaneRef": {
                        "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "CapstanControlPlane", "name": "c"},
                },
                "status": {
                    "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
                    "conditions": [{"type": "ControlPlaneInitialized", "status": "True", "reason": "Yes", "message": "",
                        "lastTransitionTime": "2026-11-15T00:00:00Z"}],
                },
            }),
        )
        .await;
    stage.make("HostCluster", "c", Some(&cluster), json!({"spec": {}})).await;
    let template = json!({"spec": {"template": {"spec": {}}}});
    stage.make("HostMachineTemplate", "c", Some(&cluster), template).await;
    let infrastructure =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachineTemplate", "name": "c"});
    let control_plane = stage
        .make(
            "CapstanControlPlane",
            "c",
            Some(&cluster),
            json!({"spec": {
                "replicas": 1, "version": "v1.36.0+k3s1",
                "machineTemplate": {"spec": {"infrastructureRef": infrastructure}},
                "config": {"distro": "k3s"},
            }}),
        )
        .await;
    stage
        .make("Secret", "c-plan-key", Some(&control_plane), json!({"stringData": {"private": "secret"}}))
        .await;
    stage.make("Secret", "c-ca", None, json!({"stringData": {"tls.crt": "x"}})).await;
    let machine = stage
        .make(
            "Machine",
            "m",
            Some(&control_plane),
            json!({
                "metadata": {"finalizers": ["machine.cluster.x-k8s.io"]},
                "spec": {
                    "clusterName": "c", "providerID": "capstan://h",
                    "bootstrap": {"dataSecretName": "m"},
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostMachine", "name": "m"},
                },
                "status": {"nodeRef": {"name": "m"}},
            }),
        )
        .await;
    stage
        .make("HostMachine", "m", Some(&machine), json!({"spec": {"claimID": "claim-1", "hostName": "p-0"}}))
        .await;
    let config = stage.make("CapstanConfig", "m", Some(&machine), json!({"spec": {"distro": "k3s"}})).await;
    stage.make("Secret", "m", Some(&config), json!({"stringData": {"value": "data"}})).await;
    let pool = stage.make("HostPool", "p", None, json!({"spec": {"replicas": 1, "simulated": {}}})).await;
    stage
        .make(
            "Host",
            "p-0",
            Some(&pool),
            json!({
                "metadata": {"finalizers": ["host.capstan.dev"]},
                "spec": {"simulated": {}, "claim": {"id": "claim-1", "machineName": "m", "clusterName": "c"}},
            }),
        )
        .await;
    stage
        .make(
            "Host",
            "rack-1",
            None,
            json!({"spec": {"ssh": {
                "address": "10.0.0.1", "credentialsRef": {"name": "rack"}, "trustOnFirstUse": true}}}),
        )
        .await;
    stage.make("Secret", "rack", None, json!({"stringData": {"password": "secret"}})).await;
    stage.make("Secret", "not-ours", None, json!({"stringData": {"a": "b"}})).await;
    stage.make("ConfigMap", "not-ours", None, json!({"data": {"a": "b"}})).await;
}

/// One try to move everything from one stage to the other.
pub(crate) async fn transfer(source: Client, target: Client) -> Result<(), Error> {
    let report = |_: MoveProgress| {};
    let namespace = "default".to_owned();
    let (source, target) = (MoveEndpoint::source(source), MoveEndpoint::target(target));
    Transfer { source, target, namespace, waits: SHORT, report: &report }.run().await
}
