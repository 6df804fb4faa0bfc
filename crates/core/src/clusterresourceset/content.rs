//! The manifests in a ConfigMap or Secret: parsed, in the order in which they are created, with a hash. Pure.

use capstan_plan::Digest;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a ConfigMap or Secret contains.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    /// As it is recorded.
    pub(super) hash: String,
    pub(super) objects: Vec<Value>,
}

/// Why content cannot be applied. Names keys, and never shows values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ContentError {
    #[error("has no data")]
    Empty,
    #[error("data[{0}] is not text")]
    NotText(String),
    #[error("data[{0}] is neither YAML nor JSON")]
    NotYaml(String),
    #[error("data[{key}], object {number}: {field} is missing")]
    Incomplete { key: String, number: usize, field: &'static str },
}

impl Content {
    /// Parses all values, in the order of their keys. In each value, objects that others need come first.
    pub(super) fn parse(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, ContentError> {
        if data.is_empty() {
            return Err(ContentError::Empty);
        }
        let mut objects = Vec::new();
        for (key, value) in data {
            let text = std::str::from_utf8(value).map_err(|_| ContentError::NotText(key.clone()))?;
            let mut of_value = documents(text).ok_or_else(|| ContentError::NotYaml(key.clone()))?;
            for (index, object) in of_value.iter().enumerate() {
                if let Some(field) = missing(object) {
                    let (key, number) = (key.clone(), index + 1);
                    return Err(ContentError::Incomplete { key, number, field });
                }
            }
            of_value.sort_by_key(priority);
            objects.append(&mut of_value);
        }
        let all: Vec<u8> = data.values().flatten().copied().collect();
        Ok(Self { hash: format!("sha256:{}", Digest::of(&all)), objects })
    }
}

/// The objects of a text: YAML documents, or a JSON list.
fn documents(text: &str) -> Option<Vec<Value>> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).ok();
    }
    // Kubernetes reads YAML 1.1: a file mode such as 0400 is an octal number.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options).ok()?;
    Some(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn missing(object: &Value) -> Option<&'static str> {
    [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")]
        .into_iter()
        .find(|(pointer, _)| object.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty))
        .map(|(_, field)| field)
}

/// The place of a kind in the order of creation. Others come last, in the order in which they are written.
fn priority(object: &Value) -> usize {
    const FIRST: [&str; 12] = [
        "Namespace",
        "CustomResourceDefinition",
        "StorageClass",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Secret",
        "ConfigMap",
        "ServiceAccount",
        "LimitRange",
        "Pod",
        "ReplicaSet",
        "Endpoint",
    ];
    let kind = object["kind"].as_str().unwrap_or_default();
    FIRST.iter().position(|first| *first == kind).unwrap_or(FIRST.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn data(values: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
    }

    fn object(kind: &str, name: &str) -> String {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}).to_string()
    }

    fn names(content: &Content) -> Vec<&str> {
        content.objects.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect()
    }

    #[test]
    fn objects_come_by_key_and_then_by_what_others_need() {
        let second = format!("{}\n---\n{}\n---\n", object("Deployment", "d"), object("Namespace", "n"));
        let first = format!("[{},{}]", object("Service", "s"), object("ConfigMap", "c"));
        let content = Content::parse(&data(&[("b", &second), ("a", &first)])).expect("content");
        assert_eq!(names(&content), ["c", "s", "n", "d"]);
        let yaml = "# A comment.\napiVersion: v1\nkind: Secret\nmetadata:\n  name: x\n";
        assert_eq!(names(&Content::parse(&data(&[("a", yaml)])).expect("content")), ["x"]);
    }

    #[test]
    fn file_modes_are_octal() {
        let yaml =
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {modes: [0400, 0o600, 420, '0400', 0]}\n";
        let content = Content::parse(&data(&[("a", yaml)])).expect("content");
        assert_eq!(content.objects[0]["spec"]["modes"], json!([256, 384, 420, "0400", 0]));
    }

    #[test]
    fn the_hash_is_that_of_all_values() {
        let (one, other) = (object("Secret", "a"), object("Secret", "b"));
        let hash = |values: &[(&str, &str)]| Content::parse(&data(values)).expect("content").hash;
        // As `cat` and `sha256sum` print it.
        let known = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        assert_eq!(
            hash(&[("k", known)]),
            "sha256:095b826c367e5498aafa0343b0d871a69a2a8aa17c841885120fd1554f7a9213"
        );
        assert_eq!(hash(&[("a", &one), ("b", &other)]), hash(&[("c", &one), ("d", &other)]));
        assert_ne!(hash(&[("a", &one)]), hash(&[("a", &other)]));
    }

    #[test]
    fn what_is_wrong_is_named_without_values() {
        for (values, expected) in [
            (data(&[]), "has no data"),
            (BTreeMap::from([("k".to_owned(), vec![0xff])]), "data[k] is not text"),
            (data(&[("k", "a: [planted")]), "data[k] is neither YAML nor JSON"),
            (data(&[("k", "[planted")]), "data[k] is neither YAML nor JSON"),
            (data(&[("k", "planted")]), "data[k], object 1: apiVersion is missing"),
            (data(&[("k", "apiVersion: v1\nkind: ''")]), "data[k], object 1: kind is missing"),
            (
                data(&[("k", &format!("{}\n---\napiVersion: v1\nkind: Pod", object("Pod", "planted")))]),
                "data[k], object 2: metadata.name is missing",
            ),
        ] {
            assert_eq!(Content::parse(&values).expect_err("an error").to_string(), expected);
        }
    }
}
