//! Files that are installed on machines, with their digests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::publish;
use crate::follow::run;

/// A file with its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Where it is.
    pub path: PathBuf,
    /// Its SHA-256 in hexadecimal digits.
    pub sha256: String,
}

impl Artifact {
    /// What was published at this path.
    pub(crate) fn at(path: PathBuf) -> Result<Self> {
        ensure!(path.is_file(), "{} is not there: run `make tools` as root", path.display());
        let note = note(&path);
        let sha256 = fs::read_to_string(&note).with_context(|| format!("cannot read {}", note.display()))?;
        Ok(Self { path, sha256: sha256.trim().to_owned() })
    }

    /// Gives the finished `partial` its name. Its digest is there first, so that what has the name has a digest.
    pub(crate) fn publish(partial: &Path, path: &Path) -> Result<()> {
        let note = note(path);
        fs::write(&note, sha256(partial)?)
            .and_then(|()| fs::File::open(&note)?.sync_all())
            .with_context(|| format!("cannot write {}", note.display()))?;
        publish(partial, path)
    }
}

/// The file beside it with its digest.
fn note(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".sha256");
    path.with_file_name(name)
}

/// The digest of a file, by the program that every Linux has: this crate has hardly any dependencies.
pub(crate) fn sha256(path: &Path) -> Result<String> {
    let printed = run(Command::new("sha256sum").arg("--binary").arg("--").arg(path))?;
    // A file with strange characters in its name is printed with a `\\` before the digest.
    let digest = printed.trim_start_matches('\\').get(..64).context("sha256sum printed no digest")?;
    Ok(digest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_has_its_digest_beside_it() {
        let folder = std::env::temp_dir().join(format!("capstan-artifact-test-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        let (partial, path) = (folder.join("a.partial"), folder.join("a.tar"));
        assert!(Artifact::at(path.clone()).expect_err("nothing").to_string().contains("make tools"));
        fs::write(&partial, "abc").expect("written");
        Artifact::publish(&partial, &path).expect("published");
        let artifact = Artifact::at(path.clone()).expect("there");
        assert_eq!(artifact.path, path);
        assert_eq!(artifact.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert!(folder.join("a.tar.sha256").is_file() && !partial.exists());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
