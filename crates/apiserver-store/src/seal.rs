//! Checksums of the file at an orderly close. If they match, the file need not be checked, which reads it several
//! times. They detect every later write, by this program before a crash or by another program.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    num::NonZero,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::Path,
    thread,
};

use rustix::fs::SeekFrom;

use super::format::FORMAT;

/// What one sum is over.
const CHUNK: u64 = 1 << 20;
/// The disk is shared, and so are processors.
const MOST_THREADS: u64 = 4;

/// Notes in `seal` what the file is. Torn, it fits nothing: it is not waited for.
pub(super) fn put(seal: &Path, file: &Path) -> io::Result<()> {
    let text = Contents::of(file)?.sealed()?;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(seal)?.write_all(text.as_bytes())
}

/// A seal that may fit.
pub(super) struct Seal {
    text: String,
    contents: Contents,
}

impl Seal {
    /// The seal of a file, if that has a beginning and it is what the seal says. Every commit changes that: after a crash no more has to be
    /// read.
    pub(super) fn of(seal: &Path, file: &Path) -> io::Result<Option<Self>> {
        let (text, contents) = (fs::read_to_string(seal)?, Contents::of(file)?);
        let beginning = contents.head() + &line(contents.sum(0, &mut buffer())?);
        Ok(text.starts_with(&beginning).then_some(Self { text, contents }))
    }

    /// Whether the file is what the seal says, to the byte.
    pub(super) fn fits(&self) -> io::Result<bool> {
        Ok(self.contents.sealed()? == self.text)
    }
}

fn line(sum: u32) -> String {
    format!("{sum:08x}\n")
}

/// What is read at once: no more than stays close to the processor.
fn buffer() -> Vec<u8> {
    vec![0; 128 << 10]
}

struct Contents {
    file: File,
    len: u64,
}

impl Contents {
    fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }

    fn head(&self) -> String {
        format!("format {FORMAT}, {} bytes\n", self.len)
    }

    /// The whole text.
    fn sealed(&self) -> io::Result<String> {
        // One processor is for whoever reads it meanwhile.
        let threads = thread::available_parallelism().map_or(1, NonZero::get) as u64;
        let threads = (threads - 1).clamp(1, MOST_THREADS);
        let chunks = self.len.div_ceil(CHUNK);
        let part = |first: u64| {
            let mut buffer = buffer();
            let own = (first..chunks).step_by(threads as usize);
            own.map(|chunk| Ok((chunk, self.sum(chunk, &mut buffer)?))).collect::<io::Result<Vec<_>>>()
        };
        let mut sums = thread::scope(|scope| {
            let part = &part;
            let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
            let ended = |_| io::Error::other("a thread that reads the store has ended");
            parts.into_iter().map(|part| part.join().map_err(ended)?).collect::<io::Result<Vec<_>>>()
        })?
        .concat();
        sums.sort_unstable();
        Ok(self.head() + &sums.into_iter().map(|(_, sum)| line(sum)).collect::<String>())
    }

    fn sum(&self, chunk: u64, buffer: &mut [u8]) -> io::Result<u32> {
        let mut sum = crc32fast::Hasher::new();
        let (mut offset, end) = (chunk * CHUNK, ((chunk + 1) * CHUNK).min(self.len));
        // The engine makes the file longer than it needs: what has never been written is not read.
        let next = match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Err(rustix::io::Errno::NXIO) => end,
            next => next.unwrap_or(offset),
        };
        while offset < end && next < end {
            let piece = (end - offset).min(buffer.len() as u64) as usize;
            self.file.read_exact_at(&mut buffer[..piece], offset)?;
            sum.update(&buffer[..piece]);
            offset += piece as u64;
        }
        Ok(sum.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_fits_what_it_was_put_on_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (file, seal) = (folder.path().join("file"), folder.path().join("seal"));
        let fits = || Seal::of(&seal, &file).is_ok_and(|seal| seal.is_some_and(|seal| seal.fits().unwrap()));
        assert!(!fits());
        fs::write(&file, "").unwrap();
        put(&seal, &file).unwrap();
        assert!(!fits(), "no store is empty");
        for len in [1, CHUNK, 3 * CHUNK + 7] {
            let bytes: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            fs::write(&file, &bytes).unwrap();
            assert!(!fits(), "there is none yet for {len}");
            put(&seal, &file).unwrap();
            assert!(fits(), "{len}");
            let others = [
                [&bytes[..], &[0]].concat(),
                bytes[..bytes.len().saturating_sub(1)].to_vec(),
                bytes.iter().rev().copied().collect(),
            ];
            for other in others.iter().filter(|other| **other != bytes) {
                fs::write(&file, other).unwrap();
                assert!(!fits(), "{} for {len}", other.len());
            }
            for place in [0, len / 2, len.saturating_sub(1)].map(|place| place as usize) {
                let mut other = bytes.clone();
                let Some(byte) = other.get_mut(place) else { continue };
                *byte ^= 1;
                fs::write(&file, other).unwrap();
                assert!(!fits(), "{place} of {len}");
            }
            if len > CHUNK {
                fs::write(&file, &bytes[..CHUNK as usize]).unwrap();
                File::options().write(true).open(&file).unwrap().set_len(len).unwrap();
                assert!(!fits(), "nothing where there was something");
            }
            fs::write(&file, &bytes).unwrap();
            assert!(fits(), "{len}");
            let text = fs::read_to_string(&seal).unwrap();
            for other in [text.replace("format", "another"), text[..text.len() - 1].to_owned(), text + "0"] {
                fs::write(&seal, other).unwrap();
                assert!(!fits(), "{len}");
            }
        }
    }
}
