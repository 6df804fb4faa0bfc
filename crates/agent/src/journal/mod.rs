//! The journal: every action is recorded before and after, and each record is durable.
//!
//! It consists of append-only lines. Their summary is the [`History`]; nothing else about a plan is stored, so the
//! agent has the same state before and after a crash.

mod archive;
mod entry;
mod history;
mod lines;

pub use archive::{archived, joined};
pub use entry::{Class, Entry, Failure, Outcome};
pub use history::{Attempt, Current, End, History, OnceRun, OpenAttempt, Start, Tries};
pub use lines::{Decoded, UnreadableJournal, decode, encode};

use capstan_plan::{Digest, EnvVar, Undo};
use std::io;

use crate::owed::{OwedUndo, OwedVariable};
use crate::store::Store;

/// A larger journal is replaced by the summary of its lines.
const LARGE: usize = 512 * 1024;

/// Why the journal cannot be used. Then the agent must do nothing.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The store fails.
    #[error("cannot {what} the journal: {source}")]
    Store {
        /// The operation.
        what: &'static str,
        /// The error of the store.
        source: io::Error,
    },
    /// The journal is damaged, or was written by a later version.
    #[error(transparent)]
    Unreadable(#[from] UnreadableJournal),
    /// An earlier write failed, so that the content of the disk is unknown.
    #[error("an earlier write to the journal failed; the journal must be opened again")]
    Failed,
}

impl JournalError {
    fn store(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Store { what, source }
    }
}

/// An open journal.
#[derive(Debug)]
pub struct Journal<S> {
    store: S,
    history: History,
    next: u64,
    size: usize,
    failed: bool,
}

impl<S: Store> Journal<S> {
    /// Reads the journal. A last line that was torn by a crash is dropped: what it announced had not begun.
    ///
    /// # Errors
    /// If the store fails, a line other than the last is damaged, or a line is of a later version and does not only inform.
    pub async fn open(mut store: S) -> Result<Self, JournalError> {
        let bytes = store.load().await.map_err(JournalError::store("read"))?;
        let decoded = decode(&bytes)?;
        let mut history = History::default();
        let next = decoded.lines;
        decoded.entries.into_iter().for_each(|entry| history.record(entry));
        if decoded.whole < bytes.len() {
            store.replace(&bytes[..decoded.whole]).await.map_err(JournalError::store("repair"))?;
        }
        store.keep_only(&history.ledger.kept()).await.map_err(JournalError::store("tidy"))?;
        Ok(Self { store, history, next, size: decoded.whole, failed: false })
    }

    /// The state that follows from all lines.
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// Returns the store.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Writes a line. When it returns, the line is durable and part of the history.
    pub(crate) async fn append(&mut self, entry: Entry) -> Result<(), JournalError> {
        let line = encode(self.next, &entry);
        self.write(async |store| store.append(&line).await.map_err(JournalError::store("write"))).await?;
        self.next += 1;
        self.size += line.len();
        self.history.record(entry);
        Ok(())
    }

    /// Replaces the journal by its summary if it has become large.
    pub(crate) async fn tidy(&mut self) -> Result<(), JournalError> {
        if self.size < LARGE {
            return Ok(());
        }
        self.summarize(self.history.clone()).await
    }

    /// Replaces the journal by this summary. The attempts in it, with their output, are archived.
    async fn summarize(&mut self, history: History) -> Result<(), JournalError> {
        // Nothing depends on it: without room, the archive stays as it is.
        let _ = self.archive().await;
        self.start_anew(encode(0, &Entry::Snapshot(Box::new(history.clone()))), 1).await?;
        self.history = history;
        Ok(())
    }

    async fn archive(&mut self) -> io::Result<()> {
        let journal = decode(&self.store.load().await?).map_err(io::Error::other)?.entries;
        let known = self.store.archive().await?.unwrap_or_default();
        let archive = archive::attempts(joined(archived(&known), journal));
        self.store.put_archive(&archive::pack(&archive)?).await
    }

