//! Marks of an update in place, as Cluster API's controllers put them on Machines. Pure.

use capstan_api::runtime::annotations::PENDING_HOOKS;
use capstan_api::runtime::annotations::in_place::UPDATE_IN_PROGRESS;
use capstan_api::runtime::hooks::{Hook as _, UpdateMachine};
use kube::core::ObjectMeta;
use std::collections::BTreeSet;

/// Whether the object has the annotation of an in-place update, with any value.
pub fn is_marked(meta: &ObjectMeta) -> bool {
    annotation(meta, UPDATE_IN_PROGRESS).is_some()
}

/// Whether the hook `UpdateMachine` is pending.
pub fn is_hook_pending(meta: &ObjectMeta) -> bool {
    hooks(meta).contains(UpdateMachine::NAME)
}

/// Whether the Machine is being updated in place, or is about to be.
pub fn is_updating(meta: &ObjectMeta) -> bool {
    is_marked(meta) || is_hook_pending(meta)
}

/// Whether an update is announced and the desired state of the Machine is still being written, object by object.
pub fn is_being_written(meta: &ObjectMeta) -> bool {
    is_marked(meta) && !is_hook_pending(meta)
}

/// The annotation of pending hooks, with `UpdateMachine` added.
pub fn with_hook(meta: &ObjectMeta) -> String {
    let mut hooks = hooks(meta);
    hooks.insert(UpdateMachine::NAME);
    joined(hooks)
}

/// The annotation of pending hooks without `UpdateMachine`; `None` if no hook is left.
pub fn without_hook(meta: &ObjectMeta) -> Option<String> {
    let mut hooks = hooks(meta);
    hooks.remove(UpdateMachine::NAME);
    (!hooks.is_empty()).then(|| joined(hooks))
}

fn hooks(meta: &ObjectMeta) -> BTreeSet<&str> {
    let list = annotation(meta, PENDING_HOOKS).unwrap_or_default();
    list.split(',').map(str::trim).filter(|hook| !hook.is_empty()).collect()
}

fn joined(hooks: BTreeSet<&str>) -> String {
    hooks.into_iter().collect::<Vec<_>>().join(",")
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn meta(annotations: &[(&str, &str)]) -> ObjectMeta {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        ObjectMeta { annotations: Some(annotations.collect::<BTreeMap<_, _>>()), ..ObjectMeta::default() }
    }

    #[test]
    fn an_update_has_three_stages() {
        for (annotations, updating, written) in [
            (vec![], false, false),
            (vec![(UPDATE_IN_PROGRESS, "")], true, true),
            (vec![(UPDATE_IN_PROGRESS, ""), (PENDING_HOOKS, "UpdateMachine")], true, false),
            (vec![(UPDATE_IN_PROGRESS, ""), (PENDING_HOOKS, "Other")], true, true),
            (vec![(PENDING_HOOKS, "Other,UpdateMachine")], true, false),
            (vec![(PENDING_HOOKS, "UpdateMachines")], false, false),
        ] {
            let meta = meta(&annotations);
            assert_eq!((is_updating(&meta), is_being_written(&meta)), (updating, written), "{annotations:?}");
        }
    }

    #[test]
    fn other_hooks_stay_pending() {
        for (before, with, without) in [
            (vec![], "UpdateMachine", None),
            (vec![(PENDING_HOOKS, "B,A")], "A,B,UpdateMachine", Some("A,B")),
            (vec![(PENDING_HOOKS, "UpdateMachine")], "UpdateMachine", None),
            (vec![(PENDING_HOOKS, "UpdateMachine,Z")], "UpdateMachine,Z", Some("Z")),
        ] {
            let meta = meta(&before);
            assert_eq!((with_hook(&meta).as_str(), without_hook(&meta).as_deref()), (with, without));
        }
    }
}
