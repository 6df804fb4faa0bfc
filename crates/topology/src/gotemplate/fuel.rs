//! Limits of a rendering: steps, and bytes of output.

use super::MOST_OUTPUT;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The most steps of one rendering. A step is an action, a call, or a piece of a value that a call makes.
const STEPS: i64 = 500_000;
/// So many bytes of a text that a call makes are one step.
const BYTES: usize = 64;

/// The steps that are left. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Fuel(Arc<AtomicI64>);

impl Fuel {
    pub(super) fn full() -> Fuel {
        Fuel(Arc::new(AtomicI64::new(STEPS)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }

    /// One step, and more for a large value.
    ///
    /// # Errors
    /// If no steps are left.
    pub(super) fn spend(&self, value: &gotmpl::Value) -> gotmpl::Result<()> {
        let size = match value {
            gotmpl::Value::String(text) => text.len() / BYTES,
            gotmpl::Value::List(items) => items.len(),
            gotmpl::Value::Map(entries) => entries.len(),
            _ => 0,
        };
        let steps = i64::try_from(size).unwrap_or(STEPS).saturating_add(1);
        if self.0.fetch_sub(steps, Ordering::Relaxed) < steps {
            return Err(gotmpl::TemplateError::Exec("out of steps".into()));
        }
        Ok(())
    }
}

/// The output of a rendering, up to the limit.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) text: String,
    pub(super) is_full: bool,
}

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len().saturating_add(text.len()) > MOST_OUTPUT {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}
