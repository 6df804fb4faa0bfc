//! The open gates of a plan. They are a document beside the plan, because gates are opened while the plan is executed,
//! and a changed plan would be another plan.
//!
//! The document identifies the plan, and so the machine, by the digest of the plan. An open gate cannot be closed
//! again, because the agent may already have seen it open.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

use crate::{ApiVersion, Digest, PlanId, SigningKey, StepName, TrustedKeys, limits};

const DOMAIN: &[u8] = b"capstan.dev/open-gates/v1\0";

/// The open gates of one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGates {
    plan: Digest,
    open: BTreeSet<StepName>,
}

/// Open gates as in a Secret: bytes and a signature, not verified.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedGates {
    pub(crate) bytes: Vec<u8>,
    pub(crate) signature: Vec<u8>,
}

impl fmt::Debug for SignedGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedGates({})", Digest::of(&self.bytes).short())
    }
}

/// Why open gates are rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatesError {
    /// The key is not trusted, or the bytes were changed after signing.
    #[error("the open gates are not signed with a key that this machine trusts")]
    Signature,
    /// The bytes are signed but cannot be parsed.
    #[error("the open gates cannot be understood: {0}")]
    Parse(String),
    /// The bytes are not in canonical form.
    #[error("the open gates are not in their one spelling: sorted, each once, fields in order, no spaces")]
    Spelling,
    /// The gates are those of another plan.
    #[error("the open gates are those of another plan, {0}")]
    OtherPlan(Digest),
}

#[derive(Serialize, Deserialize)]
enum GatesKind {
    OpenGates,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: ApiVersion,
    kind: GatesKind,
    plan: Digest,
    open: Vec<StepName>,
}

impl OpenGates {
    /// The open gates of a plan.
    pub fn new(plan: PlanId, open: impl IntoIterator<Item = StepName>) -> Self {
        Self { plan: *plan.digest(), open: open.into_iter().collect() }
    }

    /// No open gates of a plan.
    pub fn none(plan: PlanId) -> Self {
        Self::new(plan, [])
    }

    /// Whether this gate is open for this plan.
    pub fn is_open(&self, plan: PlanId, gate: &StepName) -> bool {
        self.plan == *plan.digest() && self.open.contains(gate)
    }

    /// Names of the open gates.
    pub fn open(&self) -> impl Iterator<Item = &StepName> {
        self.open.iter()
    }

    /// Encodes and signs the open gates.
    pub fn seal(&self, key: &SigningKey) -> SignedGates {
        let bytes = self.bytes();
        let signature = key.sign(&sentence(&bytes));
        SignedGates { bytes, signature }
    }

    /// Verifies that a trusted key has signed the open gates for this plan. They are parsed only after that.
    ///
    /// # Errors
    /// Why the open gates are rejected.
    pub fn verify(signed: &SignedGates, keys: &TrustedKeys, plan: PlanId) -> Result<Self, GatesError> {
        if !keys.have_signed(&sentence(&signed.bytes), &signed.signature) {
            return Err(GatesError::Signature);
        }
        let document: Document =
            serde_json::from_slice(&signed.bytes).map_err(|error| GatesError::Parse(error.to_string()))?;
        if document.open.len() > limits::GATES {
            return Err(GatesError::Parse(format!("more than {} gates", limits::GATES)));
        }
        let gates = Self { plan: document.plan, open: document.open.into_iter().collect() };
        if gates.bytes() != signed.bytes {
            return Err(GatesError::Spelling);
        }
        if gates.plan == *plan.digest() { Ok(gates) } else { Err(GatesError::OtherPlan(gates.plan)) }
    }

    fn bytes(&self) -> Vec<u8> {
        let document = Document {
            api_version: ApiVersion::V1Alpha1,
            kind: GatesKind::OpenGates,
            plan: self.plan,
            open: self.open.iter().cloned().collect(),
        };
        serde_json::to_vec(&document).expect("names and a digest can be written as JSON")
    }
}

/// What is signed.
fn sentence(bytes: &[u8]) -> Vec<u8> {
    [DOMAIN, Digest::of(bytes).as_bytes()].concat()
}
