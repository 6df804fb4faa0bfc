//! What clusterctl's kinds know beyond their fields: types of providers, and the file `metadata.yaml`.

use capstan_api::clusterctl::{Metadata, MetadataError, ProviderSpec, ProviderType};
use capstan_api::crd;
use serde_json::json;

#[test]
fn the_inventory_is_marked_as_clusterctl_expects() {
    let crd = serde_json::to_value(crd::inventory()).unwrap();
    assert_eq!(crd[0]["metadata"]["labels"], json!({"clusterctl.cluster.x-k8s.io/core": "inventory"}));
}

#[test]
fn a_known_type_is_recognised() {
    let typed = |type_: &str| ProviderSpec { type_: Some(type_.to_owned()), ..Default::default() };
    assert_eq!(typed("BootstrapProvider").provider_type(), Some(ProviderType::Bootstrap));
    assert_eq!(typed("OddProvider").provider_type(), None);
    assert_eq!(ProviderSpec::default().provider_type(), None);
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
