//! Summary of several conditions of one object, as in `Ready` and `Available`.

use std::collections::BTreeSet;

use super::merge::{MergeError, MergeStrategy, Polarity, Priority, Source};
use super::message::nest;
use super::{ConditionStatus, Conditioned, NewCondition, get};

/// A summary of conditions. The order of the types is the order of the lines in the message.
#[derive(Default)]
pub struct Summary<'a> {
    types: Vec<&'a str>,
    may_be_missing: Vec<&'a str>,
    overrides: Vec<NewCondition>,
    strategy: MergeStrategy<'a>,
}

impl<'a> Summary<'a> {
    /// Summarizes condition types, most relevant first.
    pub fn over(types: impl IntoIterator<Item = &'a str>) -> Self {
        Self { types: types.into_iter().collect(), ..Self::default() }
    }

    /// Types that are ignored if the object does not report them. Other missing types count as unknown.
    pub fn ignore_if_missing(mut self, types: impl IntoIterator<Item = &'a str>) -> Self {
        self.may_be_missing.extend(types);
        self
    }

    /// Conditions that override those of the object. The object is not changed.
    pub fn overriding(mut self, conditions: impl IntoIterator<Item = NewCondition>) -> Self {
        self.overrides.extend(conditions);
        self
    }

    /// Sets the merge strategy.
    pub fn strategy(mut self, strategy: MergeStrategy<'a>) -> Self {
        self.strategy = strategy;
        self
    }

    /// Summarizes the conditions of an object in a new condition of the type `target`.
    pub fn summarize<T: Conditioned + ?Sized>(
        &self,
        object: &T,
        target: &str,
    ) -> Result<NewCondition, MergeError> {
        if self.types.is_empty() {
            return Err(MergeError::NoTypes);
        }
        if self.types.contains(&target) {
            return Err(MergeError::IncludesTarget(target.to_owned()));
        }
        self.check_overrides(object)?;

        let sources: Vec<_> =
            self.sources(object).map(|source| (self.strategy.priority_of(&source), source)).collect();
        let worst = sources.iter().map(|(priority, _)| *priority).min().ok_or(MergeError::NothingInScope)?;
        let status = self.strategy.status(worst, Polarity::Positive);
        let lines = sources.iter().filter_map(|(priority, source)| line(*priority, source, status)).collect();
        Ok(NewCondition::new(target, status, self.strategy.reason(worst))
            .message(self.strategy.rewritten(lines).join("\n")))
    }

    fn check_overrides<T: Conditioned + ?Sized>(&self, object: &T) -> Result<(), MergeError> {
        let mut seen = BTreeSet::new();
        for NewCondition { type_, .. } in &self.overrides {
            if !seen.insert(type_) {
                return Err(MergeError::OverriddenTwice(type_.clone()));
            }
            if get(object, type_).is_none() {
                return Err(MergeError::OverrideWithoutOriginal(type_.clone()));
            }
        }
        Ok(())
    }

    fn sources<'s, T: Conditioned + ?Sized>(&'s self, object: &'s T) -> impl Iterator<Item = Source<'s>> {
        // A type that is named twice, as by a readiness gate that repeats a built-in one, stands where it is
        // named last.
        let last_mention = |(place, type_): &(usize, &&str)| !self.types[place + 1..].contains(type_);
        self.types.iter().enumerate().filter(last_mention).filter_map(|(_, type_)| {
            let owner = object.owner();
            let Some(reported) = get(object, type_) else {
                return (!self.may_be_missing.contains(type_))
                    .then(|| Source::missing(owner, type_, "Condition not yet reported"));
            };
            Some(match self.overrides.iter().find(|condition| condition.type_ == *type_) {
                Some(instead) => Source::overridden(owner, instead),
                None => Source::reported(owner, reported),
            })
        })
    }
}

/// Line of a condition in the message. Infos are included only if all conditions are infos.
fn line(priority: Priority, source: &Source<'_>, status: ConditionStatus) -> Option<String> {
    if priority == Priority::Info && (status != ConditionStatus::True || source.message.is_empty()) {
        return None;
    }
    let said = if source.message.is_empty() { format!(" {}", source.reason) } else { nest(&source.message) };
    Some(format!("* {}:{said}", source.type_))
}
