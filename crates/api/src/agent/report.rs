//! MachineReport: what the agent on a machine reports.
//!
//! The manager creates the object and binds it to one machine in spec. The agent may write only status. The manager
//! does not trust what the machine writes: every string and list has a limit, and a report counts only for the digest
//! and revision that it names.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::infrastructure::HostFacts;
use crate::schema::{DNS_LABEL, DNS_SUBDOMAIN, cel};

/// The machine that the report belongs to.
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
    /// Name of the Machine. Immutable.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub machine_name: String,

    /// Machine ID from the bootstrap data. A host that becomes another machine gets another ID and another report.
    /// Immutable.
    #[serde(rename = "machineID")]
    #[schemars(length(min = 1, max = 64))]
    pub machine_id: String,

    /// SHA-256 digest of the public key with which the machine enrolled: the first key that came with its enrolment
    /// token. Set by Capstan, which refuses requests for other keys. Remove this field to let the machine enrol with a new
    /// key.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub enrolled_key: Option<String>,

    /// The credential of the machine. Set by Capstan. Only the machine can read the token: its private key never leaves it.
    /// Remove this field to let the machine enrol again with the same key.
    pub credential: Option<MachineCredential>,

    /// The management plane for which the credential is valid. Set by Capstan. If it differs from this management
    /// plane, the machine was moved here, and Capstan hands its agent over to this one.
    pub enrolled_with: Option<EnrolledPlane>,
}

/// A token of a machine, encrypted for it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineCredential {
    /// Token of the ServiceAccount of the machine, encrypted with the public key of the machine (HPKE, RFC 9180), in base64.
    #[schemars(length(min = 1, max = 16384))]
    pub sealed_token: String,

    /// UID of the ServiceAccount. The token ends with it.
    #[schemars(length(min = 1, max = 64))]
    pub account: String,

    /// ID of the key that signed the token. Not set if the management plane does not name its keys.
    #[schemars(length(min = 1, max = 256))]
    pub token_key: Option<String>,

    /// Time from which the token is valid.
    #[schemars(with = "crate::schema::TimeSchema")]
    pub issued_at: Time,

    /// Time until which the token is valid.
    #[schemars(with = "crate::schema::TimeSchema")]
    pub expires_at: Time,
}

impl MachineCredential {
    /// When it should be replaced: after two thirds of its validity.
    pub fn renewal(&self) -> Timestamp {
        let life = self.expires_at.0.duration_since(self.issued_at.0);
        self.issued_at.0.checked_add(life / 3 * 2).unwrap_or(self.expires_at.0)
    }
}

/// A machine asks for a credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialRequest {
    /// Public key of the machine: SubjectPublicKeyInfo of a P-256 key, in base64.
    #[schemars(length(min = 1, max = 256))]
    pub public_key: String,

    /// Random text that distinguishes this request from earlier ones.
    #[schemars(length(min = 1, max = 64))]
    pub nonce: String,
}

/// A management plane, as agents identify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrolledPlane {
    /// UID of the namespace `kube-system` of the management plane.
    #[schemars(length(min = 1, max = 64))]
    pub plane: String,

    /// URL of its API server, as machines connect to it.
    #[schemars(length(min = 1, max = 2048))]
    pub server: String,

    /// SHA-256 digest of the CA with which machines verify its API server.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub ca_digest: String,
}

