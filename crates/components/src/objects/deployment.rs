//! The Deployment that runs a provider's manager.
//!
//! clusterctl replaces variables of the form `${…}`. Kubernetes replaces `$(…)` in arguments by environment variables.

use capstan_api::runtime::hooks::AUDIENCE;
use serde_json::{Value, json};

use super::service::{HOOKS, SOFTWARE, service_name};
use super::{Options, selector};
use crate::Provider;

/// Where the manager answers how it does.
pub(super) const HEALTH_PORT: u16 = 9440;
/// Where scrapers find its metrics, as upstream's.
pub(super) const METRICS_PORT: u16 = 8443;
/// The only place it may write to.
const DATA: &str = "/var/lib/capstan";
/// The ConfigMap with an index of software, in its key `index.yaml`.
const SOFTWARE_INDEX: &str = "capstan-software";
const SOFTWARE_FOLDER: &str = "/etc/capstan/software";
/// The Secret with the CA of core's client certificate for the hooks, in its key `ca.crt`.
const HOOKS_CLIENT_CA: &str = "capstan-hooks-client-ca";
const HOOKS_CLIENT_CA_FOLDER: &str = "/etc/capstan/hooks-client-ca";
/// The token with which core calls the hooks, in its file `token`. The kubelet renews it.
const HOOKS_TOKEN_FOLDER: &str = "/var/run/secrets/capstan-hooks";
const HOOKS_TOKEN_SECONDS: u32 = 3600;
/// The user that the image names: nobody on any node.
const USER: u32 = 65532;

pub(super) fn object(provider: Provider, options: &Options) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": provider.manager(),
            "namespace": options.namespace,
            "labels": selector(provider),
        },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": selector(provider) },
            "template": {
                "metadata": {
                    "labels": selector(provider),
                    "annotations": { "kubectl.kubernetes.io/default-container": "manager" },
                },
                "spec": {
                    "serviceAccountName": provider.manager(),
                    "terminationGracePeriodSeconds": 10,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": USER,
                        "runAsGroup": USER,
                        "fsGroup": USER,
                        "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    // Management clusters are often nothing but control plane nodes.
                    "tolerations": [{
                        "key": "node-role.kubernetes.io/control-plane",
                        "effect": "NoSchedule",
                    }],
                    "containers": [container(provider, options)],
                    "volumes": volumes(provider),
                },
            },
        },
    })
}

