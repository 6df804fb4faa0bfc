//! The variables of one Cluster: defaults and validation at every place where they can be set.

use super::Definitions;
use crate::field;
use capstan_api::core::{ClusterVariable, Topology, VariableOverrides};
use capstan_apiserver_schema::FieldError;

/// Sets the defaults of all variables of a topology, then returns all errors. Variables that could not be defaulted stay.
/// `old` is the topology before a change, for rules that compare with it.
pub fn default_and_validate(
    topology: &mut Topology,
    old: Option<&Topology>,
    definitions: &Definitions,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for place in places(topology) {
        match definitions.default(place.values, place.is_cluster, &place.at) {
            Ok(values) => *place.values = values,
            Err(found) => errors.extend(found),
        }
    }
    let mut old = old.cloned();
    let old = old.as_mut().map(places).unwrap_or_default();
    for place in places(topology) {
        let before = old.iter().find(|before| before.at == place.at);
        let before = before.map(|before| before.values.as_slice()).unwrap_or_default();
        errors.extend(definitions.validate(place.values, before, place.is_cluster, &place.at));
    }
    errors
}

/// A list of variables in a topology.
struct Place<'a> {
    at: String,
    values: &'a mut Vec<ClusterVariable>,
    /// Whether these are the variables of the whole cluster: defaults are added and required ones must be set.
    is_cluster: bool,
}

/// The variables of the cluster, and every list of overrides that is not empty.
fn places(topology: &mut Topology) -> Vec<Place<'_>> {
    const TOPOLOGY: &str = "spec.topology";
    let mut found = vec![Place {
        at: field::child(TOPOLOGY, "variables"),
        values: &mut topology.variables,
        is_cluster: true,
    }];
    let mut overrides: Vec<(String, &mut Option<VariableOverrides>)> = Vec::new();
    if let Some(control_plane) = &mut topology.control_plane {
        overrides.push((field::child(TOPOLOGY, "controlPlane"), &mut control_plane.variables));
    }
    if let Some(workers) = &mut topology.workers {
        let machine_deployments = field::child(TOPOLOGY, "workers.machineDeployments");
        for one in &mut workers.machine_deployments {
            overrides.push((field::entry(&machine_deployments, &one.name), &mut one.variables));
        }
        let machine_pools = field::child(TOPOLOGY, "workers.machinePools");
        for one in &mut workers.machine_pools {
            overrides.push((field::entry(&machine_pools, &one.name), &mut one.variables));
        }
    }
    for (at, variables) in overrides {
        if let Some(variables) = variables.as_mut().filter(|variables| !variables.overrides.is_empty()) {
            let at = field::child(&at, "variables.overrides");
            found.push(Place { at, values: &mut variables.overrides, is_cluster: false });
        }
    }
    found
}
