//! HostMachine: claims a host for a Machine, starts it with the bootstrap data of the Machine, and releases it clean.
//!
//! Reads: the HostMachine, its Machine, its Cluster, the HostCluster of that, the Hosts of its namespace, the Secret
//! with the bootstrap data, and the host through its driver. Writes: finalizer, claim, provider ID and status of the
//! HostMachine; claim, quarantine and, after a check, status of its Host; Events of both.
//!
//! Phases: pause; release, for a HostMachine that is being deleted; finalizer; then one write at a time, each decided
//! on a new read, until the machine waits or is started. For a started machine: the hand-over of its agent to this
//! management plane, if necessary.

mod act;
mod decide;
mod hostless;
mod known;
mod observe;
mod status;
#[cfg(test)]
mod tests;
mod triggers;

pub use decide::claim::{Obstacle, Wanted, choose};
pub use decide::release::Release;
pub use decide::{HostMachineStep, Observed, decide, provider_id};

use capstan_api::infrastructure::{Host, HostMachine};
use capstan_api::wait::Wait;
use capstan_controller::{Next, Reconciler, Result, finalizers, pause};
use kube::ResourceExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::context::Infrastructure;
use crate::driver::BootstrapState;
use crate::host::look;
use crate::names::hostmachine::FINALIZER;
use crate::retry::after_silence;
use decide::{SILENT, WAITING, WORKING, release};
use known::KnownUntil;

/// No machine needs more steps than this at once.
const MOST_STEPS: usize = 16;
/// After this time all hosts are searched again for a second one with the claim of a machine.
const SINGLE: Duration = Duration::from_secs(600);

struct Machines {
    infrastructure: Infrastructure,
    /// Since when this process has been at it.
    started: Instant,
    /// Machines that have no more than one host.
    ///
    /// Two managers that claim for the same machine at the same moment may claim two hosts, and the one that is not
    /// recorded is given back. To find it all hosts must be looked at. With thousands of machines that is too much for
    /// every look, so it is done once for each machine and process after the host was recorded, and then from time to
    /// time. A process that has claimed a second host itself has not noted the machine yet: it notes only a machine whose
    /// host it has seen recorded.
    single: KnownUntil,
    /// Machines whose agent need not be handed over.
    not_handed_over: KnownUntil,
}

/// Runs the controller until `stop` completes.
pub async fn run(infrastructure: Infrastructure, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let also = triggers::all(&infrastructure);
    let (cache, scope) = (infrastructure.caches.of(), infrastructure.scope.clone());
    let (single, not_handed_over) = (KnownUntil::default(), KnownUntil::default());
    let machines = Machines { infrastructure, started: Instant::now(), single, not_handed_over };
    capstan_controller::run::run(machines, cache, scope, also, stop).await;
}

impl Reconciler for Machines {
    type Object = HostMachine;

    fn name(&self) -> &'static str {
        "hostmachine"
    }

    async fn reconcile(&self, machine: Arc<HostMachine>) -> Result<Next> {
        let infrastructure = &self.infrastructure;
        let namespace = machine.namespace().unwrap_or_default();
        let api = infrastructure.api::<HostMachine>(&namespace);
        let related = observe::related(infrastructure, &machine).await?;
        if !pause::allows(&api, &*machine, related.cluster.as_deref(), infrastructure.now()).await? {
            return Ok(Next::Changed);
        }
        if machine.metadata.deletion_timestamp.is_some() {
            return self.release(&machine, &namespace).await;
        }
        // One without a claim gets its finalizer with it.
        let is_begun = related.owner.is_some() && machine.spec.claim_id.is_some();
        if is_begun && finalizers::ensure(&api, &*machine, FINALIZER).await? {
            return Ok(Next::Changed);
        }
        let mut machine = (*machine).clone();
        let mut is_old = false;
        for _ in 0..MOST_STEPS {
            let is_single = self.single.left(&machine, Instant::now()).is_some();
            let hosts = match is_old {
                // A claim that is based on an old read is rejected: it names the resource version that was read.
                false => observe::hosts(infrastructure, &machine, is_single).await?,
                true => infrastructure.hosts(&namespace).await?,
            };
            match decide(related.with(&machine, &hosts)) {
                HostMachineStep::Wait(wait) => return self.wait(&machine, &wait).await,
                HostMachineStep::ChooseClaimId => {
                    machine = act::choose_claim_id(infrastructure, &machine).await?;
                }
                HostMachineStep::Claim(host) => {
                    if act::is_well(infrastructure, host).await? {
                        let cluster = observe::cluster_name(&machine, related.owner.as_deref());
                        is_old = !act::claim(infrastructure, &machine, host, cluster.as_deref()).await?;
                    }
                }
                HostMachineStep::GiveBack(host) => act::give_back(infrastructure, &machine, host).await?,
                HostMachineStep::Record(host) => {
                    machine = act::record(infrastructure, &machine, host).await?;
                }
                HostMachineStep::Start(host, secret) => {
                    // Otherwise the second host would have been given back first.
                    if !is_single {
                        self.single.note(&machine, Instant::now() + SINGLE);
                    }
                    return match status::is_provisioned(&machine) {
                        true => self.follow(&machine, host, &secret).await,
                        false => self.start(&machine, host, &secret).await,
                    };
                }
            }
        }
        Ok(Next::After(WORKING))
    }
}

