//! A list that is written in chunks, because it may be large. Its length comes first, so all items are encoded once to learn
//! their length before the first piece is sent, and once more when they are sent.

use serde_json::Value;

use crate::{
    encode::{ENVELOPE_END, EncodeError, Kind, envelope_start},
    facts::LIST_META,
    wire::put_nested,
};

/// The field of a list with its metadata.
const METADATA: u64 = 1;
/// The field of a list with an item.
const ITEMS: u64 = 2;

/// A list without its items.
pub struct List {
    api_version: String,
    kind: String,
    item: Kind,
    /// The field, encoded.
    metadata: Vec<u8>,
}

impl List {
    /// What every list ends with.
    pub const END: &'static [u8] = ENVELOPE_END;

    /// A list of a kind, with items of another kind.
    ///
    /// # Errors
    /// If a value of its metadata is of the wrong type.
    pub fn new(api_version: &str, kind: &str, item: Kind, metadata: &Value) -> Result<Self, EncodeError> {
        let mut encoded = Vec::new();
        put_nested(&mut encoded, METADATA, |out| Kind::of_message(LIST_META).write(metadata, out))?;
        Ok(Self { api_version: api_version.to_owned(), kind: kind.to_owned(), item, metadata: encoded })
    }

    /// What comes before the items, which take so many bytes together.
    pub fn start(&self, items: usize) -> Vec<u8> {
        let mut out = envelope_start(&self.api_version, &self.kind, self.metadata.len() + items);
        out.extend_from_slice(&self.metadata);
        out
    }

    /// An item.
    ///
    /// # Errors
    /// If a value is of the wrong type.
    pub fn item(&self, object: &Value) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::new();
        put_nested(&mut out, ITEMS, |out| self.item.write(object, out))?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{decode, encode};

    #[test]
    fn start_items_and_end_make_the_whole_list() {
        let item = Kind::find("v1", "ConfigMap").unwrap();
        let objects: Vec<Value> = (0..3)
            .map(|number| json!({"metadata": {"name": format!("m{number}")}, "data": {"k": "v".repeat(number * 100)}}))
            .collect();
        let metadata = json!({"resourceVersion": "7", "continue": "c", "remainingItemCount": 5});
        for count in 0..=objects.len() {
            let list = List::new("v1", "ConfigMapList", item, &metadata).unwrap();
            let items: Vec<Vec<u8>> =
                objects[..count].iter().map(|object| list.item(object).unwrap()).collect();
            let items = items.concat();
            let encoded = [list.start(items.len()), items, List::END.to_vec()].concat();
            let whole = json!({
                "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": objects[..count],
            });
            assert_eq!(encoded, encode(&whole).unwrap());
            let read = decode(&encoded).unwrap();
            assert_eq!(read["metadata"]["remainingItemCount"], 5);
            assert_eq!(read["items"].as_array().map_or(0, Vec::len), count);
        }
    }
}
