//! What must hold at any moment, and what must hold in the end.

use anyhow::{Result, ensure};
use capstan_api::bootstrap::CapstanConfigPlanStatus;
use capstan_plan::VerifiedPlan;
use kube::ResourceExt;
use serde_json::json;
use std::collections::BTreeSet;

use super::scene::{begins, is_leaving, is_server};
use super::{Scene, World, config_of, wiped};

impl World {
    /// What must hold at any moment.
    pub(crate) fn check(&mut self, scene: &Scene) -> Result<()> {
        self.one_begins(scene)?;
        let mut busy = Vec::new();
        let mut restarting = Vec::new();
        let mut workers = Vec::new();
        for machine in &scene.machines {
            let name = machine.name_any();
            let Some(plan) = scene.plan(&name)? else { continue };
            let config = config_of(&plan);
            let unnamed: Vec<String> =
                wiped(&plan).into_iter().filter(|path| !self.named.contains(path)).collect();
            ensure!(unnamed.is_empty(), "{name} would remove {unnamed:?}, which nobody has named");
            if !is_server(machine) {
                self.has_own_token(scene, &name, &plan)?;
            }
            if config["cluster-init"] != json!(true) {
                ensure!(config["server"] == "https://10.0.0.10:6443", "{config}");
                ensure!(
                    self.begins.as_ref().is_some_and(|begins| self.applied.contains(begins)),
                    "{name} joins before the cluster has begun"
                );
            }
            if scene.is_applied(&name, &plan) {
                continue;
            }
            match is_server(machine) {
                true if is_leaving(machine) => {}
                // Until it is let through it runs as before.
                true if scene.restarts(&name) && !scene.is_open(&name, &plan)? => {}
                true => busy.push(name.clone()),
                false if scene.restarts(&name) && scene.is_open(&name, &plan)? => workers.push(name.clone()),
                false => {}
            }
            // One that leaves is counted as long as it is missed.
            let is_missed = !is_leaving(machine) || self.workload.is_member(&name);
            if is_server(machine) && is_missed && scene.restarts(&name) && scene.is_open(&name, &plan)? {
                restarting.push(name);
            }
        }
        ensure!(busy.len() <= 1, "over budget: {busy:?} are changed at the same time");
        ensure!(restarting.len() <= 1, "over budget: {restarting:?} may restart at the same time");
        // One that was silent for too long, or has given up, is not waited for.
        workers.retain(|name| !self.ever_lost.contains(name) && scene.record(name)["attempt"] != json!(8));
        ensure!(workers.len() <= 1, "over budget: workers {workers:?} are changed at the same time");
        let leaving: BTreeSet<String> =
            scene.machines.iter().filter(|m| is_leaving(m)).map(ResourceExt::name_any).collect();
        let stopped: Vec<String> = self.workload.all_stopped().difference(&leaving).cloned().collect();
        ensure!(stopped.len() <= 1, "over budget: {stopped:?} were stopped at the same time");
        self.workload.check()
    }

    /// No worker is told the token of servers, which opens the keys of all CAs. In a cluster that began before workers had
    /// their own, a worker is told its own when every server accepts it, and never the other one again.
    fn has_own_token(&mut self, scene: &Scene, worker: &str, plan: &VerifiedPlan) -> Result<()> {
        let Some([server, agent]) = tokens(scene) else {
            ensure!(self.began_without_agent_token, "there is no token of workers");
            return Ok(());
        };
        if !Scene::contains(plan, &agent) {
            let may_have_another = self.began_without_agent_token && !self.separate.contains(worker);
            ensure!(may_have_another, "worker {worker} is not told its own token");
            return Ok(());
        }
        ensure!(!Scene::contains(plan, &server), "worker {worker} is told the token of servers");
        if self.separate.insert(worker.to_owned()) {
            for machine in scene.machines.iter().filter(|machine| is_server(machine)) {
                let Some(plan) = scene.plan(&machine.name_any())? else { continue };
                let has = config_of(&plan)["agent-token"] == agent.as_str();
                ensure!(
                    has,
                    "worker {worker} has its own token, and {} does not accept it",
                    machine.name_any()
                );
            }
        }
        Ok(())
    }

