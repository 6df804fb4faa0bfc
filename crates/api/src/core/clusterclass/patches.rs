//! Patches: what is changed in a class's templates for each cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use crate::core::AnyJson;
use crate::schema::{GROUP_VERSION, KIND, cel};

/// A change to templates, written here or left to a runtime extension.
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
    /// Name of the patch, which no other patch of the class has.
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

    /// What the patch is for.
    #[schemars(length(min = 1, max = 1024))]
    pub description: Option<String>,

    /// A Go template over the variables; the patch is used where it gives `true`. Everywhere when unset.
    #[schemars(length(min = 1, max = 256))]
    pub enabled_if: Option<String>,

    /// The changes, made in this order. Not together with `external`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub definitions: Vec<PatchDefinition>,

    /// Runtime extensions that make the changes. Not together with `definitions`.
    pub external: Option<ExternalPatchDefinition>,
}

/// Changes to certain templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchDefinition {
    /// Which templates are changed.
    pub selector: PatchSelector,

    /// The changes, made in this order.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub json_patches: Vec<JsonPatch>,
}

/// Which templates are changed: those of a kind, in certain places of the class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchSelector {
    /// Group and version of the templates.
    #[schemars(length(min = 1, max = 317), regex(pattern = GROUP_VERSION))]
    pub api_version: String,

    /// Kind of the templates.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND))]
    pub kind: String,

    /// Where in the class the templates are named.
    pub match_resources: PatchSelectorMatch,
}

/// Places in a class that name templates.
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
    /// Templates of the control plane and of its machines.
    pub control_plane: Option<bool>,

    /// The template of the infrastructure that a whole cluster shares.
    pub infrastructure_cluster: Option<bool>,

    /// Templates of certain MachineDeployment classes.
    pub machine_deployment_class: Option<PatchSelectorMatchClass>,

    /// Templates of certain MachinePool classes.
    pub machine_pool_class: Option<PatchSelectorMatchClass>,
}

/// Classes of workers by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchSelectorMatchClass {
    /// Names of the classes. One `*` at the start or the end of a name stands for anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub names: Vec<String>,
}

/// One change to a template.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatch {
    /// What is done.
    pub op: JsonPatchOp,

    /// Where it is done, as a JSON pointer that starts with `/spec`. In a list something can be added at the
    /// start (`/0`) or the end (`/-`); nothing can be replaced or removed.
    #[schemars(length(min = 1, max = 512))]
    pub path: String,

    /// The value to add or put in place. Not together with `valueFrom`.
    pub value: Option<AnyJson>,

    /// How the value is worked out. Not together with `value`.
    pub value_from: Option<JsonPatchValue>,
}

/// Changes there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonPatchOp {
    /// Put in what was not there, or put it over what was.
    Add,
    /// Put something else in the place of what is there.
    Replace,
    /// Take away what is there.
    Remove,
}

/// How a value is worked out. One of the two fields is set.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatchValue {
    /// A variable, or a part of one as in `servers.count`. Those that start with `builtin.` come from the
    /// cluster itself.
    #[schemars(length(min = 1, max = 256))]
    pub variable: Option<String>,

    /// A Go template over the variables that gives YAML or JSON.
    #[schemars(length(min = 1, max = 10240))]
    pub template: Option<String>,
}

/// Runtime extensions that change or check templates.
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
    /// Name of the extension that makes changes.
    #[schemars(length(min = 1, max = 512))]
    pub generate_patches_extension: Option<String>,

    /// Name of the extension that checks the result.
    #[schemars(length(min = 1, max = 512))]
    pub validate_topology_extension: Option<String>,

    /// Name of the extension that brings in variables.
    #[schemars(length(min = 1, max = 512))]
    pub discover_variables_extension: Option<String>,

    /// What the extensions are told, beside the settings of their ExtensionConfig and over them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}
