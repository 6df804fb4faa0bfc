//! What a user installs beside the core provider so that the plane calls the webhooks: `config/admission/webhooks.yaml`.

use capstan_api::access::admission;
use serde_json::{Value, json};

use crate::paths::{CONFIGURATION, Phase, Reached, configuration};
use crate::registration::SECRET;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Names of the core provider's manifests.
const NAMESPACE: &str = "capstan-core-system";
const MANAGER: &str = "capstan-core-manager";
const PROVIDER: &str = "cluster-api";
/// Name of the Service and of the roles.
const NAME: &str = "capstan-core-admission";
const PORT: u16 = 9443;

/// Arguments that the manager needs in addition.
pub fn arguments() -> [String; 3] {
    [
        format!("--admission-listen=0.0.0.0:{PORT}"),
        format!("--admission-service={NAMESPACE}/{NAME}:{PORT}"),
        format!("--admission-namespace={NAMESPACE}"),
    ]
}

/// The objects to install. The configurations come last: from then on, writes wait for the webhooks.
pub fn objects() -> Vec<Value> {
    let access = admission(SECRET, CONFIGURATION);
    let pods = json!({"cluster.x-k8s.io/provider": PROVIDER, "control-plane": MANAGER});
    let role = |kind: &str, namespace: Option<&str>, rules: Value| {
        let mut metadata = json!({"name": NAME});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        let subject = json!({"kind": "ServiceAccount", "name": MANAGER, "namespace": NAMESPACE});
        let api_version = format!("{RBAC}/v1");
        [
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules}),
            json!({
                "apiVersion": api_version, "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": NAME}, "subjects": [subject],
            }),
        ]
    };
    let reached = Reached::Service { namespace: NAMESPACE.to_owned(), name: NAME.to_owned(), port: PORT };
    let mut objects = vec![
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"selector": pods, "ports": [{"name": "admission", "port": PORT, "targetPort": PORT}]},
        }),
        // API servers are outside of the cluster network, or on its nodes: no selector describes them.
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
            },
        }),
    ];
    objects.extend(role("ClusterRole", None, json!(access.everywhere)));
    objects.extend(role("Role", Some(NAMESPACE), json!(access.own_namespace)));
    objects.extend([Phase::Default, Phase::Validate].map(|phase| configuration(phase, &reached, None)));
    objects
}
