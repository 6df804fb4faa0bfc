//! Decides when to load the current view again. Pure: the time is an argument.

use std::time::{Duration, Instant};

use super::state::{Query, View};

/// Lists come from memory, and are drawn at most so often.
const LIST: Duration = Duration::from_millis(100);
/// Pages of one object cost requests.
const PAGE: Duration = Duration::from_secs(1);
/// After a load that failed.
const RETRY: Duration = Duration::from_secs(2);

/// The last load, and whether its result may be outdated.
#[derive(Debug)]
pub(super) struct Schedule {
    last: Option<(Query, Instant)>,
    is_old: bool,
    has_failed: bool,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self { last: None, is_old: true, has_failed: false }
    }

    /// Whether an object has changed since the last load began.
    pub(super) fn is_old(&self) -> bool {
        self.is_old
    }

    /// Records that an object has changed.
    pub(super) fn changed(&mut self) {
        self.is_old = true;
    }

    /// Records that a load begins: later changes may not be part of it.
    pub(super) fn begun(&mut self) {
        self.is_old = false;
    }

    /// Records that a load has ended.
    pub(super) fn ended(&mut self, query: Query, is_success: bool, now: Instant) {
        self.last = Some((query, now));
        self.has_failed = !is_success;
        self.is_old |= !is_success;
    }

    /// When to load this query; `None` if the result is up to date.
    pub(super) fn due(&self, wanted: &Query, now: Instant) -> Option<Instant> {
        let Some((last, at)) = &self.last else { return Some(now) };
        if last.view != wanted.view {
            return Some(now);
        }
        let between = match (self.has_failed, &wanted.view) {
            (true, _) => RETRY,
            (false, View::Clusters | View::Machines(_) | View::Hosts) => LIST,
            (false, View::Cluster(_) | View::Machine(_) | View::Host(_)) => PAGE,
        };
        (self.is_old || last.seen != wanted.seen).then(|| *at + between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::state::Name;

    fn query(view: View, seen: &[&str]) -> Query {
        Query { view, seen: seen.iter().map(|name| (String::new(), (*name).to_owned())).collect() }
    }

    #[test]
    fn what_is_there_is_loaded_again_only_after_a_change() {
        let now = Instant::now();
        let (clusters, machine) = (query(View::Clusters, &["a"]), query(View::Machine(Name::default()), &[]));
        let mut schedule = Schedule::new();
        assert_eq!(schedule.due(&clusters, now), Some(now), "nothing was loaded yet");
        schedule.begun();
        schedule.ended(clusters.clone(), true, now);
        assert_eq!(schedule.due(&clusters, now), None);
        assert_eq!(schedule.due(&machine, now), Some(now), "another view does not wait");
        let scrolled = query(View::Clusters, &["b"]);
        assert_eq!(schedule.due(&scrolled, now), Some(now + LIST), "other rows");
        schedule.changed();
        assert_eq!(schedule.due(&clusters, now), Some(now + LIST));
        schedule.begun();
        schedule.ended(machine.clone(), true, now);
        schedule.changed();
        assert_eq!(schedule.due(&machine, now), Some(now + PAGE), "pages cost requests");
    }

    #[test]
    fn a_change_during_a_load_is_loaded_after_it() {
        let (now, clusters) = (Instant::now(), query(View::Clusters, &[]));
        let mut schedule = Schedule::new();
        schedule.begun();
        schedule.changed();
        schedule.ended(clusters.clone(), true, now);
        assert_eq!(schedule.due(&clusters, now), Some(now + LIST));
    }

    #[test]
    fn a_load_that_failed_is_tried_again_later() {
        let (now, clusters) = (Instant::now(), query(View::Clusters, &[]));
        let mut schedule = Schedule::new();
        schedule.begun();
        schedule.ended(clusters.clone(), false, now);
        assert_eq!(schedule.due(&clusters, now), Some(now + RETRY));
    }
}
