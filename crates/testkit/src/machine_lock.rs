//! A lock for the whole computer, for programs with fixed ports.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result};
use capstan_tools::Cache;

use crate::{eventually, ports};

/// Long enough for the tests that hold the lock before.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Holds the lock until it is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct MachineLock {
    _lock: File,
}

impl MachineLock {
    /// Waits until no other test on this machine holds the lock `name`, and nothing listens on `port`.
    pub(crate) async fn take(name: &str, port: u16) -> Result<Self> {
        let path = Cache::of_user()?.root().join(format!("{name}.turn"));
        let lock = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
        // Polled and not blocked upon: a blocking lock would hold one of the runtime's threads.
        eventually(DEADLINE, &format!("the turn to run {name}"), async || {
            lock.try_lock().with_context(|| format!("another test holds {}", path.display()))?;
            Ok(())
        })
        .await?;
        eventually(DEADLINE, &format!("port {port}, which {name} cannot do without"), async || {
            anyhow::ensure!(!ports::taken(port), "another program listens on it");
            Ok(())
        })
        .await?;
        Ok(Self { _lock: lock })
    }
}