/// What the agent reports. Set by the agent.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachineReportStatus {
    /// Request for a credential. The agent sets it when it enrols, and before its credential expires.
    pub credential_request: Option<CredentialRequest>,

    /// The plan to which phase, step, message, output and attempts belong.
    pub plan: Option<PlanIdentity>,

    /// Progress of the plan. `Applying`: steps are running. `Waiting`: a gate is closed, for example until a drain has
    /// ended. `Applied`: all steps are done. `Failed`: a step failed and is not retried until there is another plan.
    /// `Refused`: the agent does not accept the plan.
    pub phase: Option<PlanPhase>,

    /// The current step, or the last one.
    pub step: Option<StepProgress>,

    /// The newest plan of which all steps are done.
    pub applied: Option<PlanIdentity>,

    /// Human-readable explanation of why the plan stopped or waits.
    #[schemars(length(min = 1, max = 4096))]
    pub message: Option<String>,

    /// Output of the step.
    pub output: Option<StepOutput>,

    /// Number of attempts of the step.
    #[schemars(range(min = 0))]
    pub attempts: Option<i32>,

    /// What other steps of the plan have printed last, newest first: the end of each output. The oldest are left out when all
    /// of them have more than 8 KiB. The agent has all output of every step: `capstan-agent explain --step NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub outputs: Vec<StepTail>,

    /// Results of the health probes of the machine, such as whether the kubelet responds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub probes: Vec<ProbeResult>,

    /// Last runs of the periodic commands (`spec.periodic` of the CapstanConfig).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub periodic: Vec<PeriodicResult>,

    /// What the agent has found changed on the machine, newest first: files, directories, artifacts and units of the
    /// applied plan that are not as the plan says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub drift: Vec<DriftItem>,

    /// Properties of the machine and its operating system.
    pub facts: Option<HostFacts>,

    /// What the agent has created on the machine and reverts in a reset.
    pub ledger: Option<LedgerSummary>,

    /// ID of the key with which the agent verifies plans. Agents of earlier versions, which cannot follow to another key,
    /// do not report it.
    #[schemars(regex(pattern = "^[0-9a-f]{16}$"))]
    pub plan_key: Option<String>,

    /// Human-readable explanation of why the agent cannot work at all, for example because the disk is full. Plan, phase and
    /// step are as of before the problem.
    #[schemars(length(min = 1, max = 1024))]
    pub problem: Option<String>,

    /// Version of the agent.
    #[schemars(length(min = 1, max = 64))]
    pub agent_version: Option<String>,

    /// What the agent understands beyond the first release. An agent that does not report it understands the plans of the
    /// first release only.
    pub capabilities: Option<AgentCapabilities>,

    /// The program of the agent, and its replacement by the program that the plan names. An agent that cannot replace its
    /// program does not report it.
    pub agent_program: Option<AgentProgramStatus>,

    /// Time of the last update by the agent.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub last_updated: Option<Time>,
}

/// What an agent understands. Plans contain nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    /// Version of the agent that has these capabilities. They do not count if it differs from `status.agentVersion`: an
    /// earlier agent has taken the place of a later one.
    #[schemars(length(min = 1, max = 64))]
    pub agent_version: String,

    /// Names of the capabilities, such as `onDrift`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 63), regex(pattern = "^[a-z][a-zA-Z0-9]*$")),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub names: Vec<String>,
}

/// The program of the agent, and its replacement.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentProgramStatus {
    /// SHA-256 digest of the program that runs, in hexadecimal.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: String,

    /// Whether the program has replaced another one and is not confirmed yet. It is confirmed when it has read its plan from
    /// the management plane. Otherwise the previous program is put back.
    pub on_trial: Option<bool>,

    /// The program in the plan that does not work on this machine. The agent does not try it again until the plan names
    /// another program.
    pub rejected: Option<RejectedAgentProgram>,

    /// Human-readable explanation of why the program in the plan is not tried yet.
    #[schemars(length(min = 1, max = 1024))]
    pub message: Option<String>,
}

/// A program of the agent that does not work on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedAgentProgram {
    /// SHA-256 digest of the program, in hexadecimal.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub sha256: String,

    /// Human-readable explanation of what is wrong with the program.
    #[schemars(length(min = 1, max = 1024))]
    pub message: String,

    /// Time at which the agent rejected the program.
    #[schemars(with = "crate::schema::TimeSchema")]
    pub since: Time,
}

/// A change on a machine that no plan has made.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftItem {
    /// Name of the step of the plan that created what was changed.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub step: String,

    /// Human-readable description of the change.
    #[schemars(length(min = 1, max = 512))]
    pub found: String,

    /// Time at which the agent found the change.
    #[schemars(with = "crate::schema::TimeSchema")]
    pub since: Time,

    /// Time at which the agent saw that everything is as the plan says again. Not set while it is not.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub repaired: Option<Time>,

    /// Human-readable explanation of what the agent does about the change, or why it cannot repair it.
    #[schemars(length(min = 1, max = 1024))]
    pub message: Option<String>,

    /// How often the agent has found a change at this step since it was started.
    #[schemars(range(min = 1))]
    pub times: i32,
}

/// What the agent has created on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerSummary {
    /// Number of items in total.
    #[schemars(range(min = 0))]
    pub total: i32,

    /// The newest items, newest first, at most 64.
    #[serde(default)]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub items: Vec<LedgerItem>,
}

