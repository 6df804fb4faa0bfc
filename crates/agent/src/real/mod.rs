//! The implementation of a machine for Linux.

mod cache;
mod cancel;
mod command;
mod facts;
mod files;
mod http;
mod http_get;
mod image;
mod install;
mod process;
mod real_path;
mod stamp;
mod tree;
mod unpack;
mod verify;
mod walk;

pub use command::{RunningCommand, running_commands, supervise};

use capstan_plan::{Artifact, Digest, Facts, HttpUrl, HttpsTarget, MachinePath, TcpAddress};
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cache::Cache;
use cancel::Cancel;
use command::Commands;

use crate::image::ImageReference;
use crate::machine::{
    CommandKey, Found, HttpGet, Invocation, Machine, MachineError, Metadata, Ran, Resumed, Surroundings,
};
use crate::route::Route;

/// The machine that this program runs on.
#[derive(Debug)]
pub struct Linux {
    root: Arc<OwnedFd>,
    /// Work on files continues if its future is dropped: the next operation waits for it.
    write_lock: Arc<Mutex<()>>,
    readers: process::Readers,
    cache: Cache,
    /// `None`: every program ends with this process.
    commands: Option<Commands>,
}

/// The cache of downloaded artifacts.
const CACHE: &str = "var/lib/capstan/cache";

impl Linux {
    /// The machine, with `/` as root.
    ///
    /// # Errors
    /// If `/` cannot be opened.
    pub fn new() -> io::Result<Self> {
        Self::rooted("/")
    }

