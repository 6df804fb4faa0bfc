//! The machine plan and the report on it: schema, limits, digest, signature, and how a plan lies in a Secret.
//!
//! Shared by the planner, which makes plans, and the agent, which carries them out. Nothing in here does I/O,
//! reads a clock or knows Kubernetes: bytes in, values out.
//!
//! A plan goes through four types, and no step can be left out:
//!
//! | type | what it says |
//! |---|---|
//! | [`MachinePlan`] | what somebody would like to be done |
//! | [`SealedPlan`] | it keeps every limit, and has bytes, a digest and so a [`PlanId`] |
//! | [`SignedPlan`] | bytes with a signature that nobody has checked: what lies in a Secret |
//! | [`VerifiedPlan`] | a key that is trusted signed it for this machine: what an agent obeys |
//!
//! Beside it lie the [`OpenGates`]: where a plan that waits may go on.

mod base64_text;
mod content;
mod digest;
mod gates;
mod identity;
mod path;
mod report;
mod schema;
mod sealed;
mod secret;
mod signature;
mod text;
mod time;

pub use content::{Content, SecretText};
pub use digest::{Digest, DigestError, Hasher};
pub use gates::{GatesError, OpenGates, SignedGates};
pub use identity::{Epoch, MachineIdentity, NumberError, PlanId, Revision};
pub use path::{MachinePath, Mode, ModeError, PathError};
pub use report::{
    Excerpt, Facts, HostileReport, Ledger, LedgerBefore, LedgerItem, LedgerKind, Phase, ProbeResult,
    Progress, Report, Standing, StepOutput, StepProgress,
};
pub use schema::{
    Action, ApiVersion, Argv, ArgvError, Artifact, Check, Command, Directory, EnvVar, File, Gate, HttpUrl,
    HttpsUrl, Limit, MachinePlan, PlanError, PlanKind, Probe, Repeat, Retry, Source, SourceUrl,
    SourceUrlError, Step, Stop, Target, Undo, Unit, Unpack, UrlError, limits,
};
pub use sealed::{ParseError, SealedPlan};
pub use secret::{SECRET_TYPE, SecretData, SecretError, keys};
pub use signature::{
    KeyError, KeyId, PublicKey, SignedPlan, SigningKey, TrustedKeys, VerifiedPlan, VerifyError,
};
pub use text::{MachineId, MachineName, RestartToken, StepName, TextError, UnitName};
