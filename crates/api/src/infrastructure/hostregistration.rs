//! HostRegistration: a machine that dials out to the management plane, and through which both communicate.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::HostFacts;
use crate::agent::MachineCredential;
use crate::conditions::Condition;
use crate::schema::{DNS_LABEL, DNS_SUBDOMAIN, cel};

/// Condition of a HostRegistration: a Host uses the registration.
pub const APPROVED: &str = "Approved";

/// Reasons of [`APPROVED`] in the desired state. Waits have a cause of [`crate::wait`].
pub mod approved_reasons {
    /// A Host uses the registration.
    pub const APPROVED: &str = "Approved";
}

/// The request of a machine that dials out, and what the management plane has for it.
///
/// The machine creates the object and can write only the status afterwards. Nothing that the machine writes approves it: it is
/// approved by the Host that names it in `spec.registration`.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "x-kubernetes-validations" = cel([(
        "self.publicKey == oldSelf.publicKey && self.nonce == oldSelf.nonce && self.token == oldSelf.token && \
         self.proof == oldSelf.proof && has(self.facts) == has(oldSelf.facts) && \
         (!has(self.facts) || self.facts == oldSelf.facts)",
        "publicKey, nonce, token, proof and facts cannot be changed; register the machine again",
    )])
))]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1alpha1",
    kind = "HostRegistration",
    namespaced,
    status = "HostRegistrationStatus",
    derive = "PartialEq",
    doc = "A machine that dials out to the management plane, so that it is managed without inbound connections.",
    category = "cluster-api",
    label("cluster.x-k8s.io/v1beta2", "v1alpha1"),
    printcolumn(
        name = "Host",
        type_ = "string",
        json_path = ".spec.host",
        description = "Host of the machine"
    ),
    printcolumn(
        name = "Hostname",
        type_ = "string",
        json_path = ".spec.facts.hostname",
        description = "Host name, as the machine reports it"
    ),
    printcolumn(
        name = "Token",
        type_ = "string",
        json_path = ".spec.token",
        description = "Join token that the machine used"
    ),
    printcolumn(
        name = "Connected",
        type_ = "date",
        json_path = ".status.connectedAt",
        description = "Time since the machine last connected"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since creation"
    )
)]
pub struct HostRegistrationSpec {
    /// Public key of the machine: SubjectPublicKeyInfo of a P-256 key, in base64. The private key never leaves the machine.
    /// Immutable.
    #[schemars(length(min = 1, max = 256))]
    pub public_key: String,

    /// Random text that distinguishes this request from earlier ones. Immutable.
    #[schemars(length(min = 1, max = 64))]
    pub nonce: String,

    /// Name of the join token that the machine used. Immutable.
    #[schemars(length(min = 1, max = 40), regex(pattern = DNS_LABEL))]
    pub token: String,

    /// Proof that the machine has the join token: HMAC-SHA256 of the request, in hexadecimal. Immutable.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub proof: String,

    /// Properties of the machine, as it reports them. They are not verified. Immutable.
    pub facts: Option<HostFacts>,

    /// Host of the machine. Set by Capstan when the registration is approved.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub host: Option<String>,

    /// The credential of the machine. Set by Capstan after the approval. Only the machine can read the token. Remove this field
    /// to give the machine a new credential.
    pub credential: Option<MachineCredential>,

    /// The last instruction to the machine. Set by Capstan. Only the machine can read it.
    pub instruction: Option<HostInstruction>,
}

/// An instruction to a machine, encrypted for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostInstruction {
    /// Number of the instruction. The machine executes only instructions with a larger number than that of the last one.
    #[schemars(range(min = 1))]
    pub number: i64,

    /// The instruction, encrypted with the public key of the machine (HPKE, RFC 9180), in base64.
    #[schemars(length(min = 1, max = 1000000))]
    pub sealed: String,

    /// Ed25519 signature of number, instruction and machine, in base64.
    #[schemars(length(min = 88, max = 88))]
    pub signature: String,
}

/// Observed state of the registration. Conditions are set by Capstan, everything else by the agent on the machine.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct HostRegistrationStatus {
    /// Conditions of the object, one entry for each type. Set by the controllers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    pub conditions: Vec<Condition>,

    /// Version of the agent.
    #[schemars(length(min = 1, max = 64))]
    pub agent_version: Option<String>,

    /// Time at which the agent last connected, by the clock of the machine.
    #[schemars(with = "Option<crate::schema::TimeSchema>")]
    pub connected_at: Option<Time>,

    /// Answer to the last instruction.
    pub answer: Option<HostInstructionAnswer>,
}

/// The answer of a machine to an instruction.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostInstructionAnswer {
    /// Number of the instruction.
    #[schemars(range(min = 0))]
    pub number: i64,

    /// What became of the instruction. `Interrupted`: the agent stopped while it was executed. `Refused`: it was not
    /// executed.
    pub outcome: HostInstructionOutcome,

    /// Human-readable explanation of why the instruction was refused.
    #[schemars(length(min = 1, max = 1024))]
    pub message: Option<String>,

    /// Output, encrypted for the manager that wrote the instruction, in base64.
    #[schemars(length(min = 1, max = 600000))]
    pub sealed: Option<String>,
}

/// What became of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostInstructionOutcome {
    /// It was executed.
    Executed,
    /// The agent stopped while it was executed. It is not executed again.
    Interrupted,
    /// It was not executed.
    Refused,
}
