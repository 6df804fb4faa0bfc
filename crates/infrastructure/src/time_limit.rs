//! A driver with a timeout for each call, so that a host that hangs does not block a reconcile forever.

use capstan_api::infrastructure::Host;
use std::time::Duration;

use crate::driver::{
    BootstrapData, BootstrapState, DriverError, FollowState, HandOver, HostDriver, Reached, ResetState,
};

/// Longer than all timeouts of a driver together: it is for calls that a driver does not limit.
pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(240);

/// A driver with a timeout for each call. The calls are those of [`HostDriver`].
#[derive(Clone, Copy)]
pub struct TimeLimited<'d> {
    pub(crate) driver: &'d dyn HostDriver,
    pub(crate) limit: Duration,
}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "they are those of HostDriver")]
impl TimeLimited<'_> {
    pub async fn facts(&self, host: &Host) -> Result<Reached, DriverError> {
        self.within(self.driver.facts(host)).await
    }

    pub async fn bootstrap(
        &self,
        host: &Host,
        claim_id: &str,
        data: &BootstrapData,
    ) -> Result<BootstrapState, DriverError> {
        self.within(self.driver.bootstrap(host, claim_id, data)).await
    }

    pub async fn follow(
        &self,
        host: &Host,
        claim_id: &str,
        hand_over: &HandOver,
    ) -> Result<FollowState, DriverError> {
        self.within(self.driver.follow(host, claim_id, hand_over)).await
    }

    pub async fn reset(&self, host: &Host, claim_id: &str) -> Result<ResetState, DriverError> {
        self.within(self.driver.reset(host, claim_id)).await
    }

    pub async fn forget(&self, host: &Host) -> Result<(), DriverError> {
        self.within(self.driver.forget(host)).await
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, DriverError>>) -> Result<T, DriverError> {
        match tokio::time::timeout(self.limit, call).await {
            Ok(answer) => answer,
            Err(_) => Err(DriverError::Unreachable(format!(
                "the host did not answer within {} s",
                self.limit.as_secs_f32()
            ))),
        }
    }
}
