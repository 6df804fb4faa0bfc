//! JSON patches.

use super::PatchError;
use serde_json::{Map, Value};

/// The most steps a patch may have.
const MOST_STEPS: usize = 10_000;
/// The most that copies may add, in bytes, as large as a request: a few hundred steps could fill the memory otherwise.
const MOST_COPIED: usize = 3 << 20;
/// The deepest that an object may nest, a little less than a request may: steps that copy an object into itself would go
/// on until no stack can walk it.
const DEEPEST: usize = 120;
/// How the message ends if a value is another than the one to compare with.
const TEST_FAILED: &str = ": test failed";

/// Applies a JSON patch, completely or not at all.
///
/// # Errors
/// If the patch is not a list of objects, or an operation fails; the messages are those of Go's library.
pub fn json_patch(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let malformed =
        || PatchError::Malformed("error decoding patch: a JSON patch is a list of objects".into());
    let steps = patch.as_array().ok_or_else(malformed)?;
    let steps: Vec<&Map<String, Value>> =
        steps.iter().map(|step| step.as_object().ok_or_else(malformed)).collect::<Result<_, _>>()?;
    if steps.len() > MOST_STEPS {
        let why =
            format!("The allowed maximum operations in a JSON patch is {MOST_STEPS}, got {}", steps.len());
        return Err(PatchError::TooLarge(why));
    }
    let (mut patched, mut copied) = (target.clone(), 0);
    for step in steps {
        let operation = PatchOperation(step);
        operation.apply(&mut patched, &mut copied).map_err(|why| operation.failed(why))?;
    }
    *target = patched;
    Ok(())
}

struct PatchOperation<'a>(&'a Map<String, Value>);

impl PatchOperation<'_> {
    fn text(&self, key: &str, operation: &str) -> Result<&str, String> {
        let text = self.0.get(key).and_then(Value::as_str);
        text.ok_or_else(|| format!("{operation} operation failed to decode {key}: missing value"))
    }

    fn failed(&self, why: String) -> PatchError {
        let is_test = self.0.get("op").is_some_and(|operation| operation == "test");
        if is_test && why.ends_with(TEST_FAILED) {
            PatchError::TestFailed(why)
        } else {
            PatchError::Inapplicable(why)
        }
    }

    /// The value, which is null if there is none.
    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or_default()
    }

    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        match self.0.get("op").and_then(Value::as_str).unwrap_or("unknown") {
            "add" => self.add(document),
            "remove" => self.remove(document),
            "replace" => self.replace(document),
            "move" => self.transfer(document, "move", copied),
            "copy" => self.transfer(document, "copy", copied),
            "test" => self.test(document),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn add(&self, document: &mut Value) -> Result<(), String> {
        let path = self.text("path", "add")?;
        let missing =
            || format!("add operation does not apply: doc is missing path: \"{path}\": missing value");
        let (parent, key) = find(document, path).ok_or_else(missing)?;
        let value = self.value();
        check_depth(path, &value)?;
        put(parent, &key, value).map_err(|why| format!("error in add for path: '{path}': {why}"))
    }

    fn remove(&self, document: &mut Value) -> Result<(), String> {
        let path = self.text("path", "remove")?;
        let missing =
            || format!("remove operation does not apply: doc is missing path: \"{path}\": missing value");
        let (parent, key) = find(document, path).ok_or_else(missing)?;
        take(parent, &key).map_err(|why| format!("error in remove for path: '{path}': {why}"))?;
        Ok(())
    }

    fn replace(&self, document: &mut Value) -> Result<(), String> {
        let path = self.text("path", "replace")?;
        if path.is_empty() {
            let value = self.value();
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array".into());
            }
            *document = value;
            return Ok(());
        }
        let missing = |what: &str| {
            format!("replace operation does not apply: doc is missing {what}: {path}: missing value")
        };
        let (parent, key) = find(document, path).ok_or_else(|| missing("path"))?;
        let value = self.value();
        check_depth(path, &value)?;
        match parent {
            // There need not be anything to replace.
            Value::Object(fields) => {
                fields.insert(key, value);
            }
            Value::Array(items) => {
                let index = index(items.len(), &key).map_err(|_| missing("key"))?;
                items[index] = value;
            }
            _ => return Err(missing("path")),
        }
        Ok(())
    }

    /// `move` and `copy`
    fn transfer(&self, document: &mut Value, operation: &str, copied: &mut usize) -> Result<(), String> {
        let from = self.text("from", operation)?;
        let missing = |which: &str, path: &str| {
            format!(
                "{operation} operation does not apply: doc is missing {which} path: {path}: missing value"
            )
        };
        let (parent, key) = find(document, from).ok_or_else(|| missing("from", from))?;
        let value = if operation == "move" {
            take(parent, &key).map_err(|why| format!("error in move for path: '{key}': {why}"))?
        } else {
            let found =
                get(parent, &key).map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
            let value = found.cloned().unwrap_or_default();
            *copied += value.to_string().len();
            if *copied > MOST_COPIED {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the \
                     limit {MOST_COPIED}"
                ));
            }
            value
        };
        let path = self.text("path", operation)?;
        let (parent, key) = find(document, path).ok_or_else(|| missing("destination", path))?;
        check_depth(path, &value)?;
        put(parent, &key, value).map_err(|why| {
            if operation == "move" {
                format!("error in move for path: '{path}': {why}")
            } else {
                format!("error while adding value during copy: {why}")
            }
        })
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self.text("path", "test")?;
        let value = self.value();
        let found = if path.is_empty() {
            Some(&*document)
        } else {
            let missing = || format!("test operation does not apply: is missing path: {path}: missing value");
            let (parent, key) = find(document, path).ok_or_else(missing)?;
            get(parent, &key).map_err(|why| format!("error in test for path: '{path}': {why}"))?
        };
        // What is not there equals null.
        if *found.unwrap_or(&Value::Null) == value {
            Ok(())
        } else {
            Err(format!("testing value {path} failed{TEST_FAILED}"))
        }
    }
}

