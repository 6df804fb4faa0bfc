//! The file system of a virtual machine: paths, bytes, modes and owners. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::machine::{Found, MachineError, Metadata};
use capstan_plan::{Artifact, MachinePath};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The file or folder at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// A regular file.
    File {
        /// Content of the file.
        content: Bytes,
        /// Owner and mode of the file.
        metadata: Metadata,
    },
    /// A folder.
    Directory {
        /// Owner and mode of the folder.
        metadata: Metadata,
    },
}

/// Bytes that are serialized as base64 and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// What stands for all that an archive holds.
const DIGEST: &str = ".artifact";

/// All files and folders, by path. The root folder `/` always exists and has no entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Files(BTreeMap<String, Entry>);

/// Owned by root, mode 0755.
pub const PUBLIC: Metadata = Metadata { mode: 0o755, owner: 0, group: 0 };

impl Files {
    /// The files of a new operating system, as far as the simulation needs them.
    pub fn image(name: &str) -> Self {
        let mut files = Self::default();
        let folders =
            ["/etc", "/opt", "/opt/capstan", "/run", "/tmp", "/usr", "/usr/local", "/usr/local/bin"];
        for folder in folders.into_iter().chain(["/etc/systemd", "/etc/systemd/system", "/var", "/var/lib"]) {
            files.0.insert(folder.to_owned(), Entry::Directory { metadata: PUBLIC });
        }
        let hostname = Entry::File {
            content: Bytes(format!("{name}\n").into_bytes()),
            metadata: Metadata { mode: 0o644, ..PUBLIC },
        };
        files.0.insert("/etc/hostname".to_owned(), hostname);
        files
    }

    /// The kind and metadata of the entry at a path.
    ///
    /// # Errors
    /// If a parent of the path is a file.
    pub fn inspect(&self, path: &MachinePath) -> Result<Found, MachineError> {
        for folder in std::iter::successors(path.parent(), MachinePath::parent) {
            if let Some(Entry::File { .. }) = self.0.get(folder.as_str()) {
                return Err(MachineError::WrongKind { path: folder, found: "a file", wanted: "a folder" });
            }
        }
        Ok(match self.0.get(path.as_str()) {
            None => Found::Nothing,
            Some(Entry::File { content, metadata }) => {
                Found::File { metadata: *metadata, size: content.0.len() as u64 }
            }
            Some(Entry::Directory { metadata }) => Found::Directory { metadata: *metadata },
        })
    }

    /// The content of a file; none if there is no file at the path.
    pub fn read(&self, path: &str) -> Option<&[u8]> {
        match self.0.get(path) {
            Some(Entry::File { content, .. }) => Some(&content.0),
            _ => None,
        }
    }

    /// Writes a file.
    ///
    /// # Errors
    /// If the parent folder is missing, or the path is a folder.
    pub fn write(
        &mut self,
        path: &MachinePath,
        content: &[u8],
        metadata: Metadata,
    ) -> Result<(), MachineError> {
        self.folder_above(path)?;
        if let Some(Entry::Directory { .. }) = self.0.get(path.as_str()) {
            return Err(MachineError::WrongKind { path: path.clone(), found: "a folder", wanted: "a file" });
        }
        let file = Entry::File { content: Bytes(content.to_vec()), metadata };
        self.0.insert(path.as_str().to_owned(), file);
        Ok(())
    }

    /// Creates a folder.
    ///
    /// # Errors
    /// If the parent folder is missing, or the path is a file.
    pub fn make_directory(&mut self, path: &MachinePath, metadata: Metadata) -> Result<(), MachineError> {
        self.folder_above(path)?;
        if let Some(Entry::File { .. }) = self.0.get(path.as_str()) {
            return Err(MachineError::WrongKind { path: path.clone(), found: "a file", wanted: "a folder" });
        }
        self.0.insert(path.as_str().to_owned(), Entry::Directory { metadata });
        Ok(())
    }

