//! What is left of a drain, and how it is told. Pure.
//!
//! The words are read by others: owners of Machines look for them to say why a deletion takes so long.

use jiff::Timestamp;
use std::collections::BTreeMap;

use crate::text::{listed, rfc3339};

/// How many pods are named for one reason.
const PODS: usize = 3;
/// How many reasons are told.
const REASONS: usize = 5;
const BUDGET: &str = "annot evict pod as it would violate the pod's disruption budget.";

/// Pods that keep a Node from being drained, as `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Asked to go, still there.
    pub(super) leaving: Vec<String>,
    /// Not to be moved, by why.
    pub(super) failed: BTreeMap<String, Vec<String>>,
    /// They end by themselves.
    pub(super) completing: Vec<String>,
}

impl Left {
    pub(super) fn is_empty(&self) -> bool {
        self.leaving.is_empty() && self.failed.is_empty() && self.completing.is_empty()
    }

    pub(super) fn message(&self, started: Timestamp) -> String {
        let mut lines = vec![format!("Drain not completed yet (started at {}):", rfc3339(started))];
        lines.extend(line(&self.leaving, "deletionTimestamp set, but still not removed from the Node"));
        for (why, pods) in self.failed.iter().take(REASONS) {
            lines.extend(line(pods, &told(why)));
        }
        match self.failed.values().skip(REASONS).map(Vec::len).sum() {
            0_usize => {}
            1 => lines.push("* 1 Pod with other issues".to_owned()),
            more => lines.push(format!("* {more} Pods with other issues")),
        }
        lines.extend(line(&self.completing, "waiting for completion"));
        lines.join("\n")
    }
}

fn line(pods: &[String], what: &str) -> Option<String> {
    let kind = if pods.len() == 1 { "Pod" } else { "Pods" };
    (!pods.is_empty()).then(|| format!("* {kind} {}: {what}", listed(pods, PODS)))
}

fn told(why: &str) -> String {
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
        };
        assert_eq!(
            left.message(Timestamp::UNIX_EPOCH),
            "Drain not completed yet (started at 1970-01-01T00:00:00Z):\n\
             * Pod a/1: deletionTimestamp set, but still not removed from the Node\n\
             * Pods b/1, b/2, b/3, ... (1 more): cannot evict pod as it would violate the pod's disruption budget. \
             The disruption budget b needs 1 healthy pods and has 1 currently\n\
             * Pod c/1: failed to evict Pod, no\n\
             * Pods d/1, d/2: waiting for completion"
        );
    }

    #[test]
    fn too_many_reasons_are_counted() {
        let failed = (0..8).map(|reason| (format!("reason {reason}"), names(&["a/1"]))).collect();
        let message = Left { failed, ..Left::default() }.message(Timestamp::UNIX_EPOCH);
        assert!(message.ends_with("reason 4\n* 3 Pods with other issues"), "{message}");
    }
}
