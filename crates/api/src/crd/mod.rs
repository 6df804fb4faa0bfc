//! The CRDs, generated from the types.
//!
//! The derive macro creates a schema that is close to upstream's; `tidy` makes it equal. Nothing is patched as text
//! afterwards, and the code does not differ by kind, except for the attributes of the kind itself.

mod derive;
pub mod reference;
mod tidy;

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceValidation;
use kube::CustomResourceExt;
use schemars::JsonSchema;

use crate::{addons, agent, bootstrap, clusterctl, controlplane, core, infrastructure, ipam, runtime};

/// All CRDs, in the order in which they are printed and applied.
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

/// CRDs of the core provider.
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

/// CRDs of the inventory of installed providers.
pub fn inventory() -> Vec<CustomResourceDefinition> {
    vec![of::<clusterctl::Provider>()]
}

/// CRDs of kinds that are only files: there is a schema, but they are not installed on a server.
pub fn files() -> Vec<CustomResourceDefinition> {
    vec![of::<clusterctl::Metadata>()]
}

/// CRDs of the bootstrap provider.
pub fn bootstrap_provider() -> Vec<CustomResourceDefinition> {
    vec![of::<bootstrap::CapstanConfig>(), of::<bootstrap::CapstanConfigTemplate>()]
}

/// CRDs of the control plane provider. It makes the plans, so MachineReport belongs to it.
pub fn control_plane_provider() -> Vec<CustomResourceDefinition> {
    vec![
        of::<controlplane::CapstanControlPlane>(),
        of::<controlplane::CapstanControlPlaneTemplate>(),
        of::<controlplane::CapstanRemediation>(),
        of::<controlplane::CapstanRemediationTemplate>(),
        of::<agent::MachineReport>(),
    ]
}

/// CRDs of the infrastructure provider.
pub fn infrastructure_provider() -> Vec<CustomResourceDefinition> {
    vec![
        of::<infrastructure::HostCluster>(),
        of::<infrastructure::HostClusterTemplate>(),
        of::<infrastructure::HostMachine>(),
        of::<infrastructure::HostMachineTemplate>(),
        of::<infrastructure::Host>(),
        of::<infrastructure::HostPool>(),
        of::<infrastructure::HostRegistration>(),
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

/// Name of a CRD, such as `machines.cluster.x-k8s.io`.
pub fn name(crd: &CustomResourceDefinition) -> String {
    format!("{}.{}", crd.spec.names.plural, crd.spec.group)
}

/// File name of a CRD, such as `cluster.x-k8s.io_machines.yaml`.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// Whether a file name can be a result of [`file_name`].
pub fn is_file_name(name: &str) -> bool {
    name.strip_suffix(".yaml").and_then(|stem| stem.split_once('_')).is_some_and(|(group, plural)| {
        group.contains('.') && !plural.is_empty() && plural.bytes().all(|b| b.is_ascii_lowercase())
    })
}

/// A CRD as a YAML document, without the leading separator.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(crd)
}

/// CRDs as JSON, one on each line.
pub fn to_json_lines(crds: &[CustomResourceDefinition]) -> serde_json::Result<String> {
    crds.iter().map(|crd| Ok(serde_json::to_string(crd)? + "\n")).collect()
}

/// CRDs as one JSON `List`, with line breaks.
pub fn to_json_list(crds: &[CustomResourceDefinition]) -> serde_json::Result<String> {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crds});
    serde_json::to_string_pretty(&list)
}
