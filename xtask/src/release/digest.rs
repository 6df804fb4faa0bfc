//! Digests, and the list of them that is published.

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// SHA-256, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every file below a folder, by its path from there, in order.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(place) = open.pop() {
        for entry in fs::read_dir(&place).with_context(|| format!("cannot read {}", place.display()))? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => open.push(entry.path()),
                false => found.push(entry.path().strip_prefix(folder)?.to_owned()),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// What `sha256sum --check` reads.
pub(crate) fn sums(folder: &Path) -> Result<String> {
    let line = |path: PathBuf| -> Result<String> {
        let bytes =
            fs::read(folder.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(format!("{}  {}\n", sha256(&bytes), path.display()))
    };
    files(folder)?.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_everybody() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
