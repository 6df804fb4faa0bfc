//! Files of a plan: written atomically, and only where something differs.

use capstan_agent::Machine;
use capstan_agent::machine::{Found, MachineError, Metadata};
use capstan_plan::MachinePath;

use super::{Applier, Registry};
use crate::work::{Access, Change, FileWork};

/// Mode of missing folders above a file.
const FOLDER: u32 = 0o755;

impl<M: Machine, R: Registry> Applier<M, R> {
    pub(super) async fn change(&self, file: &FileWork) -> Result<(), MachineError> {
        match &file.change {
            Change::Write(content, access) => self.write_file(&file.path, content, *access).await,
            Change::Directory(access) => {
                let path = self.machine.real_path(&file.path).await?;
                let metadata = match self.machine.inspect(&path).await? {
                    Found::Directory { metadata } => self.metadata(*access, Some(metadata)),
                    _ => self.metadata(*access, None),
                };
                self.make_parents(&path, access.mode).await?;
                self.machine.make_directory(&path, metadata).await
            }
            Change::Delete { recursive } => self.delete(&file.path, *recursive).await,
        }
    }

    async fn write_file(
        &self,
        path: &MachinePath,
        content: &[u8],
        access: Access,
    ) -> Result<(), MachineError> {
        let path = self.machine.real_path(path).await?;
        let before = match self.machine.inspect(&path).await? {
            Found::File { metadata, size } => Some((metadata, size)),
            _ => None,
        };
        let metadata = self.metadata(access, before.map(|(metadata, _)| metadata));
        let length = content.len() as u64;
        if before == Some((metadata, length)) && self.machine.read(&path, length).await? == content {
            return Ok(());
        }
        self.make_parents(&path, FOLDER).await?;
        self.machine.write(&path, content, metadata).await
    }

    /// A link in the folders above is followed, one at the path itself is not: it is an error.
    async fn delete(&self, path: &MachinePath, recursive: bool) -> Result<(), MachineError> {
        let path = match path.parent() {
            Some(folder) => self.below(&self.machine.real_path(&folder).await?, path.name())?,
            None => path.clone(),
        };
        match self.machine.inspect(&path).await? {
            Found::Nothing => Ok(()),
            Found::File { .. } => self.machine.remove_file(&path).await,
            Found::Directory { .. } if recursive => self.machine.remove_tree(&path).await,
            Found::Directory { .. } => self.machine.remove_directory(&path).await,
            found @ Found::Other(_) => {
                Err(MachineError::WrongKind { path, found: found.describe(), wanted: "a file or a folder" })
            }
        }
    }

    fn metadata(&self, access: Access, before: Option<Metadata>) -> Metadata {
        let before = before.unwrap_or_else(|| self.own(access.mode));
        Metadata {
            mode: access.mode,
            owner: access.owner.unwrap_or(before.owner),
            group: access.group.unwrap_or(before.group),
        }
    }

    async fn make_parents(&self, path: &MachinePath, mode: u32) -> Result<(), MachineError> {
        match path.parent() {
            Some(parent) => self.make_folders(&parent, mode).await,
            None => Ok(()),
        }
    }

    /// Makes missing folders. Existing ones stay as they are.
    pub(super) async fn make_folders(&self, path: &MachinePath, mode: u32) -> Result<(), MachineError> {
        let mut missing = Vec::new();
        let mut next = Some(path.clone());
        while let Some(folder) = next {
            if self.machine.inspect(&folder).await? != Found::Nothing {
                break;
            }
            next = folder.parent();
            missing.push(folder);
        }
        for folder in missing.iter().rev() {
            self.machine.make_directory(folder, self.own(mode)).await?;
        }
        Ok(())
    }
}
