//! How far a run of a plan has come, on disk. A process after this one continues there: an instruction that has ended is
//! not run again, and one that still runs is waited for.

use capstan_plan::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::output::Saved;

/// Which run it is: the same plan, from the same source, asked for by the same write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// UID of the Secret, or path of the plan.
    pub source: String,
    /// Checksum of the plan.
    pub checksum: Digest,
    /// Its `plan-revision`, if it has a state.
    pub revision: Option<String>,
    /// Number of the attempt, for a plan without a revision: that tells its runs apart.
    pub attempt: Option<u64>,
}

/// Progress of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The run.
    pub identity: Identity,
    /// When it began.
    pub began: Timestamp,
    /// Number of the attempt, for its commands.
    pub attempt: u64,
    /// Number of instructions that have succeeded.
    pub done: usize,
    /// Their saved output, and that of the one that failed.
    pub saved: Saved,
    /// How it ended; `None` while it runs. An empty message means success.
    pub ended: Option<String>,
}

impl Progress {
    /// Nothing is done yet.
    pub const fn new(identity: Identity, began: Timestamp, attempt: u64, saved: Saved) -> Self {
        Self { identity, began, attempt, done: 0, saved, ended: None }
    }

    /// Reads it, if it is of this run. One that cannot be read is of none.
    pub fn parse(bytes: &[u8], identity: &Identity) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|progress| progress.identity == *identity)
    }

    /// As it is written.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_that_of_one_run() {
        let identity =
            Identity { source: "uid".into(), checksum: Digest::of(b""), revision: None, attempt: Some(1) };
        let progress =
            Progress { done: 2, ..Progress::new(identity.clone(), Timestamp::UNIX_EPOCH, 1, Saved::new()) };
        let bytes = progress.to_bytes();
        assert_eq!(Progress::parse(&bytes, &identity), Some(progress));
        for other in [
            Identity { source: "other".into(), ..identity.clone() },
            Identity { checksum: Digest::of(b"x"), ..identity.clone() },
            Identity { revision: Some("1".into()), ..identity.clone() },
            Identity { attempt: Some(2), ..identity.clone() },
        ] {
            assert_eq!(Progress::parse(&bytes, &other), None);
        }
        assert_eq!(Progress::parse(b"{", &identity), None);
    }
}
