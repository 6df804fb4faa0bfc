//! The order in which patches are applied: each patch sees the templates as the patches before left them. At the end the
//! templates are copied into the desired objects, apart from fields that only the topology sets.

use super::{PatchFailure, PatchFault, inline};
use crate::blueprint::Blueprint;
use crate::contract::PRESERVED;
use crate::object::{self, ANNOTATIONS, CONVERSION_DATA, LABELS, LAST_APPLIED};
use crate::state::{Desired, DesiredWorkers};
use crate::variables::{self, INLINE, Variables};
use capstan_api::core::{Cluster, ClusterClassPatch, ClusterVariable};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// What a template is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The infrastructure of the whole cluster.
    InfrastructureCluster,
    /// The control plane.
    ControlPlane,
    /// The infrastructure of the machines of the control plane.
    ControlPlaneMachines,
    /// The machines of a MachineDeployment.
    MachineDeployment {
        /// Name in the topology.
        topology_name: String,
        /// Class of the workers.
        class: String,
        /// Which of its templates.
        part: Part,
    },
    /// The machines of a MachinePool.
    MachinePool {
        /// Name in the topology.
        topology_name: String,
        /// Class of the workers.
        class: String,
        /// Which of its templates.
        part: Part,
    },
}

/// A template of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The template of the bootstrap data.
    Bootstrap,
    /// The template of the infrastructure.
    Infrastructure,
}

/// A template that patches are applied to.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// What it is for.
    pub holder: Holder,
    /// The template, as patched so far.
    pub template: Value,
    /// Variables of this template; they override those of the cluster.
    pub variables: Variables,
}

impl fmt::Display for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {:?}", object::kind(&self.template), object::name(&self.template))?;
        match &self.holder {
            Holder::MachineDeployment { topology_name, .. } => {
                write!(out, " of MachineDeployment topology {topology_name:?}")
            }
            Holder::MachinePool { topology_name, .. } => {
                write!(out, " of MachinePool topology {topology_name:?}")
            }
            _ => Ok(()),
        }
    }
}

/// A patch of one template.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Index of the template in [`Patching::items`].
    pub item: usize,
    /// The patch.
    pub patch: Value,
    /// Whether it is a JSON merge patch; otherwise it is a JSON patch.
    pub is_merge: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// A runtime extension must be asked for this patch; [`Patching::answer`] goes on.
    External(&'a ClusterClassPatch),
    /// All patches are applied; [`Patching::finish`] is next.
    Done,
}

/// The patches of a class, in progress for one cluster.
#[derive(Clone, Debug)]
pub struct Patching<'a> {
    blueprint: &'a Blueprint<'a>,
    cluster: &'a Cluster,
    desired: Desired,
    items: Vec<Item>,
    global: Variables,
    next: usize,
}

impl<'a> Patching<'a> {
    /// Starts with the desired objects as they are without patches.
    pub fn new(blueprint: &'a Blueprint<'a>, cluster: &'a Cluster, desired: Desired) -> Patching<'a> {
        let items =
            if blueprint.class.spec.patches.is_empty() { Vec::new() } else { items(blueprint, &desired) };
        Patching { blueprint, cluster, desired, items, global: Variables::new(), next: 0 }
    }

    /// The templates, with the variables of the patch that is next.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Variables for all templates, for the patch that is next.
    pub fn variables(&self) -> &Variables {
        &self.global
    }

    /// Applies patches until one of a runtime extension is next, or none.
    ///
    /// # Errors
    /// If a patch fails.
    pub fn step(&mut self) -> Result<Step<'a>, PatchFailure> {
        while let Some(patch) = self.blueprint.class.spec.patches.get(self.next) {
            self.set_variables(if patch.external.is_none() { INLINE } else { patch.name.as_str() });
            if patch.definitions.is_empty() {
                return match patch.external.as_ref().map(|external| &external.generate_patches_extension) {
                    Some(Some(_)) => Ok(Step::External(patch)),
                    // It only validates.
                    Some(None) => {
                        self.next += 1;
                        continue;
                    }
                    None => Err(PatchFailure {
                        patch: patch.name.clone(),
                        template: None,
                        why: PatchFault::Empty,
                    }),
                };
            }
            let generated = inline::generate(patch, &self.items, &self.global)?;
            self.apply(patch, &generated)?;
        }
        Ok(Step::Done)
    }

    /// Applies the response of the runtime extension that [`Patching::step`] stopped at.
    ///
    /// # Errors
    /// If a patch does not fit its template.
    pub fn answer(&mut self, generated: &[Generated]) -> Result<(), PatchFailure> {
        match self.blueprint.class.spec.patches.get(self.next) {
            Some(patch) => self.apply(patch, generated),
            None => Ok(()),
        }
    }