    /// Writes a file and creates its parent folders, as a program other than the agent would.
    ///
    /// # Errors
    /// If a parent of the path is a file, or the path is a folder.
    pub fn write_with_parents(
        &mut self,
        path: &MachinePath,
        content: &[u8],
        metadata: Metadata,
    ) -> Result<Vec<MachinePath>, MachineError> {
        let mut made = Vec::new();
        let above: Vec<_> = std::iter::successors(path.parent(), MachinePath::parent).collect();
        for folder in above.into_iter().rev() {
            if self.inspect(&folder)? == Found::Nothing {
                self.make_directory(&folder, PUBLIC)?;
                made.push(folder);
            }
        }
        self.write(path, content, metadata)?;
        made.push(path.clone());
        Ok(made)
    }

    /// Creates a folder and its parent folders, as a program other than the agent would.
    ///
    /// # Errors
    /// If the path or a parent of it is a file.
    pub fn make_with_parents(&mut self, path: &MachinePath) -> Result<(), MachineError> {
        let all: Vec<_> = std::iter::successors(Some(path.clone()), MachinePath::parent).collect();
        for folder in all.into_iter().rev() {
            if self.inspect(&folder)? == Found::Nothing {
                self.make_directory(&folder, PUBLIC)?;
            }
        }
        Ok(())
    }

    /// Removes a file, if it exists.
    ///
    /// # Errors
    /// If the path is a folder.
    pub fn remove_file(&mut self, path: &MachinePath) -> Result<(), MachineError> {
        match self.0.get(path.as_str()) {
            None => Ok(()),
            Some(Entry::File { .. }) => {
                self.0.remove(path.as_str());
                Ok(())
            }
            Some(Entry::Directory { .. }) => {
                Err(MachineError::WrongKind { path: path.clone(), found: "a folder", wanted: "a file" })
            }
        }
    }

    /// Removes an empty folder, if it exists.
    ///
    /// # Errors
    /// If the path is a file, or the folder is not empty.
    pub fn remove_directory(&mut self, path: &MachinePath) -> Result<(), MachineError> {
        match self.0.get(path.as_str()) {
            None => Ok(()),
            Some(Entry::File { .. }) => {
                Err(MachineError::WrongKind { path: path.clone(), found: "a file", wanted: "a folder" })
            }
            Some(Entry::Directory { .. }) => {
                let inside = format!("{}/", path.as_str());
                if self.0.keys().any(|other| other.starts_with(&inside)) {
                    return Err(MachineError::NotEmpty(path.clone()));
                }
                self.0.remove(path.as_str());
                Ok(())
            }
        }
    }

    /// Removes a folder with its content, if it exists.
    ///
    /// # Errors
    /// If the path is a file.
    pub fn remove_tree(&mut self, path: &MachinePath) -> Result<(), MachineError> {
        if let Some(Entry::File { .. }) = self.0.get(path.as_str()) {
            return Err(MachineError::WrongKind { path: path.clone(), found: "a file", wanted: "a folder" });
        }
        let inside = format!("{path}/");
        self.0.retain(|other, _| other != path.as_str() && !other.starts_with(&inside));
        Ok(())
    }

    /// Installs an artifact. The content of the artifact is not simulated: a file contains its digest, and an unpacked
    /// archive is a folder with a file that contains the digest.
    ///
    /// # Errors
    /// If the parent folder is missing, or an entry of another kind is at the path.
    pub fn install(&mut self, artifact: &Artifact) -> Result<(), MachineError> {
        let (mode, owner, group) = (artifact.mode.bits(), artifact.owner, artifact.group);
        let metadata = Metadata { mode, owner, group };
        let content = artifact.sha256.to_string();
        if artifact.unpack.is_none() {
            return self.write(&artifact.path, content.as_bytes(), metadata);
        }
        self.remove_tree(&artifact.path)?;
        self.make_directory(&artifact.path, metadata)?;
        let digest = Entry::File { content: Bytes(content.into_bytes()), metadata };
        self.0.insert(format!("{}/{DIGEST}", artifact.path), digest);
        Ok(())
    }

