//! The pods that are left of a drain, and the message about them. Pure.
//!
//! Other controllers read the message: owners of Machines search it to say why a deletion takes long.

use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::text::{listed, rfc3339};

/// Pause before the next reconcile while pods terminate.
const UNTIL_PODS_ARE_GONE: Duration = Duration::from_secs(20);
/// Pods that the message names for one reason.
const PODS: usize = 3;
/// Reasons in the message.
const REASONS: usize = 5;
const BUDGET: &str = "annot evict pod as it would violate the pod's disruption budget.";

/// Pods that keep a Node from being drained, as `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Evicted, still there.
    pub(super) leaving: Vec<String>,
    /// Pods that cannot be evicted, by reason.
    pub(super) failed: BTreeMap<String, Vec<String>>,
    /// Pods that complete by themselves.
    pub(super) completing: Vec<String>,
    /// Pods that are evicted after those above.
    pub(super) later: Vec<String>,
    /// Pods that complete by themselves, and are waited for after those above.
    pub(super) completing_later: Vec<String>,
    /// When the first rejected eviction may be retried.
    pub(super) again: Option<Timestamp>,
}

impl Left {
    pub(super) fn is_empty(&self) -> bool {
        let lists = [&self.leaving, &self.completing, &self.later, &self.completing_later];
        lists.iter().all(|pods| pods.is_empty()) && self.failed.is_empty()
    }

    /// A pod whose eviction was rejected, and may be retried at `until`.
    pub(super) fn refused(&mut self, pod: String, why: String, until: Timestamp) {
        self.failed.entry(why).or_default().push(pod);
        self.again = Some(self.again.map_or(until, |again| again.min(until)));
    }

    /// When to reconcile again.
    pub(super) fn next(&self, now: Timestamp) -> Duration {
        let again = self.again.map(|again| Duration::try_from(again.duration_since(now)).unwrap_or_default());
        again.map_or(UNTIL_PODS_ARE_GONE, |again| again.min(UNTIL_PODS_ARE_GONE))
    }

    pub(super) fn message(&self, started: Timestamp) -> String {
        let mut lines = vec![format!("Drain not completed yet (started at {}):", rfc3339(started))];
        lines.extend(line(&self.leaving, "deletionTimestamp set, but still not removed from the Node"));
        for (why, pods) in self.failed.iter().take(REASONS) {
            lines.extend(line(pods, &reason_text(why)));
        }
        match self.failed.values().skip(REASONS).map(Vec::len).sum() {
            0_usize => {}
            1 => lines.push("* 1 Pod with other issues".to_owned()),
            more => lines.push(format!("* {more} Pods with other issues")),
        }
        lines.extend(line(&self.completing, "waiting for completion"));
        lines.extend(later_line(&self.later, "the following Pods will be evicted"));
        let completing = "waiting for the following Pods to complete without eviction";
        lines.extend(later_line(&self.completing_later, completing));
        lines.join("\n")
    }
}

fn line(pods: &[String], what: &str) -> Option<String> {
    let kind = if pods.len() == 1 { "Pod" } else { "Pods" };
    (!pods.is_empty()).then(|| format!("* {kind} {}: {what}", listed(pods, PODS)))
}

fn later_line(pods: &[String], what: &str) -> Option<String> {
    let after = "After above Pods have been removed from the Node";
    (!pods.is_empty()).then(|| format!("{after}, {what}: {}", listed(pods, PODS)))
}

fn reason_text(why: &str) -> String {
    match why.strip_prefix('C').filter(|rest| rest.starts_with(BUDGET)) {
        Some(rest) => format!("c{rest}"),
        None => format!("failed to evict Pod, {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_message_is_upstreams() {
        let budget = "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget b \
                      needs 1 healthy pods and has 1 currently";
        let left = Left {
            leaving: names(&["a/1"]),
            failed: BTreeMap::from([
                (budget.to_owned(), names(&["b/1", "b/2", "b/3", "b/4"])),
                ("no".to_owned(), names(&["c/1"])),
            ]),
            completing: names(&["d/1", "d/2"]),
            later: names(&["e/1", "e/2", "e/3", "e/4"]),
            completing_later: names(&["f/1"]),
            again: None,
        };
        assert_eq!(
            left.message(Timestamp::UNIX_EPOCH),
            "Drain not completed yet (started at 1970-01-01T00:00:00Z):\n\
             * Pod a/1: deletionTimestamp set, but still not removed from the Node\n\
             * Pods b/1, b/2, b/3, ... (1 more): cannot evict pod as it would violate the pod's disruption budget. \
             The disruption budget b needs 1 healthy pods and has 1 currently\n\
             * Pod c/1: failed to evict Pod, no\n\
             * Pods d/1, d/2: waiting for completion\n\
             After above Pods have been removed from the Node, the following Pods will be evicted: e/1, e/2, e/3, ... (1 more)\n\
             After above Pods have been removed from the Node, waiting for the following Pods to complete without eviction: f/1"
        );
    }

    #[test]
    fn a_node_is_drained_when_nothing_is_left() {
        assert!(Left::default().is_empty());
        for left in [
            Left { leaving: names(&["a/1"]), ..Left::default() },
            Left { completing: names(&["a/1"]), ..Left::default() },
            Left { later: names(&["a/1"]), ..Left::default() },
            Left { completing_later: names(&["a/1"]), ..Left::default() },
            Left { failed: BTreeMap::from([("no".to_owned(), names(&["a/1"]))]), ..Left::default() },
        ] {
            assert!(!left.is_empty(), "{left:?}");
        }
    }

    #[test]
    fn the_next_look_is_when_the_first_refused_pod_may_go() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        for (refused, now, expected) in [
            (vec![], 0, 20),
            (vec![5], 0, 5),
            (vec![30, 10], 0, 10),
            (vec![30], 0, 20),
            (vec![30], 20, 10),
            (vec![5], 9, 0),
        ] {
            let mut left = Left::default();
            for until in &refused {
                left.refused("a/1".to_owned(), "budget".to_owned(), at(*until));
            }
            assert_eq!(left.next(at(now)), Duration::from_secs(expected), "{refused:?} at {now}");
        }
    }

    #[test]
    fn too_many_reasons_are_counted() {
        let failed = (0..8).map(|reason| (format!("reason {reason}"), names(&["a/1"]))).collect();
        let message = Left { failed, ..Left::default() }.message(Timestamp::UNIX_EPOCH);
        assert!(message.ends_with("reason 4\n* 3 Pods with other issues"), "{message}");
    }
}