/// Refuses what would nest too deep at this place.
fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    let above = path.matches('/').count();
    if above + depth(value) <= DEEPEST {
        return Ok(());
    }
    Err(format!("the patched object would nest deeper than {DEEPEST} levels"))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The object or list that holds the last step of a path, and that step.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut steps = path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let mut key = steps.next()?;
    let mut node = document;
    for step in steps {
        node = match node {
            Value::Object(fields) => fields.get_mut(&key)?,
            Value::Array(items) => {
                let index = index(items.len(), &key).ok()?;
                items.get_mut(index)?
            }
            _ => return None,
        };
        key = step;
    }
    (node.is_object() || node.is_array()).then_some((node, key))
}

/// A place in a list of `length` items; from the end if it is negative.
fn index(length: usize, key: &str) -> Result<usize, String> {
    let index: i64 = key.parse().map_err(|_| format!("strconv.Atoi: parsing \"{key}\": invalid syntax"))?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = if index < 0 { index + length } else { index };
    let inside = (0..length).contains(&place);
    let place = usize::try_from(place).ok().filter(|_| inside);
    place.ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

fn get<'a>(parent: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match parent {
        Value::Array(items) => Ok(items.get(index(items.len(), key)?)),
        other => Ok(other.get(key)),
    }
}

fn put(parent: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match parent {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            if key.parse::<i64>().is_err() {
                let why = format!("strconv.Atoi: parsing \"{key}\": invalid syntax");
                return Err(format!("value was not a proper array index: '{key}': {why}"));
            }
            items.insert(index(items.len() + 1, key)?, value);
        }
        Value::Object(fields) => {
            fields.insert(key.to_string(), value);
        }
        _ => {}
    }
    Ok(())
}

fn take(parent: &mut Value, key: &str) -> Result<Value, String> {
    match parent {
        Value::Array(items) => Ok(items.remove(index(items.len(), key)?)),
        Value::Object(fields) => {
            // Not in order: each step would move every field behind it, and there may be many of both.
            let gone = fields.swap_remove(key);
            gone.ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        _ => Ok(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_applies_as_a_whole_or_not_at_all() {
        let mut object = json!({"l": [1, 2]});
        let patch = json!([{"op": "replace", "path": "/new", "value": 1}, {"op": "add", "path": "/l/-1", "value": 3}]);
        assert_eq!(json_patch(&mut object, &patch), Ok(()));
        assert_eq!(object, json!({"l": [1, 2, 3], "new": 1}));
        let patch = json!([{"op": "remove", "path": "/l"}, {"op": "test", "path": "/new", "value": 2}]);
        let failed = "testing value /new failed: test failed".to_string();
        assert_eq!(json_patch(&mut object, &patch), Err(PatchError::TestFailed(failed)));
        assert_eq!(object["l"], json!([1, 2, 3]));
    }

    #[test]
    fn copies_cannot_grow_without_end() {
        let mut object = json!({"a": ["xxxxxxxxxxxxxxxx"]});
        let doubling = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let patch = Value::Array(vec![doubling; 64]);
        assert!(matches!(json_patch(&mut object, &patch), Err(PatchError::Inapplicable(_))));
    }

    #[test]
    fn copies_cannot_nest_without_end() {
        // Each step copies the whole to its own bottom: twice as deep, and hardly any longer.
        for operation in ["copy", "add", "replace"] {
            let mut object = json!({"a": {}});
            let steps = (0..14).map(|step| {
                let (from, path) = ("/a", "/a".repeat(1 + (1 << step)));
                json!({"op": operation, "from": from, "path": path, "value": {"a": {}}})
            });
            let patch: Value = steps.collect();
            assert!(
                matches!(json_patch(&mut object, &patch), Err(PatchError::Inapplicable(_))),
                "{operation}"
            );
        }
        let mut object = json!({"a": {}});
        let patch = json!([{"op": "copy", "from": "/a", "path": "/a/a"}]);
        assert_eq!(json_patch(&mut object, &patch), Ok(()));
    }
}
