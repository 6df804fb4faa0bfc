//! Renders `config.yaml` of k3s: the values that Capstan sets, and the user's settings.

use serde_json::{Map, Value, json};

use super::settings::{self, On};
use super::token;
use crate::Role;
use crate::error::InputError;
use crate::inputs::Inputs;

/// Arguments of the kubelet that are Capstan's to decide.
const DECIDED_KUBELET: &[&str] =
    &["provider-id", "hostname-override", "healthz-port", "healthz-bind-address"];

/// Settings that are lists: the user's entries stand after Capstan's.
const LISTS: [&str; 4] = ["kubelet-arg", "tls-san", "node-label", "node-taint"];

/// The file. JSON, which is YAML too, and has one spelling.
pub(super) fn render(inputs: &Inputs<'_>) -> Result<String, InputError> {
    let mut config = decided(inputs);
    for (key, setting) in &inputs.config.settings {
        check(key, &setting.0, inputs.role)?;
        if LISTS.contains(&key.as_str()) {
            let list = config.entry(key.as_str()).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.extend(entries(&setting.0));
            }
        } else {
            config.insert(key.clone(), setting.0.clone());
        }
    }
    let mut text = serde_json::to_string_pretty(&config).expect("JSON values can be written as JSON");
    text.push('\n');
    Ok(text)
}

/// Whether a start without the data of etcd begins a cluster. True for the first server, and only until others serve the
/// cluster: a first server that has lost its data would begin a second cluster under the same endpoint otherwise.
///
/// How k3s v1.36 reads the two settings (`pkg/cluster/{managed,bootstrap}.go`, `pkg/etcd/etcd.go`):
///
/// - With etcd's write-ahead log on disk both are ignored: the member starts with what it has (`IsInitialized`,
///   `ETCD.Start`). With `server` k3s first asks that server for certificates that are newer than those on disk, and only
///   logs a warning when it gets no answer in ten seconds; so a cluster whose servers were all down starts again.
/// - Without the log, `cluster-init` begins a cluster. With `server` k3s joins, and exits with an error for as long as no
///   server answers or its former member with the same Node name is still listed in etcd. systemd starts it again until
///   Capstan has removed that member.
/// - `k3s server --cluster-reset` refuses to run while `server` is set. Whoever runs it by hand takes the line out first.
fn begins_the_cluster(inputs: &Inputs<'_>) -> bool {
    inputs.role == Role::Init && !inputs.others_serve
}

fn decided(inputs: &Inputs<'_>) -> Map<String, Value> {
    let mut config = Map::new();
    let mut put = |key: &str, value: Value| {
        config.insert(key.to_owned(), value);
    };
    if begins_the_cluster(inputs) {
        put("cluster-init", json!(true));
    } else {
        put("server", json!(inputs.endpoint.url()));
    }
    put("token", json!(token::shown(inputs.role, inputs.token, inputs.ca)));
    if let Some(agent_token) = inputs.agent_token.filter(|_| inputs.role.is_server()) {
        put("agent-token", json!(token::password(agent_token)));
    }
    put("node-name", json!(inputs.node_name));
    put("kubelet-arg", json!([format!("provider-id={}", inputs.provider_id)]));
    if inputs.role.is_server() {
        put("https-listen-port", json!(inputs.listen_port()));
        put("tls-san", json!([inputs.endpoint.host]));
        let network = inputs.network;
        if !network.pods.is_empty() {
            put("cluster-cidr", json!(network.pods.join(",")));
        }
        if !network.services.is_empty() {
            put("service-cidr", json!(network.services.join(",")));
        }
        if let Some(domain) = &network.domain {
            put("cluster-domain", json!(domain));
        }
    }
    if !inputs.labels.is_empty() {
        let labels: Vec<String> = inputs.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        put("node-label", json!(labels));
    }
    if !inputs.taints.is_empty() {
        put("node-taint", json!(inputs.taints));
    }
    config
}

fn check(key: &str, value: &Value, role: Role) -> Result<(), InputError> {
    let field = format!("spec.settings.{key}");
    if let Some(why) = refused(key, value) {
        return Err(InputError::new(field, why));
    }
    if settings::find(key).on == On::Servers && !role.is_server() {
        return Err(InputError::new(field, "is a setting of servers, and this is a worker: take it out"));
    }
    Ok(())
}

/// Why a setting is refused on any machine, with the remedy.
fn refused(key: &str, value: &Value) -> Option<String> {
    if let Some(why) = settings::decided_because(key) {
        return Some(format!("is decided by Capstan, because {why}: take it out"));
    }
    let kubelet = entries(value).into_iter().filter_map(|entry| entry.as_str().map(str::to_owned));
    kubelet.filter(|_| settings::plain(key) == "kubelet-arg").find_map(|entry| {
        let name = entry.split('=').next().unwrap_or_default().trim_start_matches('-');
        DECIDED_KUBELET.contains(&name).then(|| format!("{name} is decided by Capstan: take it out"))
    })
}

/// Why a setting cannot differ from machine to machine, with the remedy.
pub(crate) fn refused_for_one_machine(key: &str, value: &Value) -> Option<String> {
    refused(key, value).or_else(|| settings::not_for_one_machine(key).map(str::to_owned))
}

fn entries(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        other => vec![other.clone()],
    }
}
