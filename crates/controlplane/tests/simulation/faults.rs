//! What users, hosts and the manager's own death do to a cluster.

use anyhow::Result;
use capstan_api::bootstrap::CapstanConfig;
use capstan_api::controlplane::CapstanControlPlane;
use capstan_api::core::Machine;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
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
    pub(crate) async fn inject_faults(&mut self) -> Result<()> {
        let seconds = self.random.random_range(0..30);
        self.wait(seconds);
        if self.percent(15) {
            let writes = self.random.random_range(1..8);
            self.record(format!("a manager that dies at write {writes}"));
            self.take_over(writes);
        }
        if self.percent(14) {
            self.user().await?;
        }
        if self.percent(14) {
            self.nature().await?;
        }
        // Events come once, twice or three times.
        let mut events = 1;
        while events < 3 && self.percent(20) {
            events += 1;
        }
        Box::pin(self.advance(events)).await?;
        Ok(())
    }

    pub(crate) async fn spec(&mut self, spec: Value) -> Result<()> {
        self.record(format!("the user wants {spec}"));
        self.world.patch::<CapstanControlPlane>("cp", &json!({"spec": spec})).await
    }

    /// The user changes their mind.
    async fn user(&mut self) -> Result<()> {
        match self.random.random_range(0..12) {
            11 => self.ask_for_another_plan_key().await,
            9 => self.edit_token().await,
            10 => self.name_paths().await,
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
            4 if self.ward.may_replace => Ok(()),
            4 => {
                let name = *["hosts", "others"].choose(&mut self.random).unwrap();
                self.spec(json!({"machineTemplate": {"spec": {"infrastructureRef": {"name": name}}}})).await
            }
            // All at once, if nobody took care.
            5 => self.spec(json!({"rollout": {"after": self.now().to_string()}})).await,
            6 => self.change_workers().await,
            7 => {
                let Some(name) = self.any_server().await? else { return Ok(()) };
                self.record(format!("the user would have {name} go first"));
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
        self.record(format!("the user deletes {name}"));
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
    pub(crate) async fn change_workers(&mut self) -> Result<()> {
        let (settings, version) = (self.settings(&["debug", "snapshotter"]), VERSIONS[self.version]);
        self.record(format!("workers are to be {version} with {settings}"));
        for number in 0..self.workers {
            let name = format!("w{number}");
            let config = json!({"spec": {"settings": settings}});
            self.world.patch::<CapstanConfig>(&name, &config).await?;
            self.world.patch::<Machine>(&name, &json!({"spec": {"version": version}})).await?;
        }
        Ok(())
    }

    /// The user says what is removed when hosts are released, or that nothing is any more.
    async fn name_paths(&mut self) -> Result<()> {
        let named: Vec<&str> = match self.percent(60) {
            true => vec![*["/srv/data", "/mnt/disk1"].choose(&mut self.random).unwrap()],
            false => Vec::new(),
        };
        self.record(format!("the user has {named:?} wiped"));
        self.world.named.extend(named.iter().map(|path| (*path).to_owned()));
        let release = match named.is_empty() {
            true => json!({"release": null}),
            false => json!({"release": {"wipe": named}}),
        };
        for number in 0..self.workers {
            self.world.patch::<CapstanConfig>(&format!("w{number}"), &json!({"spec": release})).await?;
        }
        self.world.patch::<CapstanControlPlane>("cp", &json!({"spec": {"config": release}})).await
    }

    /// The user wants plans to be signed with another key, of which machines notice nothing else.
    async fn ask_for_another_plan_key(&mut self) -> Result<()> {
        self.record("the user wants another plan key");
        let asked =
            json!({"metadata": {"annotations": {"capstan.dev/rotate-plan-key": self.now().to_string()}}});
        self.world.patch::<CapstanControlPlane>("cp", &asked).await
    }

    /// The user edits the Secret with the token, which must change nothing, or puts it back.
    pub(crate) async fn edit_token(&mut self) -> Result<()> {
        let Some(mut secret) = self.world.api::<Secret>().get_opt("c-token").await? else { return Ok(()) };
        let owner = self.world.control_plane().await?;
        if !owner.annotations().contains_key("capstan.dev/key-digests") {
            return Ok(());
        }
        let data = secret.data.get_or_insert_default();
        match self.edited.take() {
            None => {
                self.record("the user edits the token");
                self.edited = data.insert("value".to_owned(), ByteString(b"edited-by-the-user".to_vec()));
            }
            Some(original) => {
                self.record("the user puts the token back");
                data.insert("value".to_owned(), original);
            }
        }
        self.world.patch::<Secret>("c-token", &json!({"data": data})).await
    }

    /// Things happen to hosts, Nodes and the ways to them.
    async fn nature(&mut self) -> Result<()> {
        let Some(name) = self.any_server().await? else { return Ok(()) };
        match self.random.random_range(0..17) {
            0 | 1 => self.lose(&name),
            // On a bad day the user mistakes one machine for another.
            2 => {
                self.lose(&name);
                let Some(another) = self.any_server().await?.filter(|another| *another != name) else {
                    return Ok(());
                };
                self.delete(&another).await?;
            }
            3 => self.find(&name),
            4 | 10 if self.workers > 0 => {
                let worker = self.any_worker();
                match self.world.lost.contains(&worker) {
                    true => self.find(&worker),
                    false => self.lose(&worker),
                }
            }
            5 | 6 => {
                self.record(format!("the Node of {name} is not Ready any more"));
                self.world.workload.break_node(&name, true);
                // That is no reason for the user to wait.
                if self.percent(50) {
                    let settings = self.settings(&["debug", "snapshotter"]);
                    self.spec(json!({"config": {"settings": settings}})).await?;
                }
            }
            11 | 12 => {
                let unheard = match self.workers > 0 && self.percent(50) {
                    true => self.any_worker(),
                    false => name,
                };
                self.record(format!("the agent of {unheard} is not heard"));
                self.world.ever_lost.insert(unheard.clone());
                self.world.unheard.insert(unheard);
            }
            13 => {
                self.record("all agents are heard");
                self.world.unheard.clear();
            }
            14 => {
                let cut = self.percent(60);
                self.record(if cut { "the manager does not reach etcd" } else { "the manager reaches etcd" });
                self.world.workload.cut_off_etcd(cut);
            }
            15 => {
                let turns = self.random.random_range(1..4);
                self.record(format!("the list of Nodes is empty for {turns} turns"));
                self.world.workload.list_nothing(turns);
            }
            7 => {
                self.record(format!("the Node of {name} is Ready again"));
                self.world.workload.break_node(&name, false);
            }
            8 => {
                self.record("the manager does not reach the workload cluster");
                self.world.workload.cut_off(true);
            }
            9 => {
                self.record("the manager reaches the workload cluster");
                self.world.workload.cut_off(false);
            }
            _ => {
                let turns = self.random.random_range(1..5);
                self.record(format!("the kubeconfig is touched: Nodes are known in {turns} turns"));
                self.world.workload.forget_nodes(turns);
            }
        }
        Ok(())
    }

    fn find(&mut self, name: &str) {
        self.record(format!("the host of {name} is well"));
        self.world.lost.remove(name);
        self.world.workload.is_lost(name, false);
    }

    fn lose(&mut self, name: &str) {
        self.record(format!("the host of {name} is lost"));
        self.world.lost.insert(name.to_owned());
        self.world.ever_lost.insert(name.to_owned());
        self.world.workload.is_lost(name, true);
    }

    fn any_worker(&mut self) -> String {
        format!("w{}", self.random.random_range(0..self.workers))
    }

    async fn any_server(&mut self) -> Result<Option<String>> {
        let machines = self.world.machines().await?;
        let servers = machines.iter().filter(|machine| is_server(machine) && !is_leaving(machine));
        let names: Vec<String> = servers.map(ResourceExt::name_any).collect();
        Ok(names.choose(&mut self.random).cloned())
    }
}
