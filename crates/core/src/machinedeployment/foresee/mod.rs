//! What a change of a MachineDeployment would do to its Machines, thought through to its end.
//!
//! Nothing is judged here: [`simulate`] calls what the controllers call, on copies of the objects, and plays the part of
//! the machines, each of which executes its change and is healthy afterwards. Only [`read`] does I/O, and writes nothing.

mod simulate;

use capstan_api::core::{Machine, MachineDeployment, MachineSet};
use capstan_api::meta::ContractVersionedObjectReference;
use capstan_api::runtime::hooks::{CanUpdateMachineSetRequest, CanUpdateMachineSetResponse};
use capstan_controller::Result;
use capstan_controller::error::Doing as _;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use std::collections::{BTreeMap, BTreeSet};

use super::decide::limits::Limits;
use super::decide::question::{self, Side};
use super::decide::rollout::{self, Observed};
use super::decide::{belongs, defaults};
use crate::Core;
use crate::machineset::selector;

/// A MachineDeployment after a planned change, and the objects around it.
#[derive(Clone, Debug)]
pub struct World {
    /// The MachineDeployment after the change, with defaults.
    pub deployment: MachineDeployment,
    /// Its MachineSets.
    pub sets: Vec<MachineSet>,
    /// Its Machines.
    pub machines: Vec<Machine>,
    /// The templates that they refer to, after the change.
    pub templates: Vec<DynamicObject>,
    /// The current time.
    pub now: Timestamp,
}

/// A `CanUpdateMachineSet` request: whether the Machines of an old MachineSet can be updated in place.
#[derive(Clone, Debug)]
pub struct Question {
    /// The old MachineSet.
    pub set: String,
    /// The request that the controller would send to an extension.
    pub request: CanUpdateMachineSetRequest,
}

/// The response of the extension.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These changes can be made in place.
    Possible(Box<CanUpdateMachineSetResponse>),
    /// The extension rejects the change, and why.
    Refused(String),
    /// No extension serves the hook.
    Nobody,
}

/// One step of a rollout. Machines of one step may be changed concurrently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// These Machines are updated in place.
    Update(Vec<String>),
    /// This number of Machines is created.
    Create(usize),
    /// These Machines are deleted.
    Delete(Vec<String>),
}

/// The rollout that a change would cause.
#[derive(Clone, Debug, Default)]
pub struct Foresight {
    /// The steps, in order.
    pub steps: Vec<RolloutStep>,
    /// Why nothing would happen: an extension rejects the change, or does not respond.
    pub held: Option<String>,
    /// Why the rollout would not complete.
    pub stops: Option<String>,
    /// Machines that are changed in their metadata and spec only, before and after.
    pub handed_down: BTreeMap<String, (Machine, Machine)>,
    /// The limits of the rollout.
    pub limits: Option<Limits>,
}

/// Reads the inputs of the decision. `changed` are objects after the change.
///
/// # Errors
/// If an object cannot be read.
pub async fn read(
    core: &Core,
    mut deployment: MachineDeployment,
    changed: &[DynamicObject],
) -> Result<World> {
    defaults::fill(&mut deployment);
    let namespace = deployment.namespace().unwrap_or_default();
    let wanted = selector(&deployment.spec.selector, "MachineDeployment", &deployment.name_any())?;
    let listed = core.api::<MachineSet>(&namespace).list(&ListParams::default()).await;
    let mut sets = listed.doing(|| "cannot list MachineSets".to_owned())?.items;
    sets.retain(|set| belongs(set, &deployment, &wanted));
    defaults::fill_replicas(&mut deployment, &sets)?;
    let api: Api<Machine> = core.api(&namespace);
    let listed = api.list(&ListParams::default().labels_from(&wanted)).await;
    let machines = listed.doing(|| "cannot list Machines".to_owned())?.items;
    let mut templates: Vec<DynamicObject> = Vec::new();
    let specs = sets.iter().map(|set| &set.spec.template.spec).chain([&deployment.spec.template.spec]);
    let references: Vec<&ContractVersionedObjectReference> =
        specs.flat_map(|spec| spec.bootstrap.config_ref.iter().chain([&spec.infrastructure_ref])).collect();
    for reference in references {
        if find(&templates, reference).is_some() {
            continue;
        }
        let found = match find(changed, reference) {
            Some(template) => Some(template.clone()),
            None => core.externals.get(reference, &namespace).await?,
        };
        templates.extend(found);
    }
    Ok(World { deployment, sets, machines, templates, now: core.now() })
}

