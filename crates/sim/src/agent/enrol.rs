//! Enrolment as a real agent does it: the key never leaves the machine, its public half is in the status of the report, and the agent
//! then uses the token that the manager seals to it. All of them are files of the machine.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::Machine as _;
use capstan_agent::machine::Metadata;
use capstan_api::agent::{CredentialRequest, MachineReport};
use capstan_pki::machine_token::TokenQuery;
use capstan_plan::MachinePath;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use rcgen::{KeyPair, PublicKeyData as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

use super::CONFIG;
use crate::connections::AgentClient;
use crate::vm::files::PUBLIC;
use crate::vm::{Vm, VmMachine};

/// The machine's key. It is made here and stays here.
const KEY: &str = "/etc/capstan/agent.key";
/// What it last asked for a credential with.
pub(super) const REQUEST: &str = "/etc/capstan/agent.request";
/// Its credential.
pub(super) const CREDENTIAL: &str = "/etc/capstan/agent.credential";
/// How long to wait before the plane is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Root's, and nobody else's.
const PRIVATE: Metadata = Metadata { mode: 0o600, ..PUBLIC };

/// What of `agent.json` says where the plane is, and how to get in for the first time.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlaneConfig {
    server: String,
    ca_data: String,
    #[serde(default)]
    token: Option<String>,
    namespace: String,
    machine: String,
    #[serde(rename = "machineID")]
    machine_id: String,
}

impl PlaneConfig {
    fn read(vm: &Vm) -> Result<Self, String> {
        let bytes = read(vm, CONFIG).ok_or_else(|| format!("{CONFIG} is missing"))?;
        serde_json::from_slice(&bytes).map_err(|_| format!("{CONFIG} does not say where the plane is"))
    }

    /// A client that shows what a user of a kubeconfig would.
    async fn client(&self, vm: &Vm, user: &Value) -> Result<AgentClient, String> {
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "plane",
            "clusters": [{"name": "plane", "cluster": {
                "server": self.server, "certificate-authority-data": self.ca_data}}],
            "users": [{"name": "machine", "user": user}],
            "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "machine"}}],
        });
        let words = |_| "the plane cannot be reached with what is on the machine".to_owned();
        let kubeconfig = Kubeconfig::from_yaml(&text.to_string()).map_err(words)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        vm.connections().client(&config.map_err(words)?).map_err(|error| error.to_string())
    }

    fn reports(&self, client: &Client) -> Api<MachineReport> {
        Api::namespaced(client.clone(), &self.namespace)
    }
}

/// The token that the machine has as its credential.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredToken {
    token: String,
    renewal: Timestamp,
    expires_at: Timestamp,
}

/// A client of the machine's own, and when its credential should be replaced.
pub(super) struct Credential {
    client: AgentClient,
    renewal: Timestamp,
}

impl Credential {
    pub(super) fn client(&self) -> &Client {
        self.client.client()
    }
}