/// One item that a reset reverts.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerItem {
    /// Type of the item: `File`, `Directory`, `Artifact` (downloaded), `Unit` (a systemd unit file) or `Command` (a
    /// command that has an undo command).
    pub kind: LedgerKind,

    /// Path of the item; for a command, the name of its step.
    #[schemars(length(min = 1, max = 512))]
    pub name: String,

    /// What was at the path before the agent wrote it. `Nothing`: a reset removes the path. `File`: a reset restores
    /// the file. `Directory`: a reset keeps the directory. Not set for a command.
    pub before: Option<LedgerBefore>,
}

/// Types of items that the agent creates on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LedgerKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A file or directory that was downloaded.
    Artifact,
    /// A systemd unit file.
    Unit,
    /// A command that has an undo command.
    Command,
}

/// What was at a path before the agent wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LedgerBefore {
    /// Nothing. A reset removes the path.
    Nothing,
    /// A file. A reset restores its content.
    File,
    /// A directory. A reset keeps it.
    Directory,
}

/// Identity of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanIdentity {
    /// SHA-256 digest of the plan's bytes, in hexadecimal.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub digest: String,

    /// Revision of the plan. It only increases.
    #[schemars(range(min = 1))]
    pub revision: i64,
}

/// Progress of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlanPhase {
    /// Steps are running.
    Applying,
    /// A gate is closed. The manager opens it, for example at the end of a drain.
    Waiting,
    /// All steps are done.
    Applied,
    /// A step failed and is not retried until there is another plan.
    Failed,
    /// The agent does not accept the plan: it is for another machine, its signature is invalid, its revision is too
    /// old, or its schema is unknown.
    Refused,
}

/// Position of the agent in a plan.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepProgress {
    /// Name of the step.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// Position of the step in the plan, from 1.
    #[schemars(range(min = 1, max = 1000))]
    pub index: i32,

    /// Number of steps in the plan.
    #[schemars(range(min = 1, max = 1000))]
    pub total: i32,

    /// Exit code of the step's command, once it has ended.
    pub exit_code: Option<i32>,

    /// Time at which the step started.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub started: Option<Time>,

    /// Time at which the step ended.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub finished: Option<Time>,
}

/// Output of a step. Long output is shortened to its beginning and end.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("minProperties" = 1))]
pub struct StepOutput {
    /// Standard output.
    pub stdout: Option<Excerpt>,

    /// Standard error.
    pub stderr: Option<Excerpt>,
}

/// End of the output of a step, as of its last attempt.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepTail {
    /// Name of the step.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub step: String,

    /// Exit code of the step's command.
    pub exit_code: Option<i32>,

    /// Time at which the attempt ended.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub finished: Option<Time>,

    /// End of the standard output.
    #[schemars(length(min = 1, max = 1024))]
    pub stdout: Option<String>,

    /// End of the standard error.
    #[schemars(length(min = 1, max = 1024))]
    pub stderr: Option<String>,
}

/// Last run of a periodic command.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeriodicResult {
    /// Name of the command in the plan: `periodic-`, its name in the CapstanConfig, and a digest of that.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// Time at which the run started.
    #[schemars(with = "crate::schema::TimeSchema")]
    pub started: Time,

    /// Time at which the run ended. Not set while it runs, and if the agent ended before it.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub finished: Option<Time>,

    /// Exit code of the command, if it has exited.
    pub exit_code: Option<i32>,

    /// Number of failed runs since the last success. 0 if the last run that has ended succeeded.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub failures: i32,

    /// Human-readable explanation of why the run failed.
    #[schemars(length(min = 1, max = 1024))]
    pub message: Option<String>,

    /// End of the standard output.
    #[schemars(length(min = 1, max = 512))]
    pub stdout: Option<String>,

    /// End of the standard error.
    #[schemars(length(min = 1, max = 512))]
    pub stderr: Option<String>,
}

/// Beginning and end of a text.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct Excerpt {
    /// Beginning of the text.
    #[schemars(length(max = 4096))]
    pub head: Option<String>,

    /// End of the text, if a part in the middle is left out.
    #[schemars(length(max = 4096))]
    pub tail: Option<String>,

    /// Number of bytes left out between `head` and `tail`.
    #[schemars(range(min = 0))]
    pub omitted_bytes: Option<i64>,
}

/// Result of a probe.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeResult {
    /// Name of the probe.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// Whether the probe succeeds.
    pub healthy: bool,

    /// Human-readable details.
    #[schemars(length(min = 1, max = 1024))]
    pub message: Option<String>,

    /// Time since which the probe has this result.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub since: Option<Time>,
}
