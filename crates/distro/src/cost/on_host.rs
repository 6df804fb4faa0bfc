//! The differences that a change makes to the machine on a Host. Pure.

use capstan_api::bootstrap::HostTaint;

use super::table::TO_NODE;
use super::{Change, Cost, Setup, classify};
use crate::error::InputError;
use crate::host::{HostFacts, MergedConfig, merge, taint_field};

const ENTRIES: &str = "spec.hostConfig";
const NOT_HERE: &str = "it makes no difference to the machine on this Host";
const COVERED: &str = "the configuration of the Host takes precedence over it";

/// The differences between two setups of a machine, each with its Host. The configurations are merged first: a field that
/// makes no difference to this machine costs nothing, whatever it costs elsewhere.
///
/// # Errors
/// If the new configuration cannot be merged.
pub fn classify_on(
    (old, old_host): (Setup<'_>, Option<&HostFacts>),
    (new, new_host): (Setup<'_>, Option<&HostFacts>),
) -> Result<Vec<Change>, InputError> {
    let after = merge(new.config, new_host)?;
    // A configuration that cannot be merged has not reached the machine.
    let before = merge(old.config, old_host).unwrap_or_else(|_| MergedConfig::alone(old.config));
    let mut changes =
        classify(Setup { config: &before.config, ..old }, Setup { config: &after.config, ..new });
    changes.extend(of_node(&before, &after));
    for change in changes.iter_mut().filter(|change| change.to.is_some()) {
        change.origin = after.origin(&change.field);
    }
    let has_effect = !changes.is_empty();
    for change in classify(old, new) {
        if changes.iter().any(|effective| effective.field == change.field) {
            continue;
        }
        let is_entry = change.field.starts_with(ENTRIES);
        if !change.cost.is_in_place() {
            changes.push(change);
        } else if !is_entry {
            changes.push(Change { cost: Cost::Nothing, why: COVERED.into(), ..change });
        } else if !has_effect {
            changes.push(Change { cost: Cost::Nothing, why: NOT_HERE.into(), ..change });
        }
    }
    Ok(changes)
}

/// Labels and taints of the Node that differ.
fn of_node(before: &MergedConfig, after: &MergedConfig) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut compare = |field: String, from: Option<String>, to: Option<String>| {
        if from != to {
            changes.push(Change { from, to, ..Change::new(field, Cost::Live, TO_NODE) });
        }
    };
    let (old, new) = (&before.labels, &after.labels);
    for key in old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))) {
        compare(format!("labels.{key}"), old.get(key).cloned(), new.get(key).cloned());
    }
    let value = |taints: &[HostTaint], field: &str| {
        let found = taints.iter().find(|taint| taint_field(taint) == field);
        found.map(|taint| taint.value.clone().unwrap_or_default())
    };
    let (old, new) = (&before.taints, &after.taints);
    let fields = |taints: &[HostTaint]| taints.iter().map(taint_field).collect::<Vec<_>>();
    let (old_fields, new_fields) = (fields(old), fields(new));
    for field in old_fields.iter().chain(new_fields.iter().filter(|field| !old_fields.contains(*field))) {
        compare(field.clone(), value(old, field), value(new, field));
    }
    changes
}
