//! A machine's agent, played, and core, which finds the Node.
//!
//! In calm a plan is carried out at once. In trouble it takes three turns: the server is stopped if it is to be started
//! again, it is started, and that is reported. The agent may die before each of them and then begins again from the
//! first, and the plan may fail with the server up or down.

use anyhow::{Result, ensure};
use capstan_api::agent::{MachineReport, PlanPhase};
use capstan_api::core::Machine;
use capstan_plan::{Action, Step, VerifiedPlan};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::scene::{begins, is_server};
use super::{Scene, World, version_of};

/// How far an agent has come with a plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// What runs was stopped, if it had to be.
    Stopped,
    /// It runs, and nobody was told.
    Started,
}

/// The plan that an agent carries out.
pub(super) struct Errand {
    digest: String,
    stage: Stage,
}

impl World {
    /// An agent gets on with the plan of its machine.
    pub(super) async fn obey(&mut self, scene: &Scene, machine: &Machine) -> Result<()> {
        let name = machine.name_any();
        let Some(plan) = scene.plan(&name)? else { return Ok(()) };
        let Some(report) = scene.reports.get(&name) else { return Ok(()) };
        ensure!(report.spec.machine_id == format!("id-{name}"), "the report of {name} is of another life");
        let uid = machine.uid().unwrap_or_default();
        let before = self.trusted.get(&name).filter(|(of, _)| *of == uid).map(|(_, key)| *key);
        let key = match scene.followed(&name, before.unwrap_or(scene.key()?)) {
            // It began with a key that this plan is not signed with yet.
            Err(_) if before.is_none() => return Ok(()),
            followed => followed?,
        };
        let is_away = self.lost.contains(&name) || self.unheard.contains(&name);
        if before != Some(key) && !is_away {
            self.trusted.insert(name.clone(), (uid, key));
            self.report(&name, json!({})).await?;
        }
        if scene.is_applied(&name, &plan) && self.applied.contains(&name) {
            return Ok(());
        }
        if is_given_up(report, &plan) || self.lost.contains(&name) || self.unheard.contains(&name) {
            return Ok(());
        }
        let (digest, revision) = (plan.id().digest().to_string(), plan.id().revision().get());
        let agent = machine.uid().unwrap_or_default();
        let known = self.revisions.insert(agent, (revision, digest.clone())).unwrap_or_default();
        ensure!(
            revision > known.0 || (revision, &digest) == (known.0, &known.1),
            "{name}: revision {revision} after {}",
            known.0
        );
        if self.mood.crashes() {
            self.errands.remove(&name);
            return Ok(());
        }
        let plan_ref = json!({"digest": digest, "revision": revision});
        let total = plan.plan().steps.len();
        if !scene.is_open(&name, &plan)? {
            let gate = plan.plan().steps.iter().position(|step| step.name.as_str() == "drained").unwrap();
            let step = json!({"name": "drained", "index": gate + 1, "total": total});
            return self.report(&name, json!({"plan": plan_ref, "phase": "Waiting", "step": step})).await;
        }
        let has_begun = self.errands.get(&name).is_some_and(|errand| errand.digest == digest);
        let asks_what_runs = plan.plan().steps.iter().any(asks_for_snapshot);
        if asks_what_runs && !has_begun && !self.workload.runs(&name) {
            let step = json!({"name": "snapshot", "index": 1, "total": total, "exitCode": 1});
            let refused =
                json!({"plan": plan_ref, "phase": "Failed", "step": step, "message": "connection refused"});
            return self.report(&name, refused).await;
        }
        loop {
            let stage = self.errands.get(&name).filter(|errand| errand.digest == digest);
            let next = match stage.map(|errand| errand.stage) {
                None => {
                    if is_server(machine) && scene.restarts(&name) {
                        self.workload.stopped(&name);
                    }
                    self.report(&name, json!({"plan": plan_ref, "phase": "Applying", "step": null})).await?;
                    Stage::Stopped
                }
                Some(Stage::Stopped) if self.mood.fails() => {
                    if self.mood.tosses() && self.workload.is_member(&name) {
                        self.workload.started(&name, false);
                    }
                    self.errands.remove(&name);
                    let step = json!({"name": "ready", "index": 1, "total": total, "exitCode": 1});
                    let failed =
                        json!({"plan": plan_ref, "phase": "Failed", "step": step, "message": "no luck"});
                    return self.report(&name, failed).await;
                }
                Some(Stage::Stopped) => {
                    if let Some(boot) = left_boot(&plan) {
                        self.workload.reboot(&name, &boot);
                    }
                    // A restart may be a cure, or not.
                    if scene.restarts(&name) && self.mood.tosses() {
                        self.workload.break_node(&name, false);
                    }
                    if is_server(machine) && !self.workload.started(&name, begins(&plan)) {
                        return Ok(());
                    }
                    // What runs becomes a Node, whatever its machine is told next. Core looks once the cluster has begun.
                    if scene.is_begun() {
                        self.becomes_node(&name, &plan).await?;
                    }
                    Stage::Started
                }
                Some(Stage::Started) => {
                    self.errands.remove(&name);
                    self.applied(&name, &plan_ref).await?;
                    return self.becomes_node(&name, &plan).await;
                }
            };
            self.errands.insert(name.clone(), Errand { digest: digest.clone(), stage: next });
            if !self.mood.is_calm() {
                return Ok(());
            }
        }
    }

    async fn report(&self, machine: &str, mut status: Value) -> Result<()> {
        if let Some((_, key)) = self.trusted.get(machine).filter(|_| !self.old_agents.contains(machine)) {
            status["planKey"] = key.id().to_string().into();
        }
        self.patch_status::<MachineReport>(machine, &json!({"status": status})).await
    }

    /// The plan was carried out, and the machine says so.
    pub(super) async fn applied(&mut self, name: &str, plan_ref: &Value) -> Result<()> {
        let applied =
            json!({"plan": plan_ref, "phase": "Applied", "applied": plan_ref, "step": null, "message": null});
        self.report(name, applied).await?;
        self.applied.insert(name.to_owned());
        Ok(())
    }

    /// Core finds the Node of a machine.
    pub(super) async fn becomes_node(&self, name: &str, plan: &VerifiedPlan) -> Result<()> {
        self.workload.has_node(name);
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let node = json!({
            "nodeRef": {"name": name},
            "nodeInfo": {
                "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": version_of(plan), "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64"},
        });
        self.add_conditions(name, vec![condition("Ready"), condition("Available")], node).await
    }
}

fn is_given_up(report: &MachineReport, plan: &VerifiedPlan) -> bool {
    report.status.as_ref().is_some_and(|status| {
        let reported = status.plan.as_ref();
        status.phase == Some(PlanPhase::Failed)
            && reported.is_some_and(|reported| plan.id().is_named_by(&reported.digest, reported.revision))
    })
}

/// The boot that a plan has the machine leave.
fn left_boot(plan: &VerifiedPlan) -> Option<String> {
    let step = plan.plan().steps.iter().find(|step| step.name.as_str() == "reboot")?;
    let Action::Command(command) = &step.action else { return None };
    command.argv.words().last().cloned()
}

/// Whether a step fails where no server runs: one that does not know looks first.
fn asks_for_snapshot(step: &Step) -> bool {
    let Action::Command(command) = &step.action else { return false };
    step.name.as_str() == "snapshot" && command.argv.program().ends_with("/k3s")
}
