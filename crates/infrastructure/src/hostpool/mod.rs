//! HostPool: makes the hosts it says there should be.
//!
//! Simulated hosts and nspawn machines are made by number, listed hosts by name. Hosts that machines have are never
//! taken away. A Host stands for an nspawn machine only once that can be reached; the machine goes after its Host.

mod decide;
mod machines;
mod make;
mod quiet;
#[cfg(test)]
mod tests;

pub use decide::{Plan, count, decide};
pub use machines::PUBLIC_KEY;
use machines::Progress;
pub(crate) use machines::of_pool;
use quiet::Quiet;

use capstan_api::conditions::{NewCondition, set, types};
use capstan_api::infrastructure::{Host, HostPool};
use capstan_controller::error::{Doing as _, Error};
use capstan_controller::merge::difference;
use capstan_controller::names::label_value;
use capstan_controller::patch::Patcher;
use capstan_controller::queue::Limits;
use capstan_controller::{Grounds, Next, Reconciler, Result, destroy, finalizers, owners, pause, run};
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

use crate::context::Infrastructure;
use crate::names::POOL_LABEL;
use crate::names::hostpool::{FINALIZER, HOSTS_UP_TO_DATE, reasons};
use crate::ready::sum_up;

/// Another look, in case somebody missed something.
const RESYNC: Duration = Duration::from_secs(60);
/// Another look when machines cannot be made: nobody tells us of a Secret, a bridge or room on the disk.
const IN_TROUBLE: Duration = Duration::from_secs(10);
/// Another look at machines that boot.
const BOOTING: Duration = Duration::from_secs(1);
/// Conditions that are ours to say.
const OWNED: [&str; 3] = [types::READY, HOSTS_UP_TO_DATE, types::PAUSED];

struct Pools(Infrastructure, Quiet);

/// Runs the controller until `stop` is done.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let of_hosts = infrastructure
        .caches
        .of::<Host>()
        .changed(|host| {
            let answers = (crate::host::is_reachable(host), crate::host::is_usable(host));
            (host.spec.clone(), host.metadata.deletion_timestamp.is_some(), answers)
        })
        .filter_map(|host| {
            let pool = owners::of_kind(host.meta(), "HostPool", &HostPool::group(&()))
                .map(|owner| run::reference(&host.namespace().unwrap_or_default(), &owner.name));
            std::future::ready(pool)
        });
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    run::run(Pools(infrastructure, Quiet::default()), cache, scope, of_hosts, stop).await;
}

impl Reconciler for Pools {
    type Object = HostPool;

    fn name(&self) -> &'static str {
        "hostpool"
    }

    fn limits(&self) -> Limits {
        Limits::summing_up()
    }

    async fn reconcile(&self, pool: Arc<HostPool>) -> Result<Next> {
        let namespace = pool.namespace().unwrap_or_default();
        let api = self.0.api::<HostPool>(&namespace);
        let makes_machines = of_pool(&pool).is_some();
        let is_going = pool.metadata.deletion_timestamp.is_some();
        if !pause::allows(&api, &*pool, None, self.0.now()).await?
            // Hosts go by their owner references, each when no machine has it; but who made machines takes them away.
            || is_going && !makes_machines
            || makes_machines && finalizers::ensure(&api, &*pool, FINALIZER).await?
        {
            return Ok(Next::Changed);
        }
        if self.1.holds(&self.0, &pool).await? {
            return Ok(Next::After(IN_TROUBLE));
        }
        let hosts = self
            .0
            .api::<Host>(&namespace)
            .list(&ListParams::default())
            .await
            .doing(|| format!("cannot list Hosts in {namespace}"))?
            .items;
        let mut plan = decide(&pool, &hosts);
        let progress = self.make_machines(&pool, &hosts, &mut plan).await?;
        self.act(&namespace, &plan).await?;

        let patcher = Patcher::new(api, &*pool);
        let mut told = (*pool).clone();
        tell(&mut told, &hosts, &plan, &progress, self.0.now());
        let has_hosts = hosts.iter().any(|host| owners::is_controlled_by(host.meta(), &*pool));
        if is_going && !has_hosts && progress == Progress::default() {
            finalizers::remove(&mut told.metadata, FINALIZER);
        }
        pause::lifted(&mut told, self.0.now());
        patcher.finish(&told, &OWNED).await?;
        Ok(Next::After(match (progress.starting.is_empty(), progress.is_in_trouble()) {
            (false, _) => BOOTING,
            (true, true) => IN_TROUBLE,
            (true, false) => RESYNC,
        }))
    }
}

