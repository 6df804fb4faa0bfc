//! What a request leaves behind besides its response: annotations for the audit log, and warnings of deletions.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

/// The notes of one request.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    annotations: Mutex<BTreeMap<String, String>>,
    warnings: Mutex<Vec<String>>,
}

impl Notes {
    /// Adds annotations. The first value of a key stays, as upstream: a write that is tried again annotates again.
    pub(crate) fn annotate(&self, more: Vec<(String, String)>) {
        if more.is_empty() {
            return;
        }
        let mut annotations = self.annotations.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in more {
            annotations.entry(key).or_insert(value);
        }
    }

    /// Adds warnings that have no other way to the response.
    pub(crate) fn warn(&self, more: Vec<String>) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        for warning in more {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }

    /// All annotations.
    pub(crate) fn take_annotations(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut *self.annotations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All warnings.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