fn container(provider: Provider, options: &Options) -> Value {
    let mut ports = vec![
        json!({ "name": "health", "containerPort": HEALTH_PORT }),
        json!({ "name": "metrics", "containerPort": METRICS_PORT }),
    ];
    ports.extend(served(provider).map(|(number, name)| json!({ "name": name, "containerPort": number })));
    let probe = |path: &str| json!({ "httpGet": { "path": path, "port": "health" } });
    let field =
        |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    json!({
        // clusterctl looks for a container of this name.
        "name": "manager",
        "image": options.image,
        "imagePullPolicy": "IfNotPresent",
        "args": args(provider),
        "env": [field("POD_IP", "status.podIP"), field("POD_NAMESPACE", "metadata.namespace")],
        "ports": ports,
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {
            "requests": { "cpu": "20m", "memory": "64Mi" },
            "limits": { "memory": "1Gi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "capabilities": { "drop": ["ALL"] },
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(provider),
    })
}

/// Software that machines fetch from elsewhere is the user's to name, in a ConfigMap that need not be there.
fn volumes(provider: Provider) -> Vec<Value> {
    let data = json!({ "name": "data", "emptyDir": {} });
    let index = json!({ "name": "software", "configMap": { "name": SOFTWARE_INDEX, "optional": true } });
    let client_ca =
        json!({ "name": "hooks-client-ca", "secret": { "secretName": HOOKS_CLIENT_CA, "optional": true } });
    let token = json!({ "audience": AUDIENCE, "expirationSeconds": HOOKS_TOKEN_SECONDS, "path": "token" });
    let token =
        json!({ "name": "hooks-token", "projected": { "sources": [{ "serviceAccountToken": token }] } });
    std::iter::once(data)
        .chain(provider.serves_software().then_some(index))
        .chain((provider == Provider::Hooks).then_some(client_ca))
        .chain((provider == Provider::Core).then_some(token))
        .collect()
}

fn mounts(provider: Provider) -> Vec<Value> {
    let data = json!({ "name": "data", "mountPath": DATA });
    let index = json!({ "name": "software", "mountPath": SOFTWARE_FOLDER, "readOnly": true });
    let client_ca =
        json!({ "name": "hooks-client-ca", "mountPath": HOOKS_CLIENT_CA_FOLDER, "readOnly": true });
    let token = json!({ "name": "hooks-token", "mountPath": HOOKS_TOKEN_FOLDER, "readOnly": true });
    std::iter::once(data)
        .chain(provider.serves_software().then_some(index))
        .chain((provider == Provider::Hooks).then_some(client_ca))
        .chain((provider == Provider::Core).then_some(token))
        .collect()
}

/// The port beside that of the probes, if there is one.
fn served(provider: Provider) -> impl Iterator<Item = (u16, &'static str)> {
    let hooks = (provider == Provider::Hooks).then_some(HOOKS);
    hooks.into_iter().chain(provider.serves_software().then_some(SOFTWARE))
}

fn args(provider: Provider) -> Vec<String> {
    let mut args = vec![
        "manager".to_owned(),
        format!("--controllers={}", provider.controllers()),
        "--leader-elect".to_owned(),
        "--leader-elect-namespace=$(POD_NAMESPACE)".to_owned(),
        format!("--health-addr=:{HEALTH_PORT}"),
        // Variables of upstream's manifests.
        format!("--diagnostics-address=${{CAPI_DIAGNOSTICS_ADDRESS:=:{METRICS_PORT}}}"),
        "--insecure-diagnostics=${CAPI_INSECURE_DIAGNOSTICS:=false}".to_owned(),
        format!("--data-dir={DATA}"),
    ];
    match provider {
        Provider::Core => args.push(format!("--hooks-token-file={HOOKS_TOKEN_FOLDER}/token")),
        Provider::ControlPlane => {}
        // Machines are told where the plane is; from outside it has another address than from inside.
        Provider::Bootstrap => {
            args.push("--plane-server=${CAPSTAN_PLANE_SERVER:=https://kubernetes.default.svc}".to_owned());
        }
        Provider::Infrastructure => args.push("--sim-address=$(POD_IP)".to_owned()),
        Provider::Hooks => args.extend([
            format!("--hooks-listen=0.0.0.0:{}", HOOKS.0),
            format!(
                "--hooks-url=https://{}.$(POD_NAMESPACE).svc:{}",
                service_name(provider, HOOKS.1),
                HOOKS.0
            ),
            "--hooks-namespace=$(POD_NAMESPACE)".to_owned(),
            format!("--hooks-client-ca-file={HOOKS_CLIENT_CA_FOLDER}/ca.crt"),
            // Capstan's core has a token. Upstream's core needs a client certificate.
            "--hooks-review-tokens".to_owned(),
            "--hooks-allow-unauthenticated=${CAPSTAN_HOOKS_ALLOW_UNAUTHENTICATED:=false}".to_owned(),
        ]),
    }
    if provider.serves_software() {
        let (port, name) = SOFTWARE;
        let inside = format!("https://{}.{}.svc:{port}", service_name(provider, name), provider.namespace());
        let variable = match provider {
            Provider::Bootstrap => "CAPSTAN_BOOTSTRAP_SOFTWARE_URL",
            _ => "CAPSTAN_CONTROL_PLANE_SOFTWARE_URL",
        };
        args.extend([
            format!("--artifacts-index={SOFTWARE_FOLDER}/index.yaml"),
            format!("--artifacts-listen=0.0.0.0:{port}"),
            format!("--artifacts-url=${{{variable}:={inside}}}"),
        ]);
    }
    args
}
