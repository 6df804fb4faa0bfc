//! Creates, starts and deletes the machines of a pool, as far as that is possible now.

use capstan_api::infrastructure::{Host, HostPool};
use capstan_api::wait::{Cause, Wait, causes};
use capstan_controller::{Result, owners};
use kube::ResourceExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::context::Infrastructure;
use crate::hostpool::decide::Plan;
use crate::hostpool::decide::machines::{PUBLIC_KEY, Progress, access, fill_in, kept, of_pool, orphans};
use crate::hostpool::observe;
use crate::provisioner::MachineState;

/// Ensures the machines of the plan, and reduces the plan to what can be done now: a Host is created once its machine
/// can be reached.
pub(in crate::hostpool) async fn ensure(
    infrastructure: &Infrastructure,
    pool: &HostPool,
    hosts: &[Arc<Host>],
    plan: &mut Plan,
) -> Result<Progress> {
    let Some((wanted, nspawn)) = of_pool(pool) else { return Ok(Progress::default()) };
    let refuse = |plan: &mut Plan, cause: &Cause, why: String| {
        plan.create.clear();
        Ok(Progress { refused: Some(Wait::new(cause, why)), ..Progress::default() })
    };
    let Some(provisioner) = &infrastructure.provisioner else {
        let why = "spec.nspawn: this manager does not make nspawn machines; use static or simulated";
        return refuse(plan, &causes::NOT_SUPPORTED, why.to_owned());
    };
    let ours: Vec<&Host> = hosts
        .iter()
        .map(AsRef::as_ref)
        .filter(|host: &&Host| owners::is_controlled_by(&host.metadata, pool))
        .collect();
    let machines = match provisioner.list(&wanted).await {
        Ok(machines) => machines,
        Err(error) => return refuse(plan, &causes::MACHINES_FAILED, format!("spec.nspawn: {error}")),
    };
    let mut progress = Progress::default();
    for orphan in orphans(&machines, &ours, plan) {
        if let Err(error) = provisioner.remove(&wanted, &orphan).await {
            progress.failed.push(format!("{orphan}: {error}"));
        }
    }
    let kept = kept(&ours, plan);
    if plan.create.is_empty() && kept.is_empty() {
        return Ok(progress);
    }
    let Some(key) =
        observe::public_key(infrastructure, &wanted.namespace, &nspawn.credentials_ref.name).await?
    else {
        let why = format!(
            "spec.nspawn.credentialsRef: Secret {} must have the keys ssh-privatekey and {PUBLIC_KEY}, a pair as \
             `ssh-keygen -t ed25519` makes it",
            nspawn.credentials_ref.name
        );
        return refuse(plan, &causes::CREDENTIALS_MISSING, why);
    };
    let mut up = BTreeMap::new();
    for host in plan.create.iter().chain(kept.iter().copied()) {
        let name = host.name_any();
        match provisioner.ensure(&wanted, &name, &key).await {
            Ok(MachineState::Up(machine)) => _ = up.insert(name, access(nspawn, &machine)),
            Ok(MachineState::Starting) => progress.starting.push(name),
            Err(error) => progress.failed.push(format!("{name}: {error}")),
        }
    }
    fill_in(plan, &kept, &up);
    Ok(progress)
}
