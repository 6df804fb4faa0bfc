//! Which controllers run, in one process, against whatever plane the client leads to.

use anyhow::{Context, Result, bail};
use capstan_artifacts::{ArtifactRef, Software, Source};
use capstan_bootstrap::Plane;
use capstan_controlplane::{Spare, Tools};
use capstan_core::Core;
use capstan_infrastructure::{Drivers, HostKind, Infrastructure, Provisioner};
use capstan_plan::Digest;
use capstan_sim::Sim;
use capstan_ssh::SshDriver;
use futures::future::BoxFuture;
use kube::Client;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

use crate::etcd::AnyEtcd;
use crate::extensions::Extensions;
use crate::machines::LocalMachines;
use crate::stop::Stop;

/// How long a controller may take to end what it is doing.
const GRACE: Duration = Duration::from_secs(5);

/// The groups of controllers that can be run.
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

/// What `--controllers` says: all, none, or a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection(Vec<Group>);

impl Selection {
    pub(crate) fn all() -> Self {
        Self(Group::ALL.to_vec())
    }
}

impl FromStr for Selection {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "all" => return Ok(Self::all()),
            "none" => return Ok(Self(Vec::new())),
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

/// What controllers meet beside the objects they look after.
pub(crate) struct Surroundings {
    /// Leads to the management plane.
    pub(crate) client: Client,
    /// How machines reach it.
    pub(crate) plane: Plane,
    /// What machines can be given.
    pub(crate) software: Software,
    /// What makes machines on this one.
    pub(crate) machines: Arc<LocalMachines>,
    /// Where simulated hosts are kept.
    pub(crate) folder: PathBuf,
    pub(crate) extensions: Extensions,
}

/// Controllers that run until they are told to stop.
pub(crate) struct Running {
    tasks: JoinSet<()>,
    sim: Option<Sim>,
}

impl Running {
    /// Waits for every controller to end what it is doing, once they were told to stop. One that does not, such as
    /// one that was still waiting for its first list, is cut off: it may be cut off anywhere.
    pub(crate) async fn ended(mut self) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all).await.is_err() {
            self.tasks.shutdown().await;
        }
        if let Some(sim) = self.sim {
            sim.close().await;
        }
    }
}

/// Starts the selected controllers.
pub(crate) async fn start(selection: &Selection, around: &Surroundings, stop: &Stop) -> Result<Running> {
    let Surroundings { client, plane, software, machines, folder, extensions } = around;
    let sim = match selection.0.contains(&Group::Infrastructure) {
        true => Some(Sim::open(folder.join("sim")).await.context("cannot bring back the simulated hosts")?),
        false => None,
    };
    let mut running = Running { tasks: JoinSet::new(), sim: sim.clone() };
    let mut core = Core::new(client.clone());
    if let Some(identity) = &extensions.identity {
        core.extensions = core.extensions.with_identity(identity.clone());
    }
    let mut registered = None;
    if selection.0.contains(&Group::Hooks) {
        let hooks =
            capstan_hooks::start(client, &extensions.hooks, stop).await.context("cannot serve hooks")?;
        registered = Some(hooks.registered());
        for task in hooks.tasks {
            running.tasks.spawn(task);
        }
    }
    for group in &selection.0 {
        let controllers: Vec<BoxFuture<'static, ()>> = match group {
            Group::Hooks => continue,
            Group::Core => {
                let controllers = capstan_core::controllers(&core, stop);
                // Before core can find them it would replace machines that can be changed in place.
                vec![Box::pin(after(registered.take(), controllers, stop.clone()))]
            }
            Group::Bootstrap => {
                let (plane, software) = (plane.clone(), software.clone());
                vec![Box::pin(capstan_bootstrap::run(client.clone(), plane, software, stop.clone()))]
            }
            Group::ControlPlane => vec![Box::pin(capstan_controlplane::run(
                client.clone(),
                core.externals.clone(),
                core.remotes.clone(),
                Tools {
                    software: software.clone(),
                    spare: sim.as_ref().map(|_| spare()),
                    etcd: Arc::new(AnyEtcd { sim: sim.clone() }),
                },
                stop.clone(),
            ))],
            Group::Infrastructure => {
                let ssh = Arc::new(SshDriver::new(client.clone()));
                let mut drivers = Drivers::none().with(HostKind::Ssh, ssh);
                if let Some(sim) = &sim {
                    drivers = drivers.with(HostKind::Simulated, Arc::new(sim.clone()));
                }
                let machines: Arc<dyn Provisioner> = Arc::<LocalMachines>::clone(machines);
                let infrastructure = Infrastructure::new(client.clone(), drivers).with_provisioner(machines);
                capstan_infrastructure::controllers(&infrastructure, stop)
            }
        };
        for controller in controllers {
            running.tasks.spawn(controller);
        }
    }
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
    #![allow(clippy::unwrap_used)]

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
