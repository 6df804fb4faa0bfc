//! The machines that the changed objects affect, and what their controllers would do to them.
//!
//! This file makes no decisions: core, the control plane and the hooks decide, with the functions of their controllers.
//! It only determines which of them are involved, and in which order.

use anyhow::{Context, Result};
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::{Cluster, Machine, MachineDeployment, MachineSet};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_controller::{owners, pause};
use capstan_controlplane::foresee as control_plane;
use capstan_core::Core;
use capstan_core::machineset::scale::{self, Scale};
use capstan_planner::text::rfc3339;
use capstan_planner::windows::{Opening, Windows};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::report::{Field, Machine as PlannedMachine, Outcome, Plan, Refusal};
use super::server::Tried;
use super::timeline::{Owner, Timeline};

/// Namespace and name.
type Name = (String, String);

/// The current objects of the plane, overlaid with the changed objects.
pub(super) struct Future<'a> {
    pub(super) core: Core,
    pub(super) tried: &'a [Tried],
    pub(super) plan: Plan,
    pub(super) timeline: Timeline,
    asked: BTreeMap<Name, Option<control_plane::Foresight>>,
}

impl<'a> Future<'a> {
    pub(super) fn new(client: Client, tried: &'a [Tried], plan: Plan) -> Self {
        let (core, timeline) = (Core::new(client), Timeline::default());
        Self { core, tried, plan, timeline, asked: BTreeMap::new() }
    }

    /// The plan, with the effects on machines.
    pub(super) async fn foresee(mut self) -> Result<Plan> {
        let concerned = self.concerned().await?;
        for name in &concerned.control_planes {
            self.control_plane(name, true).await?;
        }
        for name in &concerned.deployments {
            self.deployment(name).await?;
        }
        for name in &concerned.sets {
            self.set(name).await?;
        }
        self.by_hand().await?;
        let mut machines = std::mem::take(&mut self.timeline).into_machines();
        self.note_own_windows(&mut machines).await?;
        self.plan.machines.extend(machines);
        Ok(self.plan)
    }

