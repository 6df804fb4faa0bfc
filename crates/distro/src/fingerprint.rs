//! Digests of the inputs of a plan, for comparison.
//!
//! A new version of Capstan may render a file differently. That must not restart any machine. So a machine is restarted
//! only when its *inputs* have changed, and a plan is written again only when its inputs have changed. Rule for new
//! inputs: leave the input out of the document below while it has its default value, so that the digests of existing
//! machines do not change. `tests/golden.rs` pins the digests.

use capstan_plan::{Content, Digest, OnDrift, Periodic, Probe, SecretText};
use serde_json::{Map, Value, json};

use crate::cost::Cost;
use crate::inputs::{Inputs, KeyPair, Network};
use crate::k3s;
use crate::proxy::{PASSWORD, USERNAME};
use crate::user::{UserCommand, UserFile};
use crate::{Fingerprint, Role};

/// Digests of what the plan of a machine is made from.
pub(crate) fn of<'c>(
    inputs: &Inputs<'_>,
    files: &[UserFile],
    commands: impl Iterator<Item = &'c UserCommand>,
    periodic: &[Periodic],
    probes: &[Probe],
) -> Fingerprint {
    let restart = restart_document(inputs, files);
    let live: Vec<Value> = files.iter().filter(|file| !file.restarts).map(file_document).collect();
    let commands: Vec<Value> = commands.map(command_document).collect();
    let mut whole = restart.clone();
    // The one exception to the rule above. Before it, the script that undoes a machine removed the volumes of users, and
    // it reaches a machine only with a new plan: so every plan is written once more, and nothing is restarted.
    whole.insert("volumesSurviveRelease".to_owned(), json!(true));
    if let Some(release) = &inputs.config.release {
        whole.insert("release".to_owned(), json!([release.keep, release.wipe]));
    }
    let drift = inputs.on_drift();
    let drift = match drift.policy {
        OnDrift::Repair => None,
        OnDrift::Report => Some(json!("report")),
        OnDrift::RepairInWindow if drift.host_windows.is_empty() => Some(json!(drift.windows)),
        OnDrift::RepairInWindow => Some(json!([drift.windows, drift.host_windows])),
    };
    whole.extend(drift.map(|drift| ("onDrift".to_owned(), drift)));
    if inputs.proxies_downloads() {
        // An agent that comes to understand it gets another plan, and k3s is not restarted.
        whole.insert("proxyOfDownloads".to_owned(), json!(true));
    }
    if let Some(agent) = inputs.agent {
        // The agent replaces itself beside Kubernetes.
        whole.insert("agent".to_owned(), json!(agent.sha256));
    }
    if inputs.role == Role::Init && inputs.others_serve {
        // Not a reason to restart: k3s ignores it as long as it has its data, and must find it on disk once it has not.
        whole.insert("othersServe".to_owned(), json!(true));
    }
    put(&mut whole, "files", live);
    put(&mut whole, "commands", commands);
    put(&mut whole, "periodic", periodic.iter().map(|command| json!(command)).collect());
    // Those of the user: what Capstan asks itself is no input.
    put(&mut whole, "probes", probes.iter().map(|probe| json!(probe)).collect());
    Fingerprint { drain: digest(&drain_document(inputs)), restart: digest(&restart), whole: digest(&whole) }
}

fn drain_document(inputs: &Inputs<'_>) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("version".to_owned(), json!(inputs.version));
    let drains = |key: &String| k3s::setting_cost(key).0 >= Cost::DrainAndRestart;
    put_settings(&mut document, inputs, drains);
    document
}

fn put_settings(document: &mut Map<String, Value>, inputs: &Inputs<'_>, counts: impl Fn(&String) -> bool) {
    let settings = inputs.config.settings.iter().filter(|(key, _)| counts(key));
    let settings: Map<String, Value> =
        settings.map(|(key, setting)| (key.clone(), sorted(&setting.0))).collect();
    if !settings.is_empty() {
        document.insert("settings".to_owned(), Value::Object(settings));
    }
}