/// Waits until the machine has a credential of its own.
pub(super) async fn credential(vm: &Vm, machine: &VmMachine) -> Credential {
    loop {
        let tried = match stored(vm).await {
            Ok(Some(credential)) => return credential,
            Ok(None) => enrol(vm, machine).await,
            Err(why) => Err(why),
        };
        if let Err(why) = tried {
            tracing::debug!(host = vm.name(), %why, "the machine cannot enrol yet");
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Waits until it is time for another credential, and stores it. The caller must then read it.
pub(super) async fn renew(vm: &Vm, machine: &VmMachine, credential: &Credential) {
    let wait = credential.renewal.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
    loop {
        match ask(vm, machine, credential.client(), true).await {
            Ok(()) => return,
            Err(why) => {
                tracing::debug!(host = vm.name(), %why, "the machine cannot renew its credential yet");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// The credential on the machine, if it has one.
async fn stored(vm: &Vm) -> Result<Option<Credential>, String> {
    let Some(StoredToken { token, renewal, .. }) = token(vm)? else { return Ok(None) };
    let client = PlaneConfig::read(vm)?.client(vm, &json!({"token": token})).await?;
    Ok(Some(Credential { client, renewal }))
}

fn token(vm: &Vm) -> Result<Option<StoredToken>, String> {
    let Some(bytes) = read(vm, CREDENTIAL) else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|_| format!("{CREDENTIAL} holds no credential"))
}

/// Whether the machine needs no other credential. If the plane cannot be asked, the one it has counts.
pub(super) async fn has_credential(vm: &Vm) -> bool {
    let Ok(Some(stored_token)) = token(vm) else { return false };
    if stored_token.expires_at <= Timestamp::now() {
        return false;
    }
    let (Ok(plane), Ok(Some(credential))) = (PlaneConfig::read(vm), stored(vm).await) else { return true };
    let found = plane.reports(credential.client()).get_opt(&plane.machine).await;
    !matches!(found, Err(kube::Error::Api(status)) if status.code == 401)
}

/// Trades the token for a credential.
async fn enrol(vm: &Vm, machine: &VmMachine) -> Result<(), String> {
    let plane = PlaneConfig::read(vm)?;
    let token = plane.token.as_ref().ok_or_else(|| format!("there is no token in {CONFIG}"))?;
    let client = plane.client(vm, &json!({"token": token})).await?;
    ask(vm, machine, client.client(), false).await?;
    // The token is worth nothing any more, and so has no place on the machine.
    let mut config: Value = read(vm, CONFIG)
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| format!("{CONFIG} is not JSON"))?;
    if let Some(config) = config.as_object_mut() {
        config.remove("token");
    }
    store(vm, &[(CONFIG, config.to_string().into_bytes())])
}

/// Writes a request into the report and waits for its answer. A request that was written before is written again, unless
/// it must be `another` one.
async fn ask(vm: &Vm, machine: &VmMachine, client: &Client, another: bool) -> Result<(), String> {
    let plane = PlaneConfig::read(vm)?;
    let key = match read(vm, KEY) {
        Some(pem) => KeyPair::from_pem(&String::from_utf8_lossy(&pem)),
        None => KeyPair::generate(),
    };
    let key = key.map_err(|error| error.to_string())?;
    let earlier = read(vm, REQUEST).filter(|_| !another);
    let request = earlier.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_else(|| {
        let (nonce, public_key) = (rand::random::<[u8; 16]>(), key.subject_public_key_info());
        CredentialRequest {
            public_key: BASE64_STANDARD.encode(public_key),
            nonce: BASE64_STANDARD.encode(nonce),
        }
    });
    // On the machine before it is anywhere else: after a crash it asks with the same key.
    let text = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
    store(vm, &[(KEY, key.serialize_pem().into_bytes()), (REQUEST, text)])?;
    let reports = plane.reports(client);
    let mut patch = json!({"status": {"credentialRequest": request}});
    if !another {
        // What stands there from before would say that it has got in already, and end its token.
        patch["status"]["agentVersion"] = Value::Null;
        // Its plan can be made as soon as it has enrolled.
        patch["status"]["facts"] = json!(machine.facts().await);
        patch["status"]["capabilities"] = json!(capstan_agent::report::capabilities(false));
    }
    reports
        .patch_status(&plane.machine, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|error| error.to_string())?;
    let CredentialRequest { public_key, nonce } = &request;
    let query = TokenQuery { machine_id: &plane.machine_id, public_key, nonce };
    let only = watcher::Config::default().fields(&format!("metadata.name={}", plane.machine));
    let mut events = std::pin::pin!(watcher(reports, only).default_backoff().applied_objects());
    while let Some(event) = events.next().await {
        let report = event.map_err(|error| error.to_string())?;
        let Some(credential) = report.spec.credential.as_ref() else { continue };
        let Ok(token) = query.open(&key.serialize_der(), &credential.sealed_token) else { continue };
        if report.name_any() == plane.machine {
            let (renewal, expires_at) = (credential.renewal(), credential.expires_at.0);
            let token = serde_json::to_vec(&StoredToken { token, renewal, expires_at });
            return store(vm, &[(CREDENTIAL, token.map_err(|error| error.to_string())?)]);
        }
    }
    Err("the watch ended".to_owned())
}

fn read(vm: &Vm, path: &str) -> Option<Vec<u8>> {
    vm.look(|state| state.files.read(path).map(<[u8]>::to_vec))
}

/// Writes files that only root may read, all in one moment, and remembers that they are to go with the machine's life.
fn store(vm: &Vm, files: &[(&str, Vec<u8>)]) -> Result<(), String> {
    let written = vm.change(|state| {
        for (path, content) in files {
            let path = MachinePath::new(*path).map_err(|error| error.to_string())?;
            let made =
                state.files.write_with_parents(&path, content, PRIVATE).map_err(|error| error.to_string())?;
            if let Some(life) = &mut state.life {
                life.paths.extend(made.into_iter().map(String::from));
            }
        }
        Ok(())
    });
    written.map_err(|error| error.to_string())?
}
