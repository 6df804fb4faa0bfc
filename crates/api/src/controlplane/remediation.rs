//! CapstanRemediation: asks that an unhealthy machine is healed in place, for health checks whose core would delete it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::meta::TemplateMetadata;

/// What is asked. There is nothing to choose: `spec.healing` of the CapstanControlPlane has the steps and their time limits.
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

/// What CapstanRemediations made from the template look like.
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
    /// The CapstanRemediation to make.
    pub template: CapstanRemediationTemplateResource,
}

/// The CapstanRemediation to make.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapstanRemediationTemplateResource {
    /// Labels and annotations of the CapstanRemediation.
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the CapstanRemediation.
    pub spec: CapstanRemediationSpec,
}