/// The name of a role in fingerprints. Changing one would restart every machine that has it.
const fn role_name(role: Role) -> &'static str {
    match role {
        Role::Init => "init",
        Role::Server => "server",
        Role::Worker => "worker",
    }
}

fn restart_document(inputs: &Inputs<'_>, files: &[UserFile]) -> Map<String, Value> {
    let mut document = Map::new();
    document.insert("distro".to_owned(), json!(inputs.config.distro));
    document.insert("role".to_owned(), json!(role_name(inputs.role)));
    document.insert("version".to_owned(), json!(inputs.version));
    document.insert("nodeName".to_owned(), json!(inputs.node_name));
    document.insert("providerID".to_owned(), json!(inputs.provider_id));
    document.insert("endpoint".to_owned(), json!(inputs.endpoint.url()));
    let digest = |token: &SecretText| json!(Digest::of(token.expose().as_bytes()));
    document.insert("token".to_owned(), digest(inputs.token));
    if let Some(agent_token) = inputs.agent_token.filter(|_| inputs.role.is_server()) {
        document.insert("agentToken".to_owned(), digest(agent_token));
    }
    if let Some(certificates) = inputs.certificates.filter(|_| inputs.role.is_server()) {
        let pair = |pair: &KeyPair| json!([pair.certificate.digest(), pair.key.digest()]);
        document.insert("ca".to_owned(), pair(&certificates.ca));
        document.insert("etcd".to_owned(), pair(&certificates.etcd));
        document.insert("proxy".to_owned(), pair(&certificates.proxy));
        document.insert("serviceAccounts".to_owned(), pair(&certificates.service_accounts));
    }
    let network = inputs.network;
    if inputs.role.is_server() && *network != Network::default() {
        let network = json!([network.pods, network.services, network.domain]);
        document.insert("network".to_owned(), network);
    }
    if let Some(after) = inputs.restart_after {
        document.insert("after".to_owned(), json!(after));
    }
    let heal = inputs.heal;
    let healing =
        [("healRestart", heal.restart), ("healReapply", heal.reapply), ("healReboot", heal.boot_id())];
    for (key, token) in healing {
        if let Some(token) = token {
            document.insert(key.to_owned(), json!(token));
        }
    }
    if let Some(proxy) = &inputs.config.proxy {
        let secret = |key: &str| {
            let reference = proxy.credentials_ref.as_ref()?;
            inputs.secrets.get(&(reference.name.clone(), key.to_owned())).map(Content::digest)
        };
        let credentials = [PASSWORD, USERNAME].map(secret);
        let proxy = json!([proxy.http_proxy, proxy.https_proxy, proxy.no_proxy, credentials]);
        document.insert("proxy".to_owned(), proxy);
    }
    put_settings(&mut document, inputs, |_| true);
    let files: Vec<Value> = files.iter().filter(|file| file.restarts).map(file_document).collect();
    put(&mut document, "restartFiles", files);
    document
}

fn file_document(file: &UserFile) -> Value {
    let content: &Content = &file.content;
    json!([file.path.as_str(), content.digest(), file.mode.to_string(), file.owner, file.group])
}

fn command_document(command: &UserCommand) -> Value {
    json!([command.step.as_str(), command.argv.words()])
}

fn put(document: &mut Map<String, Value>, key: &str, list: Vec<Value>) {
    if !list.is_empty() {
        document.insert(key.to_owned(), Value::Array(list));
    }
}

/// The same value with every object's keys in order: API servers give no order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            Value::Object(keys.into_iter().map(|key| (key.clone(), sorted(&fields[key]))).collect())
        }
        other => other.clone(),
    }
}

fn digest(document: &Map<String, Value>) -> Digest {
    Digest::of(Value::Object(document.clone()).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_does_not_count() {
        let (a, b) = (json!({"x": [{"b": 1, "a": 2}], "y": 0}), json!({"y": 0, "x": [{"a": 2, "b": 1}]}));
        assert_ne!(a.to_string(), b.to_string());
        assert_eq!(sorted(&a).to_string(), sorted(&b).to_string());
    }
}