    /// The desired objects with all patches.
    pub fn finish(mut self) -> Desired {
        for item in std::mem::take(&mut self.items) {
            copy_back(&mut self.desired, &item);
        }
        self.desired
    }

    fn apply(&mut self, patch: &ClusterClassPatch, generated: &[Generated]) -> Result<(), PatchFailure> {
        for one in generated {
            let fail = |template, why| PatchFailure { patch: patch.name.clone(), template, why };
            let Some(item) = self.items.get_mut(one.item) else {
                return Err(fail(None, PatchFault::UnknownItem(one.item)));
            };
            apply_to(&mut item.template, one)
                .map_err(|why| fail(Some(item.to_string()), PatchFault::Patch(why)))?;
        }
        self.next += 1;
        Ok(())
    }

    /// Computes the variables that patches of this source may see.
    fn set_variables(&mut self, source: &str) {
        let known = self.blueprint.class.status.iter().flat_map(|status| &status.variables);
        let from_source = known.filter(|variable| variable.definitions.iter().any(|one| one.from == source));
        let defined: BTreeSet<String> = from_source.map(|variable| variable.name.clone()).collect();
        let (topology, desired) = (self.blueprint.topology, &self.desired);
        let cluster = &desired.cluster;
        self.global =
            variables::for_cluster(self.cluster, topology, &cluster.labels, &cluster.annotations, &defined);
        let control_plane = &desired.control_plane;
        for item in &mut self.items {
            item.variables = match &item.holder {
                Holder::InfrastructureCluster => Variables::new(),
                Holder::ControlPlane | Holder::ControlPlaneMachines => variables::for_control_plane(
                    topology,
                    &control_plane.object,
                    control_plane.machine_template.as_ref(),
                    &defined,
                ),
                Holder::MachineDeployment { topology_name, class, .. } => {
                    let overrides = self.blueprint.machine_deployment(topology_name);
                    let overrides = overrides.and_then(|one| one.variables.as_ref());
                    let overrides = overrides.map_or(&[][..], |variables| variables.overrides.as_slice());
                    match desired.machine_deployments.get(topology_name) {
                        Some(found) => variables::for_machine_deployment(
                            &workers(overrides, class, topology_name, found),
                            &defined,
                        ),
                        None => Variables::new(),
                    }
                }
                Holder::MachinePool { topology_name, class, .. } => {
                    let overrides = self.blueprint.machine_pool(topology_name);
                    let overrides = overrides.and_then(|one| one.variables.as_ref());
                    let overrides = overrides.map_or(&[][..], |variables| variables.overrides.as_slice());
                    match desired.machine_pools.get(topology_name) {
                        Some(found) => variables::for_machine_pool(
                            &workers(overrides, class, topology_name, found),
                            &defined,
                        ),
                        None => Variables::new(),
                    }
                }
            };
        }
    }
}

fn workers<'a>(
    overrides: &'a [ClusterVariable],
    class: &'a str,
    topology_name: &'a str,
    found: &'a DesiredWorkers,
) -> variables::Workers<'a> {
    let (object, bootstrap, infrastructure) = (&found.object, &found.bootstrap, &found.infrastructure);
    variables::Workers { overrides, class, topology_name, object, bootstrap, infrastructure }
}

const TEMPLATE_LABELS: &[&str] = &["spec", "template", "metadata", "labels"];
const TEMPLATE_ANNOTATIONS: &[&str] = &["spec", "template", "metadata", "annotations"];
const TEMPLATE_SPEC: &[&str] = &["spec", "template", "spec"];

/// From a template to an object that was made from it.
const TO_OBJECT: &[(&[&str], &[&str])] =
    &[(TEMPLATE_SPEC, &["spec"]), (TEMPLATE_LABELS, LABELS), (TEMPLATE_ANNOTATIONS, ANNOTATIONS)];
/// From a template to its copy for one cluster.
const TO_TEMPLATE: &[(&[&str], &[&str])] = &[
    (LABELS, LABELS),
    (ANNOTATIONS, ANNOTATIONS),
    (TEMPLATE_SPEC, TEMPLATE_SPEC),
    (TEMPLATE_LABELS, TEMPLATE_LABELS),
    (TEMPLATE_ANNOTATIONS, TEMPLATE_ANNOTATIONS),
];

/// Copies fields that the source has.
fn copy(source: &Value, target: &mut Value, fields: &[(&[&str], &[&str])]) {
    for (from, to) in fields {
        object::set_some(target, to, object::get(source, from).cloned());
    }
}

