//! The effects on workers: core's rollout, with the responses of the hooks.

use anyhow::{Context, Result};
use capstan_api::core::{Cluster, MachineDeployment};
use capstan_api::meta::labels;
use capstan_api::runtime::hooks::CanUpdateMachineSet;
use capstan_controller::error::chain;
use capstan_controller::{owners, pause};
use capstan_core::machinedeployment::foresee::{self, Answer, Question, RolloutStep, World};
use capstan_core::machinedeployment::limits::Limits;
use capstan_core::runtime::CallError;
use capstan_distro::cost::{Subject, changes};
use capstan_distro::{Change, HostFacts};
use capstan_hooks::EXTENSION;
use capstan_hooks::capstan::can_update;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

use super::future::Future;
use super::hosts::ChangedConfig;
use super::report::Refusal;
use super::timeline::Owner;

/// What the hooks think, for each old MachineSet.
type Judged = BTreeMap<String, JudgedSet>;

/// What the hooks think of the change of one MachineSet. They do not know the Hosts of its machines.
struct JudgedSet {
    changes: Vec<Change>,
    configs: Option<ChangedConfig>,
}

impl Future<'_> {
    pub(super) async fn deployment(&mut self, name: &(String, String)) -> Result<()> {
        let Some(after) = self.then::<MachineDeployment>(name).await? else { return Ok(()) };
        let namespace = &name.0;
        let title = format!("MachineDeployment/{}", name.1);
        let cluster = (namespace.clone(), after.spec.cluster_name.clone());
        let Some(cluster) = self.then::<Cluster>(&cluster).await? else {
            self.plan
                .notes
                .push(format!("{title} belongs to no Cluster yet: nothing happens before it does"));
            return Ok(());
        };
        let leader = self.leader(namespace, &cluster).await?;
        let changed: Vec<DynamicObject> = self
            .tried
            .iter()
            .filter(|tried| tried.namespace.as_ref() == Some(namespace))
            .filter_map(|tried| tried.after.clone())
            .collect();
        let world = foresee::read(&self.core, after.clone(), &changed).await;
        let world = world.with_context(|| format!("cannot tell what would happen to {title}"))?;
        let nobody = BTreeSet::new();
        let drained = self.foresight(leader.as_ref()).map_or(&nobody, |foresight| &foresight.drained);
        let mut owner = Owner::new(namespace, &title, drained);
        if let Some(reason) = pause::reason(Some(&cluster), "MachineDeployment", &after.metadata) {
            self.plan.notes.push(format!("{title} is paused, nothing happens meanwhile: {reason}"));
            world.machines.iter().for_each(|machine| owner.untouched(&machine.name_any()));
            self.timeline.add(owner);
            return Ok(());
        }
        let (answers, judged) = match world.questions() {
            Ok(questions) => self.ask_extensions(namespace, questions).await,
            Err(why) => {
                self.plan.refusals.push(Refusal::new(&title, why));
                world.machines.iter().for_each(|machine| owner.untouched(&machine.name_any()));
                self.timeline.add(owner);
                return Ok(());
            }
        };
        let foresight = world.foresee(&answers);
        if let Some(why) = &foresight.held {
            self.plan.refusals.push(Refusal::new(&title, why));
        }
        let hosts = self.hosts(namespace, &world.machines).await?;
        add_machines(&mut owner, &world, &foresight, &judged, &hosts);
        self.note(&title, &after, &foresight, leader.as_ref());
        self.timeline.add(owner);
        Ok(())
    }

    fn note(
        &mut self,
        title: &str,
        after: &MachineDeployment,
        foresight: &foresee::Foresight,
        leader: Option<&(String, String)>,
    ) {
        let is_rolled_out = foresight.steps.iter().any(|step| matches!(step, RolloutStep::Update(_)));
        let limits = foresight.limits.filter(|_| is_rolled_out).map(Limits::in_place);
        if let Some(limits) = limits {
            let (most, desired) = (limits.max_unavailable, limits.desired);
            self.plan.notes.push(format!("{title}: at most {most} of {desired} machines are away at a time"));
        }
        self.plan.notes.extend(foresight.stops.as_ref().map(|why| format!("{title}: {why}")));
        let time = after.spec.rollout.as_ref().and_then(|rollout| rollout.after.as_ref());
        if let Some(time) = time.filter(|time| time.0 > self.core.now()) {
            let why = "machines of MachineSets made before it are replaced";
            self.plan.notes.push(format!("{title}: once spec.rollout.after ({}) has come, {why}", time.0));
        }
        let version = after.spec.template.spec.version.as_deref().filter(|_| !foresight.steps.is_empty());
        let held =
            self.foresight(leader).zip(version).and_then(|(leader, version)| leader.holds_back(version));
        self.plan.notes.extend(held.map(|why| format!("{title}: a machine that is to be changed {why}")));
    }

    /// What whoever would be asked says. Our own hooks are a function, and are asked as one: asking their server would
    /// make an event of every no.
    async fn ask_extensions(
        &self,
        namespace: &str,
        questions: Vec<Question>,
    ) -> (Vec<(Question, Answer)>, Judged) {
        let (mut answers, mut judged) = (vec![], Judged::new());
        if questions.is_empty() {
            return (answers, judged);
        }
        let handler = self.core.extensions.serving_now::<CanUpdateMachineSet>(namespace).await;
        for question in questions {
            let request = &question.request;
            let answer = match &handler {
                Err(error) => Answer::Refused(chain(error)),
                Ok(None) => Answer::Nobody,
                Ok(Some(handler)) if handler.name.ends_with(&format!(".{EXTENSION}")) => {
                    let judgement = can_update::judge_machine_set(request);
                    let (current, desired) = (&request.current, &request.desired);
                    let configs = ChangedConfig::between(
                        current.bootstrap_config_template.as_ref(),
                        desired.bootstrap_config_template.as_ref(),
                    );
                    let changes = judgement.changes;
                    judged.insert(question.set.clone(), JudgedSet { changes, configs });
                    match judgement.refusal {
                        Some(why) => Answer::Refused(why),
                        None => Answer::Possible(Box::new(can_update::machine_set(request))),
                    }
                }
                Ok(Some(handler)) => {
                    match self.core.extensions.call::<CanUpdateMachineSet>(handler, request.clone()).await {
                        Ok(Some(answer)) => Answer::Possible(Box::new(answer)),
                        Ok(None) => Answer::Nobody,
                        Err(CallError::Failure(why)) => Answer::Refused(why),
                        Err(error) => Answer::Refused(error.to_string()),
                    }
                }
            };
            answers.push((question, answer));
        }
        (answers, judged)
    }
}

