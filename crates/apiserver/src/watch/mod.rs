//! Watches: what happened, relative to a selector, written down one line per event.

mod serve;
mod stream;

pub(crate) use serve::watch;

use std::{borrow::Cow, sync::Arc};

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    call::Call,
    chunked_list::CHUNK,
    protobuf,
    request::negotiate::{Form, Format, MetaVersion, Output},
    status::{ApiError, Result},
    store::{Change, Event, Stored},
    table::{self, Include},
};

/// The word for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventType {
    Added,
    Modified,
    Deleted,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// What a change means to somebody who sees only what the filter lets through: an object that leaves the
/// selection is deleted, with its last selected state under the new revision; one that enters is added.
fn relative(event: &Event, matches: impl Fn(&Stored) -> bool) -> Option<(EventType, Cow<'_, Arc<Stored>>)> {
    let before = event.previous.as_ref().filter(|previous| matches(previous));
    let after = (event.change != Change::Deleted && matches(&event.object)).then_some(&event.object);
    match (before, after) {
        (None, None) => None,
        (None, Some(object)) => Some((EventType::Added, Cow::Borrowed(object))),
        (Some(_), Some(object)) => Some((EventType::Modified, Cow::Borrowed(object))),
        (Some(_), None) if event.change == Change::Deleted => {
            Some((EventType::Deleted, Cow::Borrowed(&event.object)))
        }
        (Some(previous), None) => {
            let mut value = previous.value.once().into_owned();
            value["metadata"]["resourceVersion"] = event.revision.to_string().into();
            let json = value.to_string().into();
            let stored = Stored::new(previous.key.clone(), event.revision, json);
            Some((EventType::Deleted, Cow::Owned(Arc::new(stored))))
        }
    }
}

/// How events are written for one client: as lines of JSON, or as protobuf with their length before them.
pub(crate) struct Lines {
    pub(crate) output: Output,
    pub(crate) include: Include,
    /// Only the first table of a stream says what its columns are.
    pub(crate) columns_sent: bool,
}

