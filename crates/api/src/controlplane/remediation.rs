//! CapstanRemediation: a request to heal an unhealthy machine in place, for MachineHealthChecks of a core that would
//! otherwise delete the Machine.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::meta::TemplateMetadata;

/// The request has no fields. `spec.healing` of the CapstanControlPlane has the steps and their timeouts.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "CapstanRemediation",
    namespaced,
    derive = "PartialEq",
    doc = "A request that the Machine of the same name is healed in place. A MachineHealthCheck makes it, and deletes it once \
           the Machine is healthy. The condition HealedInPlace of the Machine says how far healing is.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct CapstanRemediationSpec {}

/// The template for CapstanRemediations.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "controlplane.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "CapstanRemediationTemplate",
    namespaced,
    derive = "PartialEq",
    doc = "A template from which MachineHealthChecks make CapstanRemediations. A MachineHealthCheck that names one in \
           spec.remediation.templateRef does not have the owner delete Machines, whichever core runs it.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    // No Cluster owns it, so that it would stay behind when its cluster is moved.
    label("clusterctl.cluster.x-k8s.io/move", ""),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct CapstanRemediationTemplateSpec {
    /// The template: metadata and spec of the CapstanRemediations.
    pub template: CapstanRemediationTemplateResource,
}

/// Metadata and spec of the CapstanRemediations made from a template.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapstanRemediationTemplateResource {
    /// Labels and annotations of the CapstanRemediations.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the CapstanRemediations, which has no fields.
    pub spec: CapstanRemediationSpec,
}
