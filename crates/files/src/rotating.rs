//! A log that does not grow without limit: a full file is kept under another name, and the oldest of those is deleted.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// How much of a log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// A file of this size is full.
    pub bytes: u64,
    /// Full files that are kept beside the current one.
    pub files: usize,
}

/// A file that is written line by line. Full files are `NAME.1`, the newest, to `NAME.N`.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    mode: u32,
    rotation: Rotation,
    file: BufWriter<File>,
    written: u64,
}

impl RotatingFile {
    /// Opens a file to write at its end, with exactly this mode.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, mode: u32, rotation: Rotation) -> io::Result<Self> {
        let (file, written) = open(path, mode)?;
        Ok(Self { path: path.to_owned(), mode, rotation, file: BufWriter::new(file), written })
    }

    /// Adds a line, which has its end. It may wait in memory until [`RotatingFile::flush`].
    ///
    /// # Errors
    /// If it cannot be written, or a full file cannot be renamed.
    pub fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.written > 0 && self.written.saturating_add(length) > self.rotation.bytes {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.written = self.written.saturating_add(length);
        Ok(())
    }

    /// Writes what waits in memory.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        for number in (1..self.rotation.files).rev() {
            match fs::rename(self.kept(number), self.kept(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.rotation.files {
            0 => fs::remove_file(&self.path)?,
            _ => fs::rename(&self.path, self.kept(1))?,
        }
        let (file, written) = open(&self.path, self.mode)?;
        (self.file, self.written) = (BufWriter::new(file), written);
        Ok(())
    }

    fn kept(&self, number: usize) -> PathBuf {
        let mut name: OsString = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{number}"));
        self.path.with_file_name(name)
    }
}

fn open(path: &Path, mode: u32) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    let length = file.metadata()?.len();
    Ok((file, length))
}
