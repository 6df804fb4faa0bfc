//! Checks whether what a step has created still exists. Changes nothing.

use capstan_plan::{Artifact, Digest, Directory, File, MachinePath, Step, VerifiedPlan};
use std::collections::BTreeMap;
use std::time::Duration;

use super::Engine;
use crate::clock::Clock;
use crate::machine::{Found, Machine, MachineError, Metadata};
use crate::store::Store;

/// Interval after which a file is read again although its metadata has not changed. It varies by file, so that not all
/// files are read at once.
const READ_AGAIN: Duration = Duration::from_hours(20);
const READ_SPREAD: Duration = Duration::from_hours(8);

/// A difference between the machine and a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Different {
    /// Description for users.
    pub(super) what: String,
    /// Whether a program that reads it would find something else than the plan contains.
    pub(super) is_content: bool,
}

impl Different {
    pub(super) fn content(what: impl Into<String>) -> Self {
        Self { what: what.into(), is_content: true }
    }

    /// The check failed. It is unknown whether a program has read anything else.
    pub(super) fn unknown(error: &MachineError) -> Self {
        Self { what: error.to_string(), is_content: false }
    }

    fn metadata(path: &MachinePath, found: Metadata, wanted: Metadata) -> Self {
        let words = |metadata: Metadata| {
            format!("mode {:04o}, owner {}:{}", metadata.mode, metadata.owner, metadata.group)
        };
        let what = format!("{path} has {}, and not {}", words(found), words(wanted));
        Self { what, is_content: false }
    }
}

/// What was read, and its metadata at that time: it is not read again while the metadata is the same.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<MachinePath, Sample>);

#[derive(Debug)]
struct Sample {
    content: Digest,
    stamp: Digest,
    read_again: Duration,
}

impl Known {
    fn is_right(
        &self,
        path: &MachinePath,
        content: Digest,
        stamp: Option<Digest>,
        elapsed: Duration,
    ) -> bool {
        self.0.get(path).is_some_and(|known| {
            (known.content, Some(known.stamp)) == (content, stamp) && elapsed < known.read_again
        })
    }

    fn note(&mut self, path: &MachinePath, content: Digest, stamp: Option<Digest>, elapsed: Duration) {
        let Some(stamp) = stamp else { return };
        let [share, ..] = *Digest::of(path.as_str().as_bytes()).as_bytes();
        let read_again = elapsed + READ_AGAIN + READ_SPREAD * u32::from(share) / 256;
        self.0.insert(path.clone(), Sample { content, stamp, read_again });
    }
}

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// The difference between a file and the plan.
    pub(super) async fn look_at_file(&mut self, file: &File) -> Result<Option<Different>, MachineError> {
        let wanted = Metadata { mode: file.mode.bits(), owner: file.owner, group: file.group };
        self.look_at_content(&file.path, file.content.as_bytes(), wanted).await
    }

    pub(super) async fn look_at_content(
        &mut self,
        path: &MachinePath,
        content: &[u8],
        wanted: Metadata,
    ) -> Result<Option<Different>, MachineError> {
        let (metadata, size) = match self.machine.inspect(path).await? {
            Found::File { metadata, size } => (metadata, size),
            other => return Ok(Some(not_this(path, other))),
        };
        if size != content.len() as u64 {
            return Ok(Some(changed(path)));
        }
        // Before it is read: a change meanwhile makes it look different the next time.
        let (stamp, digest) = (self.machine.stamp(path).await?, Digest::of(content));
        let elapsed = self.clock.elapsed();
        if !self.known.is_right(path, digest, stamp, elapsed) {
            if self.machine.read(path, size).await? != content {
                return Ok(Some(changed(path)));
            }
            self.known.note(path, digest, stamp, elapsed);
        }
        Ok((metadata != wanted).then(|| Different::metadata(path, metadata, wanted)))
    }

    pub(super) async fn look_at_directory(
        &self,
        folder: &Directory,
    ) -> Result<Option<Different>, MachineError> {
        let wanted = Metadata { mode: folder.mode.bits(), owner: folder.owner, group: folder.group };
        Ok(match self.machine.inspect(&folder.path).await? {
            Found::Directory { metadata } if metadata == wanted => None,
            Found::Directory { metadata } => Some(Different::metadata(&folder.path, metadata, wanted)),
            other => Some(not_this(&folder.path, other)),
        })
    }

    pub(super) async fn look_at_artifact(
        &mut self,
        artifact: &Artifact,
    ) -> Result<Option<Different>, MachineError> {
        let path = &artifact.path;
        let wanted = Metadata { mode: artifact.mode.bits(), owner: artifact.owner, group: artifact.group };
        match (self.machine.inspect(path).await?, artifact.unpack.is_some()) {
            (Found::File { metadata, .. }, false) | (Found::Directory { metadata }, true)
                if metadata != wanted =>
            {
                return Ok(Some(Different::metadata(path, metadata, wanted)));
            }
            (Found::File { .. }, false) | (Found::Directory { .. }, true) => {}
            (other, _) => return Ok(Some(not_this(path, other))),
        }
        let (stamp, elapsed) = (self.machine.stamp(path).await?, self.clock.elapsed());
        if self.known.is_right(path, artifact.sha256, stamp, elapsed) {
            return Ok(None);
        }
        if self.machine.is_installed(artifact).await? == Some(false) {
            return Ok(Some(changed(path)));
        }
        // Also where it cannot be found out: then a later change of it is seen at least.
        self.known.note(path, artifact.sha256, stamp, elapsed);
        Ok(None)
    }

    /// Units that use what this step has created, by the index of their steps.
    pub(super) fn readers(plan: &VerifiedPlan, step: &Step) -> Vec<usize> {
        let steps = &plan.plan().steps;
        let Some(at) = steps.iter().position(|other| other.name == step.name) else { return Vec::new() };
        (at..steps.len()).filter(|unit| crate::drift::is_read_by(plan.plan(), at, *unit)).collect()
    }
}

fn changed(path: &MachinePath) -> Different {
    Different::content(format!("{path} has other content"))
}

fn not_this(path: &MachinePath, found: Found) -> Different {
    Different::content(match found {
        Found::Nothing => format!("{path} is missing"),
        other => format!("{path} is {}", other.describe()),
    })
}
