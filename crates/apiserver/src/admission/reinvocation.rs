//! Which policies and webhooks see an object a second time. As upstream, there are at most two rounds: what ran in the first
//! one and wants to see later changes runs in the second one again if the object was changed after it.

use std::collections::BTreeSet;

use serde_json::Value;

/// The account of policies, or that of webhooks.
pub(super) struct Reinvocation<K> {
    second_round: bool,
    /// What has run, wants to see changes, and has seen all of them.
    invoked: BTreeSet<K>,
    /// What runs in the second round.
    due: BTreeSet<K>,
    /// The object as the last round left it.
    left: Option<Value>,
}

impl<K: Ord> Reinvocation<K> {
    pub(super) fn new() -> Self {
        Self { second_round: false, invoked: BTreeSet::new(), due: BTreeSet::new(), left: None }
    }

    /// Begins the second round with an object, which others may have changed meanwhile.
    pub(super) fn begin_again(&mut self, object: Option<&Value>) {
        self.second_round = true;
        if self.left.as_ref() != object {
            self.changed();
        }
    }

    /// Whether something does not run in this round.
    pub(super) fn skips(&self, key: &K) -> bool {
        self.second_round && !self.due.contains(key)
    }

    /// Notes a change of the object: all that has run and wants to see changes is due.
    pub(super) fn changed(&mut self) {
        self.due.append(&mut self.invoked);
    }

    /// Notes that something has run that wants to see changes.
    pub(super) fn ran(&mut self, key: K) {
        self.invoked.insert(key);
    }

    /// Ends a round with the object as it is left.
    pub(super) fn end(&mut self, object: Option<&Value>) {
        // Needed only if something wants to see changes.
        self.left = object.filter(|_| !self.invoked.is_empty()).cloned();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What of `steps` runs in the second round. A step has a name, and says whether it wants to see changes and whether it
    /// changes the object. `others` says whether something else changes the object between the rounds.
    fn second(steps: &[(&'static str, bool, bool)], others: bool) -> Vec<&'static str> {
        let mut account = Reinvocation::new();
        let mut object = json!(0);
        for (name, wants, changes) in steps {
            assert!(!account.skips(name), "{name} in the first round");
            if *changes {
                object = json!(object.as_i64().unwrap() + 1);
                account.changed();
            }
            if *wants {
                account.ran(*name);
            }
        }
        account.end(Some(&object));
        if others {
            object = json!("other");
        }
        account.begin_again(Some(&object));
        steps.iter().map(|(name, ..)| *name).filter(|name| !account.skips(name)).collect()
    }

    #[test]
    fn what_wants_to_see_changes_runs_after_changes() {
        let (a, b) = (("a", true, false), ("b", true, true));
        assert_eq!(second(&[a, ("b", false, true)], false), ["a"]);
        assert_eq!(second(&[a, ("b", false, false)], false), [""; 0], "nothing was changed");
        assert_eq!(second(&[("a", false, false), b], false), [""; 0], "b has seen its own change");
        assert_eq!(second(&[b, a], false), [""; 0], "a has seen the change of b, and b its own");
        assert_eq!(second(&[b, a, ("c", false, true)], false), ["b", "a"]);
        assert_eq!(second(&[a, b], true), ["a", "b"], "something else changed the object");
        assert_eq!(second(&[("a", false, true)], true), [""; 0], "it does not want to");
    }
}
