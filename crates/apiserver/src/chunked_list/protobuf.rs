//! Lists as protobuf. The length of a list precedes its items, so those are encoded once to compute it, and again while
//! the client reads them.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::Value;

use super::CHUNK;
use crate::{
    call::{Call, Representation},
    protobuf,
    request::negotiate::Form,
    respond::{self, Body},
    status::{ApiError, Result},
    table,
    verbs::read::list_kind,
};

/// Items that are encoded before other tasks may run.
const AT_ONCE: usize = 64;

/// The response to a list request as protobuf.
pub(super) async fn list(
    call: &Call,
    metadata: &Value,
    form: Form,
    shown: Vec<Representation>,
) -> Result<Response<Body>> {
    let ((api_version, kind), item) = match form {
        Form::Metadata(version) => (
            (version.api_version().to_owned(), "PartialObjectMetadataList".to_owned()),
            "PartialObjectMetadata",
        ),
        _ => (list_kind(call), call.resource.kind.as_str()),
    };
    let item = protobuf::Kind::find(&api_version, item).ok_or_else(ApiError::no_such_path)?;
    let list =
        protobuf::List::new(&api_version, &kind, item, metadata).map_err(|error| cannot_write(&error))?;
    let items = EncodedItems { call: call.clone(), form, list };
    // Whatever cannot be written is found before the response begins. Small lists are kept, others are encoded again.
    let (mut length, mut kept) = (0, Vec::new());
    for (index, representation) in shown.iter().enumerate() {
        let encoded = items.encoded(representation)?;
        length += encoded.len();
        if length <= CHUNK {
            kept.extend_from_slice(&encoded);
        }
        if index % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
    }
    let start = items.list.start(length);
    if length <= CHUNK {
        let whole = [start.as_slice(), &kept, protobuf::List::END].concat();
        return Ok(respond::bytes(StatusCode::OK, respond::PROTOBUF, whole));
    }
    let chunks = std::iter::once(Bytes::from(start))
        .chain(EncodedChunks { items, rest: shown.into_iter() })
        .chain(std::iter::once(Bytes::from_static(protobuf::List::END)));
    Ok(respond::stream(respond::PROTOBUF, futures::stream::iter(chunks)))
}

fn cannot_write(error: &protobuf::EncodeError) -> ApiError {
    ApiError::internal(&error.to_string())
}

/// Encodes items of a list as protobuf.
struct EncodedItems {
    call: Call,
    form: Form,
    list: protobuf::List,
}

impl EncodedItems {
    fn encoded(&self, shown: &Representation) -> Result<Vec<u8>> {
        let made;
        let shown = match shown {
            Representation::Stored(stored) => {
                made = self.call.present_without_webhook(stored);
                &made
            }
            shown @ Representation::Made(_) => shown,
        };
        let value = match self.form {
            Form::Metadata(version) => Cow::Owned(table::metadata_only(&shown.value(), version)),
            _ => shown.value(),
        };
        self.list.item(&value).map_err(|error| cannot_write(&error))
    }
}

/// Items of a list as protobuf, as many at once as make a chunk.
struct EncodedChunks {
    items: EncodedItems,
    rest: std::vec::IntoIter<Representation>,
}

impl Iterator for EncodedChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK {
            let Some(shown) = self.rest.next() else { break };
            // It has been encoded before.
            chunk.extend(self.items.encoded(&shown).unwrap_or_default());
        }
        (!chunk.is_empty()).then(|| chunk.into())
    }
}