/// All templates of a cluster. Each has the labels and annotations of its desired object, so that patches can change them.
fn items(blueprint: &Blueprint<'_>, desired: &Desired) -> Vec<Item> {
    let mut items = Vec::new();
    let mut add = |template: &Value, object: &Value, holder: Holder, is_template: bool| {
        let mut template = template.clone();
        let to: [(&[&str], &[&str]); 2] = if is_template {
            [(LABELS, LABELS), (ANNOTATIONS, ANNOTATIONS)]
        } else {
            [(LABELS, TEMPLATE_LABELS), (ANNOTATIONS, TEMPLATE_ANNOTATIONS)]
        };
        copy(object, &mut template, &to);
        object::remove(&mut template, &["metadata", "managedFields"]);
        let mut annotations = object::texts(&template, ANNOTATIONS);
        annotations.retain(|key, _| key != LAST_APPLIED && key != CONVERSION_DATA);
        object::set_texts(&mut template, ANNOTATIONS, &annotations);
        items.push(Item { holder, template, variables: Variables::new() });
    };
    let control_plane = &desired.control_plane;
    add(
        blueprint.infrastructure_cluster,
        &desired.infrastructure_cluster,
        Holder::InfrastructureCluster,
        false,
    );
    add(blueprint.control_plane, &control_plane.object, Holder::ControlPlane, false);
    if let Some((template, object)) =
        blueprint.control_plane_machines.zip(control_plane.machine_template.as_ref())
    {
        add(template, object, Holder::ControlPlaneMachines, true);
    }
    for topology in blueprint.machine_deployments() {
        let templates = blueprint.machine_deployment_templates.get(&topology.class);
        if let Some((templates, found)) = templates.zip(desired.machine_deployments.get(&topology.name)) {
            let holder = |part| Holder::MachineDeployment {
                topology_name: topology.name.clone(),
                class: topology.class.clone(),
                part,
            };
            add(&templates.bootstrap, &found.bootstrap, holder(Part::Bootstrap), true);
            add(&templates.infrastructure, &found.infrastructure, holder(Part::Infrastructure), true);
        }
    }
    for topology in blueprint.machine_pools() {
        let templates = blueprint.machine_pool_templates.get(&topology.class);
        if let Some((templates, found)) = templates.zip(desired.machine_pools.get(&topology.name)) {
            let holder = |part| Holder::MachinePool {
                topology_name: topology.name.clone(),
                class: topology.class.clone(),
                part,
            };
            add(&templates.bootstrap, &found.bootstrap, holder(Part::Bootstrap), false);
            add(&templates.infrastructure, &found.infrastructure, holder(Part::Infrastructure), false);
        }
    }
    items
}

/// Applies a patch to a copy of the template, and takes over its spec, labels and annotations only.
fn apply_to(template: &mut Value, generated: &Generated) -> Result<(), capstan_apiserver_merge::PatchError> {
    let is_empty = object::is_empty(&generated.patch);
    if is_empty {
        return Ok(());
    }
    let mut patched = template.clone();
    if generated.is_merge {
        capstan_apiserver_merge::merge_patch(&mut patched, &generated.patch)?;
    } else {
        capstan_apiserver_merge::json_patch(&mut patched, &generated.patch)?;
    }
    copy(&patched, template, &[(&["spec"], &["spec"]), (LABELS, LABELS), (ANNOTATIONS, ANNOTATIONS)]);
    Ok(())
}

/// Copies a patched template into the object that it is for.
fn copy_back(desired: &mut Desired, item: &Item) {
    let control_plane = &mut desired.control_plane;
    match &item.holder {
        Holder::InfrastructureCluster => overwrite(&mut desired.infrastructure_cluster, item, TO_OBJECT, &[]),
        Holder::ControlPlane => overwrite(&mut control_plane.object, item, TO_OBJECT, PRESERVED),
        Holder::ControlPlaneMachines => {
            if let Some(template) = &mut control_plane.machine_template {
                overwrite(template, item, TO_TEMPLATE, &[]);
            }
        }
        Holder::MachineDeployment { topology_name, part, .. } => {
            if let Some(workers) = desired.machine_deployments.get_mut(topology_name) {
                overwrite(part_of(workers, *part), item, TO_TEMPLATE, &[]);
            }
        }
        Holder::MachinePool { topology_name, part, .. } => {
            if let Some(workers) = desired.machine_pools.get_mut(topology_name) {
                overwrite(part_of(workers, *part), item, TO_OBJECT, &[]);
            }
        }
    }
}

fn part_of(workers: &mut DesiredWorkers, part: Part) -> &mut Value {
    match part {
        Part::Bootstrap => &mut workers.bootstrap,
        Part::Infrastructure => &mut workers.infrastructure,
    }
}

/// Copies fields of a template, but keeps what only the topology sets.
fn overwrite(target: &mut Value, item: &Item, fields: &[(&[&str], &[&str])], preserved: &[&[&str]]) {
    let always = crate::metadata::PRESERVED;
    let kept: Vec<(&[&str], Value)> = preserved
        .iter()
        .chain(always)
        .filter_map(|path| Some((*path, object::get(target, path)?.clone())))
        .collect();
    copy(&item.template, target, fields);
    for (path, value) in kept {
        object::set(target, path, value);
    }
}
