//! The parts of a schema that a write needs: which lists are sets or maps and by which keys, which maps and lists are
//! atomic, and which fields exist. Constraints on values are not part of this crate.

use crate::fields::Element;
use crate::meta;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The shape of the objects of one kind and version.
#[derive(Clone, Debug)]
pub struct Shape {
    pub(crate) root: Type,
}

/// The shape of a value.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    Known(Arc<Atom>),
    /// Told from the value: maps are granular, lists atomic.
    Deduced,
    /// Told from the value: maps and lists are atomic.
    Untyped,
}

/// What a value may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atom {
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListShape>,
    pub(crate) map: Option<MapShape>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Debug)]
pub(crate) struct ListShape {
    pub(crate) items: Type,
    pub(crate) atomic: bool,
    /// The fields that tell items apart; none for a set.
    pub(crate) keys: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct MapShape {
    pub(crate) fields: BTreeMap<String, Field>,
    /// The shape of fields that are not named, if there may be any.
    pub(crate) others: Option<Type>,
    pub(crate) atomic: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) ty: Type,
    pub(crate) default: Option<Value>,
}

static DEDUCED: LazyLock<Atom> = LazyLock::new(|| Atom {
    scalar: Some(Scalar::Untyped),
    list: Some(ListShape { items: Type::Untyped, atomic: true, keys: Vec::new() }),
    map: Some(MapShape { fields: BTreeMap::new(), others: Some(Type::Deduced), atomic: false }),
});
static UNTYPED: LazyLock<Atom> = LazyLock::new(|| Atom {
    scalar: Some(Scalar::Untyped),
    list: Some(ListShape { items: Type::Untyped, atomic: true, keys: Vec::new() }),
    map: Some(MapShape { fields: BTreeMap::new(), others: Some(Type::Untyped), atomic: true }),
});

impl Shape {
    /// The shape from an `openAPIV3Schema`. Without a schema it is deduced from the values.
    pub fn new(open_api_v3_schema: Option<&Value>) -> Shape {
        let Some(schema) = open_api_v3_schema else { return Shape { root: Type::Deduced } };
        let mut atom = atom(schema, false);
        if let Some(map) = &mut atom.map {
            meta::add_to(map);
        }
        Shape { root: Type::Known(Arc::new(atom)) }
    }
}

impl Type {
    pub(crate) fn atom(&self) -> &Atom {
        match self {
            Type::Known(atom) => atom,
            Type::Deduced => &DEDUCED,
            Type::Untyped => &UNTYPED,
        }
    }

    pub(crate) fn scalar(scalar: Scalar) -> Type {
        Type::Known(Arc::new(Atom { scalar: Some(scalar), ..Atom::default() }))
    }

    pub(crate) fn list(items: Type, atomic: bool, keys: &[&str]) -> Type {
        let keys = keys.iter().map(ToString::to_string).collect();
        Type::Known(Arc::new(Atom { list: Some(ListShape { items, atomic, keys }), ..Atom::default() }))
    }

    pub(crate) fn map(map: MapShape) -> Type {
        Type::Known(Arc::new(Atom { map: Some(map), ..Atom::default() }))
    }
}

impl MapShape {
    /// The shape of a field, named or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Type> {
        self.fields.get(name).map(|field| &field.ty).or(self.others.as_ref())
    }

    /// Whether nothing but values tell what is in here. Upstream counts maps of dates among these.
    pub(crate) fn is_deduced(&self) -> bool {
        let untold = match &self.others {
            Some(Type::Deduced) => true,
            Some(Type::Known(atom)) => atom.scalar == Some(Scalar::Untyped),
            Some(Type::Untyped) | None => false,
        };
        self.fields.is_empty() && untold
    }
}

impl ListShape {
    /// The element that stands for an item of a set or a map.
    pub(crate) fn element(&self, item: &Value) -> Result<Element, String> {
        if self.keys.is_empty() {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".into())
                }
                scalar => Ok(Element::Value(scalar.clone())),
            };
        }
        let Value::Object(fields) = item else {
            let what = if item.is_null() { "a null element" } else { "non-map elements" };
            return Err(format!("associative list with keys may not have {what}"));
        };
        let default = |key: &String| {
            let items = self.items.atom().map.as_ref()?;
            items.fields.get(key)?.default.as_ref()
        };
        let found = self.keys.iter().filter_map(|key| {
            let value = fields.get(key).or_else(|| default(key))?;
            Some((key.clone(), value.clone()))
        });
        let found: Vec<_> = found.collect();
        if found.is_empty() {
            let keys: Vec<_> = self.keys.iter().map(|key| crate::gotext::quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(Element::key(found))
    }
}

/// `preserving` once a schema above preserves unknown fields.
fn atom(schema: &Value, preserving: bool) -> Atom {
    let preserving = preserving || schema["x-kubernetes-preserve-unknown-fields"] == true;
    match schema["type"].as_str().unwrap_or_default() {
        "object" => Atom { map: Some(map(schema, preserving)), ..Atom::default() },
        "array" => Atom { list: Some(list(schema, preserving)), ..Atom::default() },
        "integer" | "number" => Atom { scalar: Some(Scalar::Numeric), ..Atom::default() },
        "boolean" => Atom { scalar: Some(Scalar::Boolean), ..Atom::default() },
        "string" => {
            let plain = matches!(schema["format"].as_str().unwrap_or_default(), "" | "byte");
            let scalar = if plain { Scalar::String } else { Scalar::Untyped };
            Atom { scalar: Some(scalar), ..Atom::default() }
        }
        _ => Atom {
            scalar: Some(Scalar::Untyped),
            list: Some(list(schema, preserving)),
            map: Some(map(schema, preserving)),
        },
    }
}

fn ty(schema: &Value, preserving: bool) -> Type {
    Type::Known(Arc::new(atom(schema, preserving)))
}

fn map(schema: &Value, preserving: bool) -> MapShape {
    let properties = schema["properties"].as_object();
    let fields: BTreeMap<String, Field> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let default = property.get("default").filter(|default| !default.is_null()).cloned();
            (name.clone(), Field { ty: ty(property, preserving), default })
        })
        .collect();
    let others = match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => Some(Type::Deduced),
        Some(Value::Bool(false)) => None,
        Some(additional @ Value::Object(_)) => Some(ty(additional, preserving)),
        _ => (preserving || fields.is_empty()).then_some(Type::Deduced),
    };
    let mut map = MapShape { fields, others, atomic: schema["x-kubernetes-map-type"] == "atomic" };
    if schema["x-kubernetes-embedded-resource"] == true {
        meta::add_to(&mut map);
    }
    map
}

fn list(schema: &Value, preserving: bool) -> ListShape {
    let items = schema.get("items").map_or(Type::Untyped, |items| ty(items, preserving));
    let text = |keyword: &str| schema[keyword].as_str().unwrap_or_default();
    let keys: Vec<String> = match text("x-kubernetes-list-type") {
        "set" => Vec::new(),
        "map" => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            keys.into_iter().flatten().filter_map(Value::as_str).map(String::from).collect()
        }
        // Built-in kinds say it in the older way.
        "" if matches!(text("x-kubernetes-patch-strategy"), "merge" | "merge,retainKeys") => {
            Some(text("x-kubernetes-patch-merge-key"))
                .filter(|key| !key.is_empty())
                .map(String::from)
                .into_iter()
                .collect()
        }
        _ => return ListShape { items, atomic: true, keys: Vec::new() },
    };
    ListShape { items, atomic: false, keys }
}
