//! `fieldsV1`: a tree of JSON objects whose keys are elements. `{}` is a member; the key `.` marks a field as a member
//! that has other members below it.

use super::{Element, FieldSet};
use serde_json::{Map, Value};

/// Why a `fieldsV1` cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A key is not a valid element.
    #[error("unreadable key {0:?} in fieldsV1")]
    Element(String),
    /// A value is not an object.
    #[error("fieldsV1 must be made of objects")]
    Shape,
}

impl FieldSet {
    /// Encodes the set as `fieldsV1`.
    pub fn to_v1(&self) -> Value {
        Value::Object(self.write(false))
    }

    fn write(&self, itself: bool) -> Map<String, Value> {
        let mut out = Map::new();
        if itself {
            out.insert(".".into(), Value::Object(Map::new()));
        }
        let mut elements: Vec<&Element> = self.members.iter().chain(self.children.keys()).collect();
        elements.sort();
        elements.dedup();
        for element in elements {
            let member = self.members.contains(element);
            let below = self.children.get(element).map(|set| set.write(member)).unwrap_or_default();
            out.insert(element.to_v1(), Value::Object(below));
        }
        out
    }

    /// Decodes a `fieldsV1`.
    ///
    /// # Errors
    /// If a value is not an object, or a key is not a valid element.
    pub fn from_v1(fields: &Value) -> Result<FieldSet, FieldsError> {
        Ok(read(fields)?.0.unwrap_or_default())
    }
}

/// The fields below, and whether the field itself is in.
fn read(fields: &Value) -> Result<(Option<FieldSet>, bool), FieldsError> {
    let Value::Object(fields) = fields else { return Err(FieldsError::Shape) };
    let (mut below, mut itself) = (None, false);
    for (key, value) in fields {
        if key == "." {
            itself = true;
            continue;
        }
        let Some(element) = Element::from_v1(key)? else { continue };
        let (children, member) = read(value)?;
        let set: &mut FieldSet = below.get_or_insert_default();
        if member {
            set.members.insert(element.clone());
        }
        if let Some(children) = children {
            set.children.insert(element, children);
        }
    }
    let alone = below.is_none();
    Ok((below, itself || alone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_upstream_writes_reads_and_writes_the_same() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {
                "f:list": {".": {}, "k:{\"a\":1,\"b\":\"x<y\"}": {".": {}, "f:b": {}}},
                "f:set": {"v:\"x\"": {}, "v:1": {}, "i:3": {}},
            },
        });
        let set = FieldSet::from_v1(&fields).unwrap_or_default();
        let written = set.to_v1();
        // Go escapes what HTML would read, and orders numbers before strings.
        let list = &written["f:spec"]["f:list"];
        assert_eq!(list.as_object().map(Map::len), Some(2));
        assert!(list.get("k:{\"a\":1,\"b\":\"x\\u003cy\"}").is_some(), "{list}");
        let order: Vec<_> =
            written["f:spec"]["f:set"].as_object().into_iter().flatten().map(|(key, _)| key).collect();
        assert_eq!(order, ["v:1", "v:\"x\"", "i:3"]);
        assert_eq!(FieldSet::from_v1(&written), Ok(set));
    }

    #[test]
    fn what_a_later_version_may_know_is_left_out() {
        assert_eq!(FieldSet::from_v1(&json!({"z:what": {}})), Ok(FieldSet::default()));
        assert!(FieldSet::from_v1(&json!({"what": {}})).is_err());
        assert!(FieldSet::from_v1(&json!({"f:a": 1})).is_err());
    }
}
