//! The controllers on a real API server, with hosts that do at once what they are told.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

use anyhow::{Result, ensure};
use capstan_api::conditions::get;
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostPool};
use capstan_controller::owners;
use capstan_infrastructure::{
    BootstrapData, BootstrapState, DriverError, Drivers, FollowState, HandOver, HostDriver, HostKind,
    Infrastructure, LocalMachine, MachineState, PoolOfMachines, ProvisionError, Provisioner, Reached,
    ResetState, controllers,
};
use capstan_testkit::{RealPlane, eventually, install_crds};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

const DEADLINE: Duration = Duration::from_secs(60);
const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// Remembers which claims each host was started for, what agents were told, and which hosts are forgotten.
#[derive(Default)]
struct Obedient(
    Mutex<BTreeMap<String, BTreeSet<String>>>,
    Mutex<Vec<(String, Vec<u8>)>>,
    Mutex<BTreeSet<String>>,
);

impl HostDriver for Obedient {
    fn facts<'a>(&'a self, _: &'a Host) -> BoxFuture<'a, Result<Reached, DriverError>> {
        Box::pin(async { Ok(Reached::default()) })
    }

    fn bootstrap<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        _: &'a BootstrapData,
    ) -> BoxFuture<'a, Result<BootstrapState, DriverError>> {
        self.0.lock().unwrap().entry(host.name_any()).or_default().insert(claim_id.to_owned());
        Box::pin(async { Ok(BootstrapState::Done) })
    }

    fn follow<'a>(
        &'a self,
        _: &'a Host,
        claim_id: &'a str,
        hand_over: &'a HandOver,
    ) -> BoxFuture<'a, Result<FollowState, DriverError>> {
        self.1.lock().unwrap().push((claim_id.to_owned(), hand_over.0.clone()));
        let state = match hand_over.0.as_slice() {
            b"from behind" => FollowState::Refused("it is of manager epoch 1".to_owned()),
            _ => FollowState::Follows,
        };
        Box::pin(async { Ok(state) })
    }

    fn reset<'a>(&'a self, _: &'a Host, _: &'a str) -> BoxFuture<'a, Result<ResetState, DriverError>> {
        Box::pin(async { Ok(ResetState::Clean) })
    }

    fn forget<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<(), DriverError>> {
        self.2.lock().unwrap().insert(host.name_any());
        Box::pin(async { Ok(()) })
    }
}

/// Makes machines that are nothing but a name. Each boots while it is asked for the second time.
#[derive(Default)]
struct Shed {
    machines: Mutex<BTreeMap<String, u32>>,
    removed: Mutex<BTreeSet<String>>,
}

impl Provisioner for Shed {
    fn ensure<'a>(
        &'a self,
        _: &'a PoolOfMachines,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<MachineState, ProvisionError>> {
        assert_eq!(key, "ssh-ed25519 AAAA");
        let mut machines = self.machines.lock().unwrap();
        let asked = machines.entry(name.to_owned()).or_default();
        *asked += 1;
        let up = LocalMachine {
            address: "10.0.0.1".to_owned(),
            port: 22,
            host_keys: vec!["ssh-ed25519 AAAA".to_owned()],
        };
        let state = if *asked > 1 { MachineState::Up(up) } else { MachineState::Starting };
        Box::pin(async { Ok(state) })
    }

    fn remove<'a>(
        &'a self,
        _: &'a PoolOfMachines,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ProvisionError>> {
        self.machines.lock().unwrap().remove(name);
        self.removed.lock().unwrap().insert(name.to_owned());
        Box::pin(async { Ok(()) })
    }

    fn list<'a>(&'a self, _: &'a PoolOfMachines) -> BoxFuture<'a, Result<Vec<String>, ProvisionError>> {
        let names = self.machines.lock().unwrap().keys().cloned().collect();
        Box::pin(async { Ok(names) })
    }
}

struct Yard {
    plane: RealPlane,
    driver: Arc<Obedient>,
    _managers: JoinSet<()>,
}

impl Yard {
    /// With several managers, as if the lease that keeps them apart did not work.
    async fn start(managers: usize) -> Self {
        Self::start_with(managers, None).await
    }

