//! The controllers on a real API server, with a host behind a real SSH server: from a HostPool to a claimed host, the
//! messages to users in case of errors, and back to a host that is available or quarantined.

#![cfg(test)]

// The server is the same as in the other suite, which uses more of it.
#[allow(dead_code)]
#[path = "../sshd/server.rs"]
mod server;

use anyhow::ensure;
use capstan_api::conditions::{Conditioned, get};
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostCluster, HostMachine, HostPool, HostState};
use capstan_controller::owners;
use capstan_infrastructure::{Drivers, HostKind, Infrastructure, controllers};
use capstan_ssh::{PlaneInventory, Settings, SshDriver};
use capstan_testkit::{RealPlane, eventually, install_crds};
use futures::FutureExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use server::{Server, ed25519};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;

const DEADLINE: Duration = Duration::from_secs(90);
const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const PLANTED: &str = "pl4nted.t0kenpl4nted0k";

struct Yard {
    plane: RealPlane,
    root: TempDir,
    managers: JoinSet<()>,
}

impl Yard {
    async fn start() -> Self {
        let plane = RealPlane::start().await.unwrap();
        install_crds(&plane.client(), &capstan_api::crd::all()).await.unwrap();
        let root = tempfile::tempdir().unwrap();
        for folder in ["etc", "opt", "run", "var/lib"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let mut yard = Self { plane, root, managers: JoinSet::new() };
        yard.start_manager();
        yard
    }

    fn start_manager(&mut self) {
        let settings = Settings {
            root: self.root.path().to_str().unwrap().to_owned(),
            connect: Duration::from_secs(5),
            ..Settings::default()
        };
        let driver = SshDriver::with(Arc::new(PlaneInventory::new(self.plane.client())), settings);
        let drivers = Drivers::none().with(HostKind::Ssh, Arc::new(driver));
        let never = futures::future::pending::<()>().shared();
        for controller in controllers(&Infrastructure::new(self.plane.client(), drivers), &never) {
            self.managers.spawn(controller);
        }
    }

    async fn kill_manager(&mut self) {
        self.managers.shutdown().await;
    }

    fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.plane.client(), "default")
    }

    async fn create<K>(&self, name: &str, metadata: Value, spec: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let mut metadata = metadata;
        metadata["name"] = json!(name);
        let object = json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata, "spec": spec});
        let object: K = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    async fn secret(&self, name: &str, data: Value) {
        let secret: Secret =
            serde_json::from_value(json!({"metadata": {"name": name}, "stringData": data})).unwrap();
        self.api::<Secret>().create(&PostParams::default(), &secret).await.unwrap();
    }

    async fn cluster(&self) {
        let reference = json!({"apiGroup": GROUP, "kind": "HostCluster", "name": "c"});
        let cluster: Cluster = self.create("c", json!({}), json!({"infrastructureRef": reference})).await;
        let metadata = json!({"ownerReferences": [owners::plain(&cluster)]});
        let endpoint = json!({"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}});
        self.create::<HostCluster>("c", metadata, endpoint).await;
        let status = json!({"status": {"initialization": {"infrastructureProvisioned": true}}});
        self.api::<Cluster>()
            .patch_status("c", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }

    async fn machine(&self, name: &str, script: &str) {
        let data = format!("{name}-data");
        self.secret(&data, json!({"value": script, "format": "script"})).await;
        let labels = json!({"labels": {"cluster.x-k8s.io/cluster-name": "c"}});
        let reference = json!({"apiGroup": GROUP, "kind": "HostMachine", "name": name});
        let spec = json!({"clusterName": "c", "bootstrap": {"dataSecretName": data}, "infrastructureRef": reference});
        let machine: Machine = self.create(name, labels.clone(), spec).await;
        let mut metadata = labels;
        metadata["ownerReferences"] = json!([owners::controller(&machine)]);
        self.create::<HostMachine>(name, metadata, json!({})).await;
    }

    async fn says<K>(&self, name: &str, condition: &str, reason: &str) -> String
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + Conditioned,
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

    async fn state(&self, host: &str, state: HostState) -> Host {
        eventually(DEADLINE, &format!("Host {host} to be {state:?}"), async || {
            let found = self.api::<Host>().get(host).await?;
            ensure!(
                found.status.as_ref().and_then(|status| status.state) == Some(state),
                "{:?}",
                found.status
            );
            Ok(found)
        })
        .await
        .unwrap()
    }

    async fn gone(&self, machine: &str) {
        self.api::<HostMachine>().delete(machine, &DeleteParams::default()).await.unwrap();
        eventually(DEADLINE, "the machine to go", async || {
            let found = self.api::<HostMachine>().get_opt(machine).await?;
            ensure!(found.is_none(), "{:?}", found.and_then(|machine| machine.status));
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Everything that users can read, but for Secrets.
    async fn everything_readable(&self) -> String {
        let mut output = String::new();
        let events: Api<k8s_openapi::api::core::v1::Event> = self.api();
        output += &format!("{:?}", events.list(&ListParams::default()).await.unwrap().items);
        output +=
            &serde_json::to_string(&self.api::<Host>().list(&ListParams::default()).await.unwrap().items)
                .unwrap();
        output += &serde_json::to_string(
            &self.api::<HostMachine>().list(&ListParams::default()).await.unwrap().items,
        )
        .unwrap();
        output
    }
}

fn ssh(server: &Server, key: &str) -> Value {
    json!({"address": "127.0.0.1", "port": server.port, "user": server.user, "credentialsRef": {"name": "creds"}, "hostKeys": [key]})
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_pool_to_a_machine_and_back() {
    let mut server = Server::start();
    let mut yard = Yard::start().await;
    let right = server.host_key.to_openssh().unwrap();
    let wrong = ed25519().public_key().to_openssh().unwrap();
    let mut first_seen = ssh(&server, "");
    first_seen.as_object_mut().unwrap().remove("hostKeys");
    first_seen["trustOnFirstUse"] = json!(true);
    let mut down = ssh(&server, &right);
    down["port"] = json!(1);
    let listed = json!({"static": {"hosts": [
        {"name": "wrong-key", "ssh": ssh(&server, &wrong)}, {"name": "down", "ssh": down},
        {"name": "no-credential", "ssh": ssh(&server, &right)},
    ]}});
    yard.create::<HostPool>("rack", json!({}), listed).await;

    // Each says what is wrong with it, in which field, and nothing is claimed.
    let message = yard.says::<Host>("no-credential", "Reachable", "CredentialsMissing").await;
    assert!(message.contains("spec.ssh.credentialsRef: Secret creds does not exist"), "{message}");
    yard.secret("creds", json!({"ssh-privatekey": openssh_of(&ed25519())})).await;
    yard.cluster().await;
    yard.machine("m1", &format!("echo broken {PLANTED} >&2\nexit 11\n")).await;
    let message = yard.says::<Host>("wrong-key", "Ready", "HostKeyMismatch").await;
    assert!(
        message.starts_with("spec.ssh.hostKeys: ") && message.contains("expected ssh-ed25519 SHA256:"),
        "{message}"
    );
    assert!(
        yard.says::<Host>("down", "Ready", "Unreachable").await.starts_with("spec.ssh.address: 127.0.0.1:1 ")
    );
    let message = yard.says::<Host>("no-credential", "Ready", "CredentialsRefused").await;
    assert!(message.contains("refuses the public key of user"), "{message}");
    let message = yard.says::<HostMachine>("m1", "HostClaimed", "NoHostAvailable").await;
    assert!(message.starts_with("no host is available: 3 of 3 match but are not reachable\n"), "{message}");
    assert!(message.contains("\nHost ") && message.contains("spec.ssh."), "{message}");

    // The right credential, and a host whose first key is pinned.
    let creds = json!({"stringData": {"ssh-privatekey": server.client_key}});
    yard.api::<Secret>().patch("creds", &PatchParams::default(), &Patch::Merge(creds)).await.unwrap();
    let listed = json!({"spec": {"static": {"hosts": [
        {"name": "wrong-key", "ssh": ssh(&server, &wrong)}, {"name": "rack-1", "ssh": first_seen},
    ]}}});
    yard.api::<HostPool>().patch("rack", &PatchParams::default(), &Patch::Merge(listed)).await.unwrap();
    let message = yard.says::<HostMachine>("m1", "BootstrapExecuted", "BootstrapFailed").await;
    assert!(message.contains("on Host rack-1") && message.contains("exit code 11 at: script"), "{message}");
    assert!(message.ends_with("\n  broken [redacted]"), "{message}");
    let host = yard.api::<Host>().get("rack-1").await.unwrap();
    assert_eq!(host.spec.ssh.as_ref().unwrap().host_keys, [right.as_str()]);
    assert_eq!(host.spec.claim.as_ref().map(|claim| claim.machine_name.as_str()), Some("m1"));
    assert!(!yard.everything_readable().await.contains(PLANTED));

    // Given back clean, it is claimed anew.
    yard.gone("m1").await;
    let host = yard.state("rack-1", HostState::Available).await;
    assert!(host.spec.claim.is_none() && host.spec.quarantine.is_none());
    assert!(!yard.root.path().join("var/lib/capstan-claims").exists());

    // A manager that dies in the middle is succeeded by another.
    let root = yard.root.path().to_str().unwrap().to_owned();
    let wait = format!(
        "#!/bin/sh\necho begun >> {root}/count\nwhile [ ! -e {root}/go ]; do sleep 0.05; done\nmkdir -p {root}/var/lib/rancher/k3s\n"
    );
    yard.machine("m2", &wait).await;
    yard.says::<HostMachine>("m2", "BootstrapExecuted", "Bootstrapping").await;
    eventually(DEADLINE, "the script to begin", async || {
        ensure!(std::fs::exists(format!("{root}/count"))?);
        Ok(())
    })
    .await
    .unwrap();
    yard.kill_manager().await;
    server.cut();
    std::fs::write(format!("{root}/go"), "").unwrap();
    yard.start_manager();
    yard.says::<HostMachine>("m2", "Ready", "Ready").await;
    assert_eq!(std::fs::read_to_string(format!("{root}/count")).unwrap(), "begun\n");
    let machine = yard.api::<HostMachine>().get("m2").await.unwrap();
    let status = machine.status.unwrap();
    assert_eq!(status.initialization.unwrap().provisioned, Some(true));
    assert_eq!(status.addresses[0].address, "127.0.0.1");
    assert!(machine.spec.provider_id.unwrap().starts_with("capstan://default/rack-1/"));

    // What its machine leaves behind puts a host into quarantine, with the reason.
    yard.gone("m2").await;
    let host = yard.state("rack-1", HostState::Quarantined).await;
    let quarantine = host.spec.quarantine.unwrap();
    assert!(host.spec.claim.is_none() && quarantine.reason == "LeftDirty");
    assert!(quarantine.message.unwrap().contains("/var/lib/rancher"));

    // A host that is down while its machine is deleted waits, and says how to go on without it.
    std::fs::remove_dir_all(format!("{root}/var/lib/rancher")).unwrap();
    std::fs::remove_dir_all(format!("{root}/var/lib/capstan-claims")).unwrap();
    let mended = json!({"spec": {"quarantine": null}});
    yard.api::<Host>().patch("rack-1", &PatchParams::default(), &Patch::Merge(mended)).await.unwrap();
    yard.machine("m3", "true").await;
    yard.says::<HostMachine>("m3", "Ready", "Ready").await;
    server.stop();
    yard.api::<HostMachine>().delete("m3", &DeleteParams::default()).await.unwrap();
    let message = yard.says::<HostMachine>("m3", "Deleting", "HostUnreachable").await;
    assert!(message.contains("capstan host abandon"), "{message}");
    server.listen();
    yard.state("rack-1", HostState::Available).await;
}

fn openssh_of(key: &russh::keys::PrivateKey) -> String {
    server::openssh(key)
}
