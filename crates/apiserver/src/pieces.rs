//! Long answers, made piece by piece while the client takes them: what is shown is shared with the store, so that a list costs
//! hardly more than it did before it was asked for, however slowly it is read.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    registry::Conversion,
    request::negotiate::{Form, Format, Output},
    respond::{self, Body},
    status::{ApiError, Result},
    store::Stored,
    table::{self, Include},
    verbs::{
        Call, Shown,
        read::{Page, list_kind},
    },
};

/// As much as is made at once.
pub(crate) const PIECE: usize = 64 << 10;
/// The most of a list that is turned into YAML, which is made whole.
const MOST_YAML: usize = 8 << 20;

/// A list, in the form that was asked for.
pub(crate) async fn list(
    call: &Call,
    page: Page,
    output: Output,
    include: Include,
) -> Result<Response<Body>> {
    let Page { items, metadata } = page;
    let size: usize = items.iter().map(|stored| stored.json.len()).sum();
    let now = call.plane.now();
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
    let mut pieces = Pieces::new(&envelope.to_string(), shown);
    let first = pieces.next().unwrap_or_default();
    if pieces.ended {
        return Ok(respond::bytes(StatusCode::OK, "application/json", first));
    }
    Ok(respond::stream(futures::stream::iter(std::iter::once(first).chain(pieces))))
}

/// The list without its objects, which come last.
fn envelope(call: &Call, metadata: &Value, form: Form, include: Include, now: Timestamp) -> Value {
    match form {
        Form::Table => table::table(&call.version.columns, std::iter::empty(), metadata, include, now),
        Form::Metadata => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": [],
        }),
        Form::Object | Form::Discovery => {
            let (api_version, kind) = list_kind(call);
            json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": []})
        }
    }
}

/// How items of built-in kinds begin. Their list says it once for all of them, and upstream's items do not say it again.
fn said_by_the_list(call: &Call) -> String {
    if call.resource.is_custom() {
        return String::new();
    }
    let head = json!({"apiVersion": list_kind(call).0, "kind": call.resource.kind}).to_string();
    format!("{},", head.trim_end_matches('}'))
}

/// What a webhook has to convert is converted before the answer begins: it may fail.
async fn shown(call: &Call, items: Vec<Arc<Stored>>) -> Result<Vec<Shown>> {
    if !matches!(call.resource.conversion, Conversion::Webhook(_)) {
        // Made one by one, while they are sent.
        return Ok(items.into_iter().map(Shown::Stored).collect());
    }
    call.present_all(&items.iter().collect::<Vec<_>>()).await
}

/// The objects of a list as JSON, one after the other, each without the bracket that it begins with.
struct Items {
    call: Call,
    form: Form,
    include: Include,
    now: Timestamp,
    /// What is left out at the beginning of each.
    said: String,
    rest: std::vec::IntoIter<Shown>,
}

impl Iterator for Items {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let shown = match self.rest.next()? {
            Shown::Stored(stored) => self.call.present_here(&stored),
            made => made,
        };
        let json = match self.form {
            Form::Object | Form::Discovery => shown.json(),
            Form::Metadata => table::metadata_only(&shown.value()).to_string().into(),
            Form::Table => {
                let columns = &self.call.version.columns;
                table::row(columns, &shown.value(), self.include, self.now).to_string().into()
            }
        };
        Some(opened(&json, &self.said))
    }
}

/// An object without its first bracket, and without what its list says.
fn opened(object: &Bytes, said: &str) -> Bytes {
    let begins = !said.is_empty() && object.starts_with(said.as_bytes());
    object.slice(if begins { said.len() } else { 1 }..)
}

/// JSON with a list of objects at its end, in pieces.
struct Pieces<I> {
    buffer: BytesMut,
    items: I,
    is_first: bool,
    /// To be sent as it is, after what is in the buffer.
    large: Option<Bytes>,
    ended: bool,
}

impl<I: Iterator<Item = Bytes>> Pieces<I> {
    /// `envelope` ends with an empty list.
    fn new(envelope: &str, items: I) -> Self {
        let head = envelope.strip_suffix("]}").unwrap_or(envelope);
        Self { buffer: BytesMut::from(head), items, is_first: true, large: None, ended: false }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Pieces<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(large) = self.large.take() {
            return Some(large);
        }
        while self.buffer.len() < PIECE && !self.ended {
            let Some(item) = self.items.next() else {
                self.buffer.put_slice(b"]}");
                self.ended = true;
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                self.buffer.put_u8(b',');
            }
            self.buffer.put_u8(b'{');
            if item.len() > PIECE {
                self.large = Some(item);
                break;
            }
            self.buffer.put_slice(&item);
        }
        let piece = self.buffer.split().freeze();
        (!piece.is_empty()).then_some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_text() {
        let large = || Bytes::from(format!(r#"{{"a":"{}"}}"#, "x".repeat(PIECE)));
        let small = |number: usize| Bytes::from(format!(r#"{{"n":{number}}}"#));
        let cases = [
            vec![],
            vec![small(1)],
            vec![small(1), small(2)],
            vec![large(), small(2), large(), large()],
            vec![small(1), large()],
            (0..PIECE).map(small).collect(),
        ];
        for items in cases {
            let items: Vec<Bytes> = items;
            let rests = items.iter().map(|item| opened(item, ""));
            let pieces: Vec<Bytes> = Pieces::new(r#"{"a":1,"items":[]}"#, rests).collect();
            assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PIECE + 10));
            let whole: Value = serde_json::from_slice(&pieces.concat()).unwrap();
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
