//! Walks over objects along their shape: check the shape, collect the fields, compare two objects, merge them, and
//! remove fields. They know nothing about managers.

pub(crate) mod compare;
pub(crate) mod conform;
pub(crate) mod merge;
pub(crate) mod named;
pub(crate) mod reconcile;
pub(crate) mod remove;
pub(crate) mod to_set;

use crate::shape::{Atom, ListShape, MapShape, Scalar};
use serde_json::{Map, Value};

/// Which kinds of values an atom still allows once a value has been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kinds {
    map: bool,
    scalar: bool,
    list: bool,
}

/// The part of an atom that applies.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Map(&'a MapShape),
    Scalar(Scalar),
    List(&'a ListShape),
    Nothing,
}

impl Atom {
    /// All kinds, or only that of the value if it is one of them. Null is of any kind.
    fn kinds(&self, value: Option<&Value>) -> Kinds {
        let all = Kinds { map: self.map.is_some(), scalar: self.scalar.is_some(), list: self.list.is_some() };
        let none = Kinds { map: false, scalar: false, list: false };
        match value {
            None | Some(Value::Null) => all,
            Some(Value::Array(_)) if all.list => Kinds { list: true, ..none },
            Some(Value::Object(_)) if all.map => Kinds { map: true, ..none },
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) if all.scalar => {
                Kinds { scalar: true, ..none }
            }
            Some(_) => all,
        }
    }

    fn part(&self, kinds: Kinds) -> Part<'_> {
        match self {
            Atom { map: Some(map), .. } if kinds.map => Part::Map(map),
            Atom { scalar: Some(scalar), .. } if kinds.scalar => Part::Scalar(*scalar),
            Atom { list: Some(list), .. } if kinds.list => Part::List(list),
            _ => Part::Nothing,
        }
    }

    /// The part that applies to a value.
    fn part_for(&self, value: Option<&Value>) -> Part<'_> {
        self.part(self.kinds(value))
    }
}

/// The fields of a map; none if it is null, absent or something else.
fn fields(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

/// The items of a list; none if it is null, absent or something else.
fn items(value: Option<&Value>) -> Option<&[Value]> {
    value.and_then(Value::as_array).map(Vec::as_slice)
}
