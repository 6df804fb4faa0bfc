//! Reads answers of registries: bounded in size and in time, and verified while they are read.

use capstan_agent::machine::MachineError;
use capstan_plan::Hasher;
use http_body_util::{BodyExt as _, Limited};
use hyper::header::CONTENT_LENGTH;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

use super::Layer;
use super::refusal::Refusal;
use super::session::Answer;

/// Timeout of a server that sends nothing.
const SILENCE: Duration = Duration::from_secs(60);

/// How long any download may take.
const LONGEST: Duration = Duration::from_secs(600);

/// Bytes per second that a larger download has to have.
const PACE: u64 = 16 * 1024;

/// A folder that only the user of this process can read.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Reads a small answer.
pub(super) async fn to_memory(answer: Answer, most: usize) -> Result<Vec<u8>, Refusal> {
    let Answer { response, connection: _connection } = answer;
    let body = timeout(LONGEST, Limited::new(response.into_body(), most).collect()).await;
    let body = body.map_err(|_| Refusal::passing("it took too long to answer"))?;
    let body = body.map_err(|error| match error.downcast::<http_body_util::LengthLimitError>() {
        Ok(_) => Refusal::lasting(format!("it sent more than {most} bytes")),
        Err(error) => Refusal::passing(error),
    })?;
    Ok(body.to_bytes().to_vec())
}

/// Downloads a layer. The file has its name only when it is whole.
pub(super) async fn to_file(answer: Answer, path: &Path, layer: Layer) -> Result<(), Refusal> {
    let Answer { mut response, connection: _connection } = answer;
    let length =
        response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length != layer.size) {
        return Err(Refusal::lasting(format!(
            "it would send {} bytes of the layer {}, and {} were announced",
            length.unwrap_or_default(),
            layer.digest,
            layer.size
        )));
    }
    let deadline = Instant::now() + LONGEST + Duration::from_secs(layer.size / PACE);
    let mut part = Part::create(path)?;
    loop {
        let next = timeout_at(deadline.min(Instant::now() + SILENCE), response.body_mut().frame()).await;
        let Some(frame) =
            next.map_err(|_| Refusal::passing("it has stopped sending, or sends too slowly"))?
        else {
            break;
        };
        if let Ok(bytes) = frame.map_err(Refusal::passing)?.into_data() {
            part = blocking(move || part.push(&bytes, layer.size).map(|()| part)).await?;
        }
    }
    blocking(move || part.finish(layer)).await
}

/// A layer that is being downloaded.
struct Part {
    file: File,
    part: PathBuf,
    path: PathBuf,
    size: u64,
    hasher: Hasher,
}

impl Part {
    fn create(path: &Path) -> Result<Self, Refusal> {
        let part = path.with_extension("part");
        let opened = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&part);
        let file = opened.map_err(of_disk(&part))?;
        Ok(Self { file, part, path: path.to_owned(), size: 0, hasher: Hasher::default() })
    }

    fn push(&mut self, bytes: &[u8], most: u64) -> Result<(), Refusal> {
        self.size = self.size.saturating_add(bytes.len() as u64);
        if self.size > most {
            return Err(Refusal::lasting(format!("it sent more than the {most} bytes that were announced")));
        }
        self.hasher.update(bytes);
        self.file.write_all(bytes).map_err(of_disk(&self.part))
    }

    fn finish(self, layer: Layer) -> Result<(), Refusal> {
        if self.size < layer.size {
            return Err(Refusal::passing(format!("it ended after {} of {} bytes", self.size, layer.size)));
        }
        let found = self.hasher.finish();
        if found != layer.digest {
            return Err(Refusal::lasting(format!("the layer {} has the digest {found}", layer.digest)));
        }
        capstan_files::publish(&self.part, &self.path).map_err(|error| of_disk(&self.path)(error.source))
    }
}

fn of_disk(path: &Path) -> impl FnOnce(io::Error) -> Refusal {
    let what = format!("write {}", path.display());
    move |error| Refusal::Disk(MachineError::io(what, error))
}

async fn blocking<T, F>(work: F) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, Refusal> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.map_err(Refusal::passing)?
}
