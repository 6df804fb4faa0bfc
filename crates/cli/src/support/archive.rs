//! The archive. All content passes through redaction; there is no other way to add it.

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

use super::redact;

/// What the manifest needs, although there is no room for anything else.
const FOR_MANIFEST: usize = 64 * 1024;

pub(super) struct Archive {
    tar: tar::Builder<GzEncoder<NamedTempFile>>,
    path: PathBuf,
    /// The folder in the archive.
    folder: String,
    time: u64,
    room: usize,
    files: Vec<Value>,
    left_out: Vec<Value>,
    not_read: Vec<Value>,
}

impl Archive {
    /// Creates an archive for `path`. It is written to a temporary file beside it, which only the owner can read.
    pub(super) fn create(path: &Path, force: bool, folder: &str, time: u64, room: usize) -> Result<Self> {
        if !force && path.symlink_metadata().is_ok() {
            bail!("{} exists: pass --force to replace it, or --output for another file", path.display());
        }
        let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new()
            .prefix(".capstan-support-")
            .tempfile_in(beside)
            .with_context(|| format!("cannot write to {}", beside.display()))?;
        let tar = tar::Builder::new(GzEncoder::new(file, Compression::default()));
        let (path, folder) = (path.to_owned(), folder.to_owned());
        Ok(Self { tar, path, folder, time, room, files: vec![], left_out: vec![], not_read: vec![] })
    }

    /// Adds objects, as one JSON list.
    pub(super) fn objects(&mut self, path: &str, objects: &[Value]) -> Result<()> {
        let items: Vec<Value> = objects.iter().map(redact::value).collect();
        self.json(path, &json!({"apiVersion": "v1", "kind": "List", "items": items}), objects.len())
    }

    pub(super) fn value(&mut self, path: &str, value: &Value) -> Result<()> {
        self.json(path, &redact::value(value), 1)
    }

    pub(super) fn text(&mut self, path: &str, text: &str) -> Result<()> {
        self.put(path, redact::text(text).as_bytes(), 1)
    }

    fn json(&mut self, path: &str, redacted: &Value, objects: usize) -> Result<()> {
        let text = serde_json::to_string_pretty(redacted).context("cannot write JSON")? + "\n";
        self.put(path, text.as_bytes(), objects)
    }

    fn put(&mut self, path: &str, bytes: &[u8], objects: usize) -> Result<()> {
        if bytes.len() > self.room.saturating_sub(FOR_MANIFEST) {
            self.left_out
                .push(json!({"path": path, "bytes": bytes.len(), "why": "no room left: see --max-size"}));
            return Ok(());
        }
        self.room -= bytes.len();
        self.files.push(json!({"path": path, "bytes": bytes.len(), "objects": objects}));
        self.append(path, bytes)
    }

    fn append(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.time);
        let path = format!("{}/{}", self.folder, safe(path));
        self.tar
            .append_data(&mut header, &path, bytes)
            .with_context(|| format!("cannot write {path} to the archive"))
    }

    /// Records what could not be read. Errors are redacted, because servers quote requests in them.
    pub(super) fn not_read(&mut self, what: &str, why: &str) {
        self.not_read.push(json!({"what": redact::text(what), "why": redact::text(why)}));
    }

    /// Number of read errors, and number of files that did not fit.
    pub(super) fn missing(&self) -> (usize, usize) {
        (self.not_read.len(), self.left_out.len())
    }

    /// Writes the manifest, and moves the archive to its path. Returns its size.
    pub(super) fn finish(mut self, force: bool, head: &Value) -> Result<u64> {
        let mut manifest = redact::value(head);
        manifest["files"] = Value::Array(std::mem::take(&mut self.files));
        manifest["notRead"] = Value::Array(std::mem::take(&mut self.not_read));
        manifest["leftOut"] = Value::Array(std::mem::take(&mut self.left_out));
        let text = serde_json::to_string_pretty(&manifest).context("cannot write JSON")? + "\n";
        self.append("manifest.json", text.as_bytes())?;
        let shown = self.path.display().to_string();
        let mut file = self
            .tar
            .into_inner()
            .and_then(GzEncoder::finish)
            .with_context(|| format!("cannot write {shown}"))?;
        file.flush()
            .and_then(|()| file.as_file().sync_all())
            .with_context(|| format!("cannot write {shown}"))?;
        let size = file.as_file().metadata().map_or(0, |metadata| metadata.len());
        let placed = match force {
            true => file.persist(&self.path),
            // Another process may have created the file meanwhile.
            false => file.persist_noclobber(&self.path),
        };
        placed.map_err(|error| error.error).with_context(|| format!("cannot write {shown}"))?;
        Ok(size)
    }
}

/// A path that stays in its folder, whatever objects are called.
fn safe(path: &str) -> String {
    let part = |part: &str| {
        let plain: String = part
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' })
            .collect();
        if plain.chars().all(|letter| letter == '.') { "_".to_owned() } else { plain }
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::collections::BTreeMap;
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    fn unpacked(path: &Path) -> BTreeMap<String, String> {
        let mut archive = tar::Archive::new(GzDecoder::new(std::fs::File::open(path).unwrap()));
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            files.insert(name, text);
        }
        files
    }

    #[test]
    fn what_is_put_in_is_redacted_bounded_and_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle.tar.gz");
        let room = FOR_MANIFEST + 300;
        let mut archive = Archive::create(&path, false, "bundle", 0, room).unwrap();
        archive.value("a/../b.json", &json!({"token": "hunter2"})).unwrap();
        archive.text("large.log", &"word ".repeat(200)).unwrap();
        archive.text("log", "password=hunter2\n").unwrap();
        archive.not_read("pods", "Authorization: Bearer hunter2hunter2");
        assert_eq!(archive.missing(), (1, 1));
        let size = archive.finish(false, &json!({"createdAt": "now"})).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!((metadata.permissions().mode() & 0o777, metadata.len()), (0o600, size));
        let files = unpacked(&path);
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, ["bundle/a/_/b.json", "bundle/log", "bundle/manifest.json"]);
        assert!(files.values().all(|text| !text.contains("hunter2")), "{files:?}");
        let manifest: Value = serde_json::from_str(&files["bundle/manifest.json"]).unwrap();
        assert_eq!(manifest["leftOut"][0]["path"], "large.log");
        assert_eq!(manifest["notRead"][0]["what"], "pods");
        assert_eq!(manifest["files"][1], json!({"path": "log", "bytes": 20, "objects": 1}));
    }

    #[test]
    fn a_file_that_exists_is_replaced_only_when_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle.tar.gz");
        std::fs::write(&path, "mine").unwrap();
        let error = Archive::create(&path, false, "b", 0, 1 << 20).err().unwrap().to_string();
        assert!(error.contains("bundle.tar.gz exists") && error.contains("--force"), "{error}");
        Archive::create(&path, true, "b", 0, 1 << 20).unwrap().finish(true, &json!({})).unwrap();
        assert_eq!(unpacked(&path).len(), 1);
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing is left beside it");
    }
}
