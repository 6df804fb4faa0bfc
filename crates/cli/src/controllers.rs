//! Runs controllers in one process, against the plane of a client.

use anyhow::{Context, Result, bail};
use capstan_artifacts::{ArtifactRef, Software, Source};
use capstan_bootstrap::PlaneAddress;
use capstan_controller::Scope;
use capstan_controlplane::{Spare, Tools};
use capstan_core::Core;
use capstan_core::runtime::LocalIdentity;
use capstan_infrastructure::{Drivers, HostKind, Infrastructure, Provisioner};
use capstan_pki::issue::Identity;
use capstan_plan::Digest;
use capstan_sim::Sim;
#[cfg(feature = "ssh")]
use capstan_ssh::{RegisteredDriver, SshDriver};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kube::Client;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

use crate::controller_health::ControllerHealth;
use crate::etcd::AnyEtcd;
use crate::extensions::Extensions;
use crate::machines::LocalMachines;
use crate::stop::Stop;
use crate::tuning::Tuning;

/// How long a controller may take to end what it is doing.
const GRACE: Duration = Duration::from_secs(5);

/// The groups of controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Core,
    Infrastructure,
    Bootstrap,
    ControlPlane,
    Hooks,
}

impl Group {
    const ALL: [Self; 5] =
        [Self::Core, Self::Infrastructure, Self::Bootstrap, Self::ControlPlane, Self::Hooks];

    const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Infrastructure => "infrastructure",
            Self::Bootstrap => "bootstrap",
            Self::ControlPlane => "control-plane",
            Self::Hooks => "hooks",
        }
    }
}

/// The value of `--controllers`: all, none, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection(Vec<Group>);

impl Selection {
    pub(crate) fn all() -> Self {
        Self(Group::ALL.to_vec())
    }

    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// The names of the groups.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|group| group.name())
    }

    /// The names of the groups that only one replica runs.
    pub(crate) fn names_of_leader(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().filter(|group| **group != Group::Hooks).map(|group| group.name())
    }

    /// Whether a group is selected.
    pub(crate) fn has(&self, group: Group) -> bool {
        self.0.contains(&group)
    }

    /// The canonical name of the selection, independent of the order of the flag.
    pub(crate) fn name(&self) -> String {
        let chosen: Vec<&str> =
            Group::ALL.into_iter().filter(|group| self.has(*group)).map(Group::name).collect();
        match chosen.len() {
            0 => "none".to_owned(),
            5 => "all".to_owned(),
            _ => chosen.join("-"),
        }
    }
}

impl FromStr for Selection {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "all" => return Ok(Self::all()),
            "none" => return Ok(Self::none()),
            _ => {}
        }
        let mut groups = Vec::new();
        for word in text.split(',').map(str::trim) {
            let Some(group) = Group::ALL.into_iter().find(|group| group.name() == word) else {
                let known = Group::ALL.map(Group::name).join(", ");
                bail!("{word:?} is not a group of controllers: say all, none, or some of {known}");
            };
            groups.push(group);
        }
        Ok(Self(groups))
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<&str> = self.0.iter().map(|group| group.name()).collect();
        f.write_str(&names.join(", "))
    }
}

/// The dependencies of controllers.
pub(crate) struct Surroundings {
    /// Client of the management plane.
    pub(crate) client: Client,
    /// Address of the management plane for machines.
    pub(crate) plane: PlaneAddress,
    /// The available software.
    pub(crate) software: Software,
    /// Creates machines on this computer.
    pub(crate) machines: Arc<LocalMachines>,
    /// Folder of simulated hosts.
    pub(crate) folder: PathBuf,
    pub(crate) extensions: Extensions,
    /// The objects that the controllers reconcile.
    pub(crate) scope: Scope,
    /// Address of simulated clusters.
    pub(crate) sim_address: String,
    pub(crate) tuning: Tuning,
    /// Told of every controller.
    pub(crate) health: ControllerHealth,
}

/// Default address of simulated clusters: only this computer can reach them.
pub(crate) const SIM_ADDRESS: &str = "127.0.0.1";

/// Controllers that run until they are stopped.
pub(crate) struct Running {
    tasks: JoinSet<()>,
    sim: Option<Sim>,
    /// Done when core can find the hooks that are served here.
    registered: Option<Shared<BoxFuture<'static, ()>>>,
    /// How core calls the hooks that are served here, if they are for it alone.
    own_hooks: Option<LocalIdentity>,
}

impl Running {
    /// Starts what every replica runs, leader or not: the server of hooks.
    pub(crate) async fn serve(selection: &Selection, around: &Surroundings, stop: &Stop) -> Result<Self> {
        let mut running = Self { tasks: JoinSet::new(), sim: None, registered: None, own_hooks: None };
        if selection.has(Group::Hooks) {
            let options = &around.extensions.hooks;
            let hooks =
                capstan_hooks::start(&around.client, options, stop).await.context("cannot serve hooks")?;
            let registered = hooks.registered().boxed().shared();
            let url = hooks.url.clone();
            running.own_hooks =
                hooks.caller.map(|Identity { certificate, key }| LocalIdentity { url, certificate, key });
            let name = Group::Hooks.name();
            let registration = around.health.task(name, stop);
            running.registered = Some(registered.clone());
            for task in hooks.tasks {
                running.tasks.spawn(around.health.run(name, stop, task));
            }
            let stopped = stop.clone();
            running.tasks.spawn(async move {
                tokio::select! {
                    () = registered => registration.is_running(),
                    () = stopped.clone() => {}
                }
                stopped.await;
                drop(registration);
            });
        }
        Ok(running)
    }

