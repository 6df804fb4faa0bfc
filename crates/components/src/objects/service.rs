//! The Services of the managers: hooks for core, software downloads for machines.

use serde_json::{Value, json};

use super::{Options, selector};
use crate::Provider;

/// The port that hooks are served on, and its name in the pod.
pub(super) const HOOKS: (u16, &str) = (9443, "hooks");
/// The port that software is served on, and its name in the pod.
pub(super) const SOFTWARE: (u16, &str) = (9441, "software");

pub(super) fn objects(provider: Provider, options: &Options) -> Vec<Value> {
    let service = |(port, name): (u16, &str), sort: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": service_name(provider, name), "namespace": options.namespace },
            "spec": {
                "type": sort,
                "selector": selector(provider),
                "ports": [{ "name": name, "port": port, "targetPort": name }],
            },
        })
    };
    let mut services = Vec::new();
    if provider == Provider::Hooks {
        services.push(service(HOOKS, "ClusterIP"));
    }
    if provider.serves_software() {
        // Machines are outside: they reach it by a node's port or a load balancer, if at all.
        services.push(service(SOFTWARE, "${CAPSTAN_SOFTWARE_SERVICE_TYPE:=ClusterIP}"));
    }
    services
}

/// Name of a provider's Service for one of its ports.
pub(super) fn service_name(provider: Provider, port: &str) -> String {
    match provider {
        Provider::Hooks => format!("capstan-{port}"),
        _ => format!("capstan-{}-{port}", provider.controllers()),
    }
}
