//! Objects of the groups beside `cluster.x-k8s.io`: none loses a field, and none writes what is not set.

#![allow(clippy::unwrap_used)]

use capstan_api::addons::{ClusterResourceSet, ClusterResourceSetBinding};
use capstan_api::clusterctl::{Metadata, MetadataError, Provider, ProviderSpec, ProviderType};
use capstan_api::crd;
use capstan_api::ipam::{IpAddress, IpAddressClaim};
use capstan_api::runtime::ExtensionConfig;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Reads an object and checks that it is written back as it was.
fn survives<K: Resource<DynamicType = ()> + Serialize + DeserializeOwned>(mut object: Value) -> K {
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    let typed: K = serde_json::from_value(object.clone()).unwrap();
    let written = serde_json::to_value(&typed).unwrap();
    assert_eq!(written, object);
    typed
}

fn status_with(more: &Value) -> Value {
    let mut status = json!({
        "conditions": [{
            "type": "Ready",
            "status": "True",
            "observedGeneration": 3,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "Ready",
            "message": "",
        }],
        "deprecated": {"v1beta1": {"conditions": [{
            "type": "Ready",
            "status": "False",
            "severity": "Info",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "reason": "Waiting",
            "message": "waiting",
        }]}},
    });
    status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    status
}

#[test]
fn cluster_resource_set() {
    survives::<ClusterResourceSet>(json!({
        "metadata": {"name": "cni", "namespace": "shop"},
        "spec": {
            "clusterSelector": {
                "matchLabels": {"cni": "cilium"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}],
            },
            "resources": [{"name": "cilium", "kind": "ConfigMap"}, {"name": "keys", "kind": "Secret"}],
            "strategy": "Reconcile",
        },
        "status": status_with(&json!({"observedGeneration": 3})),
    }));
    survives::<ClusterResourceSet>(json!({
        "metadata": {},
        "spec": {
            "clusterSelector": {"matchLabels": {"cni": "cilium"}},
            "resources": [{"name": "cilium", "kind": "ConfigMap"}],
        },
    }));
}

#[test]
fn cluster_resource_set_binding() {
    survives::<ClusterResourceSetBinding>(json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "clusterName": "web",
            "bindings": [{
                "clusterResourceSetName": "cni",
                "resources": [
                    {
                        "name": "cilium",
                        "kind": "ConfigMap",
                        "hash": "sha256:abc",
                        "lastAppliedTime": "2026-01-02T03:04:05Z",
                        "applied": true,
                    },
                    {"name": "keys", "kind": "Secret", "applied": false},
                ],
            }],
        },
    }));
    survives::<ClusterResourceSetBinding>(json!({"metadata": {}, "spec": {"clusterName": "web"}}));
    survives::<ClusterResourceSetBinding>(json!({
        "metadata": {},
        "spec": {"clusterName": "web", "bindings": [{"clusterResourceSetName": "cni"}]},
    }));
}

#[test]
fn ip_address() {
    let pool = json!({"apiGroup": "ipam.example.com", "kind": "Pool", "name": "blue"});
    survives::<IpAddress>(json!({
        "metadata": {"name": "web-1", "namespace": "shop"},
        "spec": {
            "claimRef": {"name": "web-1"},
            "poolRef": pool,
            "address": "192.0.2.7",
            "prefix": 24,
            "gateway": "192.0.2.1",
        },
    }));
    survives::<IpAddress>(json!({
        "metadata": {},
        "spec": {"claimRef": {"name": "web-1"}, "poolRef": pool, "address": "2001:db8::7", "prefix": 0},
    }));
}

#[test]
fn ip_address_claim() {
    let pool = json!({"apiGroup": "ipam.example.com", "kind": "Pool", "name": "blue"});
    survives::<IpAddressClaim>(json!({
        "metadata": {"name": "web-1", "namespace": "shop"},
        "spec": {"clusterName": "web", "poolRef": pool},
        "status": status_with(&json!({"addressRef": {"name": "web-1"}})),
    }));
    survives::<IpAddressClaim>(json!({"metadata": {}, "spec": {"poolRef": pool}}));
}

