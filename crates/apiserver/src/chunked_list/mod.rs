//! List responses, encoded in chunks while the client reads them. The objects are shared with the store, so that a list needs
//! little memory however slowly the client reads it.

mod protobuf;

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    call::{Call, Representation},
    registry::Conversion,
    request::negotiate::{Form, Format, Output},
    respond::{self, Body},
    status::{ApiError, Result},
    store::Stored,
    table::{self, Include},
    verbs::read::{Page, list_kind},
};

/// Bytes that are encoded at once.
pub(crate) const CHUNK: usize = 64 << 10;
/// The largest list in YAML, which is not encoded in chunks.
const MOST_YAML: usize = 8 << 20;

/// The response to a list request, in the negotiated format.
pub(crate) async fn list(
    call: &Call,
    page: Page,
    output: Output,
    include: Include,
) -> Result<Response<Body>> {
    let Page { items, mut metadata } = page;
    // Only lists of whole custom objects say that there is no more.
    if output.form != Form::Object && metadata["continue"] == "" {
        metadata.as_object_mut().map(|metadata| metadata.remove("continue"));
    }
    let size: usize = items.iter().map(|stored| stored.json.len()).sum();
    let now = call.plane.now();
    if output.format == Format::Protobuf {
        return protobuf::list(call, &metadata, output.form, shown(call, items).await?).await;
    }
    let envelope = envelope(call, &metadata, output.form, include, now);
    let shown = Items {
        call: call.clone(),
        form: output.form,
        include,
        now,
        said: if output.form == Form::Object { said_by_the_list(call) } else { String::new() },
        rest: shown(call, items).await?.into_iter(),
    };
    if output.format == Format::Yaml {
        if size > MOST_YAML {
            let message = "the list is too large to be shown as YAML: ask for JSON, or for pages with limit";
            return Err(ApiError::bad_request(message));
        }
        let mut whole = envelope;
        let list = whole.as_object_mut().and_then(|whole| whole.values_mut().next_back());
        if let Some(list) = list {
            let whole = |item: Bytes| serde_json::from_slice::<Value>(&[b"{", &item[..]].concat());
            *list = shown.map(|item| whole(item).unwrap_or_default()).collect();
        }
        return Ok(respond::value(StatusCode::OK, &whole, output.format));
    }
    let mut chunks = Chunks::new(&envelope.to_string(), shown);
    let first = chunks.next().unwrap_or_default();
    if chunks.ended {
        return Ok(respond::bytes(StatusCode::OK, "application/json", first));
    }
    Ok(respond::stream("application/json", futures::stream::iter(std::iter::once(first).chain(chunks))))
}

/// The list with an empty `items`, which is its last field.
fn envelope(call: &Call, metadata: &Value, form: Form, include: Include, now: Timestamp) -> Value {
    match form {
        Form::Table(version) => {
            table::table(&call.version.columns, std::iter::empty(), metadata, include, version, now)
        }
        Form::Metadata(version) => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": version.api_version(), "metadata": metadata, "items": [],
        }),
        Form::Object | Form::Discovery => {
            let (api_version, kind) = list_kind(call);
            json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": []})
        }
    }
}

/// `apiVersion` and `kind` as items of built-in kinds are stored. In a list, upstream omits them in such items.
fn said_by_the_list(call: &Call) -> String {
    if call.resource.is_custom() {
        return String::new();
    }
    let head = json!({"apiVersion": list_kind(call).0, "kind": call.resource.kind}).to_string();
    format!("{},", head.trim_end_matches('}'))
}

/// The items in the requested version. What a webhook converts is converted before the response begins, because that may
/// fail.
async fn shown(call: &Call, items: Vec<Arc<Stored>>) -> Result<Vec<Representation>> {
    if !matches!(call.resource.conversion, Conversion::Webhook(_)) {
        // Converted one by one, while they are sent.
        return Ok(items.into_iter().map(Representation::Stored).collect());
    }
    call.present_all(&items.iter().collect::<Vec<_>>()).await
}

