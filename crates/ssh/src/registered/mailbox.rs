//! Runs scripts on a machine that dials out: writes an instruction into its registration, and waits for the answer.

use capstan_api::infrastructure::{Host, HostRegistration, RegistrationAccess};
use capstan_infrastructure::driver::HostKey;
use capstan_infrastructure::host_token::{INSTRUCTION_KEY, PRIVATE};
use capstan_plan::SigningKey;
use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;

use super::letter::{Letter, answer, is_busy, is_open};
use crate::error::SshError;
use crate::settings::Settings;
use crate::transport::{Output, Shell};

/// Field manager of the instructions.
const MANAGER: &str = "capstan-host";
/// How often an instruction is written again because the machine has written its status meanwhile.
const MOST_TRIES: usize = 5;
/// How long an attempt to withdraw an instruction may take.
const WITHDRAWING: Duration = Duration::from_secs(10);
/// A machine that has not answered is not asked again for this time, unless it connects.
const SILENCE: Duration = Duration::from_secs(300);

/// One instruction at a time for each machine.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<HostKey, Arc<Turn>>>>);

/// Whoever holds it instructs the machine.
type Turn = tokio::sync::Mutex<Option<Silence>>;

/// A machine that has not answered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Silence {
    /// What the machine had written until then: it is heard again when it writes something.
    heard: Heard,
    since: Instant,
}

/// What changes when the machine writes something.
#[derive(Clone, Debug, PartialEq)]
struct Heard(Option<Timestamp>, Option<i64>);

impl Heard {
    fn of(registration: &HostRegistration) -> Self {
        let status = registration.status.as_ref();
        let connected = status.and_then(|status| status.connected_at.as_ref()).map(|time| time.0);
        Self(connected, status.and_then(|status| status.answer.as_ref()).map(|answer| answer.number))
    }
}

impl Turns {
    fn of(&self, key: HostKey) -> Arc<Turn> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of hosts that were removed: nobody holds them.
        if all.len() > 10_000 {
            all.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(all.entry(key).or_default())
    }
}

/// A host that dials out.
pub(super) struct Mailbox<'d> {
    client: &'d Client,
    settings: &'d Settings,
    turns: &'d Turns,
    access: &'d RegistrationAccess,
    namespace: String,
    /// Name of the Host.
    host: String,
}

impl Shell for Mailbox<'_> {
    fn run<'a>(&'a self, doing: &'static str, script: &'a str) -> BoxFuture<'a, Result<Output, SshError>> {
        Box::pin(self.instruct(doing, script))
    }
}

impl<'d> Mailbox<'d> {
    pub(super) fn new(
        client: &'d Client,
        settings: &'d Settings,
        turns: &'d Turns,
        host: &'d Host,
    ) -> Result<Self, SshError> {
        let access = host.spec.registration.as_ref();
        let access = access.ok_or_else(|| SshError::Registration("the host does not dial out".to_owned()))?;
        let (namespace, host) = (host.namespace().unwrap_or_default(), host.name_any());
        Ok(Self { client, settings, turns, access, namespace, host })
    }

    fn api(&self) -> Api<HostRegistration> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The registration of the host, and of the machine whose key is pinned in it.
    async fn registration(&self) -> Result<HostRegistration, SshError> {
        let RegistrationAccess { name, public_key } = self.access;
        let found = self.api().get_opt(name).await;
        let found = found.map_err(|error| self.failed("reading the registration", &error))?;
        let refuse = |why: String| Err(SshError::Registration(why));
        match found {
            None => refuse(format!("HostRegistration {name} does not exist on this management plane")),
            Some(found) if found.spec.public_key != *public_key => {
                refuse(format!("HostRegistration {name} has another public key than the one that is pinned"))
            }
            Some(found) if found.spec.host.as_ref() != Some(&self.host) => {
                refuse(format!("HostRegistration {name} is not recorded as that of Host {}", self.host))
            }
            Some(found) => Ok(found),
        }
    }