    /// Removes everything after a reset.
    pub(crate) async fn forget(&mut self) -> Result<(), JournalError> {
        self.forget_plan().await?;
        self.write(async |store| {
            store.forget_archive().await.map_err(JournalError::store("forget the archive of"))
        })
        .await?;
        self.write(async |store| {
            store.forget_runs().await.map_err(JournalError::store("forget the runs of"))
        })
        .await?;
        self.start_anew(Vec::new(), 0).await?;
        self.history = History::default();
        self.drop_surplus().await
    }

    async fn start_anew(&mut self, bytes: Vec<u8>, next: u64) -> Result<(), JournalError> {
        self.write(async |store| store.replace(&bytes).await.map_err(JournalError::store("rewrite"))).await?;
        self.next = next;
        self.size = bytes.len();
        Ok(())
    }

    /// Keeps the content of a file that is about to be replaced.
    pub(crate) async fn keep(&mut self, content: &[u8]) -> Result<Digest, JournalError> {
        let digest = Digest::of(content);
        self.write(async |store| {
            store.keep(digest, content).await.map_err(JournalError::store("keep a file in"))
        })
        .await?;
        Ok(digest)
    }

    /// Keeps the secret values of an undo, and returns the undo without them.
    pub(crate) async fn keep_secrets(
        &mut self,
        undo: &Undo,
        secrets: &[&[u8]],
    ) -> Result<OwedUndo, JournalError> {
        let (owed, hidden) = OwedUndo::hide(undo, secrets);
        for value in hidden {
            self.keep(&value).await?;
        }
        Ok(owed)
    }

    /// An undo with the values of all its variables.
    pub(crate) async fn undo(&mut self, owed: &OwedUndo) -> io::Result<Undo> {
        let mut env = Vec::new();
        for variable in &owed.env {
            env.push(match variable {
                OwedVariable::Plain(variable) => variable.clone(),
                OwedVariable::Kept(variable) => {
                    let value = String::from_utf8(self.kept(variable.kept).await?);
                    EnvVar::secret(&variable.name, value.map_err(io::Error::other)?)
                }
            });
        }
        Ok(Undo { argv: owed.argv.clone(), env })
    }

    /// Removes secret values from a journal of the first release. Earlier lines are replaced by their summary.
    pub(crate) async fn hide_secrets(&mut self) -> Result<(), JournalError> {
        let shown: Vec<OwedUndo> =
            self.history.ledger.undos().filter(|undo| undo.shows_secrets()).cloned().collect();
        if shown.is_empty() {
            return Ok(());
        }
        let mut hidden = Vec::new();
        for owed in shown {
            let undo = self.undo(&owed).await.map_err(JournalError::store("read"))?;
            hidden.push((owed, self.keep_secrets(&undo, &[]).await?));
        }
        let mut history = self.history.clone();
        history.ledger.replace_undos(|undo| {
            hidden.iter().find(|(shown, _)| shown == undo).map_or(undo, |(_, hidden)| hidden).clone()
        });
        self.summarize(history).await
    }

    /// Content that was kept.
    pub(crate) async fn kept(&mut self, digest: Digest) -> io::Result<Vec<u8>> {
        self.store.kept(digest).await
    }

    /// Stores the accepted plan beside the journal, as received.
    pub(crate) async fn put_plan(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.store.put_plan(bytes).await
    }

    /// The accepted plan, as received.
    pub(crate) async fn plan(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.store.plan().await
    }

    /// Removes the accepted plan.
    pub(crate) async fn forget_plan(&mut self) -> Result<(), JournalError> {
        self.write(async |store| store.forget_plan().await.map_err(JournalError::store("forget the plan of")))
            .await
    }

    /// Stores the last runs of periodic commands beside the journal.
    pub(crate) async fn put_runs(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.store.put_runs(bytes).await
    }

    /// The last runs of periodic commands.
    pub(crate) async fn runs(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.store.runs().await
    }

    /// Removes kept content that is no longer needed.
    pub(crate) async fn drop_surplus(&mut self) -> Result<(), JournalError> {
        let wanted = self.history.ledger.kept();
        self.write(async |store| store.keep_only(&wanted).await.map_err(JournalError::store("tidy"))).await
    }

    /// After a failed write the content of the disk is unknown until it is read again.
    async fn write(
        &mut self,
        work: impl AsyncFnOnce(&mut S) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::Failed);
        }
        self.failed = true;
        work(&mut self.store).await?;
        self.failed = false;
        Ok(())
    }
}
