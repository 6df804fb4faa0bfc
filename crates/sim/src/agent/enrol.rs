//! Enrolment as a real agent does it: the key never leaves the machine, the certificate request is in the status of the
//! report, and the agent then uses the certificate that the manager issues. All of them are files of the machine.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::machine::Metadata;
use capstan_api::agent::MachineReport;
use capstan_pki::{Certificate, issue};
use capstan_plan::MachinePath;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use rcgen::{KeyPair, PublicKeyData as _};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

use super::CONFIG;
use crate::vm::Vm;
use crate::vm::files::PUBLIC;

/// The machine's key. It is made here and stays here.
const KEY: &str = "/etc/capstan/agent.key";
/// What it last asked for a certificate with.
pub(super) const REQUEST: &str = "/etc/capstan/agent.csr";
/// Its certificate.
pub(super) const CERTIFICATE: &str = "/etc/capstan/agent.crt";
/// Organisation in every machine's certificate.
const GROUP: &str = "capstan:machines";
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
    async fn client(&self, user: &Value) -> Result<Client, String> {
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
        Client::try_from(config.map_err(words)?).map_err(|error| error.to_string())
    }

    fn reports(&self, client: &Client) -> Api<MachineReport> {
        Api::namespaced(client.clone(), &self.namespace)
    }

    fn request(&self, key: &KeyPair) -> Result<String, rcgen::Error> {
        let user = format!("capstan:machine:{}:{}", self.namespace, self.machine_id);
        issue::request(key, issue::subject(&user, Some(GROUP)))
    }
}

/// A client of the machine's own, and when its certificate should be replaced.
pub(super) struct Credential {
    pub(super) client: Client,
    renewal: Timestamp,
}

/// Waits until the machine has a credential of its own.
pub(super) async fn credential(vm: &Vm) -> Credential {
    loop {
        let tried = match stored(vm).await {
            Ok(Some(credential)) => return credential,
            Ok(None) => enrol(vm).await,
            Err(why) => Err(why),
        };
        if let Err(why) = tried {
            tracing::debug!(host = vm.name(), %why, "the machine cannot enrol yet");
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Waits until it is time for another certificate, and gets it. Then the credential must be taken anew.
pub(super) async fn renew(vm: &Vm, credential: &Credential) {
    let wait = credential.renewal.duration_since(Timestamp::now());
    tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
    loop {
        match ask(vm, &credential.client, true).await {
            Ok(()) => return,
            Err(why) => {
                tracing::debug!(host = vm.name(), %why, "the machine cannot renew its certificate yet");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// The credential on the machine, if it has one.
async fn stored(vm: &Vm) -> Result<Option<Credential>, String> {
    let (Some(key), Some(certificate)) = (read(vm, KEY), read(vm, CERTIFICATE)) else { return Ok(None) };
    let read = Certificate::first_in(&certificate);
    let renewal = read.ok_or_else(|| format!("{CERTIFICATE} holds no certificate"))?.renewal();
    let user = json!({
        "client-certificate-data": BASE64_STANDARD.encode(&certificate),
        "client-key-data": BASE64_STANDARD.encode(&key),
    });
    let client = PlaneConfig::read(vm)?.client(&user).await?;
    Ok(Some(Credential { client, renewal }))
}

/// Trades the token for a certificate.
async fn enrol(vm: &Vm) -> Result<(), String> {
    let plane = PlaneConfig::read(vm)?;
    let token = plane.token.as_ref().ok_or_else(|| format!("there is no token in {CONFIG}"))?;
    let client = plane.client(&json!({"token": token})).await?;
    ask(vm, &client, false).await?;
    // The token is worth nothing any more, and so has no place on the machine.
    let mut config: Value = read(vm, CONFIG)
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| format!("{CONFIG} is not JSON"))?;
    if let Some(config) = config.as_object_mut() {
        config.remove("token");
    }
    store(vm, &[(CONFIG, config.to_string().into_bytes())])
}

/// Puts a request into the report and waits for its answer. A request that was written before is written again, unless
/// it must be `another` one.
async fn ask(vm: &Vm, client: &Client, another: bool) -> Result<(), String> {
    let plane = PlaneConfig::read(vm)?;
    let old = read(vm, CERTIFICATE);
    let key = match read(vm, KEY) {
        Some(pem) => KeyPair::from_pem(&String::from_utf8_lossy(&pem)),
        None => KeyPair::generate(),
    };
    let key = key.map_err(|error| error.to_string())?;
    let request = match read(vm, REQUEST).filter(|_| !another) {
        Some(request) => String::from_utf8_lossy(&request).into_owned(),
        None => plane.request(&key).map_err(|error| error.to_string())?,
    };
    // On the machine before it is anywhere else: whoever comes after a crash asks with the same key.
    store(vm, &[(KEY, key.serialize_pem().into_bytes()), (REQUEST, request.clone().into_bytes())])?;
    let reports = plane.reports(client);
    let mut patch = json!({"status": {"certificateRequest": request}});
    if !another {
        // What stands there from before would say that it has got in already, and end its token.
        patch["status"]["agentVersion"] = Value::Null;
    }
    reports
        .patch_status(&plane.machine, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|error| error.to_string())?;
    let only = watcher::Config::default().fields(&format!("metadata.name={}", plane.machine));
    let mut events = std::pin::pin!(watcher(reports, only).default_backoff().applied_objects());
    while let Some(event) = events.next().await {
        let report = event.map_err(|error| error.to_string())?;
        let Some(certificate) = report.spec.certificate.as_ref().map(|text| text.clone().into_bytes()) else {
            continue;
        };
        let is_ours = Certificate::first_in(&certificate)
            .is_some_and(|read| read.public_key == key.subject_public_key_info());
        if report.name_any() == plane.machine && is_ours && old.as_ref() != Some(&certificate) {
            return store(vm, &[(CERTIFICATE, certificate)]);
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
