//! Documents about all or some resources, as clients get them: made on demand, and kept until the registry changes.

use std::{
    cmp::Ordering,
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use bytes::Bytes;

use crate::registry::Registry;

/// A document.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) body: Bytes,
    /// Differs from that of every other content. With its quotes.
    pub(crate) etag: String,
}

/// The documents of the newest registry for which one was made.
#[derive(Default)]
pub(crate) struct Documents(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// That of the registry.
    generation: u64,
    by_name: BTreeMap<String, Document>,
}

impl Documents {
    /// A document that was kept.
    pub(crate) fn get(&self, registry: &Registry, name: &str) -> Option<Document> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_name.get(name).filter(|_| kept.generation == registry.generation).cloned()
    }

    /// Keeps a document, unless the registry has changed since.
    pub(crate) fn keep(&self, registry: &Registry, name: &str, document: Document) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match registry.generation.cmp(&kept.generation) {
            Ordering::Less => return,
            Ordering::Equal => {}
            Ordering::Greater => *kept = Kept { generation: registry.generation, ..Kept::default() },
        }
        kept.by_name.insert(name.to_owned(), document);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_kept_until_the_registry_changes() {
        let documents = Documents::default();
        let document =
            |text: &'static str| Document { body: Bytes::from_static(text.as_bytes()), etag: String::new() };
        let body = |registry: &Registry| documents.get(registry, "v2").map(|document| document.body);
        let old = Registry::built_in();
        let new = old.with(old.all().next().unwrap().clone());
        assert_eq!(body(&old), None);
        documents.keep(&old, "v2", document("old"));
        assert_eq!((body(&old).unwrap(), body(&new)), (Bytes::from_static(b"old"), None));
        documents.keep(&new, "v2", document("new"));
        // A request that began before the change.
        documents.keep(&old, "v2", document("old"));
        assert_eq!((body(&old), body(&new).unwrap()), (None, Bytes::from_static(b"new")));
    }
}
