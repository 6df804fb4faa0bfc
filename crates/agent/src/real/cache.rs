//! A cache of downloaded artifacts, by digest. Downloads are bounded, verified while they are read, continued after an
//! interruption, and never held in memory as a whole.

use bytes::Bytes;
use capstan_plan::{Artifact, Digest, Hasher, HttpsUrl, Source, SourceUrl};
use http_body_util::{BodyExt as _, Full};
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, HOST, RANGE, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

use super::cancel::Cancel;
use super::files;
use crate::https::{Connection, Trust};
use crate::machine::{MachineError, is_full, remedy};
use crate::route::Route;

/// Timeout of a source that sends nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// Bytes that are read at once.
const PIECE: usize = 128 * 1024;

/// Why a source does not provide an artifact.
struct Refusal {
    reason: String,
    transient: bool,
    /// The disk of this machine is full.
    is_full: bool,
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
impl Refusal {
    fn passing(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), transient: true, is_full: false }
    }

    fn lasting(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), transient: false, is_full: false }
    }

    /// The artifact cannot be written.
    fn of_disk(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |error| Self {
            reason: format!("cannot write {path}: {error}{}", remedy(&error)),
            transient: true,
            is_full: is_full(&error),
        }
    }
}

/// The folder of downloaded artifacts.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// How servers of the management plane are reached, which are those with a CA of their own.
    route: Route,
}

impl Cache {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, route: Route::default() }
    }

    /// The same in another folder.
    pub(super) fn at(self, folder: PathBuf) -> Self {
        Self { folder, ..self }
    }

    /// The same, with servers of the management plane reached this way.
    pub(super) fn through(self, route: Route) -> Self {
        Self { route, ..self }
    }

    /// The path of an artifact, if it was downloaded.
    pub(super) fn place(&self, digest: Digest) -> PathBuf {
        self.folder.join(digest.to_string())
    }

    /// The path of an artifact, downloaded from the first source that provides it if necessary.
    pub(super) async fn get(
        &self,
        root: &Arc<OwnedFd>,
        artifact: &Artifact,
    ) -> Result<PathBuf, MachineError> {
        let path = self.place(artifact.sha256);
        if path.exists() {
            return Ok(path);
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|error| MachineError::io("make the folder of what is fetched", error))?;
        let mut reasons = Vec::new();
        let (mut transient, mut is_full) = (false, false);
        for source in &artifact.sources {
            match self.fetch(root, source, artifact).await {
                Ok(()) => return Ok(path),
                Err(refusal) => {
                    transient |= refusal.transient;
                    is_full |= refusal.is_full;
                    reasons.push(format!("{}: {}", without_query(&source.url), refusal.reason));
                }
            }
        }
        Err(MachineError::NotFetched { reasons: reasons.join("; "), transient, is_full })
    }

    async fn fetch(&self, root: &Arc<OwnedFd>, source: &Source, artifact: &Artifact) -> Result<(), Refusal> {
        let (digest, size) = (artifact.sha256, artifact.size);
        match &source.url {
            SourceUrl::File(path) => {
                let cancel = Cancel::default();
                let (root, path, flag) = (Arc::clone(root), path.clone(), cancel.flag());
                let mut part = self.part(digest, false).await?;
                let part = blocking(move || {
                    let mut source = files::open(&root, &path).map_err(Refusal::lasting)?;
                    let mut buffer = vec![0; PIECE];
                    loop {
                        flag.check().map_err(Refusal::passing)?;
                        match source.read(&mut buffer).map_err(Refusal::passing)? {
                            0 => return Ok(part),
                            length => part.push(&buffer[..length], size)?,
                        }
                    }
                });
                self.keep(part.await?, digest, size).await
            }
            SourceUrl::Https(url) => {
                let begun = self.part(digest, true).await?;
                let was_begun = begun.size > 0;
                match self.download(url, source, begun, digest, size).await {
                    // What another source has sent may have been wrong: once more, from the beginning.
                    Err(refusal) if was_begun && !refusal.transient => {
                        let anew = self.part(digest, false).await?;
                        self.download(url, source, anew, digest, size).await
                    }
                    done => done,
                }
            }
        }
    }

    async fn download(
        &self,
        url: &HttpsUrl,
        source: &Source,
        mut part: Part,
        digest: Digest,
        size: u64,
    ) -> Result<(), Refusal> {
        if part.size < size {
            // Held until all is there: without it nothing more comes.
            let (_connection, mut answer) = ask(url, source, &self.route, part.size).await?;
            part = self.continue_with(part, &answer, digest, size).await?;
            while let Some(frame) = timeout(SILENCE, answer.body_mut().frame())
                .await
                .map_err(|_| Refusal::passing("it has stopped sending"))?
            {
                let frame = frame.map_err(Refusal::passing)?;
                if let Ok(bytes) = frame.into_data() {
                    part = blocking(move || part.push(&bytes, size).map(|()| part)).await?;
                }
            }
        }
        self.keep(part, digest, size).await
    }

    /// Whether the response continues the partial download, starts from the beginning, or is an error.
    async fn continue_with<B>(
        &self,
        part: Part,
        answer: &Response<B>,
        digest: Digest,
        size: u64,
    ) -> Result<Part, Refusal> {
        let status = answer.status();
        let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let part = match status {
            StatusCode::OK if part.size == 0 => part,
            StatusCode::OK => self.part(digest, false).await?,
            StatusCode::PARTIAL_CONTENT => {
                let goes_on = format!("bytes {}-", part.size);
                match header(CONTENT_RANGE) {
                    Some(range) if part.size > 0 && range.starts_with(&goes_on) => part,
                    _ => return Err(Refusal::lasting("it sent another range than requested")),
                }
            }
            _ if status.is_redirection() => {
                return Err(Refusal::lasting(format!(
                    "it answered {status}, and redirections are not followed"
                )));
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                return Err(Refusal::passing(format!("it answered {status}")));
            }
            _ if status.is_client_error() => return Err(Refusal::lasting(format!("it answered {status}"))),
            _ => return Err(Refusal::passing(format!("it answered {status}"))),
        };
        match header(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok()) {
            Some(length) if length != size - part.size => Err(Refusal::lasting(format!(
                "it would send {} bytes in all, and the plan says {size}",
                part.size.saturating_add(length)
            ))),
            _ => Ok(part),
        }
    }

    /// The partial download of an artifact; empty to start from the beginning.
    async fn part(&self, digest: Digest, goes_on: bool) -> Result<Part, Refusal> {
        let path = self.folder.join(format!("{digest}.part"));
        blocking(move || Part::open(path.clone(), goes_on).map_err(Refusal::of_disk(&path))).await
    }

    /// Accepts a download if its digest matches.
    async fn keep(&self, part: Part, digest: Digest, size: u64) -> Result<(), Refusal> {
        if part.size < size {
            return Err(Refusal::passing(format!("it ended after {} of {size} bytes", part.size)));
        }
        let (path, found) = (part.path.clone(), part.hasher.clone().finish());
        if found != digest {
            // Whatever it is, it is not to be gone on with.
            let _ = blocking(move || fs::remove_file(path).map_err(Refusal::passing)).await;
            return Err(Refusal::lasting(format!("what it sent has the digest {found}")));
        }
        let place = self.folder.join(digest.to_string());
        let put = move || -> io::Result<()> {
            part.file.sync_all()?;
            capstan_files::publish(&part.path, &place).map_err(|error| error.source)
        };
        let folder = self.folder.clone();
        blocking(move || put().map_err(Refusal::of_disk(&folder))).await
    }

    /// Removes all artifacts except these, and partial downloads.
    pub(super) fn keep_only(&self, digests: &BTreeSet<Digest>) -> io::Result<()> {
        let wanted: BTreeSet<String> = digests.iter().map(Digest::to_string).collect();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| wanted.contains(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// The partial download.
struct Part {
    path: PathBuf,
    file: File,
    size: u64,
    hasher: Hasher,
}

impl Part {
    fn open(path: PathBuf, goes_on: bool) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(!goes_on)
            .mode(0o600)
            .open(&path)?;
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; PIECE];
        let mut size = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                length => {
                    hasher.update(&buffer[..length]);
                    size += length as u64;
                }
            }
        }
        file.seek(SeekFrom::Start(size))?;
        Ok(Self { path, file, size, hasher })
    }

    fn push(&mut self, bytes: &[u8], most: u64) -> Result<(), Refusal> {
        if self.size + bytes.len() as u64 > most {
            return Err(Refusal::lasting(format!("it has more than {most} bytes")));
        }
        self.file.write_all(bytes).map_err(Refusal::of_disk(&self.path))?;
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }
}

