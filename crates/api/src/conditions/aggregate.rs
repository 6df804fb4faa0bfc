//! Aggregation of one condition of many objects, as in `MachinesReady` and `WorkersAvailable`.

use super::digest::digest;
use super::merge::{MergeError, MergeStrategy, Priority, Source};
use super::{Conditioned, NewCondition, get};

/// An aggregation of conditions.
pub struct Aggregate<'a> {
    source: &'a str,
    target: &'a str,
    strategy: MergeStrategy<'a>,
}

impl<'a> Aggregate<'a> {
    /// Aggregates conditions of this type into a condition of the same type.
    pub fn over(type_: &'a str) -> Self {
        Self { source: type_, target: type_, strategy: MergeStrategy::new() }
    }

    /// Sets the type of the resulting condition.
    pub fn to(mut self, type_: &'a str) -> Self {
        self.target = type_;
        self
    }

    /// Sets the merge strategy. If the source type has negative polarity in it, so has the result by default.
    pub fn strategy(mut self, strategy: MergeStrategy<'a>) -> Self {
        self.strategy = strategy;
        self
    }

    /// Aggregates over objects. Their order does not matter.
    pub fn aggregate<'o, T: Conditioned + ?Sized + 'o>(
        &self,
        objects: impl IntoIterator<Item = &'o T>,
    ) -> Result<NewCondition, MergeError> {
        let mut sources: Vec<_> = objects.into_iter().map(|object| self.source(object)).collect();
        // The oldest first. The name decides between conditions of the same second, so that the message does
        // not change from one reconcile to the next because a cache lists objects in another order.
        sources.sort_by(|a, b| {
            (a.since, &a.owner.kind, a.owner.name).cmp(&(b.since, &b.owner.kind, b.owner.name))
        });

        let weighed: Vec<_> =
            sources.iter().map(|source| (self.strategy.priority_of(source), source)).collect();
        let worst = weighed.iter().map(|(priority, _)| *priority).min().ok_or(MergeError::NoObjects)?;
        let status = self.strategy.status(worst, self.strategy.polarity_of(self.source));
        Ok(NewCondition::new(self.target, status, self.strategy.reason(worst))
            .message(digest(&relevant_sources(weighed, worst))))
    }

    fn source<'s, T: Conditioned + ?Sized>(&'s self, object: &'s T) -> Source<'s> {
        match get(object, self.source) {
            Some(condition) => Source::reported(object.owner(), condition),
            None => {
                let message = format!("Condition {} not yet reported", self.source);
                Source::missing(object.owner(), self.source, message)
            }
        }
    }
}

/// Issues first, then unknowns. Infos are included only if there is nothing else, and only with a message.
fn relevant_sources<'w, 's>(
    mut weighed: Vec<(Priority, &'w Source<'s>)>,
    worst: Priority,
) -> Vec<(Priority, &'w Source<'s>)> {
    weighed.retain(|(priority, source)| match priority {
        Priority::Issue | Priority::Unknown => true,
        Priority::Info => worst == Priority::Info && !source.message.is_empty(),
    });
    weighed.sort_by_key(|(priority, _)| *priority);
    weighed
}
