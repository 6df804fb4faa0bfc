//! One version of one object. It is kept as bytes. Its parsed form needs several times the memory, so a reader of many
//! objects parses each, uses it, and drops it.

use std::{borrow::Cow, fmt, ops::Deref, sync::OnceLock};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::Key;
use crate::object;

/// One version of one object.
#[derive(Debug)]
pub struct Stored {
    /// Which object.
    pub key: Key,
    /// The revision that wrote it; also in its `metadata.resourceVersion`.
    pub revision: u64,
    /// The object, as a tree.
    pub value: Tree,
    /// The object, serialised.
    pub json: Bytes,
    terminating: OnceLock<bool>,
}

impl Stored {
    /// An object as the writer committed it, under the revision of the write.
    pub fn new(key: Key, revision: u64, json: Bytes) -> Self {
        let value = Tree { json: json.clone(), kept: OnceLock::new() };
        Self { key, revision, value, json, terminating: OnceLock::new() }
    }

    /// Whether it is being deleted: checked for its namespace and its CRD at every creation.
    pub fn is_terminating(&self) -> bool {
        *self.terminating.get_or_init(|| object::is_terminating(&self.value.head()))
    }

    /// The version it is stored in.
    pub fn api_version(&self) -> Cow<'_, str> {
        // It comes first in what this server writes.
        let first = self.json.strip_prefix(br#"{"apiVersion":""#).and_then(|rest| {
            let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            std::str::from_utf8(&rest[..end]).ok().filter(|_| rest[end] == b'"')
        });
        match first {
            Some(version) => Cow::Borrowed(version),
            None => Cow::Owned(object::api_version(&self.value.once()).to_owned()),
        }
    }
}

/// An object as a tree. By itself it is made when it is first looked at and then kept, which is for the few objects
/// that are looked at again and again: roles, webhooks, namespaces.
pub struct Tree {
    json: Bytes,
    kept: OnceLock<Box<Value>>,
}

impl Tree {
    /// The tree, not to be kept: for objects of which there are many.
    pub fn once(&self) -> Cow<'_, Value> {
        match self.kept.get() {
            Some(kept) => Cow::Borrowed(kept),
            None => Cow::Owned(self.parsed()),
        }
    }

    /// No more of it than metadata, without managed fields and annotations; not kept either. Costs a fraction of the
    /// whole.
    pub fn head(&self) -> Cow<'_, Value> {
        match self.kept.get() {
            Some(kept) => Cow::Borrowed(kept),
            None => {
                let metadata = Value::Object(metadata(&self.json));
                Cow::Owned(Value::Object(Map::from_iter([("metadata".to_owned(), metadata)])))
            }
        }
    }

    fn parsed(&self) -> Value {
        // Serialised from a tree by this server, and checked by the engine when it was read: it can be parsed.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }
}

impl Deref for Tree {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.kept.get_or_init(|| Box::new(self.parsed()))
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.json))
    }
}

/// The metadata of an object. Reading ends behind it, which spares most of an object: metadata comes first in what this
/// server writes.
fn metadata(json: &[u8]) -> Map<String, Value> {
    struct UpToMetadata<'a>(&'a mut Metadata);

    impl<'de> Visitor<'de> for UpToMetadata<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
            while let Some(key) = entries.next_key::<Cow<'_, str>>()? {
                if key == "metadata" {
                    *self.0 = entries.next_value()?;
                    return Err(A::Error::custom("the rest is not needed"));
                }
                entries.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }

    let mut found = Metadata::default();
    // An error ends it, and what was found until then counts.
    let _ = serde_json::Deserializer::from_slice(json).deserialize_map(UpToMetadata(&mut found));
    found.0
}

#[derive(Default)]
struct Metadata(Map<String, Value>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metadata")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Metadata, A::Error> {
                let mut map = Map::new();
                while let Some(key) = entries.next_key::<Cow<'_, str>>()? {
                    if matches!(&*key, "managedFields" | "annotations") {
                        entries.next_value::<IgnoredAny>()?;
                    } else {
                        map.insert(key.into_owned(), entries.next_value()?);
                    }
                }
                Ok(Metadata(map))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::GroupResource;

    fn stored(value: &Value) -> Stored {
        Stored::new(Key::new(GroupResource::new("", "x"), "", "a"), 1, value.to_string().into())
    }

    #[test]
    fn the_head_is_the_metadata_that_matters() {
        let value = json!({
            "apiVersion": "v1", "spec": {"metadata": {"uid": "2"}},
            "metadata": {"uid": "1", "labels": {"a": "b"}, "annotations": {"c": "d"}, "managedFields": [{}]},
        });
        let stored = stored(&value);
        assert_eq!(*stored.value.head(), json!({"metadata": {"uid": "1", "labels": {"a": "b"}}}));
        assert_eq!(*stored.value.once(), value);
        assert!(stored.value.kept.get().is_none(), "neither is kept");
        assert_eq!(*stored.value, value);
        assert_eq!(*stored.value.head(), value, "what is there already is not made again");
    }

    #[test]
    fn the_version_is_found_wherever_it_is() {
        for text in [r#"{"apiVersion":"a/v1","kind":"b"}"#, r#"{"kind":"b","apiVersion":"a/v1"}"#] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(stored(&value).api_version(), "a/v1");
        }
        assert_eq!(stored(&json!({"apiVersion": "a\"b"})).api_version(), "a\"b");
        assert_eq!(stored(&json!({"kind": "b"})).api_version(), "");
    }

    #[test]
    fn what_is_being_deleted_says_so() {
        assert!(!stored(&json!({"metadata": {}})).is_terminating());
        assert!(stored(&json!({"metadata": {"deletionTimestamp": "now"}})).is_terminating());
    }
}
