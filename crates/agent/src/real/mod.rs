//! A machine that exists: Linux.

mod facts;
mod files;
mod http;
mod process;
mod walk;

use capstan_plan::{Artifact, Digest, Facts, HttpUrl, MachinePath};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::machine::{Found, Invocation, Machine, MachineError, Metadata, Ran};

/// The machine this program runs on.
#[derive(Debug)]
pub struct Linux {
    root: Arc<OwnedFd>,
    /// Work on files whose future was dropped still goes on: the next waits for it.
    turn: Arc<Mutex<()>>,
    readers: process::Readers,
}

impl Linux {
    /// The machine, from `/` on.
    ///
    /// # Errors
    /// If `/` cannot be opened.
    pub fn new() -> io::Result<Self> {
        Self::rooted("/")
    }

    /// The machine, but its files are in this folder: for tests, and for a system that is mounted somewhere.
    /// Programs are run where this one runs.
    ///
    /// # Errors
    /// If the folder cannot be opened.
    pub fn rooted(folder: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder.as_ref(), flags, Mode::empty())?;
        Ok(Self { root: Arc::new(root), turn: Arc::default(), readers: process::Readers::default() })
    }

    /// Does something with files where it blocks nobody.
    async fn with<T, F>(&self, path: &MachinePath, work: F) -> Result<T, MachineError>
    where
        T: Send + 'static,
        F: FnOnce(&OwnedFd, &MachinePath) -> Result<T, MachineError> + Send + 'static,
    {
        let (root, turn, path) = (Arc::clone(&self.root), Arc::clone(&self.turn), path.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            work(&root, &path)
        });
        done.await.unwrap_or_else(|error| Err(MachineError::io("work on files", io::Error::other(error))))
    }
}

impl Machine for Linux {
    async fn inspect(&self, path: &MachinePath) -> Result<Found, MachineError> {
        self.with(path, files::inspect).await
    }

    async fn read(&self, path: &MachinePath, most: u64) -> Result<Vec<u8>, MachineError> {
        self.with(path, move |root, path| files::read(root, path, most)).await
    }

    async fn write(
        &self,
        path: &MachinePath,
        content: &[u8],
        metadata: Metadata,
    ) -> Result<(), MachineError> {
        let content = content.to_vec();
        self.with(path, move |root, path| files::write(root, path, &content, metadata)).await
    }

    async fn make_directory(&self, path: &MachinePath, metadata: Metadata) -> Result<(), MachineError> {
        self.with(path, move |root, path| files::make_directory(root, path, metadata)).await
    }

    async fn remove_file(&self, path: &MachinePath) -> Result<(), MachineError> {
        self.with(path, files::remove_file).await
    }

    async fn remove_directory(&self, path: &MachinePath) -> Result<(), MachineError> {
        self.with(path, files::remove_directory).await
    }

    async fn install(&self, artifact: &Artifact, _: Duration) -> Result<(), MachineError> {
        Err(MachineError::io(format!("install {}", artifact.path), io::ErrorKind::Unsupported))
    }

    async fn remove_tree(&self, path: &MachinePath) -> Result<(), MachineError> {
        Err(MachineError::io(format!("remove {path}"), io::ErrorKind::Unsupported))
    }

    async fn keep_fetched(&self, _: &BTreeSet<Digest>) -> Result<(), MachineError> {
        Ok(())
    }

    async fn run(&self, invocation: Invocation<'_>) -> Result<Ran, MachineError> {
        process::run(invocation, &self.readers).await
    }

    async fn get(&self, url: &HttpUrl, timeout: Duration) -> Result<u16, MachineError> {
        http::get(url, timeout).await
    }

    async fn facts(&self) -> Facts {
        tokio::task::spawn_blocking(facts::read).await.unwrap_or_default()
    }
}