impl Machines {
    /// Says what the machine waits for.
    async fn wait(&self, machine: &HostMachine, wait: &Wait) -> Result<Next> {
        let now = self.infrastructure.now();
        let mut updated = machine.clone();
        status::waiting(&mut updated, wait, now);
        pause::lifted(&mut updated, now);
        act::finish(&self.infrastructure, machine, &updated).await?;
        Ok(Next::After(WAITING))
    }

    /// Sees that the host runs the bootstrap data.
    async fn start(&self, machine: &HostMachine, host: &Host, secret: &str) -> Result<Next> {
        let (infrastructure, now) = (&self.infrastructure, self.infrastructure.now());
        let namespace = machine.namespace().unwrap_or_default();
        let mut updated = machine.clone();
        let next = match observe::bootstrap_data(infrastructure, &namespace, secret).await? {
            Err(message) => {
                status::without_data(&mut updated, &message, now);
                Next::After(WAITING)
            }
            Ok(data) => {
                let state = act::bootstrap(infrastructure, machine, host, &data).await;
                status::started(&mut updated, host, &state, now);
                if state == Ok(BootstrapState::Done) {
                    // Its address may be another one than before it was started.
                    status::addresses(&mut updated, &look(infrastructure, host).await?.host);
                    status::provisioned(&mut updated);
                }
                decide::after_start(&state)
            }
        };
        pause::lifted(&mut updated, now);
        act::finish(infrastructure, machine, &updated).await?;
        Ok(next)
    }

    /// The agent of a machine that was moved here still follows the previous management plane. The bootstrap provider
    /// writes the hand-over for it into the bootstrap Secret.
    async fn follow(&self, machine: &HostMachine, host: &Host, secret: &str) -> Result<Next> {
        let (infrastructure, now) = (&self.infrastructure, self.infrastructure.now());
        let namespace = machine.namespace().unwrap_or_default();
        let known = self.not_handed_over.left(machine, Instant::now());
        let asked = match known {
            Some(_) => None,
            None => observe::hand_over(infrastructure, &namespace, secret).await?,
        };
        let state = match asked {
            Some(hand_over) => Some(act::follow(infrastructure, machine, host, &hand_over).await),
            None => None,
        };
        let mut updated = machine.clone();
        status::addresses(&mut updated, host);
        status::follows(&mut updated, host, state.as_ref(), infrastructure.now());
        pause::lifted(&mut updated, now);
        act::finish(infrastructure, machine, &updated).await?;
        if let Some(left) = known {
            return Ok(Next::After(left));
        }
        let running = self.started.elapsed();
        let again = decide::after_follow(machine, state.is_some(), running, infrastructure.now());
        if state.is_none() {
            self.not_handed_over.note(machine, Instant::now() + again);
        }
        Ok(Next::After(again))
    }

    /// Has every host with the machine's claim reset, and lets the machine go once all of them are given back.
    async fn release(&self, machine: &HostMachine, namespace: &str) -> Result<Next> {
        let (infrastructure, now) = (&self.infrastructure, self.infrastructure.now());
        let mut waits = self.reset(machine, &observe::claimed_hosts(infrastructure, machine).await?).await?;
        if waits.is_none() {
            // Memory knows no other host of this machine. One that is too new for it must be reset, too.
            waits = self.reset(machine, &infrastructure.hosts(namespace).await?).await?;
        }
        let mut updated = machine.clone();
        let next = match waits {
            Some((wait, again)) => {
                status::deleting(&mut updated, &wait, now);
                Next::After(again)
            }
            None => {
                finalizers::remove(&mut updated.metadata, FINALIZER);
                Next::Changed
            }
        };
        act::finish(infrastructure, machine, &updated).await?;
        Ok(next)
    }

    /// Has those of `hosts` reset that carry the machine's claim, and gives them back. Says what it waits for, if for
    /// anything, and when to look again.
    async fn reset(&self, machine: &HostMachine, hosts: &[Arc<Host>]) -> Result<Option<(Wait, Duration)>> {
        let (infrastructure, now) = (&self.infrastructure, self.infrastructure.now());
        let (mut waits, mut again) = (None, WORKING);
        let since = machine.metadata.deletion_timestamp.as_ref();
        for host in release::claimed(machine, hosts) {
            let state = act::reset(infrastructure, machine, host).await;
            if state.is_err() {
                again = after_silence(SILENT, since.map(|since| since.0), now);
            }
            match release::decide(host, &state, since, now) {
                Release::Write(spec) => act::release(infrastructure, machine, host, &spec).await?,
                Release::Wait(wait) => waits = Some(wait),
            }
        }
        Ok(waits.map(|wait| (wait, again)))
    }
}
