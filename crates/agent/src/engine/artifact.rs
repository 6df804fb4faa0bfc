//! Installs artifacts as a whole, and records the previous state of their paths.

use capstan_plan::Artifact;
use std::time::Duration;

use super::files::{LARGEST_KEPT, wrong};
use super::{Engine, StepError};
use crate::clock::Clock;
use crate::ledger::{After, Before};
use crate::machine::{Found, Machine};
use crate::store::Store;

impl<M: Machine, S: Store, C: Clock> Engine<M, S, C> {
    /// Installs the artifact of a plan at its path.
    pub(super) async fn put_artifact(
        &mut self,
        artifact: &Artifact,
        timeout: Duration,
    ) -> Result<(), StepError> {
        let path = &artifact.path;
        self.make_parents(path).await?;
        let found = self.machine.inspect(path).await?;
        let held = self.history().ledger.holding(path).map(|holding| holding.after.is_tree());
        let before = match (found, artifact.unpack.is_some()) {
            (Found::Nothing, _) => Before::Nothing,
            // A tree that is there and ours is replaced by the new one. Everything in it is ours, so that nothing of
            // it must be kept; a folder of somebody else is left alone.
            (Found::Directory { .. }, true) if held == Some(true) => Before::Nothing,
            // What was there before us is known.
            (Found::File { .. }, false) if held == Some(false) => Before::Nothing,
            (Found::File { metadata, .. }, false) if held.is_none() => {
                let bytes = self.machine.read(path, LARGEST_KEPT).await?;
                Before::File { content: self.journal.keep(&bytes).await?, metadata }
            }
            (_, true) => return Err(wrong(path, found, "free for the folder of an artifact")),
            (_, false) => return Err(wrong(path, found, "a file")),
        };
        self.take(path, before, After::from(artifact)).await?;
        Ok(self.machine.install(artifact, timeout).await?)
    }
}
