//! Targets of checks and probes.

use serde::{Deserialize, Serialize};

use super::{Argv, HttpUrl, HttpsUrl, TcpAddress};
use crate::{MachinePath, StepName, UnitName};

/// The target of a check or a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// A command, which succeeds with exit code 0. It must have no effects.
    Exec(Argv),
    /// A GET request, which succeeds with a status of 200 to 299. Redirects are not followed.
    Http(HttpUrl),
    /// The same over TLS.
    Https(HttpsTarget),
    /// A connection, which succeeds if the port accepts it. Nothing is sent.
    Tcp(TcpAddress),
    /// A path.
    File(FileTarget),
    /// A systemd unit, which succeeds if it is active.
    Unit(UnitName),
}

impl Target {
    /// Whether agents of the first release know it.
    pub(crate) const fn is_of_first_release(&self) -> bool {
        matches!(self, Self::Exec(_) | Self::Http(_))
    }
}

/// A GET request over TLS, which succeeds with a status of 200 to 299. Redirects are not followed. The files are on the
/// machine and are read for every request, so that they may be renewed at any time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpsTarget {
    /// The URL.
    pub url: HttpsUrl,

    /// File with the CA bundle, in PEM, that replaces the machine's trust store. If absent, the machine's trust store is
    /// used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<MachinePath>,

    /// The client certificate. If absent, none is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientFiles>,
}

impl HttpsTarget {
    /// A request that is verified with the machine's trust store.
    pub const fn new(url: HttpsUrl) -> Self {
        Self { url, ca: None, client: None }
    }
}

/// Files of a client certificate. They may be one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientFiles {
    /// File with the certificate and its chain, in PEM.
    pub certificate: MachinePath,

    /// File with the private key, in PEM.
    pub key: MachinePath,
}

/// A path, which succeeds if something is there that was changed recently enough. Symbolic links are not followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileTarget {
    /// The path.
    pub path: MachinePath,

    /// Longest time since the last change of its content. If absent, it may be of any age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u32>,
}

/// A probe that runs after the last step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Probe {
    /// Its name, unique among the probes of the plan.
    pub name: StepName,

    /// The target.
    pub target: Target,

    /// Interval between two runs.
    pub interval_seconds: u32,

    /// Timeout of one run.
    pub timeout_seconds: u32,

    /// Consecutive successes that make it healthy.
    pub success_threshold: u32,

    /// Consecutive failures that make it unhealthy.
    pub failure_threshold: u32,
}

impl Probe {
    /// A probe with an interval of ten seconds, healthy after one success, unhealthy after three failures.
    pub const fn new(name: StepName, target: Target) -> Self {
        Self {
            name,
            target,
            interval_seconds: 10,
            timeout_seconds: 5,
            success_threshold: 1,
            failure_threshold: 3,
        }
    }
}
