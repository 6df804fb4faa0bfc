//! The CRDs, generated from the types.
//!
//! `derive` gives a schema that is close; `tidy` makes it the one upstream serves. Nothing is patched
//! as text afterwards, and nothing here differs by kind, except what stands beside the kind itself.

mod derive;
pub mod reference;
mod tidy;

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceValidation;
use kube::CustomResourceExt;
use schemars::JsonSchema;

use crate::{addons, agent, bootstrap, clusterctl, controlplane, core, infrastructure, ipam, runtime};

/// Every CRD there is, in the order in which it is printed and applied.
pub fn all() -> Vec<CustomResourceDefinition> {
    [
        core_provider(),
        bootstrap_provider(),
        control_plane_provider(),
        infrastructure_provider(),
        inventory(),
        files(),
    ]
    .concat()
}

/// The CRDs that belong to the core provider.
pub fn core_provider() -> Vec<CustomResourceDefinition> {
    vec![
        of::<core::Cluster>(),
        of::<core::ClusterClass>(),
        of::<core::Machine>(),
        of::<core::MachineSet>(),
        of::<core::MachineDeployment>(),
        of::<core::MachinePool>(),
        of::<core::MachineHealthCheck>(),
        of::<core::MachineDrainRule>(),
        of::<addons::ClusterResourceSet>(),
        of::<addons::ClusterResourceSetBinding>(),
        of::<ipam::IpAddress>(),
        of::<ipam::IpAddressClaim>(),
        of::<runtime::ExtensionConfig>(),
    ]
}

/// The CRDs of the inventory that says which providers are installed.
pub fn inventory() -> Vec<CustomResourceDefinition> {
    vec![of::<clusterctl::Provider>()]
}

/// The CRDs of kinds that are files only: there is a schema, but no server has to know them.
pub fn files() -> Vec<CustomResourceDefinition> {
    vec![of::<clusterctl::Metadata>()]
}

/// The CRDs that belong to the bootstrap provider.
pub fn bootstrap_provider() -> Vec<CustomResourceDefinition> {
    vec![of::<bootstrap::CapstanConfig>(), of::<bootstrap::CapstanConfigTemplate>()]
}

/// The CRDs that belong to the control plane provider. Plans are its work, so the reports are too.
pub fn control_plane_provider() -> Vec<CustomResourceDefinition> {
    vec![
        of::<controlplane::CapstanControlPlane>(),
        of::<controlplane::CapstanControlPlaneTemplate>(),
        of::<controlplane::CapstanRemediation>(),
        of::<controlplane::CapstanRemediationTemplate>(),
        of::<agent::MachineReport>(),
    ]
}

/// The CRDs that belong to the infrastructure provider.
pub fn infrastructure_provider() -> Vec<CustomResourceDefinition> {
    vec![
        of::<infrastructure::HostCluster>(),
        of::<infrastructure::HostClusterTemplate>(),
        of::<infrastructure::HostMachine>(),
        of::<infrastructure::HostMachineTemplate>(),
        of::<infrastructure::Host>(),
        of::<infrastructure::HostPool>(),
    ]
}

fn of<K: CustomResourceExt + JsonSchema>() -> CustomResourceDefinition {
    let mut crd = K::crd();
    for version in &mut crd.spec.versions {
        let schema = CustomResourceValidation { open_api_v3_schema: Some(derive::schema_of::<K>()) };
        version.schema = Some(schema);
    }
    tidy::tidy(crd)
}

/// Name of a CRD, as in `machines.cluster.x-k8s.io`.
pub fn name(crd: &CustomResourceDefinition) -> String {
    format!("{}.{}", crd.spec.names.plural, crd.spec.group)
}

/// Name of the file a CRD is kept in, as in `cluster.x-k8s.io_machines.yaml`.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// Whether a file could be one that [`file_name`] named.
pub fn is_file_name(name: &str) -> bool {
    name.strip_suffix(".yaml").and_then(|stem| stem.split_once('_')).is_some_and(|(group, plural)| {
        group.contains('.') && !plural.is_empty() && plural.bytes().all(|b| b.is_ascii_lowercase())
    })
}

/// One CRD as a YAML document, without the leading separator.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(crd)
}

/// Many CRDs as one JSON `List`, on many lines.
pub fn to_json_list(crds: &[CustomResourceDefinition]) -> serde_json::Result<String> {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crds});
    serde_json::to_string_pretty(&list)
}
