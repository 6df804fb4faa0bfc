//! Variables: values that each cluster of a class can set, with their schemas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use crate::core::AnyJson;
use crate::schema::cel;

/// A value that each cluster can set.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClassVariable {
    /// Name of the variable.
    #[schemars(
        length(min = 1, max = 256),
        extend(
            "x-kubernetes-validations" = cel([(
                "self != 'builtin' && !self.contains('.')",
                "must not be builtin, which is taken, and must not contain a dot",
            )])
        )
    )]
    pub name: String,

    /// Whether every cluster must set the variable. Required fields inside it are defined by its schema.
    pub required: bool,

    /// Labels and annotations of the variable in the v1beta1 format. Deprecated: use `x-metadata` in the schema.
    #[serde(rename = "deprecatedV1Beta1Metadata")]
    pub deprecated_v1beta1_metadata: Option<VariableMetadata>,

    /// Schema of valid values.
    pub schema: VariableSchema,
}

/// A variable of the class with all its definitions.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClassStatusVariable {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Whether the definitions conflict with each other.
    pub definitions_conflict: Option<bool>,

    /// Definitions of the variable.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub definitions: Vec<ClusterClassStatusVariableDefinition>,
}

/// One definition of a variable.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClassStatusVariableDefinition {
    /// Source of the definition: `inline` for the class itself, otherwise the name of the patch whose extension defines
    /// it.
    #[schemars(length(min = 1, max = 256))]
    pub from: String,

    /// Whether every cluster must set the variable.
    pub required: bool,

    /// Labels and annotations of the variable in the v1beta1 format. Deprecated: use `x-metadata` in the schema.
    #[serde(rename = "deprecatedV1Beta1Metadata")]
    pub deprecated_v1beta1_metadata: Option<VariableMetadata>,

    /// Schema of valid values.
    pub schema: VariableSchema,
}

/// Labels and annotations of a variable or of a part of it, for tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct VariableMetadata {
    /// Labels, for example to group variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Schema of the values of a variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariableSchema {
    /// OpenAPI v3 schema with a subset of the keywords of CRDs.
    #[serde(rename = "openAPIV3Schema")]
    pub open_api_v3_schema: JsonSchemaProps,
}

/// Schema of a value.
///
/// A schema contains schemas, which a CRD schema cannot express: the API server validates only this level. Nested
/// schemas are stored unchanged and may be invalid. The code that uses them parses them as [`JsonSchemaProps`].
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct JsonSchemaProps {
    /// Description of the value.
    #[schemars(length(min = 1, max = 4096))]
    pub description: Option<String>,

    /// Example of a valid value.
    pub example: Option<AnyJson>,

    /// Type of the value: `object`, `array`, `string`, `integer`, `number` or `boolean`.
    #[serde(rename = "type")]
    pub type_: Option<JsonSchemaType>,

    /// For an object: schemas of its fields. Cannot be combined with `additionalProperties`.
    pub properties: Option<AnyJson>,

    /// For a map: schema of its values. Cannot be combined with `properties`.
    pub additional_properties: Option<AnyJson>,

    /// For an object: maximum number of fields.
    pub max_properties: Option<i64>,

    /// For an object: minimum number of fields.
    pub min_properties: Option<i64>,

    /// For an object: names of required fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 1000),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub required: Vec<String>,

    /// For an array: the schema of its items.
    pub items: Option<AnyJson>,

    /// For an array: maximum number of items.
    pub max_items: Option<i64>,

    /// For an array: minimum number of items.
    pub min_items: Option<i64>,

    /// For an array: whether all items must be different.
    pub unique_items: Option<bool>,

    /// For a string: format, such as `ipv4` or `date-time`. Unknown formats are not validated.
    #[schemars(length(min = 1, max = 32))]
    pub format: Option<String>,

    /// For a string: maximum length.
    pub max_length: Option<i64>,

    /// For a string: minimum length.
    pub min_length: Option<i64>,

    /// For a string: regular expression that must match a part of it.
    #[schemars(length(min = 1, max = 512))]
    pub pattern: Option<String>,

    /// For a number: maximum.
    pub maximum: Option<i64>,

    /// For a number: whether `maximum` itself is excluded.
    pub exclusive_maximum: Option<bool>,

    /// For a number: minimum.
    pub minimum: Option<i64>,

    /// For a number: whether `minimum` itself is excluded.
    pub exclusive_minimum: Option<bool>,

    /// For an object: whether fields without a schema are allowed.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub preserve_unknown_fields: Option<bool>,

    /// Allowed values.
    #[serde(rename = "enum", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub enum_: Vec<AnyJson>,

    /// Default value.
    pub default: Option<AnyJson>,

    /// CEL rules that the value must satisfy.
    #[serde(rename = "x-kubernetes-validations", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 100),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["rule"])
    )]
    pub validations: Vec<ValidationRule>,

    /// Labels and annotations, for tools.
    #[serde(rename = "x-metadata")]
    pub metadata: Option<VariableMetadata>,

    /// Whether the value is an integer or a string. `type` must then be unset.
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub int_or_string: Option<bool>,

    /// Schemas that must all match.
    pub all_of: Option<AnyJson>,

    /// Schemas of which exactly one must match.
    pub one_of: Option<AnyJson>,

    /// Schemas of which at least one must match.
    pub any_of: Option<AnyJson>,

    /// A schema that must not match.
    pub not: Option<AnyJson>,
}

/// Types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonSchemaType {
    /// An object or a map.
    Object,
    /// An array.
    Array,
    /// A string.
    String,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// A boolean.
    Boolean,
}

/// A CEL rule that a value must satisfy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidationRule {
    /// CEL expression that must be true. `self` is the value. If the rule uses `oldSelf`, the previous value, it is
    /// evaluated only on updates.
    #[schemars(length(min = 1, max = 4096))]
    pub rule: String,

    /// Message for users when the rule fails. Default: the rule.
    #[schemars(length(min = 1, max = 512))]
    pub message: Option<String>,

    /// CEL expression of the message. It overrides `message` if the result is a single line of text.
    #[schemars(length(min = 1, max = 1024))]
    pub message_expression: Option<String>,

    /// Machine-readable type of the error.
    #[schemars(extend("default" = "FieldValueInvalid"))]
    pub reason: Option<FieldValueErrorReason>,

    /// Path of the field that is reported as invalid, relative to the value, as in `.servers.count`.
    #[schemars(length(min = 1, max = 512))]
    pub field_path: Option<String>,
}

/// Types of errors in a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldValueErrorReason {
    /// The value is invalid.
    #[default]
    FieldValueInvalid,
    /// The value is not allowed here.
    FieldValueForbidden,
    /// The value is missing.
    FieldValueRequired,
    /// The value is a duplicate.
    FieldValueDuplicate,
}
