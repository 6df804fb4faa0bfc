//! The machine plan and its report: schema, limits, digest, signature, and the format of the plan Secret.
//!
//! The planner, which makes plans, and the agent, which applies them, share this crate. It does no I/O, reads no clock
//! and knows nothing about Kubernetes: bytes in, values out.
//!
//! A plan goes through four types, and no step can be skipped:
//!
//! | type | meaning |
//! |---|---|
//! | [`MachinePlan`] | a desired state, not yet validated |
//! | [`SealedPlan`] | it is within all limits, and has bytes, a digest and so a [`PlanId`] |
//! | [`SignedPlan`] | bytes with an unverified signature, as in a Secret |
//! | [`VerifiedPlan`] | a trusted key has signed it for this machine; the agent applies it |
//!
//! The [`windows`] are for both: the planner drains and restarts machines in them, and an agent may have to repair in them only.
//!
//! The [`OpenGates`] beside a plan name the gates that the agent may pass. [`Capabilities`] are what an agent understands, and what a
//! plan needs.
//!
//! Machines that dial out are registered with a token of [`host_join`], and receive each [`instruction`] through their
//! registration.

mod base64_text;
mod capability;
mod content;
mod digest;
mod gates;
pub mod heartbeat;
pub mod host_join;
mod identity;
pub mod instruction;
pub mod no_proxy;
mod path;
mod report;
mod schema;
mod sealed;
mod secret;
mod signature;
mod succession;
mod text;
mod time;
pub mod windows;

pub use capability::{Capabilities, Capability, ReportedCapabilities};
pub use content::{Content, SecretText};
pub use digest::{Digest, DigestError, Hasher};
pub use gates::{GatesError, OpenGates, SignedGates};
pub use identity::{Epoch, MachineIdentity, NumberError, PlanId, Revision};
pub use path::{MachinePath, Mode, ModeError, PathError};
pub use report::{
    Drift, Excerpt, Facts, HostileReport, Ledger, LedgerBefore, LedgerItem, LedgerKind, PeriodicResult,
    Phase, ProbeResult, Progress, RejectedProgram, Report, ReportedProgram, Standing, StepOutput,
    StepProgress, StepTail,
};
pub use schema::{
    Action, AgentProgram, ApiVersion, Argv, ArgvError, Artifact, Check, ClientFiles, Command, Directory,
    EnvVar, File, FileTarget, Gate, HttpUrl, HttpsTarget, HttpsUrl, HttpsUrlError, Limit, MachinePlan,
    OnDrift, Periodic, PlanError, PlanKind, Probe, ProxyCredentials, Repeat, Retry, Source, SourceProxy,
    SourceUrl, SourceUrlError, Step, Stop, Target, TcpAddress, TcpAddressError, Undo, Unit, Unpack, UrlError,
    limits,
};
pub use sealed::{ParseError, SealedPlan};
pub use secret::{SECRET_TYPE, SecretData, SecretError, keys};
pub use signature::{
    KeyError, KeyId, PublicKey, SignedPlan, SigningKey, TrustedKeys, VerifiedPlan, VerifyError,
};
pub use succession::Successions;
pub use text::{MachineId, MachineName, RestartToken, StepName, TextError, UnitName};
