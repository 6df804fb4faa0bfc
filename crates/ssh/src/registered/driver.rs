//! The [`HostDriver`] of hosts that dial out.

use capstan_api::infrastructure::Host;
use capstan_infrastructure::driver::{HostDriver, HostKey};
use capstan_infrastructure::hostmachine::provider_id;
use capstan_infrastructure::{
    BootstrapData, BootstrapState, DriverError, FollowState, HandOver, Reached, ResetState,
};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube::{Client, ResourceExt as _};
use std::sync::Arc;
use std::time::Duration;

use super::mailbox::{Mailbox, Turns};
use crate::check::{self, Report};
use crate::error::SshError;
use crate::redact::Redactor;
use crate::settings::Settings;
use crate::watch::Watch;
use crate::work::Work;

/// How long after a look at work that goes on its state is looked at again. A wait on the machine would keep other
/// instructions from it.
const AGAIN: Duration = Duration::from_secs(3);

/// The driver for hosts that dial out.
#[derive(Clone)]
pub struct RegisteredDriver {
    client: Client,
    settings: Arc<Settings>,
    turns: Turns,
    watch: Watch,
}

impl RegisteredDriver {
    /// A driver for the hosts of the management plane of `client`. Requires a tokio runtime.
    pub fn new(client: Client) -> Self {
        Self::with(client, Settings::default())
    }

    /// A driver with other settings.
    pub fn with(client: Client, settings: Settings) -> Self {
        Self { client, settings: Arc::new(settings), turns: Turns::default(), watch: Watch::default() }
    }

    /// Checks the host: problems, warnings and notes.
    pub async fn check(&self, host: &Host) -> Report {
        let collected = async {
            let mailbox = self.mailbox(host)?;
            check::collect(&self.work(&mailbox, Redactor::default())).await
        };
        check::report(collected.await.as_ref(), host)
    }

    fn mailbox<'d>(&'d self, host: &'d Host) -> Result<Mailbox<'d>, SshError> {
        Mailbox::new(&self.client, &self.settings, &self.turns, host)
    }

    fn work<'m>(&'m self, mailbox: &'m Mailbox<'_>, redactor: Redactor) -> Work<'m> {
        Work { shell: mailbox, settings: &self.settings, user: "root", redactor }
    }

    /// Has the controllers look at the host again while work goes on there.
    fn look_again(&self, host: &Host) {
        let key = (host.namespace().unwrap_or_default(), host.name_any());
        self.watch.begin(key, async {
            tokio::time::sleep(AGAIN).await;
            Ok(())
        });
    }
}

impl HostDriver for RegisteredDriver {
    fn facts<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Reached, DriverError>> {
        Box::pin(async move {
            let mailbox = self.mailbox(host)?;
            Ok(self.work(&mailbox, Redactor::default()).facts(host).await?)
        })
    }

    fn bootstrap<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        data: &'a BootstrapData,
    ) -> BoxFuture<'a, Result<BootstrapState, DriverError>> {
        Box::pin(async move {
            let mailbox = self.mailbox(host)?;
            let work = self.work(&mailbox, Redactor::of_data(data));
            let provider_id = provider_id(&host.namespace().unwrap_or_default(), &host.name_any(), claim_id);
            let state = work.bootstrap(claim_id, &provider_id, data).await?;
            if state == BootstrapState::Running {
                self.look_again(host);
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
            let mailbox = self.mailbox(host)?;
            // Whatever goes wrong, what is in there is not repeated.
            let data = BootstrapData { value: hand_over.0.clone(), format: String::new() };
            Ok(self.work(&mailbox, Redactor::of_data(&data)).follow(claim_id, hand_over).await?)
        })
    }

    fn reset<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
    ) -> BoxFuture<'a, Result<ResetState, DriverError>> {
        Box::pin(async move {
            let mailbox = self.mailbox(host)?;
            let state = self.work(&mailbox, Redactor::default()).reset(claim_id).await?;
            if state == ResetState::Running {
                self.look_again(host);
            }
            Ok(state)
        })
    }

    fn changes(&self) -> BoxStream<'static, HostKey> {
        self.watch.changes()
    }
}
