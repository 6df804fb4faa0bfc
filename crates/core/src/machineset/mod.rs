//! MachineSet: keeps a number of equal Machines.
//!
//! Reads: the MachineSet, its Cluster and MachineDeployment, its Machines, the templates and the control plane.
//! Writes: Machines and what is cloned for them, owners of the templates, and of the MachineSet finalizer, owner,
//! labels and status.

pub(crate) mod create;
mod defaults;
pub(crate) mod desired;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod hand_over;
pub mod keep;
pub(crate) mod machine;
pub mod names;
pub mod naming;
pub mod preflight;
pub mod priority;
mod remediate;
pub mod remediation;
pub mod scale;
pub mod status;
mod sync;
pub(crate) mod templates;
mod triggers;
pub(crate) mod words;

use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::labels;
use capstan_controller::apply::Applier;
use capstan_controller::error::Doing as _;
use capstan_controller::events::Tone;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Error, Grounds, Next, Reconciler, Result, destroy, finalizers, owners, pause};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::{Selector, SelectorExt as _};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

use crate::Core;
use crate::names::events;
use crate::step::Steps;
use names::FINALIZER;
use preflight::{ControlPlane, Skipped};
use scale::Scale;
use status::Seen;
use templates::Templates;

pub(crate) use triggers::machine_facts;
pub use triggers::run;

/// Nodes become ready without anybody telling the management cluster.
const UNTIL_READY: Duration = Duration::from_secs(15);

/// Reconciles MachineSets.
pub struct MachineSetReconciler {
    core: Core,
    spec: Applier,
    metadata: Applier,
    handed_down: sync::HandedDown,
    cleaned: create::Cleaned,
}

impl MachineSetReconciler {
    /// A reconciler on these clients.
    pub fn new(core: Core) -> Self {
        Self {
            core,
            spec: Applier::new(names::FIELD_MANAGER),
            metadata: Applier::new(names::METADATA_FIELD_MANAGER),
            handed_down: sync::HandedDown::default(),
            cleaned: create::Cleaned::default(),
        }
    }
}

impl Reconciler for MachineSetReconciler {
    type Object = MachineSet;

    fn name(&self) -> &'static str {
        "machineset"
    }

    fn limits(&self) -> Limits {
        Limits::summing_up()
    }

    async fn reconcile(&self, object: Arc<MachineSet>) -> Result<Next> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let api: Api<MachineSet> = self.core.api(&namespace);
        // Read again: an old number of replicas would make or delete Machines for nothing.
        let read = self.core.caches.of::<MachineSet>().get(&namespace, &name).await?;
        let Some(before) = read.map(Arc::unwrap_or_clone) else { return Ok(Next::Changed) };
        let cluster = cluster_of(&self.core, &namespace, &before.spec.cluster_name).await?;
        if finalizers::ensure(&api, &before, FINALIZER).await?
            || !pause::allows(&api, &before, Some(&cluster), self.core.now()).await?
        {
            return Ok(Next::Changed);
        }

        let (mut set, mut seen, mut steps) = (before.clone(), Seen::default(), Steps::new());
        self.phases(&cluster, &mut set, &mut seen, &mut steps).await;
        status::update(&mut set, &seen, self.core.now());
        if steps.succeeded() {
            set.status.get_or_insert_default().observed_generation = set.metadata.generation;
            if is_deleting(&set) && seen.machines.as_ref().is_some_and(Vec::is_empty) {
                finalizers::remove(&mut set.metadata, FINALIZER);
                self.cleaned.remove(&set);
            }
            steps.add(Ok(look_again(&set)));
        }
        pause::lifted(&mut set, self.core.now());
        steps.check(Patcher::new(api, &before).finish(&set, &status::OWNED).await);
        steps.end()
    }
}

/// Where Machines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// As the last event has brought them.
    Memory,
    /// As they are.
    Server,
}

