//! The agent on a simulated machine: reads its plan, applies it with the real plan engine, and writes its report.
//!
//! It has the rights of a real agent: it reads one Secret and writes the status of one MachineReport, with its own
//! credential. It obtains and renews that credential as a real agent does ([`enrol`]).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use capstan_agent::follow::Allegiance;
use capstan_agent::obey::{Identity, Moment, Plans, obey};
use capstan_agent::store::DiskStore;
use capstan_agent::{Engine, Journal, SystemClock, report};
use capstan_plan::{Epoch, MachineIdentity, MachinePath, PublicKey, Report, SecretData, Successions};
use futures::StreamExt as _;
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
mod follow;
mod reporter;

pub(crate) use follow::{Followed, follow, has_config};

/// Path of the agent's configuration file, which names its machine and its management plane.
pub const CONFIG: &str = "/etc/capstan/agent.json";
/// The agent's own folder, which no plan may write in.
const OWN_FOLDER: &str = "/etc/capstan";
/// How long to wait before the journal is opened again.
const AGAIN: Duration = Duration::from_secs(1);

type VmEngine = Engine<VmMachine, DiskStore, SystemClock>;

/// Who the machine is, and where.
struct Home {
    namespace: String,
    identity: Identity,
    allegiance: Allegiance,
}

/// What of `agent.json` matters once the machine has enrolled.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    server: String,
    ca_data: String,
    namespace: String,
    machine: String,
    #[serde(rename = "machineID")]
    machine_id: String,
    plan_public_key: String,
    #[serde(default)]
    plan_key_successions: String,
    #[serde(default)]
    plane: String,
    #[serde(default)]
    epoch: Epoch,
}

impl Home {
    /// Reads `agent.json`. An error repeats nothing of it: the token is in there.
    fn read(vm: &Vm) -> Result<Self, String> {
        let bytes = vm.look(|state| state.files.read(CONFIG).map(<[u8]>::to_vec));
        Self::parse(&bytes.ok_or_else(|| format!("{CONFIG} is missing"))?)
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let config: Config =
            serde_json::from_slice(bytes).map_err(|_| format!("{CONFIG} is not an AgentConfig"))?;
        let decode = |text: &str| BASE64_STANDARD.decode(text).map_err(|_| format!("{CONFIG} is not base64"));
        let plan_key = PublicKey::from_bytes(&decode(&config.plan_public_key)?)
            .map_err(|error| format!("planPublicKey: {error}"))?;
        let successions = Successions::from_bytes(&decode(&config.plan_key_successions)?)
            .map_err(|error| format!("planKeySuccessions: {error}"))?;
        let name = config.machine.parse().map_err(|error| format!("machine: {error}"))?;
        let machine_id = config.machine_id.parse().map_err(|error| format!("machineID: {error}"))?;
        let machine = MachineIdentity { name, machine_id };
        let allegiance = Allegiance {
            machine: machine.clone(),
            namespace: config.namespace.clone(),
            plan_key,
            successions: successions.clone(),
            plane: config.plane,
            epoch: config.epoch,
            server: config.server,
            ca: config.ca_data.into_bytes(),
        };
        let identity = Identity { machine, plan_key, successions, epoch: config.epoch };
        Ok(Self { namespace: config.namespace, identity, allegiance })
    }
}

/// Checks that the machine has what an agent needs. The error text is what `enroll` would print.
///
/// # Errors
/// If something that the agent needs is missing.
pub fn check(vm: &Vm) -> Result<(), String> {
    Home::read(vm).map(|_| ())
}

/// Runs the agent until the future is dropped.
pub async fn run(vm: Arc<Vm>, machine: VmMachine) {
    let home = match Home::read(&vm) {
        Ok(home) => home,
        Err(error) => return tracing::warn!(host = vm.name(), %error, "the simulated agent cannot start"),
    };
    loop {
        let credential = Box::pin(enrol::credential(&vm, &machine)).await;
        // With another credential, and with the machine, it starts afresh, which is nothing but a restart to the engine.
        tokio::select! {
            () = machine.booted() => {}
            () = enrol::renew(&vm, &machine, &credential) => {}
            () = work(&vm, &machine, &home, credential.client()) => {}
        }
    }
}

/// Does what it is told, for as long as its credential lasts.
async fn work(vm: &Vm, machine: &VmMachine, home: &Home, client: &Client) {
    let Home { namespace, identity, .. } = home;
    let (plans, seen) = watch::channel(None);
    let (reports, receiver) = watch::channel(report::hello());
    let name = identity.machine.name.as_str();
    tokio::join!(
        watch_plan(client.clone(), namespace, format!("{name}-plan"), plans),
        run_engine(vm, machine, identity, seen, &reports),
        reporter::run(client.clone(), namespace, &identity.machine, receiver),
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
async fn run_engine(
    vm: &Vm,
    machine: &VmMachine,
    identity: &Identity,
    mut plans: Plans,
    reports: &watch::Sender<Report>,
) {
    loop {
        match open(vm, machine).await {
            Ok(mut engine) => {
                let looking = |machine: &VmMachine, moment| {
                    machine.at_step(if let Moment::Trying(step) = moment { step } else { 0 });
                };
                if let Err(error) = obey(&mut engine, identity, &mut plans, reports, looking).await {
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
