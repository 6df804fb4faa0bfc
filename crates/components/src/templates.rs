//! Cluster templates, with the RoleBindings that give the managers access to the namespace of the cluster.

use serde_json::Value;

use crate::objects::{access_of, binding_in};
use crate::{providers, to_yaml};

/// A cluster template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterTemplate {
    /// Its flavor; none for the default template.
    pub flavor: Option<&'static str>,
    /// The template, in clusterctl's dialect.
    pub text: String,
}

impl ClusterTemplate {
    /// Name of its file, in the form that clusterctl looks up.
    pub fn file_name(&self) -> String {
        match self.flavor {
            Some(flavor) => format!("cluster-template-{flavor}.yaml"),
            None => "cluster-template.yaml".to_owned(),
        }
    }
}

/// The flavors, as they stand in the folder `templates`.
const CLUSTERS: &[(Option<&str>, &str)] = &[
    (None, include_str!("../../../templates/cluster-template.yaml")),
    (Some("ha"), include_str!("../../../templates/cluster-template-ha.yaml")),
    (Some("simulated"), include_str!("../../../templates/cluster-template-simulated.yaml")),
    (Some("single-node"), include_str!("../../../templates/cluster-template-single-node.yaml")),
    (Some("topology"), include_str!("../../../templates/cluster-template-topology.yaml")),
];

/// The flavor that is no cluster, but what a namespace needs before clusters are moved there.
const ACCESS: (&str, &str) = (
    "access",
    "# Lets Capstan's managers into a namespace. Every other template brings this along; by itself it is for a\n\
     # namespace that clusters are moved to.\n",
);

/// All cluster templates of a release.
pub fn templates() -> Vec<ClusterTemplate> {
    let access = to_yaml(&access_bindings("${NAMESPACE}"));
    // Before the cluster: managers begin with it at once.
    let with_access = |(flavor, text): &(Option<&'static str>, &str)| ClusterTemplate {
        flavor: *flavor,
        text: format!("{access}---\n{text}"),
    };
    let mut templates: Vec<ClusterTemplate> = CLUSTERS.iter().map(with_access).collect();
    let (flavor, head) = ACCESS;
    templates.push(ClusterTemplate { flavor: Some(flavor), text: format!("{head}{access}") });
    templates
}

/// The RoleBindings that give the managers of all providers access to a namespace with clusters. The managers read and
/// write Secrets only in such namespaces.
pub fn access_bindings(namespace: &str) -> Vec<Value> {
    let needy =
        providers().into_iter().filter(|provider| !access_of(*provider).cluster_namespaces.is_empty());
    needy.map(|provider| binding_in(provider, namespace)).collect()
}