impl MachineSetReconciler {
    async fn phases(&self, cluster: &Cluster, set: &mut MachineSet, seen: &mut Seen, steps: &mut Steps) {
        let owner = match self.owner(set).await {
            Ok(owner) => owner,
            Err(problem) => return steps.check(Err(problem)),
        };
        defaults::fill(set);
        claim(set, cluster);
        let templates = match templates::claim(&self.core, cluster, &set.spec.template).await {
            Ok(templates) => templates,
            Err(problem) => {
                steps.check(Err(problem));
                Templates::default()
            }
        };
        seen.missing_templates.clone_from(&templates.missing);
        let read = if is_deleting(set) { From::Server } else { From::Memory };
        let mut machines = match self.machines(set, read).await {
            Ok(machines) => seen.machines.insert(machines),
            Err(problem) => return steps.check(Err(problem)),
        };
        if is_deleting(set) {
            let alive = machines.iter().filter(|machine| !machine::is_deleting(machine));
            let names: Vec<String> = alive.map(kube::ResourceExt::name_any).collect();
            let grounds = Grounds::asked("its MachineSet is deleted");
            return steps.check(self.delete(set, machines, &names, &grounds).await);
        }
        // A template that is gone matters only where Machines are still made.
        let is_current = owner.as_ref().is_none_or(|owner| remediation::is_current(set, owner));
        if is_current && let Some(missing) = status::missing_templates(&templates.missing) {
            // Nobody tells when it appears: it is not ours to watch before it has an owner.
            let doing = format!("cannot read the templates of MachineSet {}", set.name_any());
            steps.check(Err(Error::transient(doing, missing)));
        }
        steps.add(self.remediate(cluster, set, owner.as_ref(), &templates, machines).await);
        steps.check(self.sync(set, machines).await);
        steps.check(self.receive(set, &templates, machines).await);
        let mut scale = scale::decide(set, machines, self.core.now());
        let is_clean = self.cleaned.contains(set);
        if scale == Scale::Stay && is_clean {
            return;
        }
        // What is in memory may be a moment old. Whatever makes or takes something away is decided by what there is now.
        match self.machines(set, From::Server).await {
            Ok(now) => machines = seen.machines.insert(now),
            Err(problem) => return steps.check(Err(problem)),
        }
        scale = scale::decide(set, machines, self.core.now());
        if !is_clean {
            match self.clean_up(set, machines).await {
                Ok(()) => self.cleaned.insert(set),
                Err(problem) => steps.check(Err(problem)),
            }
        }
        match scale {
            Scale::Stay => {}
            Scale::Held => tracing::info!(machine_set = %set.name_any(), "may not make Machines"),
            Scale::Create(number) => match self.preflight(cluster, set, &templates).await {
                Ok(failures) if failures.is_empty() => {
                    let created = self.create(set, &templates, number).await;
                    if created.is_err() {
                        // Something may have been made for a Machine that was not.
                        self.cleaned.remove(set);
                    }
                    steps.check(created);
                }
                Ok(failures) => {
                    seen.preflight_failures = failures;
                    steps.add(Ok(Next::After(preflight::RETRY)));
                }
                Err(problem) => {
                    seen.preflight_failures = vec![capstan_controller::error::chain(&problem)];
                    steps.check(Err(problem));
                }
            },
            Scale::Delete(names) => {
                let names = match kept(set, machines) {
                    false => names,
                    true => {
                        let chosen = self.kept_scale_down(set, owner.as_ref(), machines, names.len()).await;
                        seen.kept_back = chosen.held;
                        if !seen.kept_back.is_empty() {
                            steps.add(Ok(Next::After(preflight::RETRY)));
                        }
                        chosen.delete
                    }
                };
                let grounds = Grounds::asked("spec.replicas of the MachineSet is lower");
                steps.check(self.delete(set, machines, &names, &grounds).await);
            }
            Scale::HandOver { to, hand_over, delete } => {
                let grounds = Grounds::asked("the rollout replaces Machines that are asked to be remediated");
                steps.check(self.delete(set, machines, &delete, &grounds).await);
                let leaving = machines.iter().filter(|m| hand_over.contains(&m.name_any())).collect();
                steps.check(self.hand_over(set, &to, leaving).await);
            }
        }
        // What is told should count what was just made, deleted or handed over.
        if let Ok(machines) = self.machines(set, From::Server).await {
            seen.machines = Some(machines);
        }
    }

