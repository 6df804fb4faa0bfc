//! Schemas of the types of Kubernetes that fields of Capstan's kinds have. A field names one with `#[schemars(with = …)]`.
//!
//! k8s-openapi has schemas of all its types behind its feature `schemars`. They are a fifth of its code, every build of Capstan would
//! wait for them, and five of them are used.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Schema of a `Time`.
pub(crate) struct TimeSchema;

impl JsonSchema for TimeSchema {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

/// Schema of an `IntOrString`: a number, or a percentage.
pub(crate) struct IntOrStringSchema;

impl JsonSchema for IntOrStringSchema {
    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true})
    }
}

/// Schema of a `Quantity`.
pub(crate) struct QuantitySchema;

impl JsonSchema for QuantitySchema {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Amount of the resource: a number with an optional suffix, such as 4, 500m or 16Gi.",
            "x-kubernetes-int-or-string": true,
        })
    }
}

/// Schema of a `LabelSelector`. It is atomic, including its lists, because writers replace it as a whole.
pub(crate) struct LabelSelectorSchema;

impl JsonSchema for LabelSelectorSchema {
    fn schema_name() -> Cow<'static, str> {
        "LabelSelector".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "matchExpressions": {
                    "description": "Requirements on labels, all of which must hold.",
                    "type": "array",
                    "x-kubernetes-list-type": "atomic",
                    "items": {
                        "description": "One requirement on a label.",
                        "type": "object",
                        "required": ["key", "operator"],
                        "properties": {
                            "key": {"description": "Label the requirement is about.", "type": "string"},
                            "operator": {"description": "In, NotIn, Exists or DoesNotExist.", "type": "string"},
                            "values": {
                                "description": "Values for In and NotIn; none for the other two.",
                                "type": "array",
                                "x-kubernetes-list-type": "atomic",
                                "items": {"type": "string"},
                            },
                        },
                    },
                },
                "matchLabels": {
                    "description": "Labels that must have exactly these values.",
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                },
            },
        })
    }
}