    /// Runs more tasks, each until the stop signal.
    pub(crate) fn add(&mut self, tasks: Vec<BoxFuture<'static, ()>>) {
        for task in tasks {
            self.tasks.spawn(task);
        }
    }

    /// Waits until every controller has stopped, after the stop signal. A controller that does not stop in time, such
    /// as one that still waits for its first list, is aborted at any point of its work.
    pub(crate) async fn ended(&mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            self.tasks.shutdown().await;
        }
        if let Some(sim) = self.sim.take() {
            sim.close().await;
        }
    }

    /// Starts the selected controllers: what only the leader runs.
    pub(crate) async fn control(
        &mut self,
        selection: &Selection,
        around: &Surroundings,
        stop: &Stop,
    ) -> Result<()> {
        let Surroundings {
            client,
            plane,
            software,
            machines,
            folder,
            extensions,
            scope,
            sim_address,
            tuning,
            health,
        } = around;
        let mut core = Core::new(client.clone())
            .within(scope.clone())
            .with_engine(tuning.metrics.clone(), tuning.settings.clone());
        core.node_sync = tuning.node_sync.clone();
        health.read_from(&core.caches);
        if let Some(identity) = &extensions.identity {
            core.extensions = core.extensions.with_identity(identity.clone());
        }
        if let Some(token) = &extensions.token_file {
            core.extensions = core.extensions.with_token_file(token.clone());
        }
        if let Some(own) = &self.own_hooks {
            core.extensions = core.extensions.with_local_identity(own.clone());
        }
        for group in &selection.0 {
            let controllers: Vec<BoxFuture<'static, ()>> = match group {
                Group::Hooks => continue,
                Group::Core => {
                    let controllers = capstan_core::controllers(&core, stop).into_iter();
                    let controllers =
                        controllers.map(|one| health.run(group.name(), stop, one).boxed()).collect();
                    // Before core can find them it would replace machines that can be changed in place.
                    self.tasks.spawn(after(self.registered.clone(), controllers, stop.clone()));
                    continue;
                }
                Group::Bootstrap => {
                    let (plane, software, scope) = (plane.clone(), software.clone(), scope.clone());
                    let stop = stop.clone();
                    vec![Box::pin(capstan_bootstrap::run(core.caches.clone(), plane, software, scope, stop))]
                }
                Group::ControlPlane => vec![Box::pin(capstan_controlplane::run(
                    core.caches.clone(),
                    core.externals.clone(),
                    core.remotes.clone(),
                    Tools {
                        software: software.clone(),
                        spare: Some(spare()),
                        etcd: Arc::new(AnyEtcd::new(core.remotes.clone())),
                    },
                    scope.clone(),
                    stop.clone(),
                ))],
                Group::Infrastructure => {
                    let sim = Sim::open_at(folder.join("sim"), sim_address).await;
                    let sim = sim.context("cannot bring back the simulated hosts")?;
                    self.sim = Some(sim.clone());
                    let drivers = Drivers::none().with(HostKind::Simulated, Arc::new(sim));
                    #[cfg(feature = "ssh")]
                    let drivers = drivers
                        .with(HostKind::Ssh, Arc::new(SshDriver::new(client.clone())))
                        .with(HostKind::Registered, Arc::new(RegisteredDriver::new(client.clone())));
                    let machines: Arc<dyn Provisioner> = Arc::<LocalMachines>::clone(machines);
                    let infrastructure = Infrastructure::new(client.clone(), drivers)
                        .within(scope.clone())
                        .with_caches(core.caches.clone())
                        .with_simulated_at(sim_address.clone())
                        .with_provisioner(machines);
                    capstan_infrastructure::controllers(&infrastructure, stop)
                }
            };
            for controller in controllers {
                self.tasks.spawn(health.run(group.name(), stop, controller));
            }
        }
        Ok(())
    }
}

/// Starts the selected controllers and the server of hooks, if there is only one replica.
pub(crate) async fn start(selection: &Selection, around: &Surroundings, stop: &Stop) -> Result<Running> {
    let mut running = Running::serve(selection, around, stop).await?;
    running.control(selection, around, stop).await?;
    Ok(running)
}

/// Runs what has to wait for something else, if there is anything to wait for.
async fn after(first: Option<impl Future<Output = ()>>, then: Vec<BoxFuture<'static, ()>>, stop: Stop) {
    if let Some(first) = first {
        tokio::select! {
            () = first => {}
            () = stop => return,
        }
    }
    // As tasks of their own: one that is busy must not hold up the others.
    let mut tasks: JoinSet<()> = then.into_iter().collect();
    while tasks.join_next().await.is_some() {}
}

/// What simulated machines get: they take whatever it is, and fetch nothing.
fn spare() -> Spare {
    let url = "https://simulated.invalid/k3s".to_owned();
    let source = Source { url, ca: None };
    let artifact = ArtifactRef { sha256: Digest::of(b"simulated"), size: 9, sources: vec![source] };
    Spare { artifact, os_image: capstan_sim::OS_IMAGE.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_all_none_or_a_list() {
        assert_eq!("all".parse::<Selection>().unwrap().0, Group::ALL);
        assert_eq!("none".parse::<Selection>().unwrap().to_string(), "none");
        let some = "core, control-plane".parse::<Selection>().unwrap();
        assert_eq!(some.to_string(), "core, control-plane");
        let error = "cor".parse::<Selection>().unwrap_err().to_string();
        assert!(error.contains("\"cor\"") && error.contains("bootstrap"), "{error}");
    }
}
