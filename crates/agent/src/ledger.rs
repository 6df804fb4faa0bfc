//! What was put on the machine, and what was there before: enough to take all of it back.
//!
//! Data only. The journal fills it, the engine acts on it.

use capstan_plan::{Action, Digest, MachinePath, MachinePlan, Step, StepName, Undo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use crate::machine::Metadata;

/// Everything that would have to be taken back, in the order it was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ledger {
    items: Vec<Item>,
}

/// One thing to take back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Item {
    /// A path that was written.
    Path(Holding),
    /// A command that was run, and how to undo it.
    Command {
        /// The step that ran it.
        step: StepName,
        /// How to undo it.
        undo: Undo,
        /// How long that may take.
        timeout_seconds: u32,
    },
}

/// A path that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holding {
    /// Where.
    pub path: MachinePath,
    /// What was there before we came.
    pub before: Before,
    /// What we put there, or were about to.
    pub after: After,
}

/// What was at a path before we came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Before {
    /// Nothing.
    Nothing,
    /// A file. The store keeps its content.
    File {
        /// Digest of its content.
        content: Digest,
        /// Whose it was.
        metadata: Metadata,
    },
    /// A folder.
    Directory {
        /// Whose it was.
        metadata: Metadata,
    },
}

/// What a plan puts at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum After {
    /// A file.
    File {
        /// Digest of its content.
        content: Digest,
        /// Whose it is.
        metadata: Metadata,
    },
    /// A folder.
    Directory {
        /// Whose it is.
        metadata: Metadata,
    },
}

impl After {
    /// What a step puts on the machine, if it does.
    pub fn of(step: &Step) -> Option<Self> {
        match &step.action {
            Action::File(file) => Some(Self::File {
                content: file.content.digest(),
                metadata: Metadata { mode: file.mode.bits(), owner: file.owner, group: file.group },
            }),
            Action::Directory(folder) => Some(Self::Directory {
                metadata: Metadata { mode: folder.mode.bits(), owner: folder.owner, group: folder.group },
            }),
            Action::Command(_) | Action::Check(_) => None,
        }
    }
}

impl Ledger {
    /// Everything, in the order it was done.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The paths that were written, in the order they were first written.
    pub fn holdings(&self) -> impl DoubleEndedIterator<Item = &Holding> {
        self.items.iter().filter_map(|item| match item {
            Item::Path(holding) => Some(holding),
            Item::Command { .. } => None,
        })
    }

    /// What is known of a path.
    pub fn holding(&self, path: &MachinePath) -> Option<&Holding> {
        self.holdings().find(|holding| holding.path == *path)
    }

    /// The digests of all content that must be kept.
    pub fn kept(&self) -> BTreeSet<Digest> {
        self.holdings()
            .filter_map(|holding| match holding.before {
                Before::File { content, .. } => Some(content),
                Before::Nothing | Before::Directory { .. } => None,
            })
            .collect()
    }

    /// The last path written that the plan no longer has, or has as something else.
    pub fn surplus<'a>(&'a self, plan: &MachinePlan, stays: &BTreeSet<MachinePath>) -> Option<&'a Holding> {
        let files: BTreeSet<&MachinePath> = plan
            .steps
            .iter()
            .filter(|step| matches!(step.action, Action::File(_)))
            .filter_map(Step::path)
            .collect();
        let mut folders: BTreeSet<MachinePath> = BTreeSet::new();
        for step in &plan.steps {
            let Some(path) = step.path() else { continue };
            if !files.contains(path) {
                folders.insert(path.clone());
            }
            folders.extend(std::iter::successors(path.parent(), MachinePath::parent));
        }
        self.holdings().rev().find(|holding| {
            let wanted = match holding.after {
                After::File { .. } => files.contains(&holding.path),
                After::Directory { .. } => folders.contains(&holding.path),
            };
            !wanted && !stays.contains(&holding.path)
        })
    }

    /// A path is about to be written. What was there before we first came stays known.
    pub(crate) fn take(&mut self, taken: Holding) {
        let known = self.items.iter_mut().find_map(|item| match item {
            Item::Path(holding) if holding.path == taken.path => Some(holding),
            _ => None,
        });
        match known {
            Some(holding) => holding.after = taken.after,
            None => self.items.push(Item::Path(taken)),
        }
    }

    /// A path is again as it was before we came.
    pub(crate) fn release(&mut self, path: &MachinePath) {
        self.items.retain(|item| !matches!(item, Item::Path(holding) if holding.path == *path));
    }

    /// A command is about to be run. The same undo of the same step is needed once.
    pub(crate) fn owe(&mut self, step: StepName, undo: Undo, timeout_seconds: u32) {
        let known =
            |item: &Item| matches!(item, Item::Command { step: s, undo: u, .. } if *s == step && *u == undo);
        if !self.items.iter().any(known) {
            self.items.push(Item::Command { step, undo, timeout_seconds });
        }
    }
}