fn find<'a>(
    objects: &'a [DynamicObject],
    reference: &ContractVersionedObjectReference,
) -> Option<&'a DynamicObject> {
    objects.iter().find(|object| {
        let types = object.types.as_ref();
        let group = types.and_then(|types| types.api_version.split_once('/')).map(|(group, _)| group);
        object.name_any() == reference.name
            && types.is_some_and(|types| types.kind == reference.kind)
            && group == Some(reference.api_group.as_str())
    })
}

impl World {
    fn observed<'a>(&'a self, sets: &'a [MachineSet], machines: &'a [Machine]) -> Observed<'a> {
        let spec = &self.deployment.spec.template.spec;
        let mut named = spec.bootstrap.config_ref.iter().chain([&spec.infrastructure_ref]);
        Observed {
            deployment: &self.deployment,
            sets,
            // Nothing is made, so no name is in the way.
            others: &[],
            machines,
            templates_exist: named.all(|reference| find(&self.templates, reference).is_some()),
            now: self.now,
        }
    }

    /// The requests that the controller would send before the rollout.
    ///
    /// # Errors
    /// Why it would send none.
    pub fn questions(&self) -> std::result::Result<Vec<Question>, String> {
        let sets = simulate::counted(&self.sets, &self.machines, &simulate::unavailable(&self.machines));
        let draft = rollout::draft(&self.observed(&sets, &self.machines));
        let draft = draft.map_err(|problem| problem.to_string())?;
        let Some((new, candidates)) = draft.candidates() else { return Ok(vec![]) };
        let desired = self.side(new)?;
        let mut questions = vec![];
        for old in candidates {
            let current = self.side(old)?;
            let request = question::request(&current, &desired, draft.limits());
            questions.extend(request.map(|request| Question { set: old.name_any(), request }));
        }
        Ok(questions)
    }

    fn side(&self, set: &MachineSet) -> std::result::Result<Side, String> {
        let template = |reference: &ContractVersionedObjectReference| {
            find(&self.templates, reference)
                .cloned()
                .ok_or_else(|| format!("{} {} does not exist: make it again", reference.kind, reference.name))
        };
        let spec = &set.spec.template.spec;
        Ok(Side {
            set: set.clone(),
            infrastructure: template(&spec.infrastructure_ref)?,
            bootstrap: spec.bootstrap.config_ref.as_ref().map(template).transpose()?,
        })
    }

    /// The rollout, given the responses to the [questions](Self::questions), in their order.
    pub fn foresee(&self, answers: &[(Question, Answer)]) -> Foresight {
        let limits = Limits::of(&self.deployment).ok();
        let held = |why: String| Foresight { held: Some(why), limits, ..Foresight::default() };
        let mut movable = BTreeSet::new();
        for (question, answer) in answers {
            match answer {
                Answer::Refused(why) => return held(why.clone()),
                Answer::Nobody => {}
                Answer::Possible(answer) => match question::remaining(&question.request, answer) {
                    Ok(remains) if remains.is_empty() => _ = movable.insert(question.set.clone()),
                    Ok(_) => {}
                    Err(problem) => return held(problem.to_string()),
                },
            }
        }
        match simulate::simulate(self, &movable) {
            Ok(foresight) => Foresight { limits, ..foresight },
            Err(problem) => held(problem.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
