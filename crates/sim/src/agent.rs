//! The agent on a simulated machine: reads its plan, carries it out with the real engine, writes its report.
//!
//! It may do what a real agent may: read one Secret and write the status of one MachineReport, with a credential of its
//! own, which it gets and renews as a real one does ([`enrol`]).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::decide::{Decision, decide};
use capstan_agent::probes::Prober;
use capstan_agent::store::DiskStore;
use capstan_agent::{Clock as _, Engine, Journal, Machine as _, SystemClock, Turn, report};
use capstan_plan::{
    MachineIdentity, MachinePath, Progress, PublicKey, Report, SecretData, SignedPlan, Standing, TrustedKeys,
    VerifiedPlan,
};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

use crate::vm::{Vm, VmMachine};

mod enrol;
mod reporter;

/// Where the agent finds out who it is.
pub const CONFIG: &str = "/etc/capstan/agent.json";
/// The agent's own folder, which no plan may write in.
const OWN_FOLDER: &str = "/etc/capstan";
/// How long to wait before the journal is opened again.
const AGAIN: Duration = Duration::from_secs(1);

type Plans = watch::Receiver<Option<SecretData>>;
type VmEngine = Engine<VmMachine, DiskStore, SystemClock>;

/// Who the machine is, and whom it obeys.
struct Identity {
    namespace: String,
    machine: MachineIdentity,
    keys: TrustedKeys,
}

/// What of `agent.json` matters once the machine has enrolled.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    namespace: String,
    machine: String,
    #[serde(rename = "machineID")]
    machine_id: String,
    plan_public_key: String,
}

impl Identity {
    /// Reads `agent.json`. An error repeats nothing of it: the token is in there.
    fn read(vm: &Vm) -> Result<Self, String> {
        let bytes = vm.look(|state| state.files.read(CONFIG).map(<[u8]>::to_vec));
        let bytes = bytes.ok_or_else(|| format!("{CONFIG} is missing"))?;
        let config: Config =
            serde_json::from_slice(&bytes).map_err(|_| format!("{CONFIG} is not an AgentConfig"))?;
        let key =
            BASE64_STANDARD.decode(&config.plan_public_key).map_err(|_| "planPublicKey is not base64")?;
        let key = PublicKey::from_bytes(&key).map_err(|error| format!("planPublicKey: {error}"))?;
        let name = config.machine.parse().map_err(|error| format!("machine: {error}"))?;
        let machine_id = config.machine_id.parse().map_err(|error| format!("machineID: {error}"))?;
        Ok(Self {
            namespace: config.namespace,
            machine: MachineIdentity { name, machine_id },
            keys: [key].into_iter().collect(),
        })
    }
}

/// Whether the machine has what an agent needs. An error is what `enroll` would print.
///
/// # Errors
/// If it has not.
pub fn check(vm: &Vm) -> Result<(), String> {
    Identity::read(vm).map(|_| ())
}

/// Runs until it is cancelled.
pub async fn run(vm: Arc<Vm>, machine: VmMachine) {
    let identity = match Identity::read(&vm) {
        Ok(identity) => identity,
        Err(error) => return tracing::warn!(host = vm.name(), %error, "the simulated agent cannot start"),
    };
    loop {
        let credential = Box::pin(enrol::credential(&vm)).await;
        // With another certificate it starts afresh, which is nothing but a restart to the engine.
        tokio::select! {
            () = enrol::renew(&vm, &credential) => {}
            () = work(&vm, &machine, &identity, &credential.client) => {}
        }
    }
}

/// Does what it is told, for as long as its credential lasts.
async fn work(vm: &Vm, machine: &VmMachine, identity: &Identity, client: &Client) {
    let (plans, seen) = watch::channel(None);
    let (reports, told) = watch::channel(Report::default());
    let name = identity.machine.name.as_str();
    tokio::join!(
        watch_plan(client.clone(), &identity.namespace, format!("{name}-plan"), plans),
        obey(vm, machine, identity, seen, &reports),
        reporter::run(client.clone(), &identity.namespace, &identity.machine, told),
    );
}

async fn watch_plan(client: Client, namespace: &str, name: String, plans: watch::Sender<Option<SecretData>>) {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(secrets, config).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(secret) | watcher::Event::InitApply(secret)) => {
                let data = secret.data.unwrap_or_default();
                let data: SecretData = data.into_iter().map(|(key, value)| (key, value.0)).collect();
                plans.send_if_modified(|known| {
                    let is_news = known.as_ref() != Some(&data);
                    *known = Some(data);
                    is_news
                });
            }
            // A plan that is taken away changes nothing: only a reset takes things back.
            Ok(_) => {}
            Err(error) => tracing::debug!(%name, %error, "watch failed; trying again"),
        }
    }
}

