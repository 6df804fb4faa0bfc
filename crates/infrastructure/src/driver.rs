//! Drivers: the interface between the controllers and the ways to reach a host.
//!
//! A driver stores its progress for a claim on the host, not in this process. Another process may repeat a call, and
//! the driver must then continue, never start again.

use capstan_api::core::MachineAddress;
use capstan_api::infrastructure::{Host, HostFacts};
use capstan_api::wait::{Cause, causes};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::time_limit::{LONGEST_CALL, TimeLimited};

/// Namespace and name of a Host.
pub type HostKey = (String, String);

/// Why a call of a driver failed. It is shown in conditions, so it must not contain secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The driver of this kind of host does not support the operation.
    #[error("{0}")]
    NotSupported(String),
    /// The host does not respond, or not as expected. Retried.
    #[error("{0}")]
    Unreachable(String),
    /// A setting is wrong, and the user must correct it. Retried, because the correction may cause no event.
    #[error("{message}")]
    Misconfigured {
        /// Why, and what a person must do.
        cause: &'static Cause,
        /// What is wrong, in which field, and the remedy.
        message: String,
    },
}

impl DriverError {
    /// The cause of the wait, and what the user must do.
    pub const fn cause(&self) -> &'static Cause {
        match self {
            Self::NotSupported(_) => &causes::NOT_SUPPORTED,
            Self::Unreachable(_) => &causes::UNREACHABLE,
            Self::Misconfigured { cause, .. } => cause,
        }
    }
}

/// The result of a host check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Hardware and operating system.
    pub facts: HostFacts,
    /// Addresses of the host.
    pub addresses: Vec<MachineAddress>,
    /// Problems that would prevent a machine from working on the host, each with its remedy. A host with problems is
    /// not claimed.
    pub problems: Vec<String>,
}

/// Bootstrap data of a Machine. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapData {
    /// The bytes.
    pub value: Vec<u8>,
    /// `cloud-config`, unless the Secret names another format.
    pub format: String,
}

impl fmt::Debug for BootstrapData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootstrapData({}, {} bytes)", self.format, self.value.len())
    }
}

/// Configuration that makes the agent on a machine follow another management plane. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct HandOver(pub Vec<u8>);

impl fmt::Debug for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandOver({} bytes)", self.0.len())
    }
}

/// The response of an agent to a hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowState {
    /// The agent follows the plane, or already did.
    Follows,
    /// The agent rejects the hand-over, and why.
    Refused(String),
}

/// The state of bootstrap data on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootstrapState {
    /// It is being executed.
    Running,
    /// It was executed.
    Done,
    /// It failed, and is not retried under this claim.
    Failed(BootstrapFailure),
}

/// What a user needs to correct failed bootstrap data. Redacted by the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootstrapFailure {
    /// The step that failed.
    pub step: String,
    /// The exit code, if the step was a command.
    pub exit_code: Option<i32>,
    /// The last lines of its output.
    pub last_lines: Vec<String>,
}

/// The state of a reset of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResetState {
    /// The reset is running.
    Running,
    /// Nothing of the machine is left, which was verified.
    Clean,
    /// Something is left, and a retry would not help.
    Dirty {
        /// The traces, as a user would search for them.
        left: Vec<String>,
    },
}

/// Reaches hosts of one kind. Calls are idempotent and return soon; long operations continue in the background.
pub trait HostDriver: Send + Sync + 'static {
    /// Checks the host.
    fn facts<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Reached, DriverError>>;

    /// Executes bootstrap data, once for each claim even if it is called again, and returns the progress.
    fn bootstrap<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        data: &'a BootstrapData,
    ) -> BoxFuture<'a, Result<BootstrapState, DriverError>>;

    /// Hands the agent on the host over to a management plane. The agent decides whether it follows.
    fn follow<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        hand_over: &'a HandOver,
    ) -> BoxFuture<'a, Result<FollowState, DriverError>> {
        let _ = (claim_id, hand_over);
        let kind = HostKind::of(host);
        Box::pin(async move {
            Err(DriverError::NotSupported(format!(
                "agents on hosts of the kind {kind} cannot be handed over"
            )))
        })
    }

    /// Undoes everything that was done under the claim, and verifies that. A host that was not changed is clean.
    fn reset<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
    ) -> BoxFuture<'a, Result<ResetState, DriverError>>;

    /// The Host object is being deleted, and no machine has claimed it.
    fn forget<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<(), DriverError>> {
        let _ = host;
        Box::pin(async { Ok(()) })
    }

    /// Hosts whose state has changed. Only a hint: a change may be missed.
    fn changes(&self) -> BoxStream<'static, HostKey> {
        futures::stream::pending().boxed()
    }
}

/// Kinds of hosts, by how they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostKind {
    /// `spec.ssh`
    Ssh,
    /// `spec.simulated`
    Simulated,
    /// `spec.registration`
    Registered,
}

impl HostKind {
    /// The kind of a host. The schema requires exactly one.
    pub const fn of(host: &Host) -> Self {
        if host.spec.simulated.is_some() {
            Self::Simulated
        } else if host.spec.registration.is_some() {
            Self::Registered
        } else {
            Self::Ssh
        }
    }
}

impl fmt::Display for HostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssh => "ssh",
            Self::Simulated => "simulated",
            Self::Registered => "registered",
        })
    }
}

/// The driver of each kind of host. Calls for a kind without a driver return [`DriverError::NotSupported`].
#[derive(Clone)]
pub struct Drivers {
    by_kind: BTreeMap<HostKind, Arc<dyn HostDriver>>,
    limit: Duration,
}

impl Drivers {
    /// No drivers.
    pub fn none() -> Self {
        Self { by_kind: BTreeMap::new(), limit: LONGEST_CALL }
    }

    /// Adds a driver for one kind of host.
    pub fn with(mut self, kind: HostKind, driver: Arc<dyn HostDriver>) -> Self {
        self.by_kind.insert(kind, driver);
        self
    }

    /// Sets the timeout of each call.
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The driver of a host.
    ///
    /// # Errors
    /// If there is none for its kind.
    pub fn of(&self, host: &Host) -> Result<TimeLimited<'_>, DriverError> {
        let kind = HostKind::of(host);
        let driver = self.by_kind.get(&kind).ok_or_else(|| {
            DriverError::NotSupported(format!("this capstan has no driver for hosts of kind {kind}"))
        })?;
        Ok(TimeLimited { driver: driver.as_ref(), limit: self.limit })
    }

    /// Hosts whose state has changed, of all drivers.
    pub fn changes(&self) -> BoxStream<'static, HostKey> {
        futures::stream::select_all(self.by_kind.values().map(|driver| driver.changes())).boxed()
    }
}
