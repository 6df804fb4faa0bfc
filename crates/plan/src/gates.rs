//! The open gates of a plan, and whether it is cancelled. They are a document beside the plan, because gates are opened while the
//! plan is executed, and a changed plan would be another plan.
//!
//! The document identifies the plan, and so the machine, by the digest of the plan. An open gate cannot be closed
//! again, because the agent may already have seen it open. A plan that was cancelled stays cancelled for the same reason.
//!
//! What is cancelled is said by revision: a newer plan may be in the Secret already while the machine still runs a command of an
//! earlier one. A later revision than that of the plan beside it cannot be cancelled, so no earlier Secret ends a later plan.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

use crate::{ApiVersion, Digest, PlanId, Revision, SigningKey, StepName, TrustedKeys, limits};

const DOMAIN: &[u8] = b"capstan.dev/open-gates/v1\0";

/// The open gates of one plan, and the plans that are cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenGates {
    plan: Digest,
    open: BTreeSet<StepName>,
    cancel: Option<Revision>,
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
    /// A plan that is later than the one beside them would be cancelled.
    #[error("the open gates cancel revision {cancel}, and the plan is revision {plan}")]
    Cancel {
        /// The revision that would be cancelled.
        cancel: Revision,
        /// The revision of the plan.
        plan: Revision,
    },
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cancel: Option<Revision>,
}

impl OpenGates {
    /// The open gates of a plan.
    pub fn new(plan: PlanId, open: impl IntoIterator<Item = StepName>) -> Self {
        Self { plan: *plan.digest(), open: open.into_iter().collect(), cancel: None }
    }

    /// The same, with plans up to this revision cancelled. For agents with the capability
    /// [`Cancel`](crate::Capability::Cancel).
    #[must_use]
    pub fn cancelling(self, revision: Revision) -> Self {
        Self { cancel: Some(revision), ..self }
    }

    /// The last revision that is cancelled.
    pub const fn cancelled(&self) -> Option<Revision> {
        self.cancel
    }

    /// Whether this plan is cancelled.
    pub fn cancels(&self, plan: PlanId) -> bool {
        self.cancel.is_some_and(|last| plan.revision() <= last)
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
        let Document { plan: of, open, cancel, .. } = document;
        let gates = Self { plan: of, open: open.into_iter().collect(), cancel };
        if gates.bytes() != signed.bytes {
            return Err(GatesError::Spelling);
        }
        if gates.plan != *plan.digest() {
            return Err(GatesError::OtherPlan(gates.plan));
        }
        match gates.cancel {
            Some(cancel) if cancel > plan.revision() => {
                Err(GatesError::Cancel { cancel, plan: plan.revision() })
            }
            _ => Ok(gates),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let document = Document {
            api_version: ApiVersion::V1Alpha1,
            kind: GatesKind::OpenGates,
            plan: self.plan,
            open: self.open.iter().cloned().collect(),
            cancel: self.cancel,
        };
        serde_json::to_vec(&document).expect("names and a digest can be written as JSON")
    }
}

/// What is signed.
fn sentence(bytes: &[u8]) -> Vec<u8> {
    [DOMAIN, Digest::of(bytes).as_bytes()].concat()
}
