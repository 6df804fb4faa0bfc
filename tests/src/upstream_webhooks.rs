//! Configures a plane with the webhooks of upstream's managers, as their manifests do, but by URL, because the managers
//! do not run in a cluster.

use capstan_testkit::{CrdSet, Manager, ManagerWebhook, UpstreamManagers};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// What a manager's webhooks look at: group, kind, plural, and whether they fill in defaults or check.
struct Reviewed(&'static str, &'static str, &'static str, &'static [Review]);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Review {
    Mutate,
    Validate,
}

const BOTH: &[Review] = &[Review::Mutate, Review::Validate];
const CORE: &str = "cluster.x-k8s.io";
const ADDONS: &str = "addons.cluster.x-k8s.io";
const RUNTIME: &str = "runtime.cluster.x-k8s.io";
const IPAM: &str = "ipam.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

fn reviewed(manager: Manager) -> &'static [Reviewed] {
    match manager {
        Manager::Core => &[
            Reviewed(CORE, "cluster", "clusters", BOTH),
            Reviewed(CORE, "machine", "machines", BOTH),
            Reviewed(CORE, "machinedeployment", "machinedeployments", BOTH),
            Reviewed(CORE, "machineset", "machinesets", BOTH),
            Reviewed(CORE, "machinehealthcheck", "machinehealthchecks", BOTH),
            Reviewed(CORE, "machinepool", "machinepools", BOTH),
            Reviewed(CORE, "machinedrainrule", "machinedrainrules", &[Review::Validate]),
            Reviewed(CORE, "clusterclass", "clusterclasses", &[Review::Validate]),
            Reviewed(ADDONS, "clusterresourceset", "clusterresourcesets", BOTH),
            Reviewed(ADDONS, "clusterresourcesetbinding", "clusterresourcesetbindings", &[Review::Validate]),
            Reviewed(RUNTIME, "extensionconfig", "extensionconfigs", BOTH),
            Reviewed(IPAM, "ipaddress", "ipaddresses", &[Review::Validate]),
        ],
        Manager::KubeadmBootstrap => &[
            Reviewed(BOOTSTRAP, "kubeadmconfig", "kubeadmconfigs", &[Review::Validate]),
            Reviewed(BOOTSTRAP, "kubeadmconfigtemplate", "kubeadmconfigtemplates", BOTH),
        ],
        Manager::KubeadmControlPlane => {
            &[Reviewed(CONTROL_PLANE, "kubeadmcontrolplane", "kubeadmcontrolplanes", BOTH)]
        }
        Manager::Dev => &[
            Reviewed(INFRASTRUCTURE, "devcluster", "devclusters", BOTH),
            Reviewed(INFRASTRUCTURE, "devmachinetemplate", "devmachinetemplates", &[Review::Validate]),
        ],
    }
}

/// The webhook configurations of all managers, as objects to apply.
pub fn admission(managers: &UpstreamManagers) -> Vec<Value> {
    let mut configurations = Vec::new();
    for (review, kind, word) in [
        (Review::Mutate, "MutatingWebhookConfiguration", "mutate"),
        (Review::Validate, "ValidatingWebhookConfiguration", "validate"),
    ] {
        for manager in Manager::ALL {
            let Some(webhook) = managers.webhook(manager) else { continue };
            let hooks = reviewed(manager).iter().filter(|reviewed| reviewed.3.contains(&review));
            let hooks: Vec<_> = hooks.map(|reviewed| hook(reviewed, word, webhook)).collect();
            configurations.push(json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": { "name": format!("{word}-{manager:?}").to_lowercase() },
                "webhooks": hooks,
            }));
        }
    }
    configurations
}

fn hook(&Reviewed(group, kind, plural, _): &Reviewed, word: &str, webhook: &ManagerWebhook) -> Value {
    let path = format!("{word}-{}-v1beta2-{kind}", group.replace('.', "-"));
    // No other deletion is looked at.
    let deleted = word == "validate" && ["cluster", "clusterclass"].contains(&kind);
    let operations = if deleted { &["CREATE", "UPDATE", "DELETE"][..] } else { &["CREATE", "UPDATE"] };
    json!({
        "name": format!("{word}.{kind}.{group}"),
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config(webhook, &path),
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "rules": [{
            "apiGroups": [group], "apiVersions": ["v1beta2"], "operations": operations, "resources": [plural],
        }],
    })
}

/// A CRD of one set, with the conversion webhook of its manager.
pub fn converted_by(managers: &UpstreamManagers, set: CrdSet, mut crd: Value) -> Value {
    let manager = match set {
        CrdSet::Core => Manager::Core,
        CrdSet::KubeadmBootstrap => Manager::KubeadmBootstrap,
        CrdSet::KubeadmControlPlane => Manager::KubeadmControlPlane,
        CrdSet::Dev => Manager::Dev,
        CrdSet::Clusterctl => return crd,
    };
    if let Some(webhook) = managers.webhook(manager) {
        crd["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": client_config(webhook, "convert"),
            },
        });
    }
    crd
}

fn client_config(webhook: &ManagerWebhook, path: &str) -> Value {
    let ManagerWebhook { url, authority } = webhook;
    json!({ "url": format!("{url}/{path}"), "caBundle": ByteString(authority.as_bytes().to_vec()) })
}
