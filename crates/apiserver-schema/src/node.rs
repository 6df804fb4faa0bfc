//! The compiled schema: a tree of nodes that pruning, defaulting and validation walk together with a value. This file
//! contains only data; each walk has its own file.

use crate::cel::Rule;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// The types of OpenAPI, without null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(crate) const ALL: [Type; 6] =
        [Type::Array, Type::Boolean, Type::Integer, Type::Number, Type::Object, Type::String];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Type> {
        Type::ALL.into_iter().find(|ty| ty.name() == name)
    }
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

/// Fields beside the named ones.
#[derive(Debug)]
pub(crate) enum Additional {
    Allowed(bool),
    Schema(Box<Node>),
}

/// One schema.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) ty: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) list_type: ListType,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) limits: Limits,
    pub(crate) rules: Vec<Rule>,
    /// Whether this schema or one below it has rules.
    pub(crate) has_rules: bool,
}

/// Constraints on values. They add nothing to the structure.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// As written; rules see values of some formats as other types.
    pub(crate) format: String,
    /// The format if it is one that is checked for the type at hand.
    pub(crate) checked_format: Option<String>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<(String, Regex)>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Vec<String>,
    pub(crate) choices: Vec<Value>,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

impl Node {
    /// The types a value may have; none means any.
    pub(crate) fn types(&self) -> &'static [Type] {
        match self.ty {
            _ if self.int_or_string => &[Type::Integer, Type::String],
            None => &[],
            Some(Type::Object) => &[Type::Object],
            Some(Type::Array) => &[Type::Array],
            Some(Type::String) => &[Type::String],
            Some(Type::Integer) => &[Type::Integer],
            Some(Type::Number) => &[Type::Number],
            Some(Type::Boolean) => &[Type::Boolean],
        }
    }

    /// The schema of values of fields that are not named.
    pub(crate) fn additional_schema(&self) -> Option<&Node> {
        match &self.additional {
            Some(Additional::Schema(node)) => Some(node),
            _ => None,
        }
    }

    /// The schema of the field `name`, named or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or_else(|| self.additional_schema())
    }
}
