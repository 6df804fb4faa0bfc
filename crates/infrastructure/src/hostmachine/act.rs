//! Carries out what [`decide`](super::decide) says, one small write after the other.

use capstan_api::conditions::{get, types};
use capstan_api::core::{Cluster, Machine};
use capstan_api::infrastructure::{Host, HostClaim, HostCluster, HostMachine};
use capstan_controller::error::Doing as _;
use capstan_controller::patch::Patcher;
use capstan_controller::plane::hand_over;
use capstan_controller::{Next, Reconciler, Result, finalizers, owners, pause};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::decide::{Observed, Step, decide, provider_id};
use super::release::{self, Release};
use super::{cluster_name, tell};
use crate::context::Infrastructure;
use crate::driver::{BootstrapData, BootstrapState, HandOver, HostKind};
use crate::host::look;
use crate::names::hostmachine::{AGENT_FOLLOWS, BOOTSTRAP_EXECUTED, FINALIZER, HOST_CLAIMED};
use crate::retry::after_silence;

/// Another look at a machine that waits, in case somebody missed something.
const WAITING: Duration = Duration::from_secs(30);
/// Another look at a host that is at work. It calls when it is done, so this is for calls that were missed.
const WORKING: Duration = Duration::from_secs(2);
/// The first tries with a host that did not answer.
const SILENT: Duration = Duration::from_secs(10);
/// The first look at whether the agent on a machine is to be told which plane to obey.
const SOONEST_LOOK: Duration = Duration::from_secs(5);
/// The longest time between two looks: whoever asks may have been down for long.
const SELDOM_LOOK: Duration = Duration::from_secs(900);
/// No machine needs more steps than this at once.
const MOST_STEPS: usize = 16;
/// Conditions that are ours to say.
const OWNED: [&str; 6] =
    [types::READY, HOST_CLAIMED, BOOTSTRAP_EXECUTED, AGENT_FOLLOWS, types::DELETING, types::PAUSED];

pub(super) struct Machines {
    pub(super) infrastructure: Infrastructure,
    /// Since when this process has been at it.
    pub(super) started: Instant,
}

/// What a HostMachine is seen with; the hosts are read again for every step.
struct Company {
    owner: Option<Machine>,
    cluster: Option<Cluster>,
    host_cluster: Option<HostCluster>,
}

impl Reconciler for Machines {
    type Object = HostMachine;

    fn name(&self) -> &'static str {
        "hostmachine"
    }

    async fn reconcile(&self, machine: Arc<HostMachine>) -> Result<Next> {
        let namespace = machine.namespace().unwrap_or_default();
        let api = self.infrastructure.api::<HostMachine>(&namespace);
        let company = self.company(&machine, &namespace).await?;
        if !pause::allows(&api, &*machine, company.cluster.as_ref(), self.infrastructure.now()).await? {
            return Ok(Next::Changed);
        }
        if machine.metadata.deletion_timestamp.is_some() {
            return self.delete(&machine, &namespace).await;
        }
        // One without a claim gets its finalizer with it.
        let is_begun = company.owner.is_some() && machine.spec.claim_id.is_some();
        if is_begun && finalizers::ensure(&api, &*machine, FINALIZER).await? {
            return Ok(Next::Changed);
        }
        let mut machine = (*machine).clone();
        let mut is_old = false;
        for _ in 0..MOST_STEPS {
            let hosts = match is_old {
                // Whatever is claimed on a look that is old is refused: the claim names the version that was read.
                false => self.infrastructure.remembered_hosts(&namespace).await?,
                true => self.hosts(&namespace).await?,
            };
            let seen = Observed {
                machine: &machine,
                owner: company.owner.as_ref(),
                cluster: company.cluster.as_ref(),
                host_cluster: company.host_cluster.as_ref(),
                hosts: &hosts,
            };
            match decide(seen) {
                Step::Wait { reason, message } => {
                    let mut told = machine.clone();
                    tell::waiting(&mut told, reason, &message, self.infrastructure.now());
                    pause::lifted(&mut told, self.infrastructure.now());
                    Patcher::new(api, &machine).finish(&told, &OWNED).await?;
                    return Ok(Next::After(WAITING));
                }
                Step::ChooseClaimId => {
                    let mut finalizers = machine.finalizers().to_vec();
                    if !finalizers::has(machine.meta(), FINALIZER) {
                        finalizers.push(FINALIZER.to_owned());
                    }
                    let metadata = json!({"finalizers": finalizers});
                    machine = self.write(&machine, &metadata, &json!({"claimID": new_claim_id()})).await?;
                }
                Step::Claim(host) => {
                    // What is known of a real host may be old: nothing is claimed that does not answer now.
                    let is_simulated = HostKind::of(host) == HostKind::Simulated;
                    if is_simulated || look(&self.infrastructure, host).await?.is_well {
                        let cluster = cluster_name(&machine, company.owner.as_ref());
                        is_old = !self.claim(&machine, host, cluster.as_deref()).await?;
                    }
                }
                Step::GiveBack(host) => {
                    self.infrastructure.swap_host(host, &json!({"claim": null}), "give back").await?;
                }
                Step::Record(host) => {
                    let name = host.name_any();
                    let claim_id = machine.spec.claim_id.clone().unwrap_or_default();
                    let id = provider_id(&namespace, &name, &claim_id);
                    let spec = json!({"hostName": name, "providerID": id});
                    machine = self.write(&machine, &json!({}), &spec).await?;
                }
                Step::Start(host, secret) => return self.start(&machine, host, &secret).await,
            }
        }
        Ok(Next::After(WORKING))
    }
}

