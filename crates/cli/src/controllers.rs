//! Which controllers run, in one process, against whatever plane the client leads to.

use anyhow::{Context, Result, bail};
use capstan_bootstrap::Plane;
use capstan_core::Core;
use capstan_infrastructure::{Drivers, HostKind, Infrastructure};
use capstan_sim::Sim;
use capstan_ssh::SshDriver;
use futures::future::BoxFuture;
use kube::Client;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

use crate::in_place::ByPlan;
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
}

impl Group {
    const ALL: [Self; 4] = [Self::Core, Self::Infrastructure, Self::Bootstrap, Self::ControlPlane];

    const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Infrastructure => "infrastructure",
            Self::Bootstrap => "bootstrap",
            Self::ControlPlane => "control-plane",
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

/// Starts the selected controllers. `plane` is how machines will reach the management plane; simulated hosts
/// keep their state in `folder`.
pub(crate) async fn start(
    client: &Client,
    selection: &Selection,
    plane: &Plane,
    folder: &Path,
    stop: &Stop,
) -> Result<Running> {
    let mut running = Running { tasks: JoinSet::new(), sim: None };
    let core = Core::new(client.clone());
    for group in &selection.0 {
        let controllers: Vec<BoxFuture<'static, ()>> = match group {
            Group::Core => capstan_core::controllers_with(&core, Arc::new(ByPlan), stop),
            Group::Bootstrap => {
                vec![Box::pin(capstan_bootstrap::run(client.clone(), plane.clone(), stop.clone()))]
            }
            Group::ControlPlane => vec![Box::pin(capstan_controlplane::run(
                client.clone(),
                core.externals.clone(),
                core.remotes.clone(),
                stop.clone(),
            ))],
            Group::Infrastructure => {
                let sim = Sim::open(folder.join("sim"), client.clone())
                    .await
                    .context("cannot bring back the simulated hosts")?;
                let drivers = Drivers::none()
                    .with(HostKind::Simulated, Arc::new(sim.clone()))
                    .with(HostKind::Ssh, Arc::new(SshDriver::new(client.clone())));
                running.sim = Some(sim);
                capstan_infrastructure::controllers(&Infrastructure::new(client.clone(), drivers), stop)
            }
        };
        for controller in controllers {
            running.tasks.spawn(controller);
        }
    }
    Ok(running)
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