    /// One machine begins the cluster. Another one may only if that is gone, with all it had, and nobody had joined.
    fn one_begins(&mut self, scene: &Scene) -> Result<()> {
        let mut elected = Vec::new();
        for machine in &scene.machines {
            let name = machine.name_any();
            if scene.plan(&name)?.is_some_and(|plan| begins(&plan)) {
                elected.push(name);
            }
        }
        ensure!(elected.len() <= 1, "{elected:?} were all told to begin the cluster");
        let Some(name) = elected.pop() else { return Ok(()) };
        // Gone with the control plane when that is at its end.
        if let Some(noted) = scene.noted("capstan.dev/init-machine") {
            ensure!(noted == format!("{name}/id-{name}"), "{name} begins, but {noted} is written down");
        }
        if let Some(before) = self.begins.as_ref().filter(|before| **before != name) {
            ensure!(
                scene.noted("capstan.dev/initialized").is_none() && !self.workload.is_there(),
                "{name} was told to begin the cluster that {before} has begun"
            );
            ensure!(
                !scene.machines.iter().any(|m| m.name_any() == *before),
                "{before} and {name} both begin"
            );
        }
        self.begins = Some(name);
        Ok(())
    }

    /// Whether so many machines are ready, up to date, and of this version.
    pub(crate) async fn stands(&self, replicas: i32, version: &str) -> Result<()> {
        let control_plane = self.control_plane().await?;
        let status = control_plane.status.unwrap_or_default();
        let counts =
            [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
        ensure!(counts == [Some(replicas); 4], "{counts:?}: {}", json!(status.conditions));
        let versions: Vec<_> = status.versions.iter().map(|v| (v.version.as_str(), v.replicas)).collect();
        ensure!(versions == [(version, Some(replicas))], "{versions:?}");
        let initialized = status.initialization.and_then(|status| status.control_plane_initialized);
        ensure!(initialized == Some(true), "not initialized");
        let expected = [("Available", "True"), ("Initialized", "True"), ("CertificatesAvailable", "True")];
        let inactive =
            ["RollingOut", "ScalingUp", "ScalingDown", "Deleting", "Paused"].map(|type_| (type_, "False"));
        for (type_, wanted) in expected.into_iter().chain(inactive) {
            let found = status.conditions.iter().find(|condition| condition.type_ == type_);
            let found = found.map(|condition| condition.status.to_string()).unwrap_or_default();
            ensure!(found == wanted, "{type_}: {found}");
        }
        self.plans_are_reported().await
    }

    /// Whether the status of each CapstanConfig names the plan in the plan Secret, with the setup that the Secret says.
    async fn plans_are_reported(&self) -> Result<()> {
        let scene = self.scene().await?;
        for machine in &scene.machines {
            let name = machine.name_any();
            let Some(plan) = scene.plan(&name)? else { continue };
            let status = scene.configs.get(&name).and_then(|config| config.status.as_ref());
            let told = status.and_then(|status| status.plan.as_ref());
            let setup = scene.secrets[&format!("{name}-plan")].annotations().get("capstan.dev/plan-setup");
            let is_told = |told: &CapstanConfigPlanStatus| {
                plan.id().is_named_by(&told.digest, told.revision)
                    && Some(&told.setup) == setup
                    && told.machine_id == format!("id-{name}")
            };
            ensure!(
                told.is_some_and(is_told),
                "{name} has {} for {setup:?}, and {told:?} is told",
                plan.id()
            );
        }
        Ok(())
    }
}

/// The values of the Secret with tokens: of servers, and of workers.
fn tokens(scene: &Scene) -> Option<[String; 2]> {
    let data = scene.secrets.get("c-token")?.data.as_ref()?;
    let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
    Some([text("value")?, text("agent")?])
}
