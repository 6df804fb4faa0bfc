//! Patches: changes to the templates of a class for each cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use crate::core::AnyJson;
use crate::schema::{GROUP_VERSION, KIND, cel};

/// A patch of templates, defined inline or by runtime extensions.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "has(self.definitions) != has(self.external)",
        "exactly one of definitions and external must be set",
    )])
))]
pub struct ClusterClassPatch {
    /// Name of the patch, unique in the class.
    #[schemars(
        length(min = 1, max = 256),
        extend(
            "x-kubernetes-validations" = cel([(
                "self != 'inline'",
                "must not be inline, which stands for the variables of the class itself",
            )])
        )
    )]
    pub name: String,

    /// Purpose of the patch.
    #[schemars(length(min = 1, max = 1024))]
    pub description: Option<String>,

    /// Go template over the variables. The patch is enabled if the result is `true`. Default: enabled.
    #[schemars(length(min = 1, max = 256))]
    pub enabled_if: Option<String>,

    /// Inline patches, applied in this order. Cannot be combined with `external`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub definitions: Vec<PatchDefinition>,

    /// Runtime extensions that generate the patch. Cannot be combined with `definitions`.
    pub external: Option<ExternalPatchDefinition>,
}

/// JSON patches of selected templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchDefinition {
    /// Selects the templates to patch.
    pub selector: PatchSelector,

    /// JSON patches, applied in this order.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub json_patches: Vec<JsonPatch>,
}

/// Selects templates by kind and by their place in the class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchSelector {
    /// Group and version of the templates.
    #[schemars(length(min = 1, max = 317), regex(pattern = GROUP_VERSION))]
    pub api_version: String,

    /// Kind of the templates.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,

    /// Places in the class that refer to the templates.
    pub match_resources: PatchSelectorMatch,
}

/// Places in a class that refer to templates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "minProperties" = 1,
    "x-kubernetes-validations" = cel([(
        "(has(self.controlPlane) && self.controlPlane) || \
         (has(self.infrastructureCluster) && self.infrastructureCluster) || \
         (has(self.machineDeploymentClass) && has(self.machineDeploymentClass.names) && \
         size(self.machineDeploymentClass.names) > 0) || \
         (has(self.machinePoolClass) && has(self.machinePoolClass.names) && \
         size(self.machinePoolClass.names) > 0)",
        "must pick something: set controlPlane or infrastructureCluster to true, or name a class in \
         machineDeploymentClass or machinePoolClass",
    )])
))]
pub struct PatchSelectorMatch {
    /// Whether to select the templates of the control plane and of its machines.
    pub control_plane: Option<bool>,

    /// Whether to select the template of the infrastructure cluster.
    pub infrastructure_cluster: Option<bool>,

    /// Selects the templates of MachineDeployment classes.
    pub machine_deployment_class: Option<PatchSelectorMatchClass>,

    /// Selects the templates of MachinePool classes.
    pub machine_pool_class: Option<PatchSelectorMatchClass>,
}

/// Selects worker classes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchSelectorMatchClass {
    /// Names of the classes. A `*` at the start or at the end of a name matches any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub names: Vec<String>,
}

/// One operation of a JSON patch.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatch {
    /// Operation: `add`, `replace` or `remove`.
    pub op: JsonPatchOp,

    /// JSON pointer to the value, which starts with `/spec`. In a list, values can only be added, at the start (`/0`)
    /// or at the end (`/-`).
    #[schemars(length(min = 1, max = 512))]
    pub path: String,

    /// Value to add or to replace with. Cannot be combined with `valueFrom`.
    pub value: Option<AnyJson>,

    /// Source of the value. Cannot be combined with `value`.
    pub value_from: Option<JsonPatchValue>,
}

/// Operations of a JSON patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonPatchOp {
    /// Add a value, or replace it if it exists.
    Add,
    /// Replace an existing value.
    Replace,
    /// Remove an existing value.
    Remove,
}

/// Source of a value. Exactly one field is set.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatchValue {
    /// Name of a variable, or path to a part of it, as in `servers.count`. Variables that start with `builtin.` have
    /// values from the cluster.
    #[schemars(length(min = 1, max = 256))]
    pub variable: Option<String>,

    /// Go template over the variables. The result is YAML or JSON.
    #[schemars(length(min = 1, max = 10240))]
    pub template: Option<String>,
}

/// Runtime extensions that patch or validate templates.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "has(self.generatePatchesExtension) || has(self.validateTopologyExtension)",
        "one of generatePatchesExtension and validateTopologyExtension must be set",
    )])
))]
pub struct ExternalPatchDefinition {
    /// Name of the extension that generates patches.
    #[schemars(length(min = 1, max = 512))]
    pub generate_patches_extension: Option<String>,

    /// Name of the extension that validates the patched topology.
    #[schemars(length(min = 1, max = 512))]
    pub validate_topology_extension: Option<String>,

    /// Name of the extension that defines additional variables.
    #[schemars(length(min = 1, max = 512))]
    pub discover_variables_extension: Option<String>,

    /// Settings for the extensions. They override the settings of the ExtensionConfig.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}