impl Machines {
    async fn company(&self, machine: &HostMachine, namespace: &str) -> Result<Company> {
        let owner = match owners::of_kind(machine.meta(), "Machine", &Machine::group(&())) {
            Some(owner) => self.infrastructure.remembered(namespace, &owner.name).await?,
            None => None,
        };
        let cluster: Option<Cluster> = match cluster_name(machine, owner.as_ref()) {
            Some(name) => self.infrastructure.remembered(namespace, &name).await?,
            None => None,
        };
        let reference = cluster.as_ref().and_then(|cluster| cluster.spec.infrastructure_ref.as_ref());
        let host_cluster = match reference {
            Some(reference) if reference.kind == HostCluster::kind(&()) => {
                self.infrastructure.remembered(namespace, &reference.name).await?
            }
            _ => None,
        };
        Ok(Company { owner, cluster, host_cluster })
    }

    async fn hosts(&self, namespace: &str) -> Result<Vec<Host>> {
        self.infrastructure.hosts(namespace).await
    }

    /// Changes metadata and spec, if the object is still the one that was read.
    async fn write(&self, machine: &HostMachine, metadata: &Value, spec: &Value) -> Result<HostMachine> {
        let name = machine.name_any();
        let mut patch = json!({"metadata": metadata, "spec": spec});
        patch["metadata"]["resourceVersion"] = json!(machine.resource_version());
        self.infrastructure
            .api::<HostMachine>(&machine.namespace().unwrap_or_default())
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .doing(|| format!("cannot write the claim of HostMachine {name}"))
    }

