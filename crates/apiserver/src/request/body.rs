//! Bodies: JSON, YAML and protobuf into a tree, with the fields that appear twice remembered on the way.

use std::{cell::RefCell, fmt};

use http::{HeaderMap, header::CONTENT_TYPE};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::{
    object, protobuf,
    status::{ApiError, Result},
};

/// The media type of a body, without its parameters; empty if the client did not say.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// A body and what was odd about it.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// The paths of fields that appeared more than once; the last one counts.
    pub(crate) duplicates: Vec<String>,
}

/// Decodes the body of a create or update.
pub(crate) fn decode(media_type: &str, body: &[u8]) -> Result<Decoded> {
    match media_type {
        "" | "application/json" | "*/*" => json(body),
        "application/yaml" => yaml(body),
        // Nothing is sent twice by what writes these.
        "application/vnd.kubernetes.protobuf" => {
            Ok(Decoded { value: protobuf::decode(body)?, duplicates: Vec::new() })
        }
        _ => Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Decodes JSON.
pub(crate) fn json(body: &[u8]) -> Result<Decoded> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Tree { path: String::new(), duplicates: &duplicates }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| {
            ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
    Ok(Decoded { value, duplicates: duplicates.into_inner() })
}

/// Decodes YAML, of which JSON is a part.
pub(crate) fn yaml(body: &[u8]) -> Result<Decoded> {
    let mut decoded = json(body).or_else(|_| plain_yaml(body))?;
    // YAML is read as if it were written in JSON, and that has no `2.0`.
    object::settle_numbers(&mut decoded.value);
    Ok(decoded)
}

/// How many nodes of YAML aliases may stand for, beside one for each byte of the body: time is in proportion to its size.
const ALIASED: usize = 10_000;

fn plain_yaml(body: &[u8]) -> Result<Decoded> {
    let text = str::from_utf8(body)
        .map_err(|error| ApiError::bad_request(format!("error parsing YAML: {error}")))?;
    let most = ALIASED.saturating_add(text.len());
    let limits = serde_saphyr::alias_limits! { max_total_replayed_events: most };
    let value = serde_saphyr::from_str_with_options(text, serde_saphyr::options! { alias_limits: limits })
        .map_err(|error| ApiError::bad_request(format!("error parsing YAML: {error}")))?;
    Ok(Decoded { value, duplicates: Vec::new() })
}

struct Tree<'a> {
    path: String,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let seed =
            |index: usize| Self { path: format!("{}[{index}]", self.path), duplicates: self.duplicates };
        while let Some(item) = items.next_element_seed(seed(list.len()))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            let seed = Self { path: path.clone(), duplicates: self.duplicates };
            let value = entries.next_value_seed(seed)?;
            if map.insert(key, value).is_some() {
                self.duplicates.borrow_mut().push(path);
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_named_and_the_last_counts() {
        let decoded = json(br#"{"a": {"b": [{"c": 1, "c": 2}]}, "d": 1, "d": 9007199254740993}"#).unwrap();
        assert_eq!(
            decoded.value,
            serde_json::json!({"a": {"b": [{"c": 2}]}, "d": 9_007_199_254_740_993_i64})
        );
        assert_eq!(decoded.duplicates, ["a.b[0].c", "d"]);
    }

    #[test]
    fn yaml_and_refusals() {
        assert_eq!(
            decode("application/yaml", b"a: [1, x]").unwrap().value,
            serde_json::json!({"a": [1, "x"]})
        );
        assert!(decode("application/json", b"{} trailing").is_err());
        assert_eq!(decode("application/vnd.kubernetes.protobuf", b"").unwrap_err().code(), 400);
        assert_eq!(decode("text/plain", b"{}").unwrap_err().code(), 415);
    }

    #[test]
    fn aliases_stand_for_no_more_than_the_body_could_say() {
        let levels = |count: usize| {
            let level = |at: usize| {
                let alias = format!("*a{},", at - 1).repeat(10);
                format!("a{at}: &a{at} [{}]\n", alias.trim_end_matches(','))
            };
            (1..count).map(level).fold("a0: &a0 x\n".to_owned(), |text, more| text + &more)
        };
        assert!(decode("application/yaml", levels(4).as_bytes()).is_ok());
        assert_eq!(decode("application/yaml", levels(7).as_bytes()).unwrap_err().code(), 400);
        let same = format!("a: &a [{}]\nb: [{}]", "x,".repeat(100), "*a,".repeat(90));
        assert!(decode("application/yaml", same.as_bytes()).is_ok());
    }
}
