//! Which templates a definition selects.

use super::engine::{Holder, Item, Part};
use capstan_api::core::{PatchSelector, PatchSelectorMatchClass};

/// Whether the template is of the kind that a selector names, and at one of the places that it names.
pub(super) fn matches(selector: &PatchSelector, item: &Item) -> bool {
    use crate::object::{api_version, kind};
    if api_version(&item.template) != selector.api_version || kind(&item.template) != selector.kind {
        return false;
    }
    let places = &selector.match_resources;
    let names = |class: &Option<PatchSelectorMatchClass>, of_item: &str| {
        class.as_ref().is_some_and(|class| class.names.iter().any(|name| name_matches(name, of_item)))
    };
    match &item.holder {
        Holder::InfrastructureCluster => places.infrastructure_cluster == Some(true),
        Holder::ControlPlane | Holder::ControlPlaneMachines => places.control_plane == Some(true),
        Holder::MachineDeployment { class, part: Part::Bootstrap | Part::Infrastructure, .. } => {
            names(&places.machine_deployment_class, class)
        }
        Holder::MachinePool { class, part: Part::Bootstrap | Part::Infrastructure, .. } => {
            names(&places.machine_pool_class, class)
        }
    }
}

/// Whether a name of a selector is that of a class. A `*` at its start or end stands for any text.
pub(crate) fn name_matches(name: &str, class: &str) -> bool {
    name == class
        || name.strip_prefix('*').is_some_and(|suffix| class.ends_with(suffix))
        || name.strip_suffix('*').is_some_and(|prefix| class.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::name_matches;

    #[test]
    fn names_have_wildcards_at_their_ends() {
        for (name, class, expected) in [
            ("worker", "worker", true),
            ("worker", "workers", false),
            ("*", "worker", true),
            ("*-gpu", "large-gpu", true),
            ("*-gpu", "gpu", false),
            ("large-*", "large-gpu", true),
            ("large-*", "small-gpu", false),
            ("l*e", "large", false),
        ] {
            assert_eq!(name_matches(name, class), expected, "{name} {class}");
        }
    }
}
