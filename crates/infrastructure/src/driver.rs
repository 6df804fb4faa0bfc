//! How a host is reached: the seam between what should happen to a host and the ways to make it happen.
//!
//! A driver keeps what it did for a claim where the host is, not here: it may be asked again by a process that
//! knows nothing of the first question, and must then go on where it was, never begin anew.

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

/// Why a host could not be asked. Goes into conditions: no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// No version of this host's driver can do that.
    #[error("{0}")]
    NotSupported(String),
    /// It does not answer, or not as it should. Worth another try.
    #[error("{0}")]
    Unreachable(String),
    /// Something that a person has set is wrong, and nothing else will help. Looked at again all the same: it may be
    /// put right where nobody tells us.
    #[error("{message}")]
    Misconfigured {
        /// Why, and what a person must do.
        cause: &'static Cause,
        /// What is wrong, in which field, and the remedy.
        message: String,
    },
}

impl DriverError {
    /// Why the host cannot be had, and what a person must do.
    pub const fn cause(&self) -> &'static Cause {
        match self {
            Self::NotSupported(_) => &causes::NOT_SUPPORTED,
            Self::Unreachable(_) => &causes::UNREACHABLE,
            Self::Misconfigured { cause, .. } => cause,
        }
    }
}

/// What a host says when it is asked who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Hardware and operating system.
    pub facts: HostFacts,
    /// Where it is.
    pub addresses: Vec<MachineAddress>,
    /// What would stop a machine from working on it, each with its remedy. A host that has any is not claimed.
    pub problems: Vec<String>,
}

/// A Machine's bootstrap data: what a host is started with. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapData {
    /// The bytes.
    pub value: Vec<u8>,
    /// `cloud-config`, unless the Secret says otherwise.
    pub format: String,
}

impl fmt::Debug for BootstrapData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootstrapData({}, {} bytes)", self.format, self.value.len())
    }
}

/// What tells the agent on a machine which management plane to obey from now on. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct HandOver(pub Vec<u8>);

impl fmt::Debug for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandOver({} bytes)", self.0.len())
    }
}

/// What an agent makes of a hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowState {
    /// It obeys that plane from now on, or did already.
    Follows,
    /// It does not, and says why.
    Refused(String),
}

/// How the bootstrap data fares on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootstrapState {
    /// It is being carried out.
    Running,
    /// It has been carried out.
    Done,
    /// It could not be carried out, and will not be tried again under this claim.
    Failed(BootstrapFailure),
}

/// What a user needs to mend bootstrap data that failed. Redacted by the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootstrapFailure {
    /// What was being done.
    pub step: String,
    /// How it ended, if it was a command.
    pub exit_code: Option<i32>,
    /// The last lines it printed.
    pub last_lines: Vec<String>,
}

/// How the cleaning of a host fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResetState {
    /// It goes on.
    Running,
    /// Nothing of the machine is left: this was checked.
    Clean,
    /// Something is left, and trying again will not help.
    Dirty {
        /// What, as people would look for it.
        left: Vec<String>,
    },
}

/// A way to reach hosts. Every call may be repeated, and returns soon: long work goes on behind it.
pub trait HostDriver: Send + Sync + 'static {
    /// Asks the host who it is.
    fn facts<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<Reached, DriverError>>;

    /// Carries bootstrap data out, once for each claim however often it is called, and says how that goes.
    fn bootstrap<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
        data: &'a BootstrapData,
    ) -> BoxFuture<'a, Result<BootstrapState, DriverError>>;

    /// Tells the agent that bootstrap data has put on the host which management plane to obey. The agent decides.
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
                "agents on hosts of the sort {kind} cannot be told to follow"
            )))
        })
    }

    /// Undoes all that was done under the claim, and verifies it. A host on which nothing was done is clean.
    fn reset<'a>(
        &'a self,
        host: &'a Host,
        claim_id: &'a str,
    ) -> BoxFuture<'a, Result<ResetState, DriverError>>;

    /// The Host object is going for good, and no machine has it.
    fn forget<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, Result<(), DriverError>> {
        let _ = host;
        Box::pin(async { Ok(()) })
    }

    /// Hosts of which another question would get another answer. A hint: it may be missed.
    fn changes(&self) -> BoxStream<'static, HostKey> {
        futures::stream::pending().boxed()
    }
}

/// Sorts of hosts, by how they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostKind {
    /// `spec.ssh`
    Ssh,
    /// `spec.simulated`
    Simulated,
}

impl HostKind {
    /// The sort of a host. The schema lets no host be of none or of two.
    pub const fn of(host: &Host) -> Self {
        if host.spec.simulated.is_some() { Self::Simulated } else { Self::Ssh }
    }
}

impl fmt::Display for HostKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ssh => "ssh",
            Self::Simulated => "simulated",
        })
    }
}

/// Which driver reaches which hosts. A sort without one is answered for: not supported yet.
#[derive(Clone)]
pub struct Drivers {
    by_kind: BTreeMap<HostKind, Arc<dyn HostDriver>>,
    limit: Duration,
}

impl Drivers {
    /// No host can be reached.
    pub fn none() -> Self {
        Self { by_kind: BTreeMap::new(), limit: LONGEST_CALL }
    }

    /// The same, with a driver for one sort of hosts.
    pub fn with(mut self, kind: HostKind, driver: Arc<dyn HostDriver>) -> Self {
        self.by_kind.insert(kind, driver);
        self
    }

    /// The same, with another time limit for each call.
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The driver of a host.
    ///
    /// # Errors
    /// If there is none for its sort.
    pub fn of(&self, host: &Host) -> Result<TimeLimited<'_>, DriverError> {
        let kind = HostKind::of(host);
        let driver = self.by_kind.get(&kind).ok_or_else(|| {
            DriverError::NotSupported(format!("hosts of the sort {kind} are not supported yet"))
        })?;
        Ok(TimeLimited { driver: driver.as_ref(), limit: self.limit })
    }

    /// The changes of all of them.
    pub fn changes(&self) -> BoxStream<'static, HostKey> {
        futures::stream::select_all(self.by_kind.values().map(|driver| driver.changes())).boxed()
    }
}
