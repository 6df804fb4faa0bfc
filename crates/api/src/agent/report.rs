//! MachineReport: what the agent on a machine says it has done.
//!
//! The manager makes the object and binds it to one machine in spec; the agent may write its status and
//! nothing else. Everything in status comes from the machine and is treated as hostile: every text and list
//! has a limit, and a report counts only for the digest and revision it names.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::infrastructure::HostFacts;
use crate::schema::{DNS_LABEL, DNS_SUBDOMAIN, cel};

/// Which machine the report is about.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "self.machineName == oldSelf.machineName && self.machineID == oldSelf.machineID",
        "machineName and machineID cannot be changed; delete the object and create it again",
    )])
))]
#[kube(
    group = "agent.capstan.dev",
    version = "v1alpha1",
    kind = "MachineReport",
    namespaced,
    status = "MachineReportStatus",
    derive = "PartialEq",
    doc = "What the agent on a machine reports: which plan it carries out, how far it is, and how the machine does.",
    category = "cluster-api",
    printcolumn(
        name = "Machine",
        type_ = "string",
        json_path = ".spec.machineName",
        description = "Machine it is about"
    ),
    printcolumn(
        name = "Revision",
        type_ = "integer",
        json_path = ".status.plan.revision",
        description = "Revision of the plan"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase", description = "How it goes"),
    printcolumn(
        name = "Step",
        type_ = "string",
        json_path = ".status.step.name",
        description = "Step that is carried out, or was last"
    ),
    printcolumn(
        name = "Updated",
        type_ = "date",
        json_path = ".status.lastUpdated",
        description = "Time since the agent last wrote"
    )
)]
pub struct MachineReportSpec {
    /// Name of the Machine. Cannot be changed.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub machine_name: String,

    /// Identity that the bootstrap data gave the machine: a host that becomes another machine gets another one,
    /// and another report. Cannot be changed.
    #[serde(rename = "machineID")]
    #[schemars(length(min = 1, max = 64))]
    pub machine_id: String,

    /// Digest (SHA-256) of the public key that the machine enrolled with: the first one that came with its token.
    /// Requests for another key are not answered; remove this field to let the machine enrol again.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub enrolled_key: Option<String>,

    /// Certificate that the machine's last request was answered with, as PEM. Public: it is worth nothing without
    /// the key, which never leaves the machine.
    #[schemars(length(min = 1, max = 16384))]
    pub certificate: Option<String>,

    /// The management plane that the certificate is of use at. Elsewhere the machine has been moved, and its agent is
    /// told to follow.
    pub enrolled_with: Option<EnrolledPlane>,
}

/// A management plane, as the agent of a machine knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrolledPlane {
    /// UID of its namespace `kube-system`.
    #[schemars(length(min = 1, max = 64))]
    pub plane: String,

    /// Address of its API server, as machines reach it.
    #[schemars(length(min = 1, max = 2048))]
    pub server: String,

    /// Digest (SHA-256) of the CA that machines know it by.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub ca_digest: String,
}

/// What the agent says.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineReportStatus {
    /// What the machine asks a certificate with, as PEM (PKCS #10): when it enrols, and before its certificate expires.
    #[schemars(length(min = 1, max = 8192))]
    pub certificate_request: Option<String>,

    /// The plan everything below is about.
    pub plan: Option<PlanIdentity>,

    /// How the plan goes.
    pub phase: Option<PlanPhase>,

    /// The step that is carried out, or was last.
    pub step: Option<StepProgress>,

    /// The newest plan that was carried out to its end.
    pub applied: Option<PlanIdentity>,

    /// Why the plan stopped or waits, for people.
    #[schemars(length(min = 1, max = 4096))]
    pub message: Option<String>,

    /// What the step printed.
    pub output: Option<StepOutput>,

    /// How often the step has been tried.
    #[schemars(range(min = 0))]
    pub attempts: Option<i32>,

    /// Probes of the machine, such as whether the kubelet answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub probes: Vec<ProbeResult>,

    /// What the machine says of itself.
    pub facts: Option<HostFacts>,

    /// What the agent has put on the machine, and takes back when the machine is reset.
    pub ledger: Option<LedgerSummary>,

    /// Version of the agent.
    #[schemars(length(min = 1, max = 64))]
    pub agent_version: Option<String>,

    /// When the agent last wrote.
    pub last_updated: Option<Time>,
}

/// What the agent has put on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerSummary {
    /// How many items there are.
    #[schemars(range(min = 0))]
    pub total: i32,

    /// The last of them, the newest first.
    #[serde(default)]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub items: Vec<LedgerItem>,
}

/// One thing that is taken back when the machine is reset.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerItem {
    /// What it is.
    pub kind: LedgerKind,

    /// Its path; for a command, the name of the step that ran it.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,

    /// What was at the path before the agent wrote it. Not set for a command.
    pub before: Option<LedgerBefore>,
}

/// What the agent put on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LedgerKind {
    /// A file.
    File,
    /// A folder.
    Directory,
    /// A file or a folder that was downloaded.
    Artifact,
    /// The file of a systemd unit.
    Unit,
    /// A command that has an undo command.
    Command,
}

/// What was at a path before the agent wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LedgerBefore {
    /// Nothing: a reset removes the path.
    Nothing,
    /// A file: a reset restores its content.
    File,
    /// A folder: a reset keeps it.
    Directory,
}

/// Names exactly one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanIdentity {
    /// SHA-256 of the plan's bytes, in hexadecimal.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub digest: String,

    /// Revision the planner gave it. Only ever grows.
    #[schemars(range(min = 1))]
    pub revision: i64,
}

/// How a plan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlanPhase {
    /// Its steps are being carried out.
    Applying,
    /// It waits at a gate that somebody else opens, such as the end of a drain.
    Waiting,
    /// Every step has been carried out.
    Applied,
    /// A step failed for good; nothing more is tried until there is another plan.
    Failed,
    /// The agent will not carry it out: wrong machine, bad signature, an older revision, an unknown schema.
    Refused,
}

/// Where in a plan the agent is.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// Name of the step.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// Its place among the steps, counted from 1.
    #[schemars(range(min = 1, max = 1000))]
    pub index: i32,

    /// How many steps there are.
    #[schemars(range(min = 1, max = 1000))]
    pub total: i32,

    /// Exit code, if it runs a command and that has ended.
    pub exit_code: Option<i32>,

    /// When it began.
    pub started: Option<Time>,

    /// When it ended.
    pub finished: Option<Time>,
}

/// What a step printed: the beginning and the end, when it was too long to keep.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct StepOutput {
    /// What it printed to standard output.
    pub stdout: Option<Excerpt>,

    /// What it printed to standard error.
    pub stderr: Option<Excerpt>,
}

/// The beginning and the end of a text.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Excerpt {
    /// How it begins.
    #[schemars(length(max = 4096))]
    pub head: Option<String>,

    /// How it ends, when something was left out between.
    #[schemars(length(max = 4096))]
    pub tail: Option<String>,

    /// How many bytes were left out between.
    #[schemars(range(min = 0))]
    pub omitted_bytes: Option<i64>,
}

/// What a probe found.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeResult {
    /// Name of the probe.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// Whether all is well.
    pub healthy: bool,

    /// What was found, for people.
    #[schemars(length(min = 1, max = 1024))]
    pub message: Option<String>,

    /// Since when.
    pub since: Option<Time>,
}
