//! Which changes of a worker's template Capstan can make in place.

use capstan_api::core::MachineTemplateSpec;
use capstan_core::machinedeployment::InPlace;

/// A new version reaches a worker by its plan, if the worker is set up by Capstan; so it keeps its host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByPlan;

impl InPlace for ByPlan {
    fn can_update(&self, old: &MachineTemplateSpec, new: &MachineTemplateSpec) -> bool {
        let by_capstan = |template: &MachineTemplateSpec| {
            let config = template.spec.bootstrap.config_ref.as_ref();
            config.is_some_and(|config| config.kind == "CapstanConfigTemplate")
        };
        let mut wanted = old.spec.clone();
        wanted.version.clone_from(&new.spec.version);
        by_capstan(old) && wanted == new.spec
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::{Value, json};

    fn template(version: &str, infrastructure: &str, bootstrap: &str) -> MachineTemplateSpec {
        let reference = |kind: &str, name: &str| -> Value {
            json!({"apiGroup": "example.com", "kind": kind, "name": name})
        };
        let template = json!({"spec": {
            "clusterName": "demo", "version": version,
            "bootstrap": {"configRef": reference(bootstrap, "workers")},
            "infrastructureRef": reference("HostMachineTemplate", infrastructure),
        }});
        serde_json::from_value(template).unwrap()
    }

    #[test]
    fn only_a_new_version_is_carried_out_in_place() {
        let old = template("v1.36.0", "workers", "CapstanConfigTemplate");
        assert!(ByPlan.can_update(&old, &template("v1.36.1", "workers", "CapstanConfigTemplate")));
        assert!(!ByPlan.can_update(&old, &template("v1.36.1", "others", "CapstanConfigTemplate")));
        let foreign = template("v1.36.0", "workers", "KubeadmConfigTemplate");
        assert!(!ByPlan.can_update(&foreign, &template("v1.36.1", "workers", "KubeadmConfigTemplate")));
    }
}