    /// Claims the host, if it is still the one that was read. Says whether it was.
    async fn claim(&self, machine: &HostMachine, host: &Host, cluster: Option<&str>) -> Result<bool> {
        let claim = HostClaim {
            id: machine.spec.claim_id.clone().unwrap_or_default(),
            machine_name: machine.name_any(),
            cluster_name: cluster.unwrap_or_default().to_owned(),
            since: Some(Time(self.infrastructure.now())),
        };
        match self.infrastructure.swap_host(host, &json!({"claim": claim}), "claim").await {
            Ok(_) => Ok(true),
            // Another machine was faster: look again.
            Err(capstan_controller::Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn start(&self, machine: &HostMachine, host: &Host, secret: &str) -> Result<Next> {
        if tell::is_provisioned(machine) {
            return self.follow(machine, host, secret).await;
        }
        let namespace = machine.namespace().unwrap_or_default();
        let api = self.infrastructure.api::<HostMachine>(&namespace);
        let now = self.infrastructure.now();
        let mut told = machine.clone();
        let next = match self.data(&namespace, secret).await? {
            Err(message) => {
                tell::without_data(&mut told, &message, now);
                Next::After(WAITING)
            }
            Ok(data) => {
                let claim_id = machine.spec.claim_id.as_deref().unwrap_or_default();
                let state = match self.infrastructure.drivers.of(host) {
                    Ok(driver) => driver.bootstrap(host, claim_id, &data).await,
                    Err(error) => Err(error),
                };
                tell::started(&mut told, host, &state, now);
                match state {
                    Ok(BootstrapState::Done) => {
                        // Its address may be another one than before it was started.
                        tell::addresses(&mut told, &look(&self.infrastructure, host).await?.host);
                        tell::provisioned(&mut told);
                        Next::Changed
                    }
                    Ok(BootstrapState::Failed(_)) => Next::Changed,
                    Ok(BootstrapState::Running) => Next::After(WORKING),
                    Err(_) => Next::After(SILENT),
                }
            }
        };
        pause::lifted(&mut told, now);
        Patcher::new(api, machine).finish(&told, &OWNED).await?;
        Ok(next)
    }

    /// Whatever was moved here from another management plane is still obeyed by an agent that knows only the old one. Its
    /// bootstrap provider says so, and what to tell it.
    async fn follow(&self, machine: &HostMachine, host: &Host, secret: &str) -> Result<Next> {
        let namespace = machine.namespace().unwrap_or_default();
        let secrets = self.infrastructure.api::<Secret>(&namespace);
        let found =
            secrets.get_opt(secret).await.doing(|| format!("cannot read Secret {namespace}/{secret}"))?;
        let asked = found.filter(|secret| secret.labels().contains_key(hand_over::LABEL));
        let told =
            asked.and_then(|secret| secret.data?.remove(hand_over::KEY)).map(|bytes| HandOver(bytes.0));
        let state = match (told, self.infrastructure.drivers.of(host)) {
            (None, _) => None,
            (Some(_), Err(error)) => Some(Err(error)),
            (Some(told), Ok(driver)) => {
                let claim_id = machine.spec.claim_id.as_deref().unwrap_or_default();
                Some(driver.follow(host, claim_id, &told).await)
            }
        };
        let mut changed = machine.clone();
        tell::addresses(&mut changed, host);
        tell::follows(&mut changed, host, state.as_ref(), self.infrastructure.now());
        let api = self.infrastructure.api::<HostMachine>(&namespace);
        pause::lifted(&mut changed, self.infrastructure.now());
        Patcher::new(api, machine).finish(&changed, &OWNED).await?;
        if state.is_some() {
            // Until it has enrolled it is told again: it may have died before it wrote anything down.
            return Ok(Next::After(SILENT));
        }
        let since = get(machine, BOOTSTRAP_EXECUTED).map(|told| told.last_transition_time.0);
        let since = since.map(|since| self.infrastructure.now().duration_since(since));
        let since = since.and_then(|since| Duration::try_from(since).ok()).unwrap_or_default();
        Ok(next_look(since.min(self.started.elapsed())))
    }

    /// The bootstrap data, or why there is none.
    async fn data(&self, namespace: &str, name: &str) -> Result<std::result::Result<BootstrapData, String>> {
        let secrets = self.infrastructure.api::<Secret>(namespace);
        let found = secrets.get_opt(name).await.doing(|| format!("cannot read Secret {namespace}/{name}"))?;
        let Some(mut data) = found.map(|secret| secret.data.unwrap_or_default()) else {
            return Ok(Err(format!("the Secret {name} with the bootstrap data does not exist")));
        };
        let Some(value) = data.remove("value") else {
            return Ok(Err(format!("the Secret {name} with the bootstrap data has no key `value`")));
        };
        let format = data.remove("format").and_then(|format| String::from_utf8(format.0).ok());
        let format = format.unwrap_or_else(|| "cloud-config".to_owned());
        Ok(Ok(BootstrapData { value: value.0, format }))
    }

    async fn delete(&self, machine: &HostMachine, namespace: &str) -> Result<Next> {
        let now = self.infrastructure.now();
        let mut told = machine.clone();
        let mut waits = None;
        let mut again = WORKING;
        let since = machine.metadata.deletion_timestamp.as_ref();
        let hosts = self.hosts(namespace).await?;
        for host in release::claimed(machine, &hosts) {
            let claim_id = machine.spec.claim_id.as_deref().unwrap_or_default();
            let state = match self.infrastructure.drivers.of(host) {
                Ok(driver) => driver.reset(host, claim_id).await,
                Err(error) => Err(error),
            };
            if state.is_err() {
                again = after_silence(SILENT, since.map(|since| since.0), now);
            }
            match release::decide(host, &state, since, now) {
                Release::Write(spec) => {
                    self.infrastructure.swap_host(host, &spec, "give back").await?;
                }
                Release::Wait(reason, message) => waits = Some((reason, message)),
            }
        }
        let next = match waits {
            Some((reason, message)) => {
                tell::deleting(&mut told, reason, &message, now);
                Next::After(again)
            }
            None => {
                finalizers::remove(&mut told.metadata, FINALIZER);
                Next::Changed
            }
        };
        let api = self.infrastructure.api::<HostMachine>(namespace);
        Patcher::new(api, machine).finish(&told, &OWNED).await?;
        Ok(next)
    }
}

/// When to look again whether an agent is to be told. Nobody wakes us for that, because watching Secrets is not our right;
/// but mostly there is something to tell soon after a machine has come to this plane, or after the plane has another
/// address, which comes with another process. So it is looked at less and less often.
fn next_look(since: Duration) -> Next {
    Next::After(since.clamp(SOONEST_LOOK, SELDOM_LOOK))
}

/// As hard to guess as a UUID.
fn new_claim_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}
