//! After the trouble: nothing happens any more, and everything gets where it should.

use anyhow::{Result, bail, ensure};
use capstan_api::core::Machine;
use kube::ResourceExt as _;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};

use crate::faults::VERSIONS;
use crate::life::Life;
use crate::world::{Mood, Scene, config_of, is_leaving, is_server, version_of, wiped};
use capstan_testkit::crash::NEVER;

/// How many turns it may take.
const PEACE: usize = 120;

impl Life {
    pub(crate) async fn peace(&mut self) -> Result<()> {
        self.world.mood = Mood::default();
        self.world.workload.be_slow(false);
        self.world.workload.cut_off(false);
        self.world.workload.cut_off_etcd(false);
        self.world.workload.list_nothing(0);
        self.world.unheard.clear();
        for name in self.world.workload.all_broken() {
            self.world.workload.break_node(&name, false);
        }
        for name in std::mem::take(&mut self.world.lost) {
            self.world.workload.is_lost(&name, false);
        }
        if self.edited.is_some() {
            self.edit_token().await?;
        }
        // One host may never answer again: no other machine may wait for it.
        if self.ward.has_leases && self.workers > 1 && self.percent(50) {
            self.record("the host of w0 never answers again");
            self.world.lost.insert("w0".to_owned());
            self.world.ever_lost.insert("w0".to_owned());
            self.world.workload.is_lost("w0", true);
            self.change_workers().await?;
        }
        self.take_over(NEVER);
        let replicas = *[1, 3].choose(&mut self.random).unwrap();
        let version = VERSIONS[self.version];
        let template = self.choose_template().await?;
        self.spec(json!({
            "replicas": replicas, "version": version,
            "machineTemplate": {"spec": {"infrastructureRef": {"name": template}}},
        }))
        .await?;
        // A plan that was given up is tried again when the user says so.
        let retry = json!({"metadata": {"annotations": {"capstan.dev/retry": "peace"}}});
        for machine in self.world.machines().await? {
            let name = machine.name_any();
            self.world.patch::<Machine>(&name, &retry).await?;
        }
        let mut last = String::new();
        for _ in 0..PEACE {
            self.wait(20);
            // One that was begun before may have been made from the other template.
            self.let_others_go(&template).await?;
            let failed = Box::pin(self.advance(1)).await?;
            match self.is_over(replicas, version).await {
                Ok(()) => return Ok(()),
                Err(error) => last = format!("{error:#}; {}", failed.unwrap_or_default()),
            }
        }
        bail!("it does not get where it should: {last}")
    }

    /// The template of the oldest server that stays.
    async fn choose_template(&mut self) -> Result<String> {
        let scene = self.world.scene().await?;
        let mut servers: Vec<_> =
            scene.machines.iter().filter(|machine| is_server(machine) && !is_leaving(machine)).collect();
        servers.sort_by_key(|machine| machine.creation_timestamp());
        let kept = servers.iter().find_map(|machine| template(&scene, machine));
        Ok(kept.unwrap_or_else(|| "hosts".to_owned()))
    }

    /// Servers that were made from another template cannot become like it, so that the user has to let them go.
    async fn let_others_go(&mut self, kept: &str) -> Result<()> {
        let scene = self.world.scene().await?;
        let servers = scene.machines.iter().filter(|machine| is_server(machine) && !is_leaving(machine));
        for machine in servers {
            if template(&scene, machine).is_some_and(|other| other != kept) {
                self.delete(&machine.name_any()).await?;
            }
        }
        Ok(())
    }

    async fn is_over(&self, replicas: i32, version: &str) -> Result<()> {
        self.world.stands(replicas, version).await?;
        let cordoned = self.world.workload.all_cordoned();
        let cordoned: Vec<&String> = cordoned.difference(&self.world.lost).collect();
        ensure!(cordoned.is_empty(), "{cordoned:?} take no pods");
        ensure!(self.world.workload.is_whole(), "a member of etcd is missing");
        let scene = self.world.scene().await?;
        ensure!(scene.machines.len() == usize::try_from(replicas)? + self.workers, "machines are missing");
        for machine in &scene.machines {
            let name = machine.name_any();
            let marks =
                machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let says = |type_: &str, status: &str| {
                marks.iter().any(|mark| mark.type_ == type_ && mark.status.to_string() == status)
            };
            ensure!(
                !is_server(machine)
                    || !says("HealthCheckSucceeded", "True")
                    || !says("OwnerRemediated", "False"),
                "{name} has recovered, and its owner is still asked to replace it"
            );
            if self.world.lost.contains(&name) {
                continue;
            }
            let plan = scene.plan(&name)?.filter(|plan| scene.is_applied(&name, plan));
            let Some(plan) = plan else { bail!("{name} is not where it should be") };
            // A plan that was carried out may be an old one, because something else is waited for.
            let (has, wanted) = (version_of(&plan), machine.spec.version.clone());
            ensure!(wanted.as_ref() == Some(&has), "{name} has {has}, and {wanted:?} is wanted");
            let (has, wanted) = (wiped(&plan), scene.to_be_wiped(&name));
            ensure!(has == wanted, "{name} would remove {has:?}, and the user has named {wanted:?}");
            let (has, wanted) = (config_of(&plan), scene.settings(&name));
            let is_there = |(key, value): (&String, &Value)| has.get(key) == Some(value);
            ensure!(wanted.iter().all(is_there), "{name} has {has}, and {wanted:?} is wanted");
        }
        self.trust_the_key_that_was_asked_for(&scene)
    }

    /// The last request for another plan key is served, and all machines trust that key. A machine that has never reported may
    /// have an agent that cannot follow, so that the key stays.
    fn trust_the_key_that_was_asked_for(&self, scene: &Scene) -> Result<()> {
        let Some(asked) = scene.noted("capstan.dev/rotate-plan-key") else { return Ok(()) };
        if !self.world.lost.is_empty() {
            return Ok(());
        }
        let served = scene.secrets["c-plan-key"].data.as_ref().and_then(|data| data.get("rotation"));
        ensure!(served.is_some_and(|served| served.0 == asked.as_bytes()), "no other plan key was made");
        let key = scene.key()?.id().to_string();
        for machine in &scene.machines {
            let status = scene.reports.get(&machine.name_any()).and_then(|report| report.status.as_ref());
            let trusts = status.and_then(|status| status.plan_key.as_ref());
            ensure!(trusts == Some(&key), "{} trusts {trusts:?} and not {key}", machine.name_any());
        }
        Ok(())
    }
}

/// The template that a server was made from.
fn template(scene: &Scene, machine: &Machine) -> Option<String> {
    scene.hosts.get(&machine.name_any())?.annotations().get("cluster.x-k8s.io/cloned-from-name").cloned()
}
