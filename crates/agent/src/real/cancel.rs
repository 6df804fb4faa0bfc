//! Cancellation of work on other threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Held by the waiting task. When it is dropped, the work ends at its next check.
#[derive(Debug, Default)]
pub(super) struct Cancel(Flag);

/// Checked by the work.
#[derive(Clone, Debug, Default)]
pub(super) struct Flag(Arc<AtomicBool>);

impl Cancel {
    pub(super) fn flag(&self) -> Flag {
        self.0.clone()
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Flag {
    /// An error if no task waits for the work.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}
