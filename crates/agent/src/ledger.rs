//! What the agent has changed on the machine, and the previous state: everything that a reset needs.
//!
//! Data only. The journal fills it, the engine uses it.

use capstan_plan::{
    Action, Artifact, Digest, MachinePath, MachinePlan, Step, StepName, Stop, Unit, UnitName, Unpack,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::machine::Metadata;
use crate::owed::OwedUndo;

/// Everything that a reset must undo, in the order in which it was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ledger {
    items: Vec<Item>,
}

/// One entry of the ledger.
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
        undo: OwedUndo,
        /// The timeout of the undo.
        timeout_seconds: u32,
    },
}

/// A path that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holding {
    /// The path.
    pub path: MachinePath,
    /// The state of the path before the agent wrote it.
    pub before: Before,
    /// What the agent wrote, or was about to write.
    pub after: After,
}

/// The state of a path before the agent wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Before {
    /// The path did not exist.
    Nothing,
    /// A file. Its content is in the store.
    File {
        /// Digest of its content.
        content: Digest,
        /// Its owner and permissions.
        metadata: Metadata,
    },
    /// A folder.
    Directory {
        /// Its owner and permissions.
        metadata: Metadata,
    },
}

/// What a plan writes to a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum After {
    /// A file.
    File {
        /// Digest of its content.
        content: Digest,
        /// Its owner and permissions.
        metadata: Metadata,
    },
    /// A folder.
    Directory {
        /// Its owner and permissions.
        metadata: Metadata,
    },
    /// An artifact.
    Artifact {
        /// Digest of the artifact.
        content: Digest,
        /// Format of the archive. Then the path is a folder, and all its content belongs to the artifact; otherwise it
        /// is a file.
        unpack: Option<Unpack>,
        /// Its owner and permissions.
        metadata: Metadata,
    },
    /// The file of a running unit.
    Unit {
        /// The unit.
        name: UnitName,
        /// Digest of the file's content.
        content: Digest,
        /// The command that ends the processes that it leaves behind.
        stop: Option<Stop>,
    },
}

/// Owner and permissions of unit files.
pub(crate) const UNIT_FILE: Metadata = Metadata { mode: 0o644, owner: 0, group: 0 };

impl From<&Artifact> for After {
    fn from(artifact: &Artifact) -> Self {
        let (mode, owner, group) = (artifact.mode.bits(), artifact.owner, artifact.group);
        let metadata = Metadata { mode, owner, group };
        Self::Artifact { content: artifact.sha256, unpack: artifact.unpack, metadata }
    }
}

impl From<&Unit> for After {
    fn from(unit: &Unit) -> Self {
        Self::Unit { name: unit.name.clone(), content: unit.content.digest(), stop: unit.stop.clone() }
    }
}

/// The part of an entry that must be equal in two plans for the path to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    File,
    Folder,
    Artifact { is_tree: bool },
    Unit,
}

impl After {
    const fn sort(&self) -> Sort {
        match self {
            Self::File { .. } => Sort::File,
            Self::Directory { .. } => Sort::Folder,
            Self::Artifact { unpack, .. } => Sort::Artifact { is_tree: unpack.is_some() },
            Self::Unit { .. } => Sort::Unit,
        }
    }

    /// Whether it is a folder whose whole content belongs to the agent.
    pub(crate) fn is_tree(&self) -> bool {
        self.sort() == Sort::Artifact { is_tree: true }
    }

    /// The path that a step writes, if any.
    pub fn of(step: &Step) -> Option<Self> {
        match &step.action {
            Action::File(file) => Some(Self::File {
                content: file.content.digest(),
                metadata: Metadata { mode: file.mode.bits(), owner: file.owner, group: file.group },
            }),
            Action::Directory(folder) => Some(Self::Directory {
                metadata: Metadata { mode: folder.mode.bits(), owner: folder.owner, group: folder.group },
            }),
            Action::Artifact(artifact) => Some(artifact.into()),
            Action::Unit(unit) => Some(unit.into()),
            Action::Command(_) | Action::Check(_) | Action::Gate(_) => None,
        }
    }
}

/// The stage of a plan, which decides what happens to paths that are no longer in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The step with this index is a closed gate. The machine may reboot while it waits there, and must then find the
    /// files of the running programs. So only paths that block steps before the gate are restored.
    BeforeGate(usize),
    /// All gates are passed, and steps are left. Artifacts are kept unless they block a step: running programs may need
    /// them, and continue to run if the plan fails.
    BeforeSteps,
    /// All steps have succeeded.
    AfterSteps,
}