impl Pools {
    async fn act(&self, namespace: &str, plan: &Plan) -> Result<()> {
        let api = self.0.api::<Host>(namespace);
        for host in &plan.create {
            match api.create(&PostParams::default(), host).await {
                // Made by the reconcile before, which we did not see yet.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                made => {
                    made.doing(|| format!("cannot make Host {}", host.name_any()))?;
                }
            }
        }
        for (before, after) in &plan.change {
            let value = |host| serde_json::to_value(host).map_err(|error| Error::transient("no JSON", error));
            let Some(mut patch) = difference(&value(before)?, &value(after)?) else { continue };
            patch["metadata"]["resourceVersion"] = json!(before.resource_version());
            api.patch(&before.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .doing(|| format!("cannot change Host {}", before.name_any()))?;
        }
        for host in &plan.delete {
            // Only the host that was seen: one that has been claimed since is another version.
            let grounds = Grounds::asked("its HostPool does not list it any more");
            destroy::delete_unchanged(&api, &host.metadata, &grounds).await?;
        }
        Ok(())
    }
}

fn tell(pool: &mut HostPool, hosts: &[Host], plan: &Plan, progress: &Progress, now: Timestamp) {
    let ours: Vec<&Host> =
        hosts.iter().filter(|host| owners::is_controlled_by(host.meta(), &*pool)).collect();
    let [replicas, available, claimed, quarantined] = count(&ours);
    let selector = format!("{POOL_LABEL}={}", label_value(&pool.name_any()));
    let hosts_condition = condition(plan, progress);
    let status = pool.status.get_or_insert_default();
    status.selector = Some(selector);
    status.replicas = Some(replicas);
    status.available_replicas = Some(available);
    status.claimed_replicas = Some(claimed);
    status.quarantined_replicas = Some(quarantined);
    set(pool, hosts_condition, now);
    sum_up(pool, &[HOSTS_UP_TO_DATE], now);
}

fn condition(plan: &Plan, progress: &Progress) -> NewCondition {
    let new = |so: bool, reason: &str| NewCondition::new(HOSTS_UP_TO_DATE, so, reason);
    if let Some((reason, why)) = &progress.refused {
        return new(false, reason).message(why);
    }
    if !progress.failed.is_empty() {
        return new(false, reasons::MACHINES_FAILED).message(progress.failed.join("\n"));
    }
    if !progress.starting.is_empty() {
        return new(false, reasons::SCALING).message(format!("booting: {}", progress.starting.join(", ")));
    }
    if !plan.taken.is_empty() {
        return new(false, reasons::NAME_TAKEN).message(format!(
            "Hosts {} exist and do not belong to this pool: delete them, or take them out of spec.static.hosts",
            plan.taken.join(", ")
        ));
    }
    if plan.claimed > 0 {
        return new(false, reasons::WAITING_FOR_RELEASE).message(format!(
            "{} hosts too many, and machines have them: they go when the machines are deleted",
            plan.claimed
        ));
    }
    match plan.is_empty() {
        true => new(true, reasons::UP_TO_DATE),
        false => new(false, reasons::SCALING).message(format!(
            "{} hosts are being made, {} changed, {} taken away",
            plan.create.len(),
            plan.change.len(),
            plan.delete.len()
        )),
    }
}
