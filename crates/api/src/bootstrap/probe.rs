//! Health probes of a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::schema::{DNS_LABEL, cel};

/// A health probe that the agent runs on the machine. Set exactly one of `exec`, `http`, `https`, `tcp`, `file` and `unit`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "[has(self.exec), has(self.http), has(self.https), has(self.tcp), has(self.file), has(self.unit)]\
            .filter(target, target).size() == 1",
        "set exactly one of exec, http, https, tcp, file and unit",
    )])
))]
pub struct MachineProbe {
    /// Name of the probe. Reports and messages have it with `probe-` before it. Unique in the list.
    #[schemars(length(min = 1, max = 50), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// A command, which succeeds with exit code 0.
    pub exec: Option<ExecProbe>,

    /// A GET request over HTTP, which succeeds with a status of 200 to 299. Redirects are not followed.
    pub http: Option<HttpProbe>,

    /// A GET request over TLS, which succeeds with a status of 200 to 299. Redirects are not followed.
    pub https: Option<HttpsProbe>,

    /// A TCP port, which succeeds if it accepts a connection. Nothing is sent.
    pub tcp: Option<TcpProbe>,

    /// A file or folder, which succeeds if it exists and was changed recently enough.
    pub file: Option<FileProbe>,

    /// A systemd unit, which succeeds if it is active.
    pub unit: Option<UnitProbe>,

    /// Time between two runs, in seconds. Default: 10; 60 for `exec` and `unit`, which start a program.
    #[schemars(range(min = 1, max = 3600))]
    pub interval_seconds: Option<i32>,

    /// Timeout of a run, in seconds. Default: 5.
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<i32>,

    /// Number of successes in a row after which the probe is healthy. Default: 1.
    #[schemars(range(min = 1, max = 100))]
    pub success_threshold: Option<i32>,

    /// Number of failures in a row after which the probe is unhealthy. Default: 3.
    #[schemars(range(min = 1, max = 100))]
    pub failure_threshold: Option<i32>,
}

/// A command as a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecProbe {
    /// Program and arguments. The command runs as root, without a shell, and must change nothing. Every user of the machine can see
    /// the arguments.
    #[schemars(
        length(min = 1, max = 100),
        inner(length(max = 10240)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub command: Vec<String>,
}

/// A request over HTTP as a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HttpProbe {
    /// The URL, as `http://HOST[:PORT]/PATH`, without user and password.
    #[schemars(length(min = 9, max = 2048), regex(pattern = r"^http://[^/@#\s]+/[^#\s]*$"))]
    pub url: String,
}

/// A request over TLS as a probe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HttpsProbe {
    /// The URL, as `https://HOST[:PORT]/PATH`, without user and password.
    #[schemars(length(min = 10, max = 2048), regex(pattern = r"^https://[^/@#\s]+/[^#\s]*$"))]
    pub url: String,

    /// File on the machine with the CA bundle, in PEM, that is trusted instead of the trust store of the machine. It is read for every
    /// run. Default: the trust store.
    #[schemars(length(min = 2, max = 4095), regex(pattern = r"^(/[^/\x00-\x1f\x7f]+)+$"))]
    pub ca: Option<String>,

    /// Client certificate. Default: none.
    pub client: Option<ClientCertificateFiles>,
}

/// Files of a client certificate on a machine. They may be one file, and are read for every run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientCertificateFiles {
    /// File with the certificate and its chain, in PEM.
    #[schemars(length(min = 2, max = 4095), regex(pattern = r"^(/[^/\x00-\x1f\x7f]+)+$"))]
    pub certificate: String,

    /// File with the private key, in PEM.
    #[schemars(length(min = 2, max = 4095), regex(pattern = r"^(/[^/\x00-\x1f\x7f]+)+$"))]
    pub key: String,
}

/// A TCP port as a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpProbe {
    /// The port, as `HOST:PORT`; an IPv6 address is in brackets.
    #[schemars(
        length(min = 3, max = 300),
        regex(pattern = r"^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$")
    )]
    pub address: String,
}

/// A file or folder as a probe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileProbe {
    /// Absolute path. Symbolic links are not followed.
    #[schemars(length(min = 2, max = 4095), regex(pattern = r"^(/[^/\x00-\x1f\x7f]+)+$"))]
    pub path: String,

    /// Longest time since the last change of the content, in seconds, by the clock of the machine. Default: none.
    #[schemars(range(min = 1, max = 316_224_000))]
    pub max_age_seconds: Option<i32>,
}

/// A systemd unit as a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitProbe {
    /// Name of a service, socket, timer or mount with its suffix, such as `sshd.service`. Not a template.
    #[schemars(
        length(min = 6, max = 255),
        regex(pattern = r"^[A-Za-z0-9:_][A-Za-z0-9:_.@-]*\.(service|socket|timer|mount)$")
    )]
    pub name: String,
}
