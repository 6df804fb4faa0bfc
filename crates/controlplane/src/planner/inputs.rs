//! From objects to what a plan is made from.

use capstan_api::bootstrap::CapstanConfig;
use capstan_api::core::{Machine, MachineTaint};
use capstan_controller::error::Result;
use capstan_controller::secrets;
use capstan_distro::{Endpoint, InputError, Inputs, Rendered, Role, SecretFiles, render};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

use crate::certificates::Keys;
use crate::facts::MachineFacts;
use crate::scope::Scope;

/// Labels of a Machine with this domain are its Node's from the first moment; the others are core's to bring there,
/// because a kubelet may not give them to itself.
const NODE_DOMAIN: &str = "node.cluster.x-k8s.io";

/// What the files of a config refer to. What is not there is left out: rendering names the field.
pub(crate) async fn secret_files(scope: &Scope<'_>, config: &CapstanConfig) -> Result<SecretFiles> {
    let mut files = SecretFiles::new();
    for source in config.spec.files.iter().filter_map(|file| file.content_from.as_ref()) {
        let reference = &source.secret;
        if let Some(secret) = scope.get::<Secret>(&reference.name).await?
            && let Some(bytes) = secrets::get(&secret, &reference.key)
        {
            files.insert((reference.name.clone(), reference.key.clone()), bytes.to_vec().into());
        }
    }
    Ok(files)
}

/// Renders the plan of a machine.
pub(crate) fn rendered(
    machine: &Machine,
    config: &CapstanConfig,
    facts: &MachineFacts,
    role: Role,
    endpoint: &Endpoint,
    keys: &Keys,
    files: &SecretFiles,
) -> std::result::Result<Rendered, InputError> {
    let (labels, taints) = (node_labels(machine), machine.spec.taints.iter().map(taint).collect::<Vec<_>>());
    render(&Inputs {
        role,
        version: facts.version.as_deref().unwrap_or_default(),
        node_name: &facts.name,
        provider_id: facts.provider_id.as_deref().unwrap_or_default(),
        endpoint,
        token: &keys.token,
        certificates: role.is_server().then_some(&keys.certificates),
        labels: &labels,
        taints: &taints,
        config: &config.spec,
        secrets: files,
    })
}

fn node_labels(machine: &Machine) -> BTreeMap<String, String> {
    let at_once = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        domain == NODE_DOMAIN || domain.strip_suffix(NODE_DOMAIN).is_some_and(|prefix| prefix.ends_with('.'))
    };
    machine
        .labels()
        .iter()
        .filter(|(key, _)| at_once(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn taint(taint: &MachineTaint) -> String {
    let value = taint.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
    format!("{}{value}:{:?}", taint.key, taint.effect)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_register_with_what_they_may_say_themselves() {
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": "a", "labels": {
                "node.cluster.x-k8s.io/pool": "x", "a.node.cluster.x-k8s.io/b": "y",
                "node-role.kubernetes.io/worker": "", "team": "z", "evilnode.cluster.x-k8s.io/c": "",
            }},
            "spec": {
                "clusterName": "c", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"},
                "taints": [
                    {"key": "k", "value": "v", "effect": "NoSchedule", "propagation": "Always"},
                    {"key": "e", "effect": "NoExecute", "propagation": "OnInitialization"},
                ],
            },
        }))
        .expect("a Machine");
        let labels: Vec<_> = node_labels(&machine).into_keys().collect();
        assert_eq!(labels, ["a.node.cluster.x-k8s.io/b", "node.cluster.x-k8s.io/pool"]);
        let taints: Vec<_> = machine.spec.taints.iter().map(taint).collect();
        assert_eq!(taints, ["k=v:NoSchedule", "e:NoExecute"]);
    }
}
