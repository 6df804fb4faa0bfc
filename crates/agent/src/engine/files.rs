//! Writes files and folders, records the previous state of their paths, and restores it.

use capstan_plan::{Digest, Directory, File, MachinePath};

use super::{Engine, StepError};
use crate::clock::Clock;
use crate::journal::Entry;
use crate::ledger::{After, Before, Holding};
use crate::machine::{Found, Machine, MachineError, Metadata};
use crate::store::Store;

/// An existing file that is larger is not replaced, because its content could not be kept.
pub(super) const LARGEST_KEPT: u64 = 8 * 1024 * 1024;

/// Permissions of parent folders that a plan does not name.
const IMPLIED_MODE: u32 = 0o755;

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Writes a file of a plan, unless it is up to date.
    pub(super) async fn put_file(&mut self, file: &File) -> Result<(), StepError> {
        self.make_parents(&file.path).await?;
        let metadata = Metadata { mode: file.mode.bits(), owner: file.owner, group: file.group };
        let content = file.content.digest();
        let found = self.machine.inspect(&file.path).await?;
        let is_held = self.history().ledger.holding(&file.path).is_some();
        let before = match found {
            Found::Nothing => Before::Nothing,
            Found::File { metadata, size } if !is_held || size == file.content.as_bytes().len() as u64 => {
                let bytes = self.machine.read(&file.path, LARGEST_KEPT).await?;
                if !is_held {
                    self.journal.keep(&bytes).await?;
                }
                Before::File { content: Digest::of(&bytes), metadata }
            }
            // Its content is not ours to keep, as we know what was there before, and it is not what it should be.
            Found::File { metadata, .. } => Before::File { content: Digest::of(b""), metadata },
            Found::Directory { .. } | Found::Other(_) => return Err(wrong(&file.path, found, "a file")),
        };
        let is_right = before == Before::File { content, metadata };
        self.take(&file.path, before, After::File { content, metadata }).await?;
        if !is_right {
            self.machine.write(&file.path, file.content.as_bytes(), metadata).await?;
        }
        Ok(())
    }

    /// Creates or changes a folder of a plan.
    pub(super) async fn put_directory(&mut self, folder: &Directory) -> Result<(), StepError> {
        self.make_parents(&folder.path).await?;
        let metadata = Metadata { mode: folder.mode.bits(), owner: folder.owner, group: folder.group };
        let found = self.machine.inspect(&folder.path).await?;
        let before = match found {
            Found::Nothing => Before::Nothing,
            Found::Directory { metadata } => Before::Directory { metadata },
            Found::File { .. } | Found::Other(_) => return Err(wrong(&folder.path, found, "a folder")),
        };
        let is_right = before == Before::Directory { metadata };
        self.take(&folder.path, before, After::Directory { metadata }).await?;
        if !is_right {
            self.machine.make_directory(&folder.path, metadata).await?;
        }
        Ok(())
    }

    /// Creates missing parent folders, with the permissions of existing ones.
    pub(super) async fn make_parents(&mut self, path: &MachinePath) -> Result<(), StepError> {
        let mut missing = Vec::new();
        let mut above = path.parent();
        let mut neighbour = Metadata { mode: IMPLIED_MODE, owner: 0, group: 0 };
        while let Some(folder) = above {
            match self.machine.inspect(&folder).await? {
                Found::Nothing => above = folder.parent(),
                Found::Directory { metadata } => {
                    neighbour = metadata;
                    // One of ours that a crash has left half-made.
                    if let Some(Holding { after: After::Directory { metadata: wanted }, .. }) =
                        self.history().ledger.holding(&folder)
                        && *wanted != metadata
                    {
                        self.machine.make_directory(&folder, *wanted).await?;
                        neighbour = *wanted;
                    }
                    break;
                }
                found @ (Found::File { .. } | Found::Other(_)) => {
                    return Err(wrong(&folder, found, "a folder"));
                }
            }
            missing.push(folder);
        }
        let metadata = Metadata { mode: IMPLIED_MODE, ..neighbour };
        for folder in missing.into_iter().rev() {
            self.take(&folder, Before::Nothing, After::Directory { metadata }).await?;
            self.machine.make_directory(&folder, metadata).await?;
        }
        Ok(())
    }

    /// Records the path in the journal before it is written, unless it is recorded.
    pub(super) async fn take(
        &mut self,
        path: &MachinePath,
        before: Before,
        after: After,
    ) -> Result<(), StepError> {
        if self.history().ledger.holding(path).is_none_or(|holding| holding.after != after) {
            self.journal.append(Entry::Took(Holding { path: path.clone(), before, after })).await?;
        }
        Ok(())
    }

    /// Restores the state of a path before the agent wrote it, and verifies it.
    pub(super) async fn restore(&mut self, holding: &Holding) -> Result<(), MachineError> {
        let path = &holding.path;
        if let After::Unit { name, stop, .. } = &holding.after {
            self.end_unit(name, path, stop.as_ref()).await?;
        }
        match (&holding.before, &holding.after) {
            (Before::Nothing, After::Directory { .. }) => self.machine.remove_directory(path).await?,
            (Before::Nothing, after) if after.is_tree() => self.machine.remove_tree(path).await?,
            (Before::Nothing, _) => self.machine.remove_file(path).await?,
            (Before::Directory { metadata }, _) => self.machine.make_directory(path, *metadata).await?,
            (Before::File { content, metadata }, _) => {
                let bytes = self.journal.kept(*content).await;
                let bytes = bytes.map_err(|error| MachineError::io("find what was there before", error))?;
                self.machine.write(path, &bytes, *metadata).await?;
            }
        }
        if let After::Unit { name, .. } = &holding.after {
            self.forget_unit(name).await?;
        }
        self.is_restored(holding).await
    }

    /// Verifies that a path has its state before the agent wrote it.
    pub(super) async fn is_restored(&self, holding: &Holding) -> Result<(), MachineError> {
        let path = &holding.path;
        let found = self.machine.inspect(path).await?;
        let is = match (&holding.before, found) {
            (Before::Nothing, Found::Nothing) => true,
            (Before::Directory { metadata: before }, Found::Directory { metadata }) => *before == metadata,
            (Before::File { content, metadata: before }, Found::File { metadata, .. }) => {
                *before == metadata && Digest::of(&self.machine.read(path, LARGEST_KEPT).await?) == *content
            }
            _ => false,
        };
        let wanted = "what was there before";
        if let After::Unit { name, .. } = &holding.after {
            self.is_ended(name, path).await?;
        }
        if is {
            Ok(())
        } else {
            Err(MachineError::WrongKind { path: path.clone(), found: found.describe(), wanted })
        }
    }
}

pub(super) fn wrong(path: &MachinePath, found: Found, wanted: &'static str) -> StepError {
    StepError::Machine(MachineError::WrongKind { path: path.clone(), found: found.describe(), wanted })
}