    /// Whether an artifact is as it was installed.
    pub fn is_installed(&self, artifact: &Artifact) -> bool {
        let content = artifact.sha256.to_string().into_bytes();
        match artifact.unpack {
            None => self.read(artifact.path.as_str()) == Some(content.as_slice()),
            Some(_) => self.read(&format!("{}/{DIGEST}", artifact.path)) == Some(content.as_slice()),
        }
    }

    /// Whether a program exists: as a file, or inside an installed archive.
    pub fn has_program(&self, path: &MachinePath) -> bool {
        self.read(path.as_str()).is_some()
            || std::iter::successors(path.parent(), MachinePath::parent)
                .any(|folder| self.read(&format!("{folder}/{DIGEST}")).is_some())
    }

    /// Paths at which this file system differs from `other`: added, missing or changed.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let ours = self.0.iter().filter(|(path, entry)| other.0.get(*path) != Some(entry));
        let missing = other.0.iter().filter(|(path, _)| !self.0.contains_key(*path));
        let mut paths: Vec<String> = ours.chain(missing).map(|(path, _)| path.clone()).collect();
        paths.sort();
        paths
    }

    fn folder_above(&self, path: &MachinePath) -> Result<(), MachineError> {
        match path.parent() {
            None => Ok(()),
            Some(above) => match self.inspect(&above)? {
                Found::Directory { .. } => Ok(()),
                found => Err(match found {
                    Found::Nothing => MachineError::io(
                        format!("write {path}"),
                        std::io::Error::new(std::io::ErrorKind::NotFound, "the folder above does not exist"),
                    ),
                    other => {
                        MachineError::WrongKind { path: above, found: other.describe(), wanted: "a folder" }
                    }
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> MachinePath {
        MachinePath::new(text).expect("a path")
    }

    const PRIVATE: Metadata = Metadata { mode: 0o600, owner: 1, group: 2 };

    #[test]
    fn files_and_folders_keep_their_rules() {
        let mut files = Files::image("h");
        let image = files.clone();
        assert!(files.write(&path("/etc/a/b"), b"x", PRIVATE).is_err(), "no folder above");
        files.make_directory(&path("/etc/a"), PUBLIC).expect("made");
        files.write(&path("/etc/a/b"), b"x", PRIVATE).expect("written");
        assert_eq!(
            files.inspect(&path("/etc/a/b")).expect("seen"),
            Found::File { metadata: PRIVATE, size: 1 }
        );
        assert!(files.inspect(&path("/etc/a/b/c")).is_err(), "a file on the way");
        assert!(matches!(files.remove_directory(&path("/etc/a")), Err(MachineError::NotEmpty(_))));
        assert!(files.write(&path("/etc/a"), b"", PRIVATE).is_err());
        assert!(files.remove_file(&path("/etc/a")).is_err());
        assert_eq!(files.differences(&image), ["/etc/a", "/etc/a/b"]);
        files.remove_file(&path("/etc/a/b")).expect("removed");
        files.remove_file(&path("/etc/a/b")).expect("still no error");
        files.remove_directory(&path("/etc/a")).expect("removed");
        assert!(files.differences(&image).is_empty());
        files.remove_file(&path("/etc/hostname")).expect("removed");
        assert_eq!(files.differences(&image), ["/etc/hostname"]);
    }

    #[test]
    fn other_programs_make_the_folders_they_need() {
        let mut files = Files::image("h");
        let made = files.write_with_parents(&path("/var/lib/cloud/data/id"), b"x", PRIVATE).expect("written");
        let made: Vec<&str> = made.iter().map(MachinePath::as_str).collect();
        assert_eq!(made, ["/var/lib/cloud", "/var/lib/cloud/data", "/var/lib/cloud/data/id"]);
    }

    #[test]
    fn a_file_system_survives_being_written_down() {
        let mut files = Files::image("h");
        files.write(&path("/etc/x"), &[0, 255, 7], PRIVATE).expect("written");
        let text = serde_json::to_string(&files).expect("JSON");
        assert_eq!(serde_json::from_str::<Files>(&text).expect("files"), files);
        assert!(!format!("{files:?}").contains("255"));
    }
}