impl Lines {
    /// Lines for objects, each with what happened to it. A large object is not copied.
    async fn objects(
        &mut self,
        call: &Call,
        seen: &[(EventType, Cow<'_, Arc<Stored>>)],
    ) -> Result<Vec<Bytes>> {
        let stored: Vec<&Arc<Stored>> = seen.iter().map(|(_, stored)| stored.as_ref()).collect();
        let objects = call.present_all(&stored).await?;
        let now = call.plane.now();
        let (mut chunks, mut bytes) = (Vec::new(), BytesMut::new());
        for ((kind, _), object) in seen.iter().zip(objects) {
            let word = kind.as_str();
            let shown: Bytes = match (self.output.format, self.output.form) {
                (Format::Protobuf, Form::Metadata(version)) => {
                    encoded(&table::metadata_only(&object.value(), version))?
                }
                (Format::Protobuf, _) => encoded(&object.value())?,
                (_, Form::Object | Form::Discovery) => object.json(),
                (_, Form::Metadata(version)) => {
                    table::metadata_only(&object.value(), version).to_string().into()
                }
                (_, Form::Table(version)) => {
                    self.table(call, &object.value(), version, now).to_string().into()
                }
            };
            let (before, after) = self.around(word, shown.len());
            bytes.extend_from_slice(&before);
            if shown.len() > CHUNK {
                chunks.extend([bytes.split().freeze(), shown]);
            } else {
                bytes.extend_from_slice(&shown);
            }
            bytes.extend_from_slice(after);
        }
        if !bytes.is_empty() {
            chunks.push(bytes.freeze());
        }
        Ok(chunks)
    }

    /// What comes before and after an object of so many bytes.
    fn around(&self, word: &str, length: usize) -> (Vec<u8>, &'static [u8]) {
        match self.output.format {
            Format::Protobuf => (protobuf::watch_frame(word, length), b""),
            Format::Json | Format::Yaml => {
                (format!("{{\"type\":\"{word}\",\"object\":").into_bytes(), b"}\n")
            }
        }
    }

    fn table(&mut self, call: &Call, object: &Value, version: MetaVersion, now: Timestamp) -> Value {
        let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
        let objects = std::iter::once(object);
        let mut table = table::table(&call.version.columns, objects, &metadata, self.include, version, now);
        if std::mem::replace(&mut self.columns_sent, true) {
            table["columnDefinitions"] = Value::Null;
        }
        table
    }

    /// A line that says only how far the stream is.
    fn bookmark(&mut self, call: &Call, revision: u64, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (api_version, kind) = match self.output.form {
            Form::Metadata(version) => (version.api_version().to_owned(), "PartialObjectMetadata"),
            _ => (call.api_version(), call.resource.kind.as_str()),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if !matches!(self.output.form, Form::Metadata(_)) {
            for (field, value) in (call.resource.rules.blank)().as_object().into_iter().flatten() {
                object[field] = value.clone();
            }
        }
        let shown = match self.output.form {
            Form::Table(version) => self.table(call, &object, version, call.plane.now()),
            _ => object,
        };
        self.line("BOOKMARK", &shown)
    }

    /// The line that ends a stream which cannot go on.
    fn error(&self, error: &ApiError) -> Bytes {
        self.line("ERROR", &error.to_status())
    }

    fn line(&self, word: &str, object: &Value) -> Bytes {
        let shown = match self.output.format {
            Format::Protobuf => protobuf::encode(object).unwrap_or_else(|error| {
                // Bookmarks and errors are made here, so they have a protobuf form.
                tracing::error!(%error, word, "cannot write a watch event");
                Vec::new()
            }),
            Format::Json | Format::Yaml => object.to_string().into_bytes(),
        };
        let (before, after) = self.around(word, shown.len());
        [before.as_slice(), &shown, after].concat().into()
    }
}

fn encoded(object: &Value) -> Result<Bytes> {
    let encoded = protobuf::encode(object).map_err(|error| ApiError::internal(&error.to_string()));
    encoded.map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{GroupResource, Key};

    fn stored(n: i64, revision: u64) -> Arc<Stored> {
        let value = json!({"metadata": {"resourceVersion": revision.to_string()}, "n": n});
        let key = Key::new(GroupResource::new("", "x"), "", "a");
        Arc::new(Stored::new(key, revision, value.to_string().into()))
    }

    #[test]
    fn changes_are_relative_to_the_selection() {
        let one = |stored: &Stored| stored.value["n"] == 1;
        let event = |change, previous: Option<Arc<Stored>>, n| Event {
            revision: 9,
            change,
            object: stored(n, 9),
            previous,
        };
        let kind = |event: &Event| relative(event, one).map(|(kind, _)| kind);
        assert_eq!(kind(&event(Change::Created, None, 1)), Some(EventType::Added));
        assert_eq!(kind(&event(Change::Created, None, 2)), None);
        assert_eq!(kind(&event(Change::Updated, Some(stored(2, 3)), 1)), Some(EventType::Added));
        assert_eq!(kind(&event(Change::Updated, Some(stored(1, 3)), 1)), Some(EventType::Modified));
        assert_eq!(kind(&event(Change::Updated, Some(stored(2, 3)), 2)), None);
        assert_eq!(kind(&event(Change::Deleted, Some(stored(1, 3)), 1)), Some(EventType::Deleted));
        assert_eq!(kind(&event(Change::Deleted, Some(stored(2, 3)), 2)), None);
        let left = event(Change::Updated, Some(stored(1, 3)), 2);
        let (kind, object) = relative(&left, one).unwrap();
        assert_eq!((kind, object.value["n"].as_i64()), (EventType::Deleted, Some(1)));
        assert_eq!(object.value["metadata"]["resourceVersion"], "9");
    }
}
