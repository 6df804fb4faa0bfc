//! Three-way merge of conditions, by type.
//!
//! Several controllers write conditions of one object concurrently. A patch is the change that one controller makes
//! between reading (`before`) and writing (`after`). It is applied to the latest conditions (`latest`), as often as
//! necessary.

use thiserror::Error;

use super::set::upsert;
use super::{Condition, find, sort};

/// The changes from one list of conditions to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionsPatch {
    changes: Vec<Change>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Add(Condition),
    Update { before: Condition, after: Condition },
    Remove(Condition),
}

/// Condition types for which the writer overrides concurrent changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence<'a> {
    /// These types, which the writer owns. For all others, a concurrent change is a conflict.
    Owned(&'a [&'a str]),
    /// All types that the patch changes.
    Always,
}

impl Precedence<'_> {
    fn covers(self, type_: &str) -> bool {
        match self {
            Self::Owned(types) => types.contains(&type_),
            Self::Always => true,
        }
    }
}

/// A concurrent writer changed the same condition differently. The value is the condition type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConditionConflict {
    /// Both writers added it, with different states.
    #[error("cannot add condition {0}: another client has added it with another state")]
    BothAdded(String),
    /// Both writers changed it, to different states.
    #[error("cannot change condition {0}: another client has changed it to another state")]
    BothChanged(String),
    /// This writer changed it; the other one deleted it.
    #[error("cannot change condition {0}: another client has deleted it")]
    DeletedByOther(String),
    /// This writer deleted it; the other one changed it.
    #[error("cannot delete condition {0}: another client has changed it")]
    ChangedByOther(String),
}

impl ConditionsPatch {
    /// The changes from `before` to `after`.
    pub fn between(before: &[Condition], after: &[Condition]) -> Self {
        let written = after.iter().filter_map(|after| match find(before, &after.type_) {
            None => Some(Change::Add(after.clone())),
            Some(before) if is_same(before, after) => None,
            Some(before) => Some(Change::Update { before: before.clone(), after: after.clone() }),
        });
        let removed = before.iter().filter(|before| find(after, &before.type_).is_none());
        Self { changes: written.chain(removed.cloned().map(Change::Remove)).collect() }
    }

    /// Whether the patch has no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Applies the changes to `latest`. The result is in the order of [`sort`], or is `latest` if there are no changes.
    ///
    /// If both writers made the same change, the condition of `latest` is kept, with its transition time.
    pub fn apply(
        &self,
        latest: &[Condition],
        precedence: Precedence<'_>,
    ) -> Result<Vec<Condition>, ConditionConflict> {
        let mut merged = latest.to_vec();
        for change in &self.changes {
            change.apply(&mut merged, precedence)?;
        }
        if !self.is_empty() {
            sort(&mut merged);
        }
        Ok(merged)
    }
}

impl Change {
    fn type_(&self) -> &str {
        match self {
            Self::Add(condition) | Self::Update { after: condition, .. } | Self::Remove(condition) => {
                &condition.type_
            }
        }
    }

    fn apply(
        &self,
        merged: &mut Vec<Condition>,
        precedence: Precedence<'_>,
    ) -> Result<(), ConditionConflict> {
        if !precedence.covers(self.type_())
            && let Some(conflict) = self.conflict(find(merged, self.type_()))
        {
            return Err(conflict);
        }
        match self {
            // Where both agree already, this changes nothing.
            Self::Add(after) | Self::Update { after, .. } => {
                upsert(merged, after.clone());
            }
            Self::Remove(before) => merged.retain(|condition| condition.type_ != before.type_),
        }
        Ok(())
    }

    /// The conflict, if the latest condition is neither the old nor the new one.
    fn conflict(&self, latest: Option<&Condition>) -> Option<ConditionConflict> {
        let type_ = || self.type_().to_owned();
        match (self, latest) {
            (Self::Add(_) | Self::Remove(_), None) => None,
            (Self::Update { .. }, None) => Some(ConditionConflict::DeletedByOther(type_())),
            (Self::Add(after), Some(latest)) => {
                (!latest.has_same_state(after)).then(|| ConditionConflict::BothAdded(type_()))
            }
            (Self::Update { before, after }, Some(latest)) => {
                let agrees = is_same(latest, before) || latest.has_same_state(after);
                (!agrees).then(|| ConditionConflict::BothChanged(type_()))
            }
            (Self::Remove(before), Some(latest)) => {
                (!latest.has_same_state(before)).then(|| ConditionConflict::ChangedByOther(type_()))
            }
        }
    }
}

fn is_same(a: &Condition, b: &Condition) -> bool {
    a.has_same_state(b) && a.last_transition_time == b.last_transition_time
}