/// The items of a list as JSON, each without its opening brace.
struct Items {
    call: Call,
    form: Form,
    include: Include,
    now: Timestamp,
    /// The prefix that is omitted in each item.
    said: String,
    rest: std::vec::IntoIter<Representation>,
}

impl Iterator for Items {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let shown = match self.rest.next()? {
            Representation::Stored(stored) => self.call.present_without_webhook(&stored),
            made => made,
        };
        let json = match self.form {
            Form::Object | Form::Discovery => shown.json(),
            Form::Metadata(version) => table::metadata_only(&shown.value(), version).to_string().into(),
            Form::Table(version) => {
                let columns = &self.call.version.columns;
                table::row(columns, &shown.value(), self.include, version, self.now).to_string().into()
            }
        };
        Some(opened(&json, &self.said))
    }
}

/// An object without its opening brace, and without the prefix that its list omits.
fn opened(object: &Bytes, said: &str) -> Bytes {
    let begins = !said.is_empty() && object.starts_with(said.as_bytes());
    object.slice(if begins { said.len() } else { 1 }..)
}

/// JSON that ends with a list of objects, in chunks.
struct Chunks<I> {
    buffer: BytesMut,
    items: I,
    is_first: bool,
    /// An object larger than a chunk, sent without a copy after the buffer.
    large: Option<Bytes>,
    ended: bool,
}

impl<I: Iterator<Item = Bytes>> Chunks<I> {
    /// `envelope` ends with an empty list.
    fn new(envelope: &str, items: I) -> Self {
        let head = envelope.strip_suffix("]}").unwrap_or(envelope);
        Self { buffer: BytesMut::from(head), items, is_first: true, large: None, ended: false }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Chunks<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(large) = self.large.take() {
            return Some(large);
        }
        while self.buffer.len() < CHUNK && !self.ended {
            let Some(item) = self.items.next() else {
                self.buffer.put_slice(b"]}");
                self.ended = true;
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                self.buffer.put_u8(b',');
            }
            self.buffer.put_u8(b'{');
            if item.len() > CHUNK {
                self.large = Some(item);
                break;
            }
            self.buffer.put_slice(&item);
        }
        let chunk = self.buffer.split().freeze();
        (!chunk.is_empty()).then_some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_one_text() {
        let large = || Bytes::from(format!(r#"{{"a":"{}"}}"#, "x".repeat(CHUNK)));
        let small = |number: usize| Bytes::from(format!(r#"{{"n":{number}}}"#));
        let cases = [
            vec![],
            vec![small(1)],
            vec![small(1), small(2)],
            vec![large(), small(2), large(), large()],
            vec![small(1), large()],
            (0..CHUNK).map(small).collect(),
        ];
        for items in cases {
            let items: Vec<Bytes> = items;
            let rests = items.iter().map(|item| opened(item, ""));
            let chunks: Vec<Bytes> = Chunks::new(r#"{"a":1,"items":[]}"#, rests).collect();
            assert!(chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK + 10));
            let whole: Value = serde_json::from_slice(&chunks.concat()).unwrap();
            let items: Vec<Value> = items.iter().map(|item| serde_json::from_slice(item).unwrap()).collect();
            assert_eq!(whole, json!({"a": 1, "items": items}));
        }
    }

    #[test]
    fn what_the_list_says_is_left_out() {
        let object = Bytes::from(r#"{"apiVersion":"v1","kind":"Pod","a":1}"#);
        assert_eq!(opened(&object, r#"{"apiVersion":"v1","kind":"Pod","#), r#""a":1}"#);
        assert_eq!(opened(&object, r#"{"apiVersion":"v2","kind":"Pod","#), object.slice(1..));
        assert_eq!(opened(&Bytes::from("{}"), ""), "}");
    }
}
