//! What users, hosts and the manager's own death do to a cluster.

use anyhow::Result;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Machine;
use kube::ResourceExt;
use kube::api::DeleteParams;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};

use crate::life::Life;
use crate::world::{is_leaving, is_server};

pub(crate) const VERSIONS: [&str; 4] = ["v1.36.0+k3s1", "v1.36.1+k3s1", "v1.36.2+k3s1", "v1.37.0+k3s1"];

impl Life {
    /// One turn of trouble.
    pub(crate) async fn trouble(&mut self) -> Result<()> {
        let seconds = self.random.random_range(0..30);
        self.wait(seconds);
        if self.percent(15) {
            let writes = self.random.random_range(1..8);
            self.tell(format!("a manager that dies at write {writes}"));
            self.take_over(writes);
        }
        if self.percent(14) {
            self.user().await?;
        }
        if self.percent(10) {
            self.nature().await?;
        }
        // Events come once, twice or three times.
        let mut events = 1;
        while events < 3 && self.percent(20) {
            events += 1;
        }
        Box::pin(self.turn(events)).await?;
        Ok(())
    }

    pub(crate) async fn spec(&mut self, spec: Value) -> Result<()> {
        self.tell(format!("the user wants {spec}"));
        self.world.patch::<CapstanControlPlane>("cp", &json!({"spec": spec})).await
    }

    /// The user changes their mind.
    async fn user(&mut self) -> Result<()> {
        match self.random.random_range(0..9) {
            0 | 1 => {
                let replicas = *[1, 3, 5].choose(&mut self.random).unwrap();
                self.spec(json!({"replicas": replicas})).await
            }
            2 => {
                self.version = (self.version + 1).min(VERSIONS.len() - 1);
                self.spec(json!({"version": VERSIONS[self.version]})).await
            }
            3 => {
                let settings = self.settings(&["debug", "snapshotter", "disable"]);
                self.spec(json!({"config": {"settings": settings}})).await
            }
            // Must be refused, and change nothing.
            4 => {
                let name = *["hosts", "others"].choose(&mut self.random).unwrap();
                self.spec(json!({"machineTemplate": {"spec": {"infrastructureRef": {"name": name}}}})).await
            }
            // All at once, if nobody took care.
            5 => self.spec(json!({"rollout": {"after": self.now().to_string()}})).await,
            6 => self.change_workers().await,
            7 => {
                let Some(name) = self.any_server().await? else { return Ok(()) };
                self.tell(format!("the user would have {name} go first"));
                let first = json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}});
                self.world.patch::<Machine>(&name, &first).await
            }
            _ => {
                let Some(name) = self.any_server().await? else { return Ok(()) };
                self.delete(&name).await
            }
        }
    }

    /// The user wants a machine gone.
    pub(crate) async fn delete(&mut self, name: &str) -> Result<()> {
        self.tell(format!("the user deletes {name}"));
        self.unwanted.insert(name.to_owned());
        self.world.api::<Machine>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    fn settings(&mut self, keys: &[&str]) -> Value {
        let value = self.random.random_range(0..3);
        let key = *keys.choose(&mut self.random).unwrap();
        json!({key: format!("x{value}")})
    }

    /// Somebody changes what all workers should be, as if there were no MachineDeployment to take care.
    async fn change_workers(&mut self) -> Result<()> {
        let (settings, version) = (self.settings(&["debug", "snapshotter"]), VERSIONS[self.version]);
        self.tell(format!("workers are to be {version} with {settings}"));
        for number in 0..self.workers {
            let name = format!("w{number}");
            let config = json!({"spec": {"settings": settings}});
            self.world.patch::<CapstanConfig>(&name, &config).await?;
            self.world.patch::<Machine>(&name, &json!({"spec": {"version": version}})).await?;
        }
        Ok(())
    }

    /// Things happen to hosts.
    async fn nature(&mut self) -> Result<()> {
        let Some(name) = self.any_server().await? else { return Ok(()) };
        match self.random.random_range(0..5) {
            0 | 1 => self.lose(&name),
            // On a bad day the user mistakes one machine for another.
            2 => {
                self.lose(&name);
                let Some(another) = self.any_server().await?.filter(|another| *another != name) else {
                    return Ok(());
                };
                self.delete(&another).await?;
            }
            3 => {
                self.tell(format!("the host of {name} is well"));
                self.world.lost.remove(&name);
                self.world.workload.is_lost(&name, false);
            }
            // Somebody looks after the machines' health.
            _ => {
                if self.world.lost.contains(&name) {
                    self.unwanted.insert(name.clone());
                }
                self.look_after(&name).await?;
            }
        }
        Ok(())
    }

    fn lose(&mut self, name: &str) {
        self.tell(format!("the host of {name} is lost"));
        self.world.lost.insert(name.to_owned());
        self.world.workload.is_lost(name, true);
    }

    /// Says whether a machine is ill, as a MachineHealthCheck would.
    pub(crate) async fn look_after(&mut self, name: &str) -> Result<()> {
        let status = if self.world.lost.contains(name) { "False" } else { "True" };
        self.tell(format!("{name} was looked at: {status}"));
        let ill = json!({"type": "OwnerRemediated", "status": status, "reason": "WaitingForRemediation",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        self.world.add_conditions(name, vec![ill], json!({})).await
    }

    async fn any_server(&mut self) -> Result<Option<String>> {
        let machines = self.world.machines().await?;
        let servers = machines.iter().filter(|machine| is_server(machine) && !is_leaving(machine));
        let names: Vec<String> = servers.map(ResourceExt::name_any).collect();
        Ok(names.choose(&mut self.random).cloned())
    }
}
