//! Files that keep an installer and a running plan apart. The installer writes one and waits until the other is gone.

use capstan_sentinel::time;
use jiff::{SignedDuration, Timestamp};
use std::fs;
use std::path::PathBuf;

use crate::{Failure, files, say};

/// The installer is about to restart the service.
const PENDING: &str = "restart-pending";

/// A plan is being applied.
const ACTIVE: &str = "applyinator-active";

/// An installer that is not done after this time has failed.
const LONGEST: SignedDuration = SignedDuration::from_mins(5);

pub(super) struct Interlock(Option<PathBuf>);

/// Held while a plan is applied.
pub(super) struct Active(Option<PathBuf>);

impl Drop for Active {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            let _ = fs::remove_file(file);
        }
    }
}

impl Interlock {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        // Of a process that was killed.
        drop(Active(folder.as_ref().map(|folder| folder.join(ACTIVE))));
        Self(folder)
    }

    /// An error: the installer is to go first.
    pub(super) fn enter(&self, now: Timestamp) -> Result<Active, Failure> {
        let Some(folder) = &self.0 else { return Ok(Active(None)) };
        let pending = folder.join(PENDING);
        let cannot = |error| Failure::new(format!("cannot use {}: {error}", folder.display()));
        if let Some(content) = files::read(&pending).map_err(cannot)? {
            let text = String::from_utf8_lossy(&content);
            let first = time::parse(&text).filter(|first| *first <= now);
            let Some(first) = first else {
                files::write(&pending, time::format(now).as_bytes()).map_err(cannot)?;
                return Err(Failure::new(format!("{} exists: a restart is pending", pending.display())));
            };
            if now.duration_since(first) < LONGEST {
                return Err(Failure::new(format!("{} exists: a restart is pending", pending.display())));
            }
            say!("{} is older than five minutes, and is removed", pending.display());
            files::remove(&pending).map_err(cannot)?;
        }
        let active = folder.join(ACTIVE);
        files::write(&active, time::format(now).as_bytes()).map_err(cannot)?;
        Ok(Active(Some(active)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    #[test]
    fn an_installer_goes_first_for_five_minutes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pending, active) = (folder.path().join(PENDING), folder.path().join(ACTIVE));
        fs::write(&active, "of a process that was killed").expect("written");
        let interlock = Interlock::new(Some(folder.path().to_owned()));
        assert!(!active.exists());
        let held = interlock.enter(at(0)).expect("nothing is pending");
        assert!(active.exists());
        drop(held);
        assert!(!active.exists());

        fs::write(&pending, "").expect("written");
        assert!(interlock.enter(at(0)).is_err() && !active.exists());
        assert_eq!(fs::read_to_string(&pending).expect("there"), time::format(at(0)));
        assert!(interlock.enter(at(299)).is_err());
        assert!(interlock.enter(at(300)).is_ok() && !pending.exists());
        assert!(Interlock::new(None).enter(at(0)).is_ok());
    }
}