    /// A machine with its files in this folder, for tests and mounted systems. Programs run on this machine.
    ///
    /// # Errors
    /// If the folder cannot be opened.
    pub fn rooted(folder: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder.as_ref(), flags, Mode::empty())?;
        let cache = Cache::new(folder.as_ref().join(CACHE));
        let (write_lock, readers) = (Arc::default(), process::Readers::default());
        Ok(Self { root: Arc::new(root), write_lock, readers, cache, commands: None })
    }

    /// Caches downloaded artifacts in this folder.
    #[must_use]
    pub fn caching_in(self, folder: impl Into<PathBuf>) -> Self {
        Self { cache: self.cache.at(folder.into()), ..self }
    }

    /// Reaches servers of the management plane this way.
    #[must_use]
    pub fn through(self, route: Route) -> Self {
        Self { cache: self.cache.through(route), ..self }
    }

    /// Lets commands outlive this process: each is started by a supervisor, with its records in this folder.
    /// `supervisor` are the arguments of a program that calls [`supervise`] with its last argument.
    #[must_use]
    pub fn supervising(self, folder: impl Into<PathBuf>, supervisor: Vec<OsString>) -> Self {
        Self { commands: Some(Commands::new(folder.into(), supervisor)), ..self }
    }

    async fn install(&self, artifact: &Artifact) -> Result<(), MachineError> {
        let cancel = Cancel::default();
        let (wanted, flag) = (artifact.clone(), cancel.flag());
        if self.with(&artifact.path, move |root, _| install::is_there(root, &wanted, &flag)).await? {
            return Ok(());
        }
        let fetched = self.cache.get(&self.root, artifact).await?;
        let (wanted, source, flag) = (artifact.clone(), fetched.clone(), cancel.flag());
        let put = self.with(&artifact.path, move |root, _| install::put(root, &wanted, &source, &flag)).await;
        if let Err(MachineError::Io { source, .. }) = &put
            && source.to_string() == install::CHANGED
        {
            // The next attempt fetches it again.
            let _ = std::fs::remove_file(fetched);
        }
        put
    }

    /// Runs an operation on files on a thread that may block.
    async fn with<T, F>(&self, path: &MachinePath, work: F) -> Result<T, MachineError>
    where
        T: Send + 'static,
        F: FnOnce(&OwnedFd, &MachinePath) -> Result<T, MachineError> + Send + 'static,
    {
        let (root, write_lock, path) = (Arc::clone(&self.root), Arc::clone(&self.write_lock), path.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _write_lock = write_lock.lock().unwrap_or_else(PoisonError::into_inner);
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

    async fn install(&self, artifact: &Artifact, timeout: Duration) -> Result<(), MachineError> {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "it took too long");
        let work = tokio::time::timeout(timeout, self.install(artifact));
        work.await.map_err(|_| MachineError::io(format!("install {}", artifact.path), late()))?
    }

    async fn is_installed(&self, artifact: &Artifact) -> Result<Option<bool>, MachineError> {
        let cancel = Cancel::default();
        let (wanted, fetched, flag) = (artifact.clone(), self.cache.place(artifact.sha256), cancel.flag());
        self.with(&artifact.path, move |root, path| match wanted.unpack {
            // Where the folder above is missing, so is it.
            _ if files::inspect(root, path)? == Found::Nothing => Ok(Some(false)),
            None => install::is_there(root, &wanted, &flag).map(Some),
            Some(sort) => verify::tree(root, &wanted, &fetched, sort, &flag),
        })
        .await
    }

    async fn stamp(&self, path: &MachinePath) -> Result<Option<Digest>, MachineError> {
        let cancel = Cancel::default();
        let flag = cancel.flag();
        self.with(path, move |root, path| stamp::of(root, path, &flag)).await
    }

    async fn remove_tree(&self, path: &MachinePath) -> Result<(), MachineError> {
        self.with(path, tree::remove_at).await
    }

    async fn keep_fetched(&self, digests: &BTreeSet<Digest>) -> Result<(), MachineError> {
        let (cache, digests) = (self.cache.clone(), digests.clone());
        let kept = tokio::task::spawn_blocking(move || cache.keep_only(&digests)).await;
        kept.map_err(io::Error::other)
            .and_then(|kept| kept)
            .map_err(|error| MachineError::io("tidy up what was fetched", error))
    }

    async fn run(&self, invocation: Invocation<'_>) -> Result<Ran, MachineError> {
        self.run_in(invocation, &Surroundings::default()).await
    }

    async fn run_in(
        &self,
        invocation: Invocation<'_>,
        surroundings: &Surroundings,
    ) -> Result<Ran, MachineError> {
        match (&self.commands, invocation.key) {
            (Some(commands), Some(key)) => commands.run(key, &invocation, surroundings).await,
            _ => process::run(invocation, surroundings, &self.readers).await,
        }
    }

    async fn commands(&self) -> Result<Vec<CommandKey>, MachineError> {
        self.commands.as_ref().map_or(Ok(Vec::new()), Commands::keys)
    }

    async fn resume(&self, key: &CommandKey) -> Result<Resumed, MachineError> {
        match &self.commands {
            Some(commands) => commands.resume(key).await,
            None => Ok(Resumed::Nothing),
        }
    }

    async fn dismiss(&self, key: &CommandKey) -> Result<(), MachineError> {
        match &self.commands {
            Some(commands) => commands.dismiss(key).await,
            None => Ok(()),
        }
    }

    async fn cancel(&self, key: &CommandKey) -> Result<Resumed, MachineError> {
        match &self.commands {
            Some(commands) => commands.cancel(key).await,
            None => Ok(Resumed::Nothing),
        }
    }

    async fn get(&self, url: &HttpUrl, timeout: Duration) -> Result<u16, MachineError> {
        http::get(url, timeout).await
    }

    async fn get_https(&self, target: &HttpsTarget, timeout: Duration) -> Result<u16, MachineError> {
        let read = async |path: &MachinePath| self.read(path, http::LARGEST_PEM).await;
        let ca = match &target.ca {
            Some(path) => Some(read(path).await?),
            None => None,
        };
        let client = match &target.client {
            Some(client) => Some((read(&client.certificate).await?, read(&client.key).await?)),
            None => None,
        };
        http::get_https(&target.url, ca, client, timeout).await
    }

    async fn connect(&self, address: &TcpAddress, timeout: Duration) -> Result<(), MachineError> {
        http::connect(address, timeout).await
    }

    async fn modified(&self, path: &MachinePath) -> Result<Option<Timestamp>, MachineError> {
        self.with(path, files::modified).await
    }

    async fn http_get(&self, request: &HttpGet, timeout: Duration) -> Result<u16, MachineError> {
        http_get::get(self, request, timeout).await
    }

    async fn unpack_image(
        &self,
        image: &ImageReference,
        images: &MachinePath,
        into: &MachinePath,
        owner: (u32, u32),
    ) -> Result<bool, MachineError> {
        let (image, images) = (image.clone(), images.clone());
        self.with(into, move |root, into| image::unpack_image(root, &image, &images, into, owner)).await
    }

    async fn unpack_layers(
        &self,
        layers: &[Digest],
        blobs: &MachinePath,
        into: &MachinePath,
        owner: (u32, u32),
    ) -> Result<(), MachineError> {
        let (layers, blobs) = (layers.to_vec(), blobs.clone());
        self.with(into, move |root, into| image::unpack_layers(root, &layers, &blobs, into, owner)).await
    }

    async fn real_path(&self, path: &MachinePath) -> Result<MachinePath, MachineError> {
        self.with(path, real_path::of).await
    }

    async fn facts(&self) -> Facts {
        tokio::task::spawn_blocking(facts::read).await.unwrap_or_default()
    }
}
