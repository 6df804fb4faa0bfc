//! Patches of a class: selectors that select something, operations that can be applied, variables that exist.

use super::class::repeated;
use super::words;
use crate::field;
use crate::gotemplate;
use crate::patches::name_matches;
use capstan_api::core::{
    ClusterClass, ClusterClassPatch, ClusterClassTemplateReference, JsonPatch, JsonPatchOp, PatchSelector,
    WorkersClass,
};
use capstan_apiserver_schema::FieldError;
use std::collections::BTreeSet;

const AT: &str = "spec.patches";

/// Paths of what describes the cluster and its objects.
const BUILTIN: &[&str] = &[
    "builtin.cluster",
    "builtin.cluster.name",
    "builtin.cluster.namespace",
    "builtin.cluster.uid",
    "builtin.cluster.metadata.labels",
    "builtin.cluster.metadata.annotations",
    "builtin.cluster.topology",
    "builtin.cluster.topology.version",
    "builtin.cluster.topology.class",
    "builtin.cluster.topology.classNamespace",
    "builtin.cluster.topology.classRef.name",
    "builtin.cluster.topology.classRef.namespace",
    "builtin.cluster.network",
    "builtin.cluster.network.serviceDomain",
    "builtin.cluster.network.services",
    "builtin.cluster.network.pods",
    "builtin.controlPlane",
    "builtin.controlPlane.name",
    "builtin.controlPlane.replicas",
    "builtin.controlPlane.version",
    "builtin.controlPlane.metadata.labels",
    "builtin.controlPlane.metadata.annotations",
    "builtin.controlPlane.machineTemplate.infrastructureRef.name",
];
/// Paths of what describes a MachineDeployment or a MachinePool, below it.
const BUILTIN_WORKERS: &[&str] = &[
    "",
    ".class",
    ".name",
    ".replicas",
    ".topologyName",
    ".version",
    ".metadata.labels",
    ".metadata.annotations",
    ".bootstrap.configRef.name",
    ".infrastructureRef.name",
];

fn is_builtin(path: &str) -> bool {
    let workers = ["builtin.machineDeployment", "builtin.machinePool"];
    let is_workers = workers
        .iter()
        .any(|kind| path.strip_prefix(kind).is_some_and(|below| BUILTIN_WORKERS.contains(&below)));
    is_workers || BUILTIN.contains(&path)
}

pub(super) fn check(class: &ClusterClass) -> Vec<FieldError> {
    let patches = &class.spec.patches;
    let mut errors = repeated(patches.iter().map(|patch| patch.name.as_str()), AT, "name");
    for (i, patch) in patches.iter().enumerate() {
        errors.extend(one(patch, class, &field::entry(AT, i)));
    }
    errors
}

fn one(patch: &ClusterClassPatch, class: &ClusterClass, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = field::child(at, "name");
    if patch.name.is_empty() {
        errors.push(field::required(&name, "name of the patch"));
    }
    if patch.name == crate::variables::INLINE {
        errors.push(field::invalid(
            &name,
            patch.name.as_str(),
            "is reserved for variables of the class itself",
        ));
    }
    if let Some(Err(error)) =
        patch.enabled_if.as_ref().map(|text| gotemplate::check(text).map_err(|error| (text, error)))
    {
        errors.push(field::invalid(&field::child(at, "enabledIf"), error.0.as_str(), error.1.to_string()));
    }
    match (patch.definitions.is_empty(), &patch.external) {
        (true, None) => errors.push(field::required(at, "one of definitions and external")),
        (false, Some(_)) => {
            errors.push(field::invalid(
                at,
                patch.name.as_str(),
                "definitions and external cannot be combined",
            ));
        }
        _ => {}
    }
    if let Some(external) = &patch.external
        && external.generate_patches_extension.is_none()
        && external.validate_topology_extension.is_none()
    {
        let why = "one of generatePatchesExtension and validateTopologyExtension";
        errors.push(field::required(&field::child(at, "external"), why));
    }
    let variables: BTreeSet<&str> =
        class.spec.variables.iter().map(|variable| variable.name.as_str()).collect();
    for (i, definition) in patch.definitions.iter().enumerate() {
        let at = field::entry(&field::child(at, "definitions"), i);
        for (i, operation) in definition.json_patches.iter().enumerate() {
            let at = field::entry(&field::child(&at, "jsonPatches"), i);
            errors.extend(json_patch(operation, &variables, &at));
        }
        errors.extend(selector(&definition.selector, class, &field::child(&at, "selector")));
    }
    errors
}