    async fn signing_key(&self) -> Result<SigningKey, SshError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = api.get_opt(INSTRUCTION_KEY).await;
        let found = found.map_err(|error| self.failed("reading the key for instructions", &error))?;
        let key = found.and_then(|secret| secret.data?.remove(PRIVATE));
        key.and_then(|key| SigningKey::from_pkcs8(&key.0).ok()).ok_or_else(|| {
            SshError::Registration(format!(
                "Secret {INSTRUCTION_KEY} with the key that signs instructions does not exist or is damaged: machines \
                 that know it must register again"
            ))
        })
    }

    fn failed(&self, doing: &'static str, error: &kube::Error) -> SshError {
        SshError::Failed { doing, why: format!("the API server: {error}") }
    }

    fn silent(&self, doing: &'static str) -> SshError {
        SshError::Silent { registration: self.access.name.clone(), doing }
    }

    async fn instruct(&self, doing: &'static str, script: &str) -> Result<Output, SshError> {
        let turn = self.turns.of((self.namespace.clone(), self.host.clone()));
        let mut silence = turn.lock().await;
        let registration = self.registration().await?;
        let heard = Heard::of(&registration);
        let is_silent = |silence: &Silence| silence.heard == heard && silence.since.elapsed() < SILENCE;
        // Whoever never connected need not be waited for either.
        if heard.0.is_none() || silence.as_ref().is_some_and(is_silent) {
            return Err(self.silent(doing));
        }
        let limit = self.settings.command;
        // The number of the last instruction that was written here; 0 before.
        let sent = AtomicU64::new(0);
        let work = async {
            let letter = self.send(registration, doing, script, &sent).await?;
            let is_answered = |registration: &HostRegistration| {
                answer(registration).is_some_and(|answer| answer.number == letter.number)
            };
            let registration = self.wait_until(doing, is_answered).await?;
            let answer = answer(&registration).ok_or_else(|| self.silent(doing))?;
            letter.open(&answer, doing)
        };
        match timeout(limit, work).await {
            Ok(Ok(output)) => {
                *silence = None;
                Ok(output)
            }
            Ok(Err(error)) => {
                *silence = None;
                // The API server may have failed while the machine had no instruction yet.
                self.withdraw(sent.load(Ordering::Relaxed)).await;
                Err(error)
            }
            Err(_) => {
                *silence = Some(Silence { heard, since: Instant::now() });
                self.withdraw(sent.load(Ordering::Relaxed)).await;
                Err(self.silent(doing))
            }
        }
    }

    /// Writes the instruction, once no other process waits for an answer.
    async fn send(
        &self,
        mut registration: HostRegistration,
        doing: &'static str,
        script: &str,
        sent: &AtomicU64,
    ) -> Result<Letter, SshError> {
        let (key, limit) = (self.signing_key().await?, self.settings.command);
        for _ in 0..MOST_TRIES {
            if is_busy(&registration, limit, Timestamp::now()) {
                registration = self.wait_until(doing, |seen| !is_busy(seen, limit, Timestamp::now())).await?;
            }
            let letter = Letter::write(&registration, doing, script, limit, &key, Timestamp::now())?;
            sent.store(letter.number, Ordering::Relaxed);
            let patch = json!({
                "metadata": {"resourceVersion": registration.resource_version()},
                "spec": {"instruction": letter.instruction},
            });
            let parameters =
                PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            match self.api().patch(&self.access.name, &parameters, &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(letter),
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    registration = self.registration().await?;
                }
                Err(error) => return Err(self.failed(doing, &error)),
            }
        }
        Err(SshError::Failed { doing, why: "the registration changes all the time".to_owned() })
    }

    /// Watches the registration until a condition holds. The caller limits the time.
    async fn wait_until(
        &self,
        doing: &'static str,
        holds: impl Fn(&HostRegistration) -> bool,
    ) -> Result<HostRegistration, SshError> {
        let api = self.api();
        loop {
            let registration = self.registration().await?;
            if holds(&registration) {
                return Ok(registration);
            }
            let parameters = WatchParams::default()
                .fields(&format!("metadata.name={}", self.access.name))
                // A condition may also begin to hold with time.
                .timeout(10);
            let version = registration.resource_version().unwrap_or_default();
            let events = api.watch(&parameters, &version).await;
            let mut events = events.map_err(|error| self.failed(doing, &error))?.boxed();
            while let Ok(Some(event)) = events.try_next().await {
                match event {
                    WatchEvent::Added(seen) | WatchEvent::Modified(seen) if holds(&seen) => return Ok(seen),
                    // What follows is found by the next look.
                    WatchEvent::Deleted(_) | WatchEvent::Error(_) => break,
                    _ => {}
                }
            }
            // A watch that ends at once is not begun again at once.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Takes our own instruction with this number away if it was not answered, so that the machine does not execute it much
    /// later. One that it has read already, it executes, as over a connection that is lost. Another process may have written
    /// another one meanwhile, and waits for the answer to that.
    async fn withdraw(&self, number: u64) {
        if number == 0 {
            return;
        }
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let work = async {
            for _ in 0..MOST_TRIES {
                let Ok(registration) = self.registration().await else { return false };
                if !is_open(&registration, number) {
                    return true;
                }
                let patch = json!({
                    "metadata": {"resourceVersion": registration.resource_version()},
                    "spec": {"instruction": null},
                });
                match self.api().patch(&self.access.name, &parameters, &Patch::Merge(&patch)).await {
                    Ok(_) => return true,
                    // The machine has written its status meanwhile.
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    Err(_) => return false,
                }
            }
            false
        };
        if timeout(WITHDRAWING, work).await != Ok(true) {
            tracing::debug!(registration = self.access.name, number, "the instruction was not withdrawn");
        }
    }
}
