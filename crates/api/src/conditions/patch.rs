//! Three-way merge of conditions, by type.
//!
//! Several controllers write conditions of one object at the same time. A patch is what one of them did
//! between reading (`before`) and writing (`after`); it is applied to what the object has become meanwhile
//! (`latest`), as often as it takes.

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

/// For which condition types the writer's word counts, whatever others have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence<'a> {
    /// For these, which it owns. For the rest, a disagreement is a conflict.
    Owned(&'a [&'a str]),
    /// For all it touches.
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

/// Somebody else has written a condition meanwhile, and wants something else. The name is the type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConditionConflict {
    /// Both added it, with different states.
    #[error("cannot add condition {0}: another client has added it with another state")]
    BothAdded(String),
    /// Both changed it, to different states.
    #[error("cannot change condition {0}: another client has changed it to another state")]
    BothChanged(String),
    /// One changed it, the other deleted it.
    #[error("cannot change condition {0}: another client has deleted it")]
    DeletedByOther(String),
    /// One deleted it, the other changed it.
    #[error("cannot delete condition {0}: another client has changed it")]
    ChangedByOther(String),
}

impl ConditionsPatch {
    /// The changes that lead from `before` to `after`.
    pub fn between(before: &[Condition], after: &[Condition]) -> Self {
        let written = after.iter().filter_map(|after| match find(before, &after.type_) {
            None => Some(Change::Add(after.clone())),
            Some(before) if is_same(before, after) => None,
            Some(before) => Some(Change::Update { before: before.clone(), after: after.clone() }),
        });
        let removed = before.iter().filter(|before| find(after, &before.type_).is_none());
        Self { changes: written.chain(removed.cloned().map(Change::Remove)).collect() }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The conditions that come of applying the changes to `latest`. If there is nothing to do, they are
    /// `latest`; otherwise they are in the order of [`sort`].
    ///
    /// Where both have done the same, theirs stays, with its transition time.
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

    /// Whether what the condition has become meanwhile is neither what it was nor what it is to be.
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
