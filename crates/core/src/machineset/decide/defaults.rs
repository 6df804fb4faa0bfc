//! What upstream's webhook fills in. Here it is filled in by the controller, which does not need one. Pure.

use capstan_api::core::MachineSet;
use capstan_api::meta::labels;
use capstan_controller::names::label_value;
use capstan_controller::{Error, Result};
use kube::ResourceExt as _;

use crate::replicas;

/// Fills in the number of Machines; so many belong to the MachineSet.
///
/// # Errors
/// If an annotation of the autoscaler is no number.
pub(crate) fn fill_replicas(set: &mut MachineSet, machines: usize) -> Result<()> {
    if set.spec.replicas.is_none() {
        let before = i32::try_from(machines).ok().filter(|machines| *machines > 0);
        let number = replicas::unsaid(set.annotations(), before).map_err(|error| {
            let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
            Error::user(format!("MachineSet {namespace}/{name}"), error.to_string())
        })?;
        set.spec.replicas = Some(number);
    }
    Ok(())
}

/// Fills in what else is unset.
pub(crate) fn fill(set: &mut MachineSet) {
    let cluster = set.spec.cluster_name.clone();
    let name = label_value(&set.name_any());
    set.metadata.labels.get_or_insert_default().insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());

    let template = &mut set.spec.template.metadata.get_or_insert_default().labels;
    let selector = &mut set.spec.selector;
    let selects_nothing = selector.match_labels.as_ref().is_none_or(std::collections::BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    let wanted = selector.match_labels.get_or_insert_default();
    if selects_nothing {
        wanted.insert(labels::SET_NAME.to_owned(), name.clone());
        template.insert(labels::SET_NAME.to_owned(), name);
    }
    wanted.insert(labels::CLUSTER_NAME.to_owned(), cluster.clone());
    template.insert(labels::CLUSTER_NAME.to_owned(), cluster);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machineset::fixtures::machine_set;
    use serde_json::json;

    #[test]
    fn a_set_without_a_selector_selects_its_own() {
        let mut set =
            machine_set("ms", 1, &json!({"spec": {"replicas": null, "selector": {"matchLabels": null}}}));
        fill(&mut set);
        for machines in [0, 4] {
            let mut counted = set.clone();
            fill_replicas(&mut counted, machines).expect("a number");
            assert_eq!(counted.spec.replicas, Some(if machines == 0 { 1 } else { 4 }));
            fill_replicas(&mut counted, 7).expect("a number");
            assert_ne!(counted.spec.replicas, Some(7), "it is said already");
        }
        let selected = set.spec.selector.match_labels.clone().expect("a test value");
        assert_eq!(selected[labels::SET_NAME], "ms");
        assert_eq!(selected[labels::CLUSTER_NAME], "c");
        let template = set.spec.template.metadata.clone().expect("a test value").labels;
        assert!(selected.iter().all(|(key, value)| template.get(key) == Some(value)));
        let before = set.clone();
        fill(&mut set);
        assert_eq!(set, before);
    }
}
