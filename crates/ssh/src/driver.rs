//! The [`HostDriver`] of hosts that are reached over SSH.

use capstan_api::infrastructure::{Host, SshAccess};
use capstan_infrastructure::driver::{HostDriver, HostKey};
use capstan_infrastructure::hostmachine::provider_id;
use capstan_infrastructure::{
    BootstrapData, BootstrapState, DriverError, FollowState, HandOver, Reached, ResetState,
};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube::{Client, ResourceExt as _};
use std::sync::Arc;

use crate::access::{Access, Opened, PinnedKeys, Sudo, pinnable};
use crate::check::{self, Report};
use crate::error::SshError;
use crate::inventory::{Inventory, PlaneInventory};
use crate::redact::Redactor;
use crate::settings::Settings;
use crate::transport::{Output, Pool, Shell};
use crate::watch::Watch;
use crate::work::Work;

/// The driver for hosts that are reached over SSH.
#[derive(Clone)]
pub struct SshDriver {
    pool: Pool,
    inventory: Arc<dyn Inventory>,
    opened: Opened,
    watch: Watch,
}

/// A host that has let us in, or will.
struct Reach<'d> {
    pool: &'d Pool,
    access: Access,
}

impl Shell for Reach<'_> {
    fn run<'a>(&'a self, doing: &'static str, script: &'a str) -> BoxFuture<'a, Result<Output, SshError>> {
        Box::pin(self.pool.run(&self.access, doing, script))
    }
}

impl SshDriver {
    /// A driver for the hosts of the management plane of `client`. Requires a tokio runtime.
    pub fn new(client: Client) -> Self {
        Self::with(Arc::new(PlaneInventory::new(client)), Settings::default())
    }

    /// A driver with another inventory and other settings.
    pub fn with(inventory: Arc<dyn Inventory>, settings: Settings) -> Self {
        Self { pool: Pool::new(settings), inventory, opened: Opened::default(), watch: Watch::default() }
    }

    /// Number of open connections.
    pub async fn open_connections(&self) -> usize {
        self.pool.open().await
    }

    /// Checks the host: problems, warnings and notes.
    pub async fn check(&self, host: &Host) -> Report {
        let collected = async {
            let reach = self.reach(host).await?;
            check::collect(&self.work(&reach, Redactor::default())).await
        };
        check::report(collected.await.as_ref(), host)
    }

    async fn reach(&self, host: &Host) -> Result<Reach<'_>, SshError> {
        let Some(ssh) = &host.spec.ssh else {
            return Err(SshError::Credentials("the host is not reached over SSH".to_owned()));
        };
        let name = &ssh.credentials_ref.name;
        let namespace = host.namespace().unwrap_or_default();
        let secret = self.inventory.secret(&namespace, name).await.map_err(SshError::Credentials)?;
        let secret = secret.ok_or_else(|| {
            SshError::Credentials(format!(
                "Secret {name} does not exist: make it with the key `ssh-privatekey`, or with the key `password`"
            ))
        })?;
        let mut access = Access::read_with(ssh, &secret, |secret| self.opened.read(secret))?;
        if access.pinned.is_empty() {
            access.pinned = self.pin_first_key(host, ssh, access.port).await?;
        }
        Ok(Reach { pool: &self.pool, access })
    }

    /// Nothing is sent to the host before its first key stands in its spec.
    async fn pin_first_key(&self, host: &Host, ssh: &SshAccess, port: u16) -> Result<PinnedKeys, SshError> {
        if ssh.trust_on_first_use != Some(true) {
            return Err(SshError::NothingPinned { address: ssh.address.clone() });
        }
        let key = self.pool.first_key(&ssh.address, port).await?;
        let line = pinnable(&key).ok_or_else(|| SshError::Pin("it cannot be written down".to_owned()))?;
        self.inventory.pin(host, &line).await.map_err(SshError::Pin)?;
        tracing::info!(host = %host.name_any(), fingerprint = %crate::access::fingerprint(&key), "pinned the first key");
        PinnedKeys::read(&[line], &ssh.address)
    }

    fn work<'r>(&'r self, reach: &'r Reach<'_>, redactor: Redactor) -> Work<'r> {
        let access = &reach.access;
        let sudo = match &access.sudo {
            Sudo::Yes(Some(word)) => Some(word.reveal().to_owned()),
            _ => None,
        };
        Work {
            shell: reach,
            settings: self.pool.settings(),
            user: &access.user,
            redactor: redactor.and(access.credential.words().into_iter().chain(sudo)),
        }
    }

    /// Tells the controllers when the work under a claim has ended.
    fn notify_when_ended(&self, host: &Host, claim: &str) {
        let key = (host.namespace().unwrap_or_default(), host.name_any());
        let (driver, host, claim) = (self.without_watch(), host.clone(), claim.to_owned());
        self.watch.begin(key, async move {
            let reach = driver.reach(&host).await?;
            let work = driver.work(&reach, Redactor::default());
            while !work.wait(&claim).await? {}
            Ok(())
        });
    }

    /// For tasks that the watch holds: they must not hold the watch.
    fn without_watch(&self) -> Self {
        Self { watch: Watch::default(), ..self.clone() }
    }
}

impl HostDriver for SshDriver {
    fn facts<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Reached, DriverError>> {
        Box::pin(async move {
            let reach = self.reach(host).await?;
            Ok(self.work(&reach, Redactor::default()).facts(host).await?)
        })
    }

    fn bootstrap<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        data: &'a BootstrapData,
    ) -> BoxFuture<'a, Result<BootstrapState, DriverError>> {
        Box::pin(async move {
            let reach = self.reach(host).await?;
            let work = self.work(&reach, Redactor::of_data(data));
            let provider_id = provider_id(&host.namespace().unwrap_or_default(), &host.name_any(), claim_id);
            let state = work.bootstrap(claim_id, &provider_id, data).await?;
            if state == BootstrapState::Running {
                self.notify_when_ended(host, claim_id);
            }
            Ok(state)
        })
    }

    fn follow<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        hand_over: &'a HandOver,
    ) -> BoxFuture<'a, Result<FollowState, DriverError>> {
        Box::pin(async move {
            let reach = self.reach(host).await?;
            // Whatever goes wrong, what is in there is not repeated.
            let data = BootstrapData { value: hand_over.0.clone(), format: String::new() };
            Ok(self.work(&reach, Redactor::of_data(&data)).follow(claim_id, hand_over).await?)
        })
    }

    fn reset<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
    ) -> BoxFuture<'a, Result<ResetState, DriverError>> {
        Box::pin(async move {
            let reach = self.reach(host).await?;
            let state = self.work(&reach, Redactor::default()).reset(claim_id).await?;
            if state == ResetState::Running {
                self.notify_when_ended(host, claim_id);
            }
            Ok(state)
        })
    }

    fn changes(&self) -> BoxStream<'static, HostKey> {
        self.watch.changes()
    }
}