/// Carries out whatever the newest plan is, for ever.
async fn obey(
    vm: &Vm,
    machine: &VmMachine,
    identity: &Identity,
    mut plans: Plans,
    reports: &watch::Sender<Report>,
) {
    loop {
        match open(vm, machine).await {
            Ok(mut engine) => {
                if let Err(error) = follow(&mut engine, identity, &mut plans, reports).await {
                    tracing::warn!(host = vm.name(), %error, "the journal failed; opening it again");
                }
            }
            Err(error) => tracing::warn!(host = vm.name(), %error, "the journal cannot be opened"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Opens the engine of a machine on its journal.
///
/// # Errors
/// If the journal cannot be read, or is open elsewhere.
pub(crate) async fn open(vm: &Vm, machine: &VmMachine) -> io::Result<VmEngine> {
    let store = DiskStore::open(vm.agent_folder()).await?;
    let journal = Journal::open(store).await.map_err(io::Error::other)?;
    let own = MachinePath::new(OWN_FOLDER).map_err(io::Error::other)?;
    Ok(Engine::new(machine.clone(), journal, SystemClock).protecting(own))
}

async fn follow(
    engine: &mut VmEngine,
    identity: &Identity,
    plans: &mut Plans,
    reports: &watch::Sender<Report>,
) -> Result<(), capstan_agent::EngineError> {
    let mut prober = Prober::default();
    loop {
        let data = plans.borrow_and_update().clone();
        let plan = match data.as_ref().map(|data| read(data, identity)) {
            None => {
                tell(engine, &prober, Standing::Idle, reports).await;
                None
            }
            Some(Err(standing)) => {
                tell(engine, &prober, *standing, reports).await;
                None
            }
            Some(Ok(plan)) => {
                let Some(progress) = carry_out(engine, &plan, plans, reports, &prober).await? else {
                    continue;
                };
                if engine.history().current.as_ref().is_some_and(|current| current.plan == plan.id()) {
                    prober.watch(&plan, engine.clock().now());
                }
                tell(engine, &prober, Standing::Plan(progress.clone()), reports).await;
                Some(progress)
            }
        };
        // At rest, until there is another plan; the probes go on meanwhile.
        loop {
            let next = prober.next().unwrap_or(Timestamp::MAX);
            tokio::select! {
                changed = plans.changed() => match changed {
                    Ok(()) => break,
                    Err(_) => return Ok(()),
                },
                () = engine.clock().sleep_until(next) => {
                    if prober.round(engine.machine(), engine.clock()).await {
                        let standing = plan.clone().map_or(Standing::Idle, Standing::Plan);
                        tell(engine, &prober, standing, reports).await;
                    }
                }
            }
        }
    }
}

/// Carries a plan out to its end. `None` when a newer one has come.
async fn carry_out(
    engine: &mut VmEngine,
    plan: &VerifiedPlan,
    plans: &mut Plans,
    reports: &watch::Sender<Report>,
    prober: &Prober,
) -> Result<Option<Progress>, capstan_agent::EngineError> {
    let facts = engine.machine().facts().await;
    loop {
        if let Decision::Try { step } = decide(plan, engine.history(), &[], engine.clock().now()) {
            engine.machine().at_step(step + 1);
        }
        let history = engine.history().clone();
        let mut on = |progress: &Progress| {
            let standing = Standing::Plan(progress.clone());
            let now = Timestamp::now();
            reports.send_replace(report::report(standing, &history, prober.results(), facts.clone(), now));
        };
        let turn = engine.advance(plan, &mut on).await?;
        engine.machine().at_step(0);
        match turn {
            Turn::Rest(progress) => return Ok(Some(progress)),
            Turn::Moved if plans.has_changed().unwrap_or_default() => return Ok(None),
            Turn::Moved => {}
            Turn::Wait(until) => {
                tokio::select! {
                    changed = plans.changed() => {
                        if changed.is_ok() {
                            plans.mark_changed();
                        }
                        return Ok(None);
                    }
                    () = engine.clock().sleep_until(until) => {}
                }
            }
        }
    }
}

/// What the Secret holds, or how it stands with something that is not to be obeyed.
fn read(data: &SecretData, identity: &Identity) -> Result<VerifiedPlan, Box<Standing>> {
    let signed = SignedPlan::from_secret_data(data)
        .map_err(|error| Box::new(Standing::Unreadable { message: error.to_string() }))?;
    signed
        .verify(&identity.keys, &identity.machine)
        .map_err(|error| Box::new(Standing::Plan(Progress::refused(signed.id(), error))))
}

async fn tell(engine: &VmEngine, prober: &Prober, standing: Standing, reports: &watch::Sender<Report>) {
    let facts = engine.machine().facts().await;
    reports.send_replace(report::report(
        standing,
        engine.history(),
        prober.results(),
        facts,
        Timestamp::now(),
    ));
}
