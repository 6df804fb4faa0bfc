//! Writes of the Host controller: the status, and the end of a Host that is deleted.

use capstan_api::infrastructure::{Host, HostPool};
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::patch::Patcher;
use capstan_controller::{Result, finalizers, owners};
use kube::{Resource as _, ResourceExt as _};

use super::status::OWNED;
use crate::context::Infrastructure;
use crate::driver::DriverError;
use crate::hostpool;
use crate::names::host::FINALIZER;

/// Writes what has changed between `before` and `after`.
pub(super) async fn write(infrastructure: &Infrastructure, before: &Host, after: &Host) -> Result<()> {
    let api = infrastructure.api::<Host>(&before.namespace().unwrap_or_default());
    Patcher::new(api, before).finish(after, &OWNED).await
}

/// Releases a Host that no machine has claimed: first the machine of its driver, then the object.
pub(super) async fn release(infrastructure: &Infrastructure, host: &Host) -> Result<()> {
    remove_machine(infrastructure, host).await?;
    forget(infrastructure, host).await?;
    let mut after = host.clone();
    finalizers::remove(&mut after.metadata, FINALIZER);
    // With the version that was read: a machine may have claimed it since.
    write(infrastructure, host, &after).await
}

async fn forget(infrastructure: &Infrastructure, host: &Host) -> Result<()> {
    match infrastructure.drivers.of(host) {
        Ok(driver) => match driver.forget(host).await {
            Ok(()) | Err(DriverError::NotSupported(_)) => Ok(()),
            Err(error) => Err(Error::transient(format!("cannot forget Host {}", host.name_any()), error)),
        },
        // Nothing can have been done to it.
        Err(_) => Ok(()),
    }
}

/// Removes the machine, if the host's pool has made one for it. Such a pool lasts as long as its hosts do.
async fn remove_machine(infrastructure: &Infrastructure, host: &Host) -> Result<()> {
    let namespace = host.namespace().unwrap_or_default();
    let Some(owner) = owners::of_kind(host.meta(), "HostPool", &HostPool::group(&())) else {
        return Ok(());
    };
    let pool = infrastructure.api::<HostPool>(&namespace).get_opt(&owner.name).await;
    let pool = pool.doing(|| format!("cannot read HostPool {}", owner.name))?;
    let pool = pool.filter(|pool| owners::is_controlled_by(host.meta(), pool));
    let Some((machines, _)) = pool.as_ref().and_then(hostpool::of_pool) else { return Ok(()) };
    let name = host.name_any();
    let doing = || format!("cannot take away the machine of Host {name}");
    let Some(provisioner) = &infrastructure.provisioner else {
        return Err(Error::user(doing(), "this manager does not make machines: run one that does"));
    };
    provisioner.remove(&machines, &name).await.map_err(|error| Error::transient(doing(), error))
}