    async fn start_with(managers: usize, shed: Option<Arc<Shed>>) -> Self {
        let plane = RealPlane::start().await.unwrap();
        install_crds(&plane.client(), &capstan_api::crd::all()).await.unwrap();
        let driver = Arc::new(Obedient::default());
        let mut running = JoinSet::new();
        for _ in 0..managers {
            let mut drivers =
                Drivers::none().with(HostKind::Simulated, Arc::clone(&driver) as Arc<dyn HostDriver>);
            if shed.is_some() {
                drivers = drivers.with(HostKind::Ssh, Arc::clone(&driver) as Arc<dyn HostDriver>);
            }
            let never = futures::future::pending::<()>().shared();
            let mut infrastructure = Infrastructure::new(plane.client(), drivers);
            if let Some(shed) = &shed {
                infrastructure = infrastructure.with_provisioner(Arc::clone(shed) as Arc<dyn Provisioner>);
            }
            for controller in controllers(&infrastructure, &never) {
                running.spawn(controller);
            }
        }
        Self { plane, driver, _managers: running }
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.plane.client(), "default")
    }

    async fn create<K>(&self, kind: &str, name: &str, metadata: Value, spec: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let mut metadata = metadata;
        metadata["name"] = json!(name);
        let object =
            json!({"apiVersion": K::api_version(&()), "kind": kind, "metadata": metadata, "spec": spec});
        let object: K = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    async fn cluster(&self, name: &str, spec: Value) -> Cluster {
        let reference = json!({"apiGroup": GROUP, "kind": "HostCluster", "name": name});
        let cluster: Cluster =
            self.create("Cluster", name, json!({}), json!({"infrastructureRef": reference})).await;
        let metadata = json!({"ownerReferences": [owners::plain(&cluster)]});
        self.create::<HostCluster>("HostCluster", name, metadata, spec).await;
        cluster
    }

    async fn provisioned(&self) {
        let status = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
        self.api::<Cluster>()
            .patch_status("c", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }

    async fn machine(&self, name: &str) {
        let labels = json!({"labels": {"cluster.x-k8s.io/cluster-name": "c"}});
        let reference = json!({"apiGroup": GROUP, "kind": "HostMachine", "name": name});
        let spec = json!({"clusterName": "c", "bootstrap": {"dataSecretName": "data"}, "infrastructureRef": reference});
        let machine: Machine = self.create("Machine", name, labels.clone(), spec).await;
        let mut metadata = labels;
        metadata["ownerReferences"] = json!([owners::controller(&machine)]);
        self.create::<HostMachine>("HostMachine", name, metadata, json!({})).await;
    }

    async fn says<K>(&self, name: &str, condition: &str, reason: &str) -> String
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

fn simulated(replicas: i32) -> Value {
    json!({"replicas": replicas, "simulated": {}})
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_and_managers_race_and_every_host_has_one_owner() {
    const MACHINES: usize = 12;
    let yard = Yard::start(2).await;
    let secret = json!({"metadata": {"name": "data"}, "stringData": {"value": "x"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    yard.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    yard.create::<HostPool>("HostPool", "yard", json!({}), simulated(MACHINES as i32)).await;
    yard.cluster("c", json!({})).await;
    for number in 0..=MACHINES {
        yard.machine(&format!("m-{number}")).await;
    }
    yard.provisioned().await;
    let names = |machines: &[HostMachine]| -> BTreeSet<String> {
        machines.iter().filter_map(|machine| machine.spec.host_name.clone()).collect()
    };
    let machines = eventually(DEADLINE, "all hosts to be machines", async || {
        let machines = yard.api::<HostMachine>().list(&ListParams::default()).await?.items;
        let ready = machines.iter().filter(|machine| {
            machine.status.as_ref().and_then(|status| status.initialization.as_ref()).is_some()
        });
        ensure!(ready.count() == MACHINES);
        Ok(machines)
    })
    .await
    .unwrap();
    assert_eq!(names(&machines).len(), MACHINES, "no two machines have one host");
    let started = yard.driver.0.lock().unwrap().clone();
    assert!(started.len() == MACHINES && started.values().all(|claims| claims.len() == 1), "{started:?}");

    // One has to wait, and says why; it gets the first host that is given back.
    let late = machines.iter().find(|machine| machine.spec.host_name.is_none()).unwrap().name_any();
    let message = yard.says::<HostMachine>(&late, "HostClaimed", "NoHostAvailable").await;
    assert_eq!(message, format!("no host is available: {MACHINES} of {MACHINES} match but are claimed"));
    let early = machines.iter().find(|machine| machine.spec.host_name.is_some()).unwrap();
    yard.api::<HostMachine>().delete(&early.name_any(), &DeleteParams::default()).await.unwrap();
    yard.says::<HostMachine>(&late, "Ready", "Ready").await;
    let found = yard.api::<HostMachine>().get(&late).await.unwrap();
    assert_eq!(found.spec.host_name, early.spec.host_name);
    let (host, claim) = (found.spec.host_name.clone().unwrap(), found.spec.claim_id.clone().unwrap());
    assert_eq!(found.spec.provider_id, Some(format!("capstan://default/{host}/{claim}")));

    // A smaller pool keeps the hosts that machines have; a host that is deleted waits for its machine.
    let smaller = json!({"spec": {"replicas": 0}});
    yard.api::<HostPool>().patch("yard", &PatchParams::default(), &Patch::Merge(smaller)).await.unwrap();
    let message = yard.says::<HostPool>("yard", "HostsUpToDate", "WaitingForRelease").await;
    assert!(message.starts_with("12 hosts too many"), "{message}");
    yard.api::<Host>().delete(&host, &DeleteParams::default()).await.unwrap();
    let message = yard.says::<Host>(&host, "Deleting", "WaitingForRelease").await;
    assert!(message.contains(&late), "{message}");
    yard.api::<HostMachine>().delete(&late, &DeleteParams::default()).await.unwrap();
    eventually(DEADLINE, "the host to go", async || {
        ensure!(yard.api::<Host>().get_opt(&host).await?.is_none());
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_yet_says_so() {
    let yard = Yard::start(1).await;
    let nspawn = json!({"rootFilesystem": "/rootfs", "bridge": "br0", "credentialsRef": {"name": "key"}});
    yard.create::<HostPool>("HostPool", "local", json!({}), json!({"replicas": 1, "nspawn": nspawn})).await;
    let message = yard.says::<HostPool>("local", "HostsUpToDate", "NotSupported").await;
    assert!(message.contains("does not make nspawn machines"), "{message}");

    // Nothing is claimed from nowhere, and nothing is done for a cluster that is somebody else's.
    yard.cluster("none", json!({})).await;
    assert!(yard.says::<HostCluster>("none", "Ready", "NotReady").await.contains("add a HostPool"));
    let managed = json!({"annotations": {"cluster.x-k8s.io/managed-by": "somebody"}});
    yard.create::<HostCluster>("HostCluster", "managed", managed, json!({})).await;
    yard.create::<HostCluster>("HostCluster", "orphan", json!({}), json!({})).await;
    yard.says::<HostCluster>("orphan", "Ready", "WaitingForClusterOwner").await;
    assert!(yard.api::<HostCluster>().get("managed").await.unwrap().status.is_none());

    let ssh = json!({"address": "10.0.0.1", "credentialsRef": {"name": "key"}, "trustOnFirstUse": true});
    let listed = json!({"static": {"hosts": [{"name": "rack-1", "ssh": ssh, "failureDomain": "a"}]}});
    yard.create::<HostPool>("HostPool", "racks", json!({}), listed).await;
    assert!(
        yard.says::<Host>("rack-1", "Ready", "NotSupported")
            .await
            .contains("no driver for hosts of kind ssh")
    );
    let message =
        yard.says::<HostCluster>("none", "ControlPlaneEndpointAvailable", "ControlPlaneEndpointNotSet").await;
    assert!(message.starts_with("spec.controlPlaneEndpoint is not set"), "{message}");

    // The user's endpoint counts, wherever it stands; and while the Cluster is paused, nothing does.
    let endpoint = json!({"controlPlaneEndpoint": {"host": "api.example", "port": 6443}});
    let paused = json!({"spec": {"paused": true, "controlPlaneEndpoint": endpoint["controlPlaneEndpoint"]}});
    let clusters = yard.api::<Cluster>();
    clusters.patch("none", &PatchParams::default(), &Patch::Merge(paused)).await.unwrap();
    yard.says::<HostCluster>("none", "Paused", "Paused").await;
    assert!(yard.api::<HostCluster>().get("none").await.unwrap().spec.control_plane_endpoint.is_none());
    let resumed = json!({"spec": {"paused": null}});
    clusters.patch("none", &PatchParams::default(), &Patch::Merge(resumed)).await.unwrap();
    yard.says::<HostCluster>("none", "Ready", "Ready").await;
    let found = yard.api::<HostCluster>().get("none").await.unwrap();
    assert_eq!(found.spec.control_plane_endpoint.unwrap().host, "api.example");
    assert_eq!(found.status.unwrap().failure_domains[0].name, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_makes_machines_and_takes_them_away() {
    let shed = Arc::new(Shed::default());
    // It was being made when another manager died: nobody speaks of it any more.
    shed.machines.lock().unwrap().insert("local-9".to_owned(), 1);
    let yard = Yard::start_with(1, Some(Arc::clone(&shed))).await;
    let nspawn = json!({"rootFilesystem": "/rootfs", "bridge": "br0", "credentialsRef": {"name": "pair"}});
    yard.create::<HostPool>("HostPool", "local", json!({}), json!({"replicas": 2, "nspawn": nspawn})).await;
    let message = yard.says::<HostPool>("local", "HostsUpToDate", "CredentialsMissing").await;
    assert!(message.contains("Secret pair") && message.contains("ssh-publickey"), "{message}");

    let secret = json!({"metadata": {"name": "pair"}, "stringData": {"ssh-publickey": "ssh-ed25519 AAAA\n"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    yard.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    // Nothing wakes the pool when a Secret comes: a change of its own does.
    let labelled = json!({"spec": {"metadata": {"labels": {"disk": "fast"}}}});
    yard.api::<HostPool>().patch("local", &PatchParams::default(), &Patch::Merge(labelled)).await.unwrap();
    yard.says::<HostPool>("local", "HostsUpToDate", "UpToDate").await;
    let hosts = yard.api::<Host>().list(&ListParams::default()).await.unwrap().items;
    let facts: Vec<_> = hosts
        .iter()
        .map(|host| {
            (
                host.name_any(),
                host.labels()["disk"].clone(),
                host.spec.ssh.clone().unwrap().credentials_ref.name,
            )
        })
        .collect();
    let expected = |name: &str| (name.to_owned(), "fast".to_owned(), "pair".to_owned());
    assert_eq!(facts, [expected("local-0"), expected("local-1")]);
    assert_eq!(*shed.removed.lock().unwrap(), ["local-9".to_owned()].into());

    // The machine goes with its Host, and another one comes.
    yard.api::<Host>().delete("local-0", &DeleteParams::default()).await.unwrap();
    eventually(DEADLINE, "another machine", async || {
        ensure!(shed.removed.lock().unwrap().contains("local-0"));
        let now = yard.api::<Host>().list(&ListParams::default()).await?.items;
        ensure!(now.len() == 2 && now.iter().all(|host| host.uid() != hosts[0].uid()), "{now:?}");
        Ok(())
    })
    .await
    .unwrap();

    // With the pool everything goes.
    yard.api::<HostPool>().delete("local", &DeleteParams::default()).await.unwrap();
    eventually(DEADLINE, "the pool to go", async || {
        ensure!(yard.api::<HostPool>().get_opt("local").await?.is_none());
        Ok(())
    })
    .await
    .unwrap();
    assert!(shed.machines.lock().unwrap().is_empty());
    assert!(yard.api::<Host>().list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_follows_when_its_bootstrap_data_says_so() {
    let yard = Yard::start(1).await;
    let secret =
        json!({"metadata": {"name": "data"}, "stringData": {"value": "x", "follow": "never asked for"}});
    let secret: Secret = serde_json::from_value(secret).unwrap();
    let secrets = yard.api::<Secret>();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    yard.create::<HostPool>("HostPool", "yard", json!({}), simulated(1)).await;
    yard.cluster("c", json!({})).await;
    yard.machine("m").await;
    yard.provisioned().await;
    yard.says::<HostMachine>("m", "Ready", "Ready").await;
    let claim = yard.api::<HostMachine>().get("m").await.unwrap().spec.claim_id.unwrap();

    // Whoever does not ask for it, such as every other bootstrap provider, gets nothing.
    assert!(yard.driver.1.lock().unwrap().is_empty());
    let with_hand_over = async |text: Option<&str>| {
        let label = text.map(|_| "");
        let patch = json!({
            "metadata": {"labels": {"capstan.dev/follow": label}}, "stringData": {"follow": text.unwrap_or("-")}});
        secrets.patch("data", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    };
    with_hand_over(Some("from behind")).await;
    let why = yard.says::<HostMachine>("m", "AgentFollows", "FollowingRefused").await;
    assert!(why.contains("manager epoch 1") && why.contains("Host yard-0"), "{why}");
    with_hand_over(Some("agent.json")).await;
    yard.says::<HostMachine>("m", "AgentFollows", "Follows").await;
    with_hand_over(None).await;
    eventually(DEADLINE, "nobody to be told any more", async || {
        let machine = yard.api::<HostMachine>().get("m").await?;
        let said = get(&machine, "AgentFollows").map(|said| said.message.clone());
        ensure!(said.as_deref() == Some(""), "{said:?}");
        Ok(())
    })
    .await
    .unwrap();
    let all = yard.driver.1.lock().unwrap().clone();
    assert!(all.iter().all(|(under, _)| *under == claim), "{all:?}");
    // It was bootstrapped once, whatever it was told.
    assert_eq!(yard.driver.0.lock().unwrap()["yard-0"].len(), 1);
}

/// What clusterctl does to the plane that it moves everything away from.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_moved_away_takes_nothing_along() {
    let yard = Yard::start(1).await;
    yard.create::<HostPool>("HostPool", "yard", json!({}), simulated(2)).await;
    yard.cluster("c", json!({})).await;
    yard.says::<HostPool>("yard", "HostsUpToDate", "UpToDate").await;
    let hosts = yard.api::<Host>();
    eventually(DEADLINE, "the hosts to be known", async || {
        let all = hosts.list(&ListParams::default()).await?.items;
        ensure!(all.len() == 2 && all.iter().all(|host| get(host, "Ready").is_some()), "{all:?}");
        Ok(())
    })
    .await
    .unwrap();
    let from = hosts.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let (merge, delete) = (PatchParams::default(), DeleteParams::default());
    let paused = Patch::Merge(json!({"spec": {"paused": true}}));
    yard.api::<Cluster>().patch("c", &merge, &paused).await.unwrap();
    let moved = Patch::Merge(
        json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}}),
    );
    for name in ["yard-0", "yard-1"] {
        hosts.patch(name, &merge, &moved).await.unwrap();
        hosts.delete(name, &delete).await.unwrap();
        // As long as nobody takes its finalizer, it stays.
        yard.says::<Host>(name, "Paused", "Paused").await;
        let free = Patch::Merge(json!({"metadata": {"finalizers": []}}));
        hosts.patch(name, &merge, &free).await.unwrap();
    }
    yard.api::<Cluster>().delete("c", &delete).await.unwrap();
    // The pool is told of all that, and makes no others: it goes next.
    let pools = yard.api::<HostPool>();
    let poke = Patch::Merge(json!({"metadata": {"annotations": {"poke": "1"}}}));
    pools.patch("yard", &merge, &poke).await.unwrap();
    pools.delete("yard", &delete).await.unwrap();
    yard.create::<Host>("Host", "marker", json!({}), json!({"simulated": {}})).await;
    let mut events = std::pin::pin!(hosts.watch(&WatchParams::default(), &from).await.unwrap());
    let mut added = Vec::new();
    while !added.contains(&"marker".to_owned()) {
        if let WatchEvent::Added(host) = events.next().await.unwrap().unwrap() {
            added.push(host.name_any());
        }
    }
    assert_eq!(added, ["marker"], "a pool made Hosts of machines that live on elsewhere");
    assert!(yard.driver.2.lock().unwrap().is_empty(), "nothing that a Host stands for was taken away");
}
