//! Which templates a class refers to, and its variables. Pure.

use capstan_api::core::{ClusterClass, ClusterClassStatusVariable, ClusterClassTemplateReference};
use capstan_controller::Error;
use capstan_topology::variables::definitions_of;
use kube::ResourceExt as _;
use std::collections::HashSet;

/// The templates of a class, each once.
pub(super) fn references(class: &ClusterClass) -> Vec<&ClusterClassTemplateReference> {
    let spec = &class.spec;
    let control_plane = &spec.control_plane;
    let mut all = vec![&spec.infrastructure.template_ref, &control_plane.template_ref];
    all.extend(control_plane.machine_infrastructure.iter().map(|machines| &machines.template_ref));
    if let Some(workers) = &spec.workers {
        for one in &workers.machine_deployments {
            all.extend([&one.bootstrap.template_ref, &one.infrastructure.template_ref]);
        }
        for one in &workers.machine_pools {
            all.extend([&one.bootstrap.template_ref, &one.infrastructure.template_ref]);
        }
    }
    let mut seen = HashSet::new();
    all.retain(|reference| seen.insert(*reference));
    all
}

/// A reference that does not name the newest version of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outdated {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) current: String,
    pub(super) latest: String,
}

/// The reference, if `latest` is another version.
pub(super) fn outdated(reference: &ClusterClassTemplateReference, latest: &str) -> Option<Outdated> {
    let version = |api_version: &str| {
        api_version.split_once('/').map_or(api_version, |(_, version)| version).to_owned()
    };
    let (current, latest) = (version(&reference.api_version), version(latest));
    (current != latest).then(|| Outdated {
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        current,
        latest,
    })
}

/// Why the variables of a class are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum VariablesError {
    /// Patches with variables of runtime extensions.
    #[error(
        "patches {0} have spec.patches[].external.discoverVariablesExtension, which Capstan does not call; define the \
         variables in spec.variables"
    )]
    External(String),
}

impl VariablesError {
    pub(super) fn error(&self, class: &ClusterClass) -> Error {
        let field = format!("ClusterClass {}/{}", class.namespace().unwrap_or_default(), class.name_any());
        Error::user(field, self.to_string())
    }
}

/// The variables of a class.
pub(super) fn variables(class: &ClusterClass) -> Result<Vec<ClusterClassStatusVariable>, VariablesError> {
    let external: Vec<&str> = class
        .spec
        .patches
        .iter()
        .filter(|patch| {
            let external = patch.external.as_ref();
            external.is_some_and(|external| external.discover_variables_extension.is_some())
        })
        .map(|patch| patch.name.as_str())
        .collect();
    match external.as_slice() {
        [] => Ok(definitions_of(&class.spec.variables, &[])),
        names => Err(VariablesError::External(names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn template(kind: &str, name: &str) -> Value {
        json!({"templateRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind, "name": name}})
    }

    fn class(change: impl FnOnce(&mut Value)) -> ClusterClass {
        let mut control_plane = template("PlaneTemplate", "plane");
        control_plane["machineInfrastructure"] = template("MachineTemplate", "machines");
        let worker = |name: &str| {
            json!({
                "class": name,
                "bootstrap": template("BootTemplate", "boot"),
                "infrastructure": template("MachineTemplate", "machines"),
            })
        };
        let mut object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "class"},
            "spec": {
                "infrastructure": template("NetworkTemplate", "network"),
                "controlPlane": control_plane,
                "workers": {"machineDeployments": [worker("a"), worker("b")], "machinePools": [worker("p")]},
                "variables": [{"name": "size", "required": false, "schema": {"openAPIV3Schema": {"type": "string"}}}],
            },
        });
        change(&mut object);
        serde_json::from_value(object).expect("a ClusterClass")
    }

    #[test]
    fn each_template_is_named_once() {
        let class = class(|_| {});
        let names: Vec<&str> =
            references(&class).into_iter().map(|reference| reference.name.as_str()).collect();
        assert_eq!(names, ["network", "plane", "machines", "boot"]);
    }

    #[test]
    fn another_version_is_outdated() {
        let class = class(|_| {});
        let reference = references(&class)[0];
        assert_eq!(outdated(reference, "infrastructure.cluster.x-k8s.io/v1beta2"), None);
        let found = outdated(reference, "infrastructure.cluster.x-k8s.io/v1beta3").expect("outdated");
        assert_eq!((found.current.as_str(), found.latest.as_str()), ("v1beta2", "v1beta3"));
    }

    #[test]
    fn variables_of_extensions_are_refused() {
        assert_eq!(variables(&class(|_| {})).expect("variables")[0].name, "size");
        let class = class(|object| {
            object["spec"]["patches"] =
                json!([{"name": "p", "external": {"discoverVariablesExtension": "vars.e"}}]);
        });
        assert!(variables(&class).expect_err("refused").to_string().starts_with("patches p have"));
    }
}