#[test]
fn extension_config() {
    let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "UpdateMachine"});
    let config = survives::<ExtensionConfig>(json!({
        "metadata": {"name": "in-place"},
        "spec": {
            "clientConfig": {
                "service": {"namespace": "capstan", "name": "in-place", "path": "/hooks", "port": 8443},
                "caBundle": "UEVN",
            },
            "namespaceSelector": {"matchLabels": {"tier": "gold"}},
            "settings": {"tier": "gold"},
        },
        "status": status_with(&json!({"handlers": [
            {"name": "a.in-place", "requestHook": hook, "timeoutSeconds": 20, "failurePolicy": "Ignore"},
            {"name": "b.in-place", "requestHook": hook},
        ]})),
    }));
    assert_eq!(config.spec.client_config.ca_bundle.unwrap().0, b"PEM");
    survives::<ExtensionConfig>(json!({
        "metadata": {},
        "spec": {"clientConfig": {"url": "https://extension.example.com"}},
    }));
    // An empty selector is not the same as none.
    survives::<ExtensionConfig>(json!({
        "metadata": {},
        "spec": {"clientConfig": {"url": "https://extension.example.com"}, "namespaceSelector": {}},
    }));
}

#[test]
fn provider() {
    let provider = survives::<Provider>(json!({
        "metadata": {"name": "bootstrap-kubeadm", "namespace": "capi-kubeadm-bootstrap-system"},
        "providerName": "kubeadm",
        "type": "BootstrapProvider",
        "version": "v1.14.0",
        "watchedNamespace": "shop",
    }));
    assert_eq!(provider.spec.provider_type(), Some(ProviderType::Bootstrap));
    survives::<Provider>(json!({"metadata": {}}));
    let crd = serde_json::to_value(crd::inventory()).unwrap();
    assert_eq!(crd[0]["metadata"]["labels"], json!({"clusterctl.cluster.x-k8s.io/core": "inventory"}));
}

#[test]
fn provider_types_are_named_and_ordered_as_upstream_does() {
    let labels: Vec<_> = ProviderType::ALL.iter().map(|type_| (type_.as_str(), type_.label("x"))).collect();
    let expected = [
        ("CoreProvider", "x"),
        ("BootstrapProvider", "bootstrap-x"),
        ("ControlPlaneProvider", "control-plane-x"),
        ("InfrastructureProvider", "infrastructure-x"),
        ("IPAMProvider", "ipam-x"),
        ("RuntimeExtensionProvider", "runtime-extension-x"),
        ("AddonProvider", "addon-x"),
    ]
    .map(|(type_, label)| (type_, label.to_owned()));
    assert_eq!(labels, expected);
    assert!(ProviderType::ALL.is_sorted());
    let odd = ProviderSpec { type_: Some("OddProvider".to_owned()), ..Default::default() };
    assert_eq!(odd.provider_type(), None);
}

#[test]
fn metadata() {
    survives::<Metadata>(json!({
        "metadata": {"name": "x"},
        "releaseSeries": [{"major": 1, "minor": 14, "contract": "v1beta2"}, {"minor": 4}],
    }));
    survives::<Metadata>(json!({"metadata": {}}));
}

const METADATA_YAML: &str = "\
# maps release series to contracts
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries:
  - major: 0
    minor: 4
    contract: v1alpha4
  - major: 1
    minor: 14
    contract: v1beta2
";

#[test]
fn metadata_is_read_from_a_file() {
    let read = Metadata::from_yaml(METADATA_YAML).unwrap();
    let [old, new] = read.spec.release_series.as_slice() else { panic!("{read:?}") };
    assert_eq!((old.major, old.minor), (Some(0), Some(4)));
    assert_eq!(new.contract.as_deref(), Some("v1beta2"));
    let without_kind = METADATA_YAML.replace("kind: Metadata\n", "");
    assert_eq!(Metadata::from_yaml(&without_kind).unwrap(), read);
}

#[test]
fn metadata_is_read_strictly() {
    let refused = |from: &str, to: &str| Metadata::from_yaml(&METADATA_YAML.replace(from, to)).unwrap_err();
    assert!(matches!(refused("releaseSeries:", "extra: 1\nreleaseSeries:"), MetadataError::Form(_)));
    assert!(matches!(refused("    minor: 14\n", "    minor: 14\n    extra: 1\n"), MetadataError::Form(_)));
    assert!(matches!(refused("minor: 14", "minor: fourteen"), MetadataError::Form(_)));
    assert!(matches!(refused("v1alpha3", "v1alpha4"), MetadataError::Type { field: "apiVersion", .. }));
    assert!(matches!(refused("kind: Metadata", "kind: Other"), MetadataError::Type { field: "kind", .. }));
    let empty = "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries: []\n";
    assert!(matches!(Metadata::from_yaml(empty), Err(MetadataError::NoReleaseSeries)));
}