fn selector(selector: &PatchSelector, class: &ClusterClass, at: &str) -> Vec<FieldError> {
    let at = field::child(at, "matchResources");
    let places = &selector.match_resources;
    let matches = |reference: &ClusterClassTemplateReference| {
        reference.kind == selector.kind && reference.api_version == selector.api_version
    };
    let names = |class: &Option<capstan_api::core::PatchSelectorMatchClass>| {
        class.as_ref().map(|class| class.names.clone()).unwrap_or_default()
    };
    let (deployments, pools) = (names(&places.machine_deployment_class), names(&places.machine_pool_class));
    let (infrastructure, control_plane) =
        (places.infrastructure_cluster == Some(true), places.control_plane == Some(true));
    let mut errors = Vec::new();
    if !infrastructure && !control_plane && deployments.is_empty() && pools.is_empty() {
        errors.push(field::required(&at, "a place in the class, or the name of a class of workers"));
    }
    let mut selects_nothing = |path: &str| {
        let why = format!("selects nothing: no template there is {} {}", selector.api_version, selector.kind);
        errors.push(field::invalid(&field::child(&at, path), true, why));
    };
    let spec = &class.spec;
    if infrastructure && !matches(&spec.infrastructure.template_ref) {
        selects_nothing("infrastructureCluster");
    }
    let machines = spec.control_plane.machine_infrastructure.as_ref();
    if control_plane
        && !matches(&spec.control_plane.template_ref)
        && !machines.is_some_and(|machines| matches(&machines.template_ref))
    {
        selects_nothing("controlPlane");
    }
    let none = WorkersClass::default();
    let workers = spec.workers.as_ref().unwrap_or(&none);
    let of_deployments = workers.machine_deployments.iter().map(|one| {
        (
            one.class.as_str(),
            matches(&one.bootstrap.template_ref) || matches(&one.infrastructure.template_ref),
        )
    });
    let of_pools = workers.machine_pools.iter().map(|one| {
        (
            one.class.as_str(),
            matches(&one.bootstrap.template_ref) || matches(&one.infrastructure.template_ref),
        )
    });
    errors.extend(class_names(
        &deployments,
        &of_deployments.collect::<Vec<_>>(),
        &field::child(&at, "machineDeploymentClass.names"),
    ));
    errors.extend(class_names(
        &pools,
        &of_pools.collect::<Vec<_>>(),
        &field::child(&at, "machinePoolClass.names"),
    ));
    errors
}

/// `classes` are the names of all classes, and whether the selector selects one of their templates.
fn class_names(names: &[String], classes: &[(&str, bool)], at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let stars = name.matches('*').count();
        let is_at_end = name.starts_with('*') || name.ends_with('*');
        let why = if stars > 1 {
            "may contain one *"
        } else if stars == 1 && !is_at_end {
            "may contain * only at its start or end"
        } else if stars == 1 && !words::is_label(&name.replace('*', "a")) {
            "must be a name, apart from the *"
        } else if !classes.iter().any(|(class, is_selected)| *is_selected && name_matches(name, class)) {
            "selects nothing: no class of this name has such a template"
        } else {
            continue;
        };
        errors.push(field::invalid(&field::entry(at, i), name.as_str(), why));
    }
    errors
}

fn json_patch(patch: &JsonPatch, variables: &BTreeSet<&str>, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = field::child(at, "path");
    if !patch.path.starts_with("/spec") {
        errors.push(field::invalid(&path, patch.path.as_str(), "must start with /spec"));
    }
    let indices = patch.path.split('/').filter_map(|part| part.parse::<i64>().ok());
    for index in indices {
        let why = match patch.op {
            JsonPatchOp::Add if index == 0 => continue,
            JsonPatchOp::Add => "items of a list can be added only at its start (0) or its end (-)",
            JsonPatchOp::Replace | JsonPatchOp::Remove => "items of a list cannot be replaced or removed",
        };
        errors.push(field::invalid(&path, patch.path.as_str(), why));
    }
    if patch.op == JsonPatchOp::Remove {
        return errors;
    }
    let from = patch.value_from.as_ref();
    let variable = from.and_then(|from| from.variable.as_deref()).filter(|path| !path.is_empty());
    let template = from.and_then(|from| from.template.as_deref()).filter(|text| !text.is_empty());
    if patch.value.is_some() == from.is_some() {
        errors.push(field::invalid(
            at,
            patch.path.as_str(),
            "exactly one of value and valueFrom must be set",
        ));
    }
    if from.is_some() && variable.is_some() == template.is_some() {
        let at = field::child(at, "valueFrom");
        errors.push(field::invalid(
            &at,
            patch.path.as_str(),
            "exactly one of variable and template must be set",
        ));
    }
    if let Some(Err(error)) = template.map(gotemplate::check) {
        let at = field::child(at, "valueFrom.template");
        errors.push(field::invalid(&at, template.unwrap_or_default(), error.to_string()));
    }
    if let Some(variable) = variable {
        let name = variable.split(['.', '[']).next().unwrap_or_default();
        let exists =
            if variable.starts_with("builtin.") { is_builtin(variable) } else { variables.contains(name) };
        if !exists {
            let at = field::child(at, "valueFrom.variable");
            errors.push(field::invalid(&at, variable, "the class has no such variable"));
        }
    }
    errors
}
