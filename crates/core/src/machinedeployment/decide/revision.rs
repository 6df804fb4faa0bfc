//! Revisions: which template came after which. Pure.

use capstan_api::core::MachineSet;
use kube::ResourceExt as _;
use std::collections::BTreeMap;

use super::super::names::{REVISION, REVISION_HISTORY};

/// The annotations of the new MachineSet, and its revision: higher than that of every old one, and never lower than
/// it was.
pub(crate) fn of_new(new: Option<&MachineSet>, old: &[MachineSet]) -> (BTreeMap<String, String>, String) {
    let highest = old.iter().filter_map(number).max().unwrap_or(0);
    let current = new.and_then(number);
    let revision = (highest + 1).max(current.unwrap_or(0)).to_string();
    let mut annotations = new.map(of_old).unwrap_or_default();
    if let Some(before) = annotations.insert(REVISION.to_owned(), revision.clone())
        && before != revision
    {
        let history = annotations.entry(REVISION_HISTORY.to_owned()).or_default();
        *history = if history.is_empty() { before } else { format!("{history},{before}") };
    }
    (annotations, revision)
}

/// The annotations that an old MachineSet keeps.
pub(crate) fn of_old(set: &MachineSet) -> BTreeMap<String, String> {
    let keep = |key: &str| set.annotations().get(key).map(|value| (key.to_owned(), value.clone()));
    [REVISION, REVISION_HISTORY].into_iter().filter_map(keep).collect()
}

fn number(set: &MachineSet) -> Option<i64> {
    set.annotations().get(REVISION)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::machine_set;
    use serde_json::json;

    fn set(revision: &str, history: Option<&str>) -> MachineSet {
        let annotations = json!({REVISION: revision, REVISION_HISTORY: history});
        let mut fields = json!({"metadata": {"annotations": annotations}});
        if history.is_none() {
            fields["metadata"]["annotations"].as_object_mut().expect("a test value").remove(REVISION_HISTORY);
        }
        machine_set("ms", 1, &fields)
    }

    #[test]
    fn revisions_only_grow() {
        for (new, old, revision, history) in [
            (None, vec![], "1", None),
            (None, vec!["3", "7"], "8", None),
            (Some(("4", None)), vec!["3"], "4", None),
            // An old one becomes the new one again.
            (Some(("2", None)), vec!["3"], "4", Some("2")),
            (Some(("2", Some("1"))), vec!["3"], "4", Some("1,2")),
            // Old ones have been cleaned up.
            (Some(("9", Some("1"))), vec![], "9", Some("1")),
            (None, vec!["nonsense", "2"], "3", None),
        ] {
            let new = new.map(|(revision, history)| set(revision, history));
            let old: Vec<MachineSet> = old.into_iter().map(|revision| set(revision, None)).collect();
            let (annotations, found) = of_new(new.as_ref(), &old);
            assert_eq!(found, revision);
            assert_eq!(annotations[REVISION], revision);
            assert_eq!(annotations.get(REVISION_HISTORY).map(String::as_str), history);
        }
    }
}
