//! Variables: what can be set in each cluster of a class, and which values are valid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

use crate::core::AnyJson;
use crate::schema::cel;

/// Something that can be set in each cluster.
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

    /// Whether every cluster must set it. What must be set within it is said by its schema.
    pub required: bool,

    /// Labels and annotations of the variable as v1beta1 kept them. Use `x-metadata` in the schema.
    #[serde(rename = "deprecatedV1Beta1Metadata")]
    pub deprecated_v1beta1_metadata: Option<VariableMetadata>,

    /// Which values are valid.
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

    /// Whether the definitions contradict each other.
    pub definitions_conflict: Option<bool>,

    /// Who defines the variable, and how.
    #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub definitions: Vec<ClusterClassStatusVariableDefinition>,
}

/// One definition of a variable.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClassStatusVariableDefinition {
    /// Where the definition comes from: `inline` for the class itself, otherwise the name of the patch whose
    /// extension brought it in.
    #[schemars(length(min = 1, max = 256))]
    pub from: String,

    /// Whether every cluster must set the variable.
    pub required: bool,

    /// Labels and annotations of the variable as v1beta1 kept them. Use `x-metadata` in the schema.
    #[serde(rename = "deprecatedV1Beta1Metadata")]
    pub deprecated_v1beta1_metadata: Option<VariableMetadata>,

    /// Which values are valid.
    pub schema: VariableSchema,
}

/// Labels and annotations of a variable or of a part of it, for tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct VariableMetadata {
    /// Labels, to sort variables by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations, for anything else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Which values of a variable are valid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariableSchema {
    /// An OpenAPI schema of the kind CRDs have, with fewer keywords.
    #[serde(rename = "openAPIV3Schema")]
    pub open_api_v3_schema: JsonSchemaProps,
}

/// A schema for a value.
///
/// A schema can hold schemas, and a CRD cannot say so: the API server checks this level only. What lies
/// below it is therefore kept as it came, and may turn out not to be a schema; reading it as
/// [`JsonSchemaProps`] is up to whoever uses it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct JsonSchemaProps {
    /// What the value is for.
    #[schemars(length(min = 1, max = 4096))]
    pub description: Option<String>,

    /// A value that would do.
    pub example: Option<AnyJson>,

    /// Type of the value.
    #[serde(rename = "type")]
    pub type_: Option<JsonSchemaType>,

    /// For an object: its fields, each with its schema. Not together with `additionalProperties`.
    pub properties: Option<AnyJson>,

    /// For an object that is a map: the schema of its values. Not together with `properties`.
    pub additional_properties: Option<AnyJson>,

    /// For an object: how many fields it may have.
    pub max_properties: Option<i64>,

    /// For an object: how many fields it must have.
    pub min_properties: Option<i64>,

    /// For an object: names of the fields it must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(min = 1, max = 1000),
        inner(length(min = 1, max = 256)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub required: Vec<String>,

    /// For an array: the schema of its items.
    pub items: Option<AnyJson>,

    /// For an array: how many items it may have.
    pub max_items: Option<i64>,

    /// For an array: how many items it must have.
    pub min_items: Option<i64>,

    /// For an array: whether no two items may be the same.
    pub unique_items: Option<bool>,

    /// For a string: its format, such as `ipv4` or `date-time`. Unknown formats are not validated.
    #[schemars(length(min = 1, max = 32))]
    pub format: Option<String>,

    /// For a string: how long it may be.
    pub max_length: Option<i64>,

    /// For a string: how long it must be.
    pub min_length: Option<i64>,

    /// For a string: a regular expression that must match somewhere in it.
    #[schemars(length(min = 1, max = 512))]
    pub pattern: Option<String>,

    /// For a number: how large it may be.
    pub maximum: Option<i64>,

    /// For a number: whether `maximum` itself is too large.
    pub exclusive_maximum: Option<bool>,

    /// For a number: how large it must be.
    pub minimum: Option<i64>,

    /// For a number: whether `minimum` itself is too small.
    pub exclusive_minimum: Option<bool>,

    /// For an object: whether it may have fields that no schema names.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub preserve_unknown_fields: Option<bool>,

    /// The only values allowed.
    #[serde(rename = "enum", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub enum_: Vec<AnyJson>,

    /// The value when none is set.
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

    /// Whether the value is an integer or a string; `type` is then left out.
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub int_or_string: Option<bool>,

    /// Schemas that must all fit.
    pub all_of: Option<AnyJson>,

    /// Schemas of which exactly one must fit.
    pub one_of: Option<AnyJson>,

    /// Schemas of which at least one must fit.
    pub any_of: Option<AnyJson>,

    /// A schema that must not fit.
    pub not: Option<AnyJson>,
}

/// Types of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JsonSchemaType {
    /// Fields with names.
    Object,
    /// Items in a row.
    Array,
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

/// A CEL rule that a value must satisfy.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidationRule {
    /// A CEL expression that must be true. `self` is the value; with `oldSelf`, the value before, the rule
    /// looks at changes only.
    #[schemars(length(min = 1, max = 4096))]
    pub rule: String,

    /// What users read when the rule is broken. The rule itself when unset.
    #[schemars(length(min = 1, max = 512))]
    pub message: Option<String>,

    /// A CEL expression that gives the message. Counts instead of `message` when it gives a line of text.
    #[schemars(length(min = 1, max = 1024))]
    pub message_expression: Option<String>,

    /// What kind of mistake it is, for programs.
    #[schemars(extend("default" = "FieldValueInvalid"))]
    pub reason: Option<FieldValueErrorReason>,

    /// Which field below the value is to blame, as in `.servers.count`.
    #[schemars(length(min = 1, max = 512))]
    pub field_path: Option<String>,
}

/// Kinds of mistakes in a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FieldValueErrorReason {
    /// It is not of the right form.
    #[default]
    FieldValueInvalid,
    /// It is of the right form, but not allowed here.
    FieldValueForbidden,
    /// It is missing.
    FieldValueRequired,
    /// It is there twice.
    FieldValueDuplicate,
}
