//! Bodies: JSON, YAML and protobuf into a tree, with the fields that appear twice remembered on the way.

use std::{cell::RefCell, fmt, marker::PhantomData};

use http::{HeaderMap, header::CONTENT_TYPE};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use crate::{
    object,
    protobuf::{self, DecodeError},
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
    pub(crate) duplicates: Duplicates,
}

/// Fields that appear more than once; the last one counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Duplicates {
    #[default]
    None,
    /// In JSON, by path.
    Json(Vec<String>),
    /// In YAML, by line.
    Yaml(Vec<String>),
}

impl Duplicates {
    /// What a client is told that has its object taken nevertheless.
    pub(crate) fn warnings(self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::Json(fields) | Self::Yaml(fields) => fields,
        }
    }

    /// What is wrong for a client that wants to know it.
    pub(crate) fn errors(self) -> Vec<String> {
        match self {
            Self::Yaml(lines) => vec![format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))],
            other => other.warnings(),
        }
    }
}

/// Decodes the body of a create or update.
pub(crate) fn decode(media_type: &str, body: &[u8]) -> Result<Decoded> {
    match media_type {
        "" | "application/json" | "*/*" => json(body),
        "application/yaml" => yaml(body),
        // Nothing is sent twice by what writes these.
        "application/vnd.kubernetes.protobuf" => {
            Ok(Decoded { value: protobuf(body)?, duplicates: Duplicates::None })
        }
        _ => Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

fn protobuf(body: &[u8]) -> Result<Value> {
    protobuf::decode(body).map_err(|error| match error {
        DecodeError::Malformed => ApiError::bad_request(error.to_string()),
        DecodeError::UnknownKind { kind, api_version } => ApiError::unsupported_media_type(format!(
            "this server does not read {kind} of {api_version} as protobuf: send application/json"
        )),
    })
}

/// Decodes JSON.
pub(crate) fn json(body: &[u8]) -> Result<Decoded> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Tree::<String>::new(&duplicates)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| {
            ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        })?;
    let found: Vec<String> =
        duplicates.take().iter().map(|Duplicate { path, .. }| format!("duplicate field {path:?}")).collect();
    let duplicates = if found.is_empty() { Duplicates::None } else { Duplicates::Json(found) };
    Ok(Decoded { value, duplicates })
}

/// Decodes YAML, of which JSON is a part.
pub(crate) fn yaml(body: &[u8]) -> Result<Decoded> {
    // JSON is read faster as what it is; but what is wrong with it is said as of YAML.
    let json = json(body).ok().filter(|decoded| decoded.duplicates == Duplicates::None);
    let mut decoded = json.map_or_else(|| plain_yaml(body), Ok)?;
    // YAML is read as if it were written in JSON, and that has no `2.0`.
    object::normalize_numbers(&mut decoded.value);
    Ok(decoded)
}

/// How many nodes of YAML aliases may stand for, beside one for each byte of the body: time is in proportion to its size.
const ALIASED: usize = 10_000;

fn plain_yaml(body: &[u8]) -> Result<Decoded> {
    let text = str::from_utf8(body)
        .map_err(|error| ApiError::bad_request(format!("error parsing YAML: {error}")))?;
    let most = ALIASED.saturating_add(text.len());
    let limits = serde_saphyr::alias_limits! { max_total_replayed_events: most };
    let options = serde_saphyr::options! {
        alias_limits: limits, duplicate_keys: DuplicateKeyPolicy::LastWins,
    };
    let duplicates = RefCell::new(Vec::new());
    let read = |deserializer: serde_saphyr::Deserializer<'_, '_>| {
        Tree::<Spanned<String>>::new(&duplicates).deserialize(deserializer)
    };
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options, read)
        .map_err(|error| ApiError::bad_request(format!("error parsing YAML: {error}")))?;
    let line =
        |Duplicate { key, line, .. }: &Duplicate| format!("line {line}: key {key:?} already set in map");
    let found: Vec<String> = duplicates.take().iter().map(line).collect();
    let duplicates = if found.is_empty() { Duplicates::None } else { Duplicates::Yaml(found) };
    Ok(Decoded { value, duplicates })
}

/// A field that has appeared before.
struct Duplicate {
    path: String,
    key: String,
    /// In YAML.
    line: u64,
}

/// The name of a field, and its line if the format tells it.
trait Name<'de>: Deserialize<'de> {
    fn parts(self) -> (String, u64);
}

impl Name<'_> for String {
    fn parts(self) -> (String, u64) {
        (self, 0)
    }
}

impl Name<'_> for Spanned<String> {
    fn parts(self) -> (String, u64) {
        (self.value, self.referenced.line())
    }
}

/// Reads a tree whose fields have names of this type.
struct Tree<'a, N> {
    path: String,
    duplicates: &'a RefCell<Vec<Duplicate>>,
    name: PhantomData<N>,
}

impl<'a, N> Tree<'a, N> {
    fn new(duplicates: &'a RefCell<Vec<Duplicate>>) -> Self {
        Self::at(String::new(), duplicates)
    }

    fn at(path: String, duplicates: &'a RefCell<Vec<Duplicate>>) -> Self {
        Self { path, duplicates, name: PhantomData }
    }
}

impl<'de, N: Name<'de>> DeserializeSeed<'de> for Tree<'_, N> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, N: Name<'de>> Visitor<'de> for Tree<'_, N> {
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
        let seed = |index: usize| Self::at(format!("{}[{index}]", self.path), self.duplicates);
        while let Some(item) = items.next_element_seed(seed(list.len()))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<N>()? {
            let (key, line) = name.parts();
            let path = if self.path.is_empty() { key.clone() } else { format!("{}.{key}", self.path) };
            let value = entries.next_value_seed(Self::at(path.clone(), self.duplicates))?;
            if map.insert(key.clone(), value).is_some() {
                self.duplicates.borrow_mut().push(Duplicate { path, key, line });
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
        let paths = [r#"duplicate field "a.b[0].c""#, r#"duplicate field "d""#];
        assert_eq!(decoded.duplicates.clone().errors(), paths);
        assert_eq!(decoded.duplicates.warnings(), paths);
        let decoded = decode("application/yaml", b"a:\n  b: 1\n  b: {c: 1}\nd: 2\nc: 3\nc: [x]\n").unwrap();
        assert_eq!(decoded.value, serde_json::json!({"a": {"b": {"c": 1}}, "d": 2, "c": ["x"]}));
        let lines = [r#"line 3: key "b" already set in map"#, r#"line 6: key "c" already set in map"#];
        let error = format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "));
        assert_eq!(decoded.duplicates.clone().errors(), [error]);
        assert_eq!(decoded.duplicates.warnings(), lines);
        let decoded = decode("application/yaml", br#"{"a": 1, "a": 2}"#).unwrap();
        assert_eq!(decoded.value, serde_json::json!({"a": 2}));
        assert_eq!(decoded.duplicates.warnings(), [r#"line 1: key "a" already set in map"#]);
        // The library itself removes duplicates that come after a number as a name.
        let decoded = decode("application/yaml", b"1: 2\nc: 3\nc: 4\n").unwrap();
        assert_eq!(decoded.value, serde_json::json!({"1": 2, "c": 4}));
        assert_eq!(decoded.duplicates, Duplicates::None);
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