    /// The MachineDeployment above, if the MachineSet is part of one.
    async fn owner(&self, set: &MachineSet) -> Result<Option<MachineDeployment>> {
        let Some(name) = set.labels().get(labels::DEPLOYMENT_NAME) else { return Ok(None) };
        let namespace = set.namespace().unwrap_or_default();
        match self.core.caches.of::<MachineDeployment>().get(&namespace, name).await? {
            Some(owner) => Ok(Some(owner.as_ref().clone())),
            // It may be gone before its MachineSets are.
            None if is_deleting(set) => Ok(None),
            None => {
                let doing = format!("cannot reconcile MachineSet {}", set.name_any());
                Err(Error::transient(doing, format!("its MachineDeployment {name} does not exist")))
            }
        }
    }

    /// The Machines that belong to the MachineSet; those that nobody controls are adopted.
    async fn machines(&self, set: &MachineSet, from: From) -> Result<Vec<Machine>> {
        let namespace = set.namespace().unwrap_or_default();
        let api: Api<Machine> = self.core.api(&namespace);
        let selector = selector(&set.spec.selector, "MachineSet", &set.name_any())?;
        let mut machines: Vec<Machine> = match from {
            From::Memory => {
                let all = self.core.caches.of::<Machine>().in_namespace(&namespace).await?;
                let ours = all.iter().filter(|machine| selector.matches(machine.labels()));
                ours.map(|machine| machine.as_ref().clone()).collect()
            }
            From::Server => {
                let listed = api.list(&ListParams::default().labels_from(&selector)).await;
                listed.doing(|| "cannot list Machines".to_owned())?.items
            }
        };
        machines.retain(|machine| {
            owners::controller_of(&machine.metadata).is_none()
                || owners::is_controlled_by(&machine.metadata, set)
        });
        for machine in machines.iter_mut().filter(|m| owners::controller_of(&m.metadata).is_none()) {
            let Some(owner) = desired::controller(set) else { continue };
            owners::ensure(&mut machine.metadata, &owner);
            let name = machine.name_any();
            let patch = json!({"metadata": {
                "resourceVersion": machine.resource_version(),
                "ownerReferences": machine.metadata.owner_references,
            }});
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await;
            *machine = patched.doing(|| format!("cannot adopt Machine {name}"))?;
            tracing::info!(machine_set = %set.name_any(), machine = %name, "adopted a Machine");
        }
        Ok(machines)
    }

    /// Why no Machine may be made now; empty if one may.
    async fn preflight(
        &self,
        cluster: &Cluster,
        set: &MachineSet,
        templates: &Templates,
    ) -> Result<Vec<String>> {
        let on_template = || templates.bootstrap.as_ref()?.annotations().get(names::SKIP_PREFLIGHT_CHECKS);
        let skip = set.annotations().get(names::SKIP_PREFLIGHT_CHECKS).filter(|skip| !skip.is_empty());
        let skipped = Skipped::parse(skip.or_else(on_template).map_or("", String::as_str));
        let Some(reference) = cluster.spec.control_plane_ref.as_ref().filter(|_| !skipped.is_all()) else {
            return Ok(vec![]);
        };
        let namespace = set.namespace().unwrap_or_default();
        let doing = || format!("cannot check {} {namespace}/{}", reference.kind, reference.name);
        let found = self.core.externals.get(reference, &namespace).await?;
        let object = found.ok_or_else(|| Error::transient(doing(), "it does not exist"))?;
        let Some(control_plane) = ControlPlane::read(&object) else { return Ok(vec![]) };
        preflight::failures(cluster, &control_plane, set, &skipped)
            .map_err(|problem| Error::transient(doing(), problem))
    }

