//! Work on other threads that must end when nobody waits for it any more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Held by who waits. When it is dropped, the work ends at its next look.
#[derive(Debug, Default)]
pub(super) struct Cancel(Flag);

/// Looked at by the work.
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
    /// An error if nobody waits any more.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}
