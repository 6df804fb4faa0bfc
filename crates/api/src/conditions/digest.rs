//! Digest of the messages of many objects: groups equal messages, and selects the three most important ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::merge::{Priority, Source};
use super::message::{nest, plural};

/// Maximum number of messages.
const MESSAGES: usize = 3;

/// Maximum number of objects that are named for each message. A control plane usually has three Machines, and all of
/// them should be named.
const NAMES: usize = 3;

/// Importance of a message over all objects and kinds that report it.
struct Weight {
    from_control_plane: bool,
    priority: Priority,
}

/// Lists what objects report, one line for each message, grouped by kind.
///
/// Messages of control plane machines come first, then those with the worst priority, then those that most objects
/// report. The order of `sources`, worst first, decides between equals.
pub(super) fn digest(sources: &[(Priority, &Source<'_>)]) -> String {
    let mut weights: BTreeMap<&str, Weight> = BTreeMap::new();
    let mut reporters: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    let mut control_plane: BTreeSet<&str> = BTreeSet::new();
    for (priority, source) in sources {
        let owner = &source.owner;
        // A message that is reported with several priorities keeps the worst, which is the first.
        let weight = weights
            .entry(&source.message)
            .or_insert(Weight { from_control_plane: false, priority: *priority });
        weight.from_control_plane |= owner.is_control_plane_machine;
        reporters.entry(&owner.kind).or_default().entry(&source.message).or_default().push(owner.name);
        if owner.is_control_plane_machine {
            control_plane.insert(owner.name);
        }
    }

    let mut lines = Vec::new();
    let mut room = MESSAGES;
    for (kind, messages) in reporters {
        let kind = CountedNoun { one: kind, many: plural(kind) };
        let mut messages: Vec<_> =
            messages.into_iter().map(|(message, names)| (message, &weights[message], names)).collect();
        messages.sort_by_cached_key(|(_, weight, names)| {
            (!weight.from_control_plane, weight.priority, Reverse(names.len()), names.join(","))
        });

        let shown = room.min(messages.len());
        let hidden = messages.split_off(shown);
        room -= shown;
        for (message, _, mut names) in messages {
            names.sort_by_key(|name| (!control_plane.contains(name), *name));
            lines.push(format!("* {} {}:{}", kind.of(names.len()), listed(&names), nest(message)));
        }
        let mut others: BTreeMap<Priority, usize> = BTreeMap::new();
        for (_, weight, names) in hidden {
            *others.entry(weight.priority).or_default() += names.len();
        }
        for (priority, count) in others {
            lines.push(format!("And {count} {} {}", kind.of(count), rest(priority)));
        }
    }
    lines.join("\n")
}

struct CountedNoun<'a> {
    one: &'a str,
    many: String,
}

impl CountedNoun<'_> {
    fn of(&self, count: usize) -> &str {
        if count == 1 { self.one } else { &self.many }
    }
}

fn listed(names: &[&str]) -> String {
    match names.split_at_checked(NAMES) {
        Some((first, more)) if !more.is_empty() => format!("{}, ... ({} more)", first.join(", "), more.len()),
        _ => names.join(", "),
    }
}

fn rest(priority: Priority) -> &'static str {
    match priority {
        Priority::Issue => "with other issues",
        Priority::Unknown => "with status unknown",
        Priority::Info => "with additional info",
    }
}
