//! Host: asks it who it is, says in one word where it is in its life, and keeps it while a machine has it.

mod decide;
#[cfg(test)]
mod tests;

pub use decide::{Holder, is_reachability_known, is_reachable, is_usable, state, tell};

use capstan_api::conditions::{ConditionStatus, get, types};
use capstan_api::infrastructure::{Host, HostMachine, HostPool};
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::patch::Patcher;
use capstan_controller::{Next, Reconciler, Result, finalizers, owners, pause, run};
use futures::StreamExt as _;
use kube::{Resource as _, ResourceExt as _};
use std::sync::Arc;
use std::time::Duration;

use crate::context::Infrastructure;
use crate::driver::DriverError;
use crate::hostpool;
use crate::names::host::{FINALIZER, REACHABLE, USABLE};
use crate::retry::after_silence;

/// How often a host that answers is asked again.
const WHEN_WELL: Duration = Duration::from_secs(300);
/// How soon a host that does not answer, or cannot be used, is asked again at first.
const WHEN_LOST: Duration = Duration::from_secs(15);
/// Conditions that are ours to say.
const OWNED: [&str; 5] = [types::READY, REACHABLE, USABLE, types::DELETING, types::PAUSED];

struct Hosts(Infrastructure);

/// Runs the controller until `stop` is done.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let of_machines = infrastructure
        .caches
        .of::<HostMachine>()
        .changed(|machine| {
            let deleting = get(machine, types::DELETING).map(|told| told.message.clone());
            (machine.spec.host_name.clone(), machine.metadata.deletion_timestamp.is_some(), deleting)
        })
        .filter_map(|machine| {
            let namespace = machine.namespace().unwrap_or_default();
            std::future::ready(machine.spec.host_name.as_deref().map(|name| run::reference(&namespace, name)))
        });
    let of_drivers =
        infrastructure.drivers.changes().map(|(namespace, name)| run::reference(&namespace, &name));
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    let also = futures::stream::select(of_machines, of_drivers);
    run::run(Hosts(infrastructure), cache, scope, also, stop).await;
}

impl Reconciler for Hosts {
    type Object = Host;

    fn name(&self) -> &'static str {
        "host"
    }

    async fn reconcile(&self, host: Arc<Host>) -> Result<Next> {
        let api = self.0.api::<Host>(&host.namespace().unwrap_or_default());
        // The pause first: a Host that lives on at another plane must not be held here, and nothing that it stands for
        // may go with this copy of it.
        if !pause::allows(&api, &*host, None, self.0.now()).await?
            || finalizers::ensure(&api, &*host, FINALIZER).await?
        {
            return Ok(Next::Changed);
        }
        if host.metadata.deletion_timestamp.is_some() && host.spec.claim.is_none() {
            self.forget(&host).await?;
            let mut told = (*host).clone();
            finalizers::remove(&mut told.metadata, FINALIZER);
            // With the version that was read: somebody may have claimed it since.
            Patcher::new(api, &*host).finish(&told, &OWNED).await?;
            return Ok(Next::Changed);
        }
        let looked = look(&self.0, &host).await?;
        if looked.is_well {
            return Ok(Next::After(WHEN_WELL));
        }
        let silent = get(&looked.host, REACHABLE).filter(|told| told.status == ConditionStatus::False);
        let since = silent.map(|told| told.last_transition_time.0);
        Ok(Next::After(after_silence(WHEN_LOST, since, self.0.now())))
    }
}

/// A host after it was asked.
pub(crate) struct Looked {
    /// It has answered and can be used.
    pub(crate) is_well: bool,
    /// The object, with the status that was written.
    pub(crate) host: Host,
}

/// Asks a host who it is, and writes down what it says.
pub(crate) async fn look(infrastructure: &Infrastructure, host: &Host) -> Result<Looked> {
    let found = match infrastructure.drivers.of(host) {
        Ok(driver) => driver.facts(host).await,
        Err(error) => Err(error),
    };
    let mut told = host.clone();
    tell(&mut told, &found, &holder(infrastructure, host).await?, infrastructure.now());
    let api = infrastructure.api::<Host>(&host.namespace().unwrap_or_default());
    pause::lifted(&mut told, infrastructure.now());
    Patcher::new(api, host).finish(&told, &OWNED).await?;
    Ok(Looked { is_well: found.is_ok_and(|reached| reached.problems.is_empty()), host: told })
}

async fn holder(infrastructure: &Infrastructure, host: &Host) -> Result<Holder> {
    let Some(claim) = &host.spec.claim else { return Ok(Holder::Present) };
    let name = &claim.machine_name;
    let namespace = host.namespace().unwrap_or_default();
    let machine = infrastructure.remembered::<HostMachine>(&namespace, name).await?;
    Ok(match machine.filter(|machine| machine.spec.claim_id.as_ref() == Some(&claim.id)) {
        None => Holder::Missing,
        Some(machine) if machine.metadata.deletion_timestamp.is_some() => {
            let told = get(&machine, types::DELETING).filter(|told| told.status == ConditionStatus::True);
            Holder::Leaving(told.map(|told| told.message.clone()))
        }
        Some(_) => Holder::Present,
    })
}

impl Hosts {
    async fn forget(&self, host: &Host) -> Result<()> {
        self.unmake(host).await?;
        match self.0.drivers.of(host) {
            Ok(driver) => match driver.forget(host).await {
                Ok(()) | Err(DriverError::NotSupported(_)) => Ok(()),
                Err(error) => Err(Error::transient(format!("cannot forget Host {}", host.name_any()), error)),
            },
            // Nobody can have done anything to it.
            Err(_) => Ok(()),
        }
    }

    /// Takes away the machine, if the host's pool has made one for it. Such a pool lasts as long as its hosts do.
    async fn unmake(&self, host: &Host) -> Result<()> {
        let namespace = host.namespace().unwrap_or_default();
        let Some(owner) = owners::of_kind(host.meta(), "HostPool", &HostPool::group(&())) else {
            return Ok(());
        };
        let pool = self.0.api::<HostPool>(&namespace).get_opt(&owner.name).await;
        let pool = pool.doing(|| format!("cannot read HostPool {}", owner.name))?;
        let pool = pool.filter(|pool| owners::is_controlled_by(host.meta(), pool));
        let Some((machines, _)) = pool.as_ref().and_then(hostpool::of_pool) else { return Ok(()) };
        let name = host.name_any();
        let doing = || format!("cannot take away the machine of Host {name}");
        let Some(provisioner) = &self.0.provisioner else {
            return Err(Error::user(doing(), "this manager does not make machines: run one that does"));
        };
        provisioner.remove(&machines, &name).await.map_err(|error| Error::transient(doing(), error))
    }
}
