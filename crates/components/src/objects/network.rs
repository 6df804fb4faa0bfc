//! NetworkPolicies of the managers, for network plugins that enforce them.

use serde_json::{Value, json};

use super::deployment::{HEALTH_PORT, METRICS_PORT};
use super::service::{HOOKS, SOFTWARE};
use super::{Options, PROVIDER_LABEL, selector};
use crate::Provider;

/// Everybody reaches health checks, metrics, which authenticate their callers, and software, whose clients are machines
/// outside of the cluster. Only the namespaces of providers reach the hooks, because core is among them. Nothing limits whom a
/// manager connects to: workload clusters and hosts may be anywhere.
pub(super) fn object(provider: Provider, options: &Options) -> Value {
    let mut open = vec![HEALTH_PORT, METRICS_PORT];
    open.extend(provider.serves_software().then_some(SOFTWARE.0));
    let ports = |ports: &[u16]| {
        ports.iter().map(|port| json!({ "port": port, "protocol": "TCP" })).collect::<Vec<_>>()
    };
    let mut ingress = vec![json!({ "ports": ports(&open) })];
    if provider == Provider::Hooks {
        let providers = json!({ "matchExpressions": [{ "key": PROVIDER_LABEL, "operator": "Exists" }] });
        ingress.push(json!({ "ports": ports(&[HOOKS.0]), "from": [{ "namespaceSelector": providers }] }));
    }
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": provider.manager(), "namespace": options.namespace },
        "spec": {
            "podSelector": { "matchLabels": selector(provider) },
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    })
}
