//! Tables: what `kubectl get` prints, made by the server.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    age,
    registry::{Cell, Column},
    request::negotiate::MetaVersion,
};

/// What a row carries beside its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// A table of objects. `metadata` is the list's, or the object's resourceVersion.
pub(crate) fn table<'a>(
    columns: &[Column],
    objects: impl Iterator<Item = &'a Value>,
    metadata: &Value,
    include: Include,
    version: MetaVersion,
    now: Timestamp,
) -> Value {
    let definition = |column: &Column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    };
    let rows: Vec<Value> = objects.map(|object| row(columns, object, include, version, now)).collect();
    json!({
        "kind": "Table", "apiVersion": version.api_version(), "metadata": metadata,
        "columnDefinitions": columns.iter().map(definition).collect::<Vec<_>>(), "rows": rows,
    })
}

/// The row of one object.
pub(crate) fn row(
    columns: &[Column],
    object: &Value,
    include: Include,
    version: MetaVersion,
    now: Timestamp,
) -> Value {
    let cells: Vec<Value> = columns.iter().map(|column| cell(column, object, now)).collect();
    let carried = match include {
        Include::None => return json!({"cells": cells}),
        Include::Metadata => metadata_only(object, version),
        Include::Object => object.clone(),
    };
    json!({"cells": cells, "object": carried})
}

fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let path = match &column.cell {
        Cell::Computed(function) => return function(object, now),
        Cell::Path(path) => path,
    };
    let found = path.find(object);
    let Some(first) = found.first() else {
        return Value::Null;
    };
    match (column.kind.as_str(), first) {
        ("date", Value::String(time)) => age::human(time, now).into(),
        ("integer" | "number", number @ Value::Number(_)) => (*number).clone(),
        ("integer", Value::String(text)) => text.parse::<i64>().map_or(Value::Null, Value::from),
        ("boolean", flag @ Value::Bool(_)) => (*flag).clone(),
        ("string", _) if found.len() > 1 => {
            found.iter().map(|v| plain(v)).collect::<Vec<_>>().join(",").into()
        }
        ("string", value) => plain(value).into(),
        _ => Value::Null,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An object with nothing but its metadata.
pub(crate) fn metadata_only(object: &Value, version: MetaVersion) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": object["metadata"]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::jsonpath::JsonPath;

    #[test]
    fn cells_are_typed() {
        let column = |kind: &str, path: &str| Column {
            name: "X".to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            cell: Cell::Path(JsonPath::parse(path).unwrap()),
        };
        let object = json!({"a": 1, "b": true, "t": "2026-01-01T00:00:00Z", "l": ["x", "y"]});
        let now = "2026-01-01T00:00:30Z".parse().unwrap();
        let cases = [
            ("integer", ".a", json!(1)),
            ("string", ".a", json!("1")),
            ("boolean", ".b", json!(true)),
            ("date", ".t", json!("30s")),
            ("string", ".l[*]", json!("x,y")),
            ("string", ".none", Value::Null),
            ("integer", ".t", Value::Null),
        ];
        for (kind, path, expected) in cases {
            assert_eq!(cell(&column(kind, path), &object, now), expected, "{kind} {path}");
        }
    }
}
