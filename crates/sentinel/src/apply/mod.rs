//! Applies plans through a [`Machine`].
//!
//! One-time instructions are recorded in the [`Progress`] of their run, and each command in the record that its
//! supervisor keeps. So at every moment in which this process may end:
//!
//! | it ends | what the next process does |
//! |---|---|
//! | before the progress is written | begins, with the files |
//! | while a command runs | waits for it, and takes its result |
//! | after the command has ended, before that is written | takes its result |
//! | together with the command | runs this instruction again, and none before it |
//! | after the last one, before the report | reports |

mod commands;
mod files;
mod images;
mod probes;

pub use images::{Pulled, Registry};

use capstan_agent::Machine;
use capstan_agent::machine::{CommandKey, Found, MachineError, Metadata};
use capstan_plan::{Digest, MachinePath};
use jiff::Timestamp;
use std::path::PathBuf;

use crate::output::Saved;
use crate::plan::Plan;
use crate::progress::{Identity, Progress};
use crate::report::Outcome;
use crate::work;

/// Largest file with progress.
const PROGRESS: u64 = 512 * 1024 * 1024;

/// How this machine applies plans.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder for execution folders.
    pub work: MachinePath,
    /// Folder for progress.
    pub state: MachinePath,
    /// Folder with archives of images.
    pub images: MachinePath,
    /// Whether execution folders are kept.
    pub preserves: bool,
    /// The folder that stands for `/`: commands get paths below it.
    pub root: PathBuf,
    /// Environment of all commands.
    pub environment: Vec<(String, String)>,
    /// User and group of this process.
    pub owner: (u32, u32),
}

/// Applies plans.
#[derive(Debug)]
pub struct Applier<M, R> {
    machine: M,
    registry: R,
    settings: Settings,
}

/// A run that cannot begin or continue for now, such as with a full disk. It has not failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot apply the plan for now: {0}")]
pub struct Postponed(#[from] MachineError);

impl<M: Machine, R: Registry> Applier<M, R> {
    /// Applies plans on this machine, with images of this registry.
    pub const fn new(machine: M, registry: R, settings: Settings) -> Self {
        Self { machine, registry, settings }
    }

    /// Runs a plan: its files, then its one-time instructions. A run that an earlier process has begun is continued, and
    /// one that has ended is returned as it ended. `saved` is output of earlier runs, which stays.
    ///
    /// # Errors
    /// If the run cannot begin or continue for now.
    pub async fn run(
        &self,
        identity: &Identity,
        plan: &Plan,
        attempt: u64,
        saved: Saved,
        now: Timestamp,
    ) -> Result<Outcome, Postponed> {
        let mut progress = match self.progress(identity).await? {
            Some(progress) => progress,
            None => {
                let mut progress = Progress::new(identity.clone(), now, attempt, saved);
                if let Err(message) = self.files(plan).await? {
                    progress.ended = Some(message);
                }
                if !self.settings.preserves {
                    self.machine.remove_tree(&self.settings.work).await?;
                }
                self.write(&progress).await?;
                progress
            }
        };
        while progress.ended.is_none() {
            match plan.instructions.get(progress.done) {
                None => progress.ended = Some(String::new()),
                Some(instruction) => match self.instruction(&mut progress, instruction).await? {
                    Ok(()) => progress.done += 1,
                    Err(message) => progress.ended = Some(message),
                },
            }
            self.write(&progress).await?;
        }
        let message = progress.ended.unwrap_or_default();
        let succeeded = message.is_empty();
        Ok(Outcome { succeeded, saved: progress.saved, message, began: progress.began })
    }

    /// Forgets a run that was reported.
    ///
    /// # Errors
    /// If the machine cannot.
    pub async fn forget(&self, identity: &Identity) -> Result<(), Postponed> {
        // The progress first: without it, no process looks for the commands of the run.
        self.machine.remove_file(&self.file(identity)?).await?;
        for key in self.machine.commands().await? {
            if matches!(&key, CommandKey::Instruction { plan, periodic: false, .. } if *plan == identity.checksum)
            {
                self.machine.dismiss(&key).await?;
            }
        }
        Ok(())
    }

    /// Files of a plan. The inner error is that of the plan.
    async fn files(&self, plan: &Plan) -> Result<Result<(), String>, Postponed> {
        let files = match work::check(plan) {
            Ok(files) => files,
            Err(invalid) => return Ok(Err(invalid.to_string())),
        };
        for (number, file) in files.iter().enumerate() {
            match self.change(file).await {
                Err(error) if error.is_full() => return Err(error.into()),
                Err(error) => return Ok(Err(format!("files[{number}]: {error}"))),
                Ok(()) => {}
            }
        }
        Ok(Ok(()))
    }

    async fn progress(&self, identity: &Identity) -> Result<Option<Progress>, Postponed> {
        let file = self.file(identity)?;
        if self.machine.inspect(&file).await? == Found::Nothing {
            return Ok(None);
        }
        let bytes = self.machine.read(&file, PROGRESS).await?;
        Ok(Progress::parse(&bytes, identity))
    }

    async fn write(&self, progress: &Progress) -> Result<(), Postponed> {
        let file = self.file(&progress.identity)?;
        self.make_folders(&self.settings.state, 0o700).await?;
        Ok(self.machine.write(&file, &progress.to_bytes(), self.own(0o600)).await?)
    }

    /// One file for each source: a source has one run at a time.
    fn file(&self, identity: &Identity) -> Result<MachinePath, MachineError> {
        let name = Digest::of(identity.source.as_bytes()).short();
        self.below(&self.settings.state, &format!("progress-{name}.json"))
    }

    fn below(&self, folder: &MachinePath, name: &str) -> Result<MachinePath, MachineError> {
        let path = format!("{folder}/{name}");
        let too_long = |_| MachineError::io(format!("use {path}"), std::io::ErrorKind::InvalidFilename);
        MachinePath::new(path.clone()).map_err(too_long)
    }

    fn own(&self, mode: u32) -> Metadata {
        let (owner, group) = self.settings.owner;
        Metadata { mode, owner, group }
    }
}