    /// Which of its kept machines a MachineSet may give up, as the workload cluster says at this moment.
    async fn kept_scale_down(
        &self,
        set: &MachineSet,
        owner: Option<&MachineDeployment>,
        machines: &[Machine],
        number: usize,
    ) -> keep::ScaleDown {
        let namespace = set.namespace().unwrap_or_default();
        let volumes = self.core.remotes.local_volumes(&namespace, &set.spec.cluster_name).await;
        keep::choose(set, owner, machines, number, &volumes, self.core.now())
    }

    /// Asks for the deletion of Machines, by name.
    async fn delete(
        &self,
        set: &MachineSet,
        machines: &[Machine],
        names: &[String],
        grounds: &Grounds,
    ) -> Result<()> {
        for machine in machines.iter().filter(|machine| names.contains(&machine.name_any())) {
            let api: Api<Machine> = self.core.api(&machine.namespace().unwrap_or_default());
            destroy::delete(&api, &machine.metadata, grounds).await?;
            let told = format!("deleted Machine {}: {grounds}", machine.name_any());
            self.core.tell(set, Tone::Normal, events::DELETED, &told).await;
        }
        Ok(())
    }
}

/// Whether any of its machines is kept.
fn kept(set: &MachineSet, machines: &[Machine]) -> bool {
    let specs = machines.iter().map(|machine| &machine.spec).chain([&set.spec.template.spec]);
    specs.into_iter().any(capstan_api::keep::is_kept)
}

fn is_deleting(set: &MachineSet) -> bool {
    set.metadata.deletion_timestamp.is_some()
}

/// Makes the MachineSet part of its Cluster; owned by it unless a MachineDeployment is in between.
fn claim(set: &mut MachineSet, cluster: &Cluster) {
    let owned = ["MachineDeployment", "Cluster"]
        .iter()
        .any(|kind| owners::of_kind(&set.metadata, kind, crate::names::GROUP).is_some());
    if !owned
        && !set.labels().contains_key(labels::DEPLOYMENT_NAME)
        && let Some(owner) = owners::plain(cluster)
    {
        owners::ensure(&mut set.metadata, &owner);
    }
}

/// When to look again although nothing has changed.
fn look_again(set: &MachineSet) -> Next {
    if is_deleting(set) {
        return Next::Changed;
    }
    let status = set.status.clone().unwrap_or_default();
    let (replicas, ready) = (set.spec.replicas.unwrap_or(0), status.ready_replicas.unwrap_or(0));
    let min_ready = set.spec.template.spec.min_ready_seconds.and_then(|s| u64::try_from(s).ok()).unwrap_or(0);
    if ready != replicas {
        return Next::After(UNTIL_READY);
    }
    match min_ready > 0 && status.available_replicas.unwrap_or(0) != replicas {
        true => Next::After(Duration::from_secs(min_ready)),
        false => Next::Changed,
    }
}

/// The Cluster that an object belongs to.
pub(crate) async fn cluster_of(core: &Core, namespace: &str, name: &str) -> Result<Cluster> {
    match core.caches.of::<Cluster>().get(namespace, name).await? {
        Some(cluster) => Ok(cluster.as_ref().clone()),
        None => Err(Error::transient(format!("cannot read Cluster {namespace}/{name}"), "there is none")),
    }
}

/// A selector that selects something, for lists.
pub(crate) fn selector(selector: &LabelSelector, kind: &str, name: &str) -> Result<Selector> {
    let field = || format!("{kind} {name} spec.selector");
    let selector =
        Selector::try_from(selector.clone()).map_err(|problem| Error::user(field(), problem.to_string()))?;
    match selector.selects_all() {
        true => Err(Error::user(field(), "is empty: say which objects belong here")),
        false => Ok(selector),
    }
}