    /// The objects that would change.
    pub(super) fn changed(&self) -> impl Iterator<Item = &'a Tried> {
        self.tried.iter().filter(|tried| tried.is_changed())
    }

    /// An object after the change.
    pub(super) async fn then<K>(&self, (namespace, name): &Name) -> Result<Option<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let is_it = |tried: &&Tried| {
            tried.kind == K::kind(&()) && tried.name == *name && tried.namespace.as_ref() == Some(namespace)
        };
        match self.tried.iter().find(is_it).and_then(|tried| tried.after.as_ref()) {
            Some(after) => Ok(Some(typed(after)?)),
            None => self.now(&(namespace.clone(), name.clone())).await,
        }
    }

    /// An object before the change.
    pub(super) async fn now<K>(&self, (namespace, name): &Name) -> Result<Option<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = self.core.api(namespace);
        api.get_opt(name).await.with_context(|| format!("cannot read {} {namespace}/{name}", K::kind(&())))
    }

    /// All objects of a kind, after the change.
    pub(super) async fn all<K>(&self, namespace: &str) -> Result<Vec<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let listed = self.core.api::<K>(namespace).list(&ListParams::default()).await;
        let mut objects = listed.with_context(|| format!("cannot list {}", K::plural(&())))?.items;
        for tried in self.tried.iter().filter(|tried| tried.kind == K::kind(&())) {
            let Some(after) = tried.after.as_ref().filter(|_| tried.namespace.as_deref() == Some(namespace))
            else {
                continue;
            };
            objects.retain(|object| object.name_any() != tried.name);
            objects.push(typed(after)?);
        }
        Ok(objects)
    }

    async fn concerned(&self) -> Result<Concerned> {
        let mut concerned = Concerned::default();
        for tried in self.changed() {
            let Some(namespace) = &tried.namespace else { continue };
            let name = (namespace.clone(), tried.name.clone());
            match tried.kind.as_str() {
                "CapstanControlPlane" => _ = concerned.control_planes.insert(name),
                "MachineDeployment" => _ = concerned.deployments.insert(name),
                "MachineSet" => _ = concerned.sets.insert(name),
                "Cluster" => self.of_cluster(&name, &mut concerned).await?,
                kind if kind.ends_with("Template") => {
                    self.of_template(namespace, kind, &tried.name, &mut concerned).await?;
                }
                _ => {}
            }
        }
        Ok(concerned)
    }

    async fn of_cluster(&self, (namespace, name): &Name, concerned: &mut Concerned) -> Result<()> {
        let cluster: Option<Cluster> = self.then(&(namespace.clone(), name.clone())).await?;
        let reference = cluster.and_then(|cluster| cluster.spec.control_plane_ref);
        let ours = reference.filter(|reference| reference.kind == "CapstanControlPlane");
        concerned.control_planes.extend(ours.map(|reference| (namespace.clone(), reference.name)));
        for deployment in self.all::<MachineDeployment>(namespace).await? {
            if deployment.spec.cluster_name == *name {
                concerned.deployments.insert((namespace.clone(), deployment.name_any()));
            }
        }
        Ok(())
    }

    async fn of_template(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
        concerned: &mut Concerned,
    ) -> Result<()> {
        let is_it =
            |reference: &ContractVersionedObjectReference| reference.kind == kind && reference.name == name;
        for deployment in self.all::<MachineDeployment>(namespace).await? {
            let spec = &deployment.spec.template.spec;
            if is_it(&spec.infrastructure_ref) || spec.bootstrap.config_ref.as_ref().is_some_and(is_it) {
                concerned.deployments.insert((namespace.to_owned(), deployment.name_any()));
            }
        }
        for owner in self.all::<CapstanControlPlane>(namespace).await? {
            if is_it(&owner.spec.machine_template.spec.infrastructure_ref) {
                concerned.control_planes.insert((namespace.to_owned(), owner.name_any()));
            }
        }
        Ok(())
    }

    /// What would happen to the machines of a control plane; told only if it is the one that was changed.
    async fn control_plane(&mut self, name: &Name, is_addressed: bool) -> Result<()> {
        if self.asked.contains_key(name) {
            return Ok(());
        }
        let Some(after) = self.then::<CapstanControlPlane>(name).await? else { return Ok(()) };
        let found = self.now::<CapstanControlPlane>(name).await?;
        let was_healed = found.as_ref().map(control_plane::healing);
        let before = found.unwrap_or_else(|| after.clone());
        let title = format!("CapstanControlPlane/{}", name.1);
        let Some(cluster) = self.cluster_of(&name.0, &name.1).await? else {
            self.plan
                .notes
                .push(format!("{title} belongs to no Cluster yet: nothing happens before it does"));
            return Ok(());
        };
        let asked = control_plane::Asked { before: &before, after: &after, cluster: &cluster };
        let foresight = control_plane::foresee(&self.core.client, &self.core.externals, asked)
            .await
            .with_context(|| format!("cannot tell what would happen to {title}"))?;
        if is_addressed {
            let time = after.spec.rollout.as_ref().and_then(|rollout| rollout.after.as_ref());
            if let Some(time) = time.filter(|time| time.0 > self.core.now()) {
                let why = "machines made before it are restarted, one after the other";
                self.plan
                    .notes
                    .push(format!("{title}: once spec.rollout.after ({}) has come, {why}", time.0));
            }
            self.note_windows(&title, &after);
            let is_healed = control_plane::healing(&after);
            if was_healed.as_ref() != Some(&is_healed) {
                let note = format!("{title}: when the health check of a machine fails: {is_healed}");
                self.plan.notes.push(note);
            }
            let paused = pause::reason(Some(&cluster), "CapstanControlPlane", &after.metadata);
            self.add_control_plane(name, &title, &foresight, paused);
        }
        self.asked.insert(name.clone(), Some(foresight));
        Ok(())
    }

    /// When machines are drained and restarted, if only in maintenance windows.
    fn note_windows(&mut self, title: &str, after: &CapstanControlPlane) {
        let texts = after.spec.rollout.iter().flat_map(|rollout| &rollout.windows).map(String::as_str);
        let note = match Windows::parse(texts) {
            Ok(None) => return,
            Ok(Some(windows)) => match windows.at(self.core.now()) {
                Opening::Open { closes } => format!("one is open until {}", rfc3339(closes)),
                Opening::Closed { opens } => format!("the next one opens at {}", rfc3339(opens)),
            },
            Err(error) => format!("none is open, because spec.rollout.windows cannot be read: {error}"),
        };
        self.plan
            .notes
            .push(format!("{title}: machines are drained and restarted in maintenance windows only; {note}"));
    }

    fn add_control_plane(
        &mut self,
        (namespace, _): &Name,
        title: &str,
        foresight: &control_plane::Foresight,
        paused: Option<String>,
    ) {
        let mut owner = Owner::new(namespace, title, &foresight.drained);
        if let Some(reason) = paused {
            self.plan.notes.push(format!("{title} is paused, nothing happens meanwhile: {reason}"));
            foresight.machines.keys().for_each(|name| owner.untouched(name));
            return self.timeline.add(owner);
        }
        for change in &foresight.refused {
            let refusal = Refusal::new(format!("{title} {}", change.field), change.why.to_string());
            self.plan.refusals.push(refusal);
        }
        self.plan.notes.extend(foresight.waits.iter().map(|why| format!("{title} first {why}")));
        for (name, changes) in &foresight.machines {
            match foresight.refused.is_empty() {
                true => owner.machine(name, changes),
                false => owner.refused(name, changes),
            }
        }
        for step in &foresight.steps {
            match step {
                control_plane::ForeseenStep::Update(name) => owner.update(name),
                control_plane::ForeseenStep::Create => owner.create(),
                control_plane::ForeseenStep::Delete(name) => owner.delete(name),
            }
        }
        self.timeline.add(owner);
    }

    /// The Cluster whose control plane it is.
    async fn cluster_of(&self, namespace: &str, control_plane: &str) -> Result<Option<Cluster>> {
        let is_it = |cluster: &Cluster| {
            let reference = cluster.spec.control_plane_ref.as_ref();
            reference.is_some_and(|it| it.kind == "CapstanControlPlane" && it.name == control_plane)
        };
        Ok(self.all::<Cluster>(namespace).await?.into_iter().find(is_it))
    }

    /// The effects on the control plane of a cluster, which its workers wait for.
    pub(super) async fn leader(&mut self, namespace: &str, cluster: &Cluster) -> Result<Option<Name>> {
        let reference = cluster.spec.control_plane_ref.as_ref();
        let Some(reference) = reference.filter(|it| it.kind == "CapstanControlPlane") else {
            return Ok(None);
        };
        let name = (namespace.to_owned(), reference.name.clone());
        self.control_plane(&name, false).await?;
        Ok(Some(name))
    }

    pub(super) fn foresight(&self, leader: Option<&Name>) -> Option<&control_plane::Foresight> {
        self.asked.get(leader?)?.as_ref()
    }

    /// A MachineSet that nobody leads makes and deletes machines by itself.
    async fn set(&mut self, name: &Name) -> Result<()> {
        let Some(set) = self.then::<MachineSet>(name).await? else { return Ok(()) };
        let title = format!("MachineSet/{}", name.1);
        if let Some(leader) = owners::controller_of(&set.metadata) {
            self.plan
                .notes
                .push(format!("{title} is set back by {}/{}: change that one", leader.kind, leader.name));
            return Ok(());
        }
        let mut machines: Vec<Machine> = self.all(&name.0).await?;
        machines.retain(|machine| owners::is_controlled_by(&machine.metadata, &set));
        let mut owner = Owner::new(&name.0, &title, &BTreeSet::new());
        machines.iter().for_each(|machine| owner.machine(&machine.name_any(), &[]));
        match scale::decide(&set, &machines, self.core.now()) {
            Scale::Create(number) => (0..number).for_each(|_| owner.create()),
            Scale::Delete(names) => names.iter().for_each(|name| owner.delete(name)),
            Scale::Stay | Scale::Held | Scale::HandOver { .. } => {}
        }
        self.timeline.add(owner);
        Ok(())
    }
}

/// Whose machines the changed objects are about.
#[derive(Debug, Default)]
struct Concerned {
    control_planes: BTreeSet<Name>,
    deployments: BTreeSet<Name>,
    sets: BTreeSet<Name>,
}

pub(super) fn typed<K: DeserializeOwned>(object: &DynamicObject) -> Result<K> {
    let value = serde_json::to_value(object).context("cannot write an object")?;
    let (kind, name) = (object.types.as_ref().map(|types| types.kind.clone()), object.name_any());
    serde_json::from_value(value).with_context(|| format!("cannot use {} {name}", kind.unwrap_or_default()))
}

/// A machine that the user changes directly.
pub(super) fn by_hand(
    namespace: &str,
    name: &str,
    owner: &str,
    fields: Vec<Field>,
    outcome: Outcome,
) -> PlannedMachine {
    let (namespace, name, owner) = (namespace.to_owned(), name.to_owned(), owner.to_owned());
    PlannedMachine { namespace, name, owner, outcome, step: None, kept: true, fields, notes: vec![] }
}