/// The paths that some steps write.
#[derive(Clone)]
struct Places {
    /// What they write there.
    wanted: BTreeMap<MachinePath, Sort>,
    /// The parent folders.
    needed: BTreeSet<MachinePath>,
}

impl Places {
    fn of(steps: &[Step]) -> Self {
        let wanted: BTreeMap<MachinePath, Sort> =
            steps.iter().filter_map(|step| Some((step.path()?, After::of(step)?.sort()))).collect();
        let needed = wanted.keys().flat_map(above).collect();
        Self { wanted, needed }
    }

    /// Whether the entry at the path must be removed before these steps can succeed.
    fn are_blocked_by(&self, path: &MachinePath) -> bool {
        self.wanted.contains_key(path)
            || self.needed.contains(path)
            || above(path).any(|folder| self.wanted.get(&folder).is_some_and(|sort| *sort != Sort::Folder))
    }
}

/// The parent folders of a path, the innermost first.
fn above(path: &MachinePath) -> impl Iterator<Item = MachinePath> + use<> {
    std::iter::successors(path.parent(), MachinePath::parent)
}

impl Ledger {
    /// All entries, in the order in which they were done.
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

    /// The entry of a path.
    pub fn holding(&self, path: &MachinePath) -> Option<&Holding> {
        self.holdings().find(|holding| holding.path == *path)
    }

    /// The commands that were run, with what undoes them.
    pub fn undos(&self) -> impl Iterator<Item = &OwedUndo> {
        self.items.iter().filter_map(|item| match item {
            Item::Command { undo, .. } => Some(undo),
            Item::Path(_) => None,
        })
    }

    /// Replaces what undoes commands.
    pub(crate) fn replace_undos(&mut self, mut replace: impl FnMut(&OwedUndo) -> OwedUndo) {
        for item in &mut self.items {
            if let Item::Command { undo, .. } = item {
                *undo = replace(undo);
            }
        }
    }

    /// Digests of the content that must be kept in the store: of files, and of secret variables.
    pub fn kept(&self) -> BTreeSet<Digest> {
        self.holdings()
            .filter_map(|holding| match holding.before {
                Before::File { content, .. } => Some(content),
                Before::Nothing | Before::Directory { .. } => None,
            })
            .chain(self.undos().flat_map(OwedUndo::kept))
            .collect()
    }

    /// The last written path that is no longer in the plan, or is something else in it, if it may be restored at this
    /// stage.
    pub fn surplus<'a>(
        &'a self,
        plan: &MachinePlan,
        stays: &BTreeSet<MachinePath>,
        stage: Stage,
    ) -> Option<&'a Holding> {
        let all = Places::of(&plan.steps);
        let is_wanted = |holding: &Holding| {
            let sort = holding.after.sort();
            all.wanted.get(&holding.path) == Some(&sort)
                || (sort == Sort::Folder && all.needed.contains(&holding.path))
        };
        let next = match stage {
            Stage::BeforeGate(gate) => Places::of(&plan.steps[..gate]),
            Stage::BeforeSteps | Stage::AfterSteps => all.clone(),
        };
        let is_late = |holding: &&Holding| {
            let waits = match stage {
                Stage::BeforeGate(_) => true,
                Stage::BeforeSteps => matches!(holding.after, After::Artifact { .. }),
                Stage::AfterSteps => false,
            };
            waits && !is_wanted(holding) && !next.are_blocked_by(&holding.path)
        };
        let late: Vec<&Holding> = self.holdings().filter(is_late).collect();
        let must_wait = |holding: &Holding| {
            late.iter().any(|other| other.path == holding.path || other.path.is_within(&holding.path))
        };
        self.holdings()
            .rev()
            .find(|holding| !is_wanted(holding) && !stays.contains(&holding.path) && !must_wait(holding))
    }

    /// Records a path before it is written. The state before its first write is kept.
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

    /// Removes a path that was restored.
    pub(crate) fn release(&mut self, path: &MachinePath) {
        self.items.retain(|item| !matches!(item, Item::Path(holding) if holding.path == *path));
    }

    /// Removes a command that was undone.
    pub(crate) fn undone(&mut self, step: &StepName, undo: &OwedUndo) {
        self.items
            .retain(|item| !matches!(item, Item::Command { step: s, undo: u, .. } if s == step && u == undo));
    }

    /// Records a command before it runs. The same undo of the same step is recorded once.
    pub(crate) fn owe(&mut self, step: StepName, undo: OwedUndo, timeout_seconds: u32) {
        let known =
            |item: &Item| matches!(item, Item::Command { step: s, undo: u, .. } if *s == step && *u == undo);
        if !self.items.iter().any(known) {
            self.items.push(Item::Command { step, undo, timeout_seconds });
        }
    }
}