fn add_machines(
    owner: &mut Owner,
    world: &World,
    foresight: &foresee::Foresight,
    judged: &Judged,
    hosts: &BTreeMap<String, HostFacts>,
) {
    for machine in world.machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none()) {
        let name = machine.name_any();
        let set = owners::controller_of(&machine.metadata).map(|set| set.name.as_str()).unwrap_or_default();
        let judged = judged.get(set);
        let mut changes = judged.map(|judged| judged.changes.clone()).unwrap_or_default();
        if foresight.held.is_some() {
            owner.refused(&name, &changes);
            continue;
        }
        if let Some(configs) = judged.and_then(|judged| judged.configs.as_ref()) {
            changes = configs.on(hosts.get(&name), changes);
        }
        changes.extend(foresight.handed_down.get(&name).map(handed_down).unwrap_or_default());
        owner.machine(&name, &changes);
    }
    for step in &foresight.steps {
        match step {
            RolloutStep::Update(names) => names.iter().for_each(|name| owner.update(name)),
            RolloutStep::Create(number) => (0..*number).for_each(|_| owner.create()),
            RolloutStep::Delete(names) => names.iter().for_each(|name| owner.delete(name)),
        }
    }
}

/// What a Machine is told at once. Which MachineSet it belongs to is nobody's business but core's.
fn handed_down((before, after): &(capstan_api::core::Machine, capstan_api::core::Machine)) -> Vec<Change> {
    let bare = |machine: &capstan_api::core::Machine| {
        let mut metadata = machine.metadata.clone();
        for label in [labels::MACHINE_TEMPLATE_HASH, labels::SET_NAME] {
            metadata.labels.get_or_insert_default().remove(label);
        }
        json!({"metadata": metadata, "spec": machine.spec})
    };
    changes(Subject::Machine, &bare(before), &bare(after))
}