async fn ask(
    url: &HttpsUrl,
    source: &Source,
    route: &Route,
    from: u64,
) -> Result<(Connection, Response<hyper::body::Incoming>), Refusal> {
    let trust = match &source.ca {
        Some(ca) => Trust::pinned(ca.as_bytes()),
        None => Trust::system(),
    };
    let trust = trust.map_err(Refusal::lasting)?;
    let own = source.ca.as_ref().and_then(|_| route.to(url.host(), url.port()));
    let proxy = source.proxy.as_ref().or(own);
    let connection = Connection::open_through(proxy, &trust, url.host(), url.port()).await;
    let mut connection = connection.map_err(Refusal::passing)?;
    let mut request = Request::get(url.path())
        .header(HOST, url.authority())
        .header(USER_AGENT, concat!("capstan-agent/", env!("CARGO_PKG_VERSION")));
    if from > 0 {
        request = request.header(RANGE, format!("bytes={from}-"));
    }
    let request = request.body(Full::new(Bytes::new())).map_err(Refusal::lasting)?;
    let answer = timeout(SILENCE, connection.send(request)).await;
    let answer =
        answer.map_err(|_| Refusal::passing("there was no answer in time"))?.map_err(Refusal::passing)?;
    Ok((connection, answer))
}

/// The URL without parts that may be secret.
fn without_query(url: &SourceUrl) -> String {
    let text = url.to_string();
    text.split('?').next().unwrap_or_default().to_owned()
}

async fn blocking<T, F>(work: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Refusal> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.map_err(Refusal::passing)?
}
