//! The objects of a provider: everything that must be installed on a plane for it to run.

mod access;
mod deployment;
mod machine_leases;
mod network;
mod service;

use capstan_api::crd::{self, CustomResourceDefinition};
use serde_json::{Value, json};

use crate::{IMAGE, Provider, Version};

pub(crate) use access::{access_of, binding_in};

/// Every object of a provider bears its label, as clusterctl's contract asks.
const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";

/// The options of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Release version.
    pub version: Version,
    /// Container image of the manager, with its tag.
    pub image: String,
    /// Namespace of the provider.
    pub namespace: String,
}

impl Options {
    /// The options of a released provider.
    pub fn of(provider: Provider, version: Version) -> Self {
        Self { version, image: format!("{IMAGE}:{version}"), namespace: provider.namespace() }
    }
}

/// The objects of a provider, in an order in which they can be applied. They are a template: values may contain
/// clusterctl variables.
pub fn components(provider: Provider, options: &Options) -> Vec<Value> {
    let mut objects = vec![namespace(options)];
    objects.extend(crds(provider).iter().map(to_value));
    objects.extend(access::objects(provider, options));
    objects.extend(machine_leases::objects(provider, options));
    objects.push(network::object(provider, options));
    objects.extend(service::objects(provider, options));
    objects.push(deployment::object(provider, options));
    for object in &mut objects {
        label(object, PROVIDER_LABEL, &provider.label());
    }
    objects
}

fn crds(provider: Provider) -> Vec<CustomResourceDefinition> {
    match provider {
        Provider::Core => crd::core_provider(),
        Provider::Bootstrap => crd::bootstrap_provider(),
        Provider::ControlPlane => crd::control_plane_provider(),
        Provider::Infrastructure => crd::infrastructure_provider(),
        Provider::Hooks => Vec::new(),
    }
}

fn namespace(options: &Options) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": options.namespace },
    })
}

/// What all pods of a provider's manager are found by.
fn selector(provider: Provider) -> Value {
    json!({ PROVIDER_LABEL: provider.label(), "control-plane": provider.manager() })
}

/// Types of ours always become JSON.
fn to_value(crd: &CustomResourceDefinition) -> Value {
    serde_json::to_value(crd).unwrap_or_default()
}

fn label(object: &mut Value, name: &str, value: &str) {
    object["metadata"]["labels"][name] = value.into();
}
