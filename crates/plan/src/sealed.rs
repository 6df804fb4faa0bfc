//! A plan and its bytes: one canonical encoding, so one digest.

use crate::{Digest, Limit, MachinePlan, PlanError, PlanId, limits};

/// Why bytes are not a valid plan.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// The plan is too large.
    #[error("bytes of the plan {0}")]
    Size(Limit),
    /// The plan does not match the schema: among others, an unknown field, kind of step or version.
    #[error("{0}")]
    Schema(String),
    /// The plan matches the schema and violates a rule.
    #[error("{0}")]
    Plan(#[from] PlanError),
    /// The bytes are not in canonical form; otherwise one plan could have two digests.
    #[error("the plan is not in its one spelling: fields in order, no spaces, no defaults written out")]
    Spelling,
}

/// A valid plan, with its bytes and its ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPlan {
    plan: MachinePlan,
    bytes: Vec<u8>,
    id: PlanId,
}

impl MachinePlan {
    /// Validates and encodes the plan, which fixes its bytes and its digest.
    ///
    /// # Errors
    /// If it exceeds a limit or violates a rule.
    pub fn seal(self) -> Result<SealedPlan, PlanError> {
        self.check()?;
        let bytes = spell(&self);
        Limit::check(bytes.len(), 0, limits::PLAN_BYTES)
            .map_err(|limit| PlanError::Limit { field: "bytes of the plan".to_owned(), limit })?;
        let id = PlanId { digest: Digest::of(&bytes), revision: self.revision };
        Ok(SealedPlan { plan: self, bytes, id })
    }
}

impl SealedPlan {
    /// Parses a plan.
    ///
    /// # Errors
    /// If the bytes are not exactly the canonical encoding of a valid plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Limit::check(bytes.len(), 0, limits::PLAN_BYTES).map_err(ParseError::Size)?;
        let plan: MachinePlan = serde_json::from_slice(bytes).map_err(|error| describe(&error))?;
        let sealed = plan.seal()?;
        if sealed.bytes == bytes { Ok(sealed) } else { Err(ParseError::Spelling) }
    }

    /// The plan.
    pub const fn plan(&self) -> &MachinePlan {
        &self.plan
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The ID.
    pub const fn id(&self) -> PlanId {
        self.id
    }

    pub(crate) fn into_plan(self) -> MachinePlan {
        self.plan
    }
}

fn spell(plan: &MachinePlan) -> Vec<u8> {
    serde_json::to_vec(plan)
        .expect("a plan holds only what can be written as JSON: no map keys, no odd numbers")
}

/// What is wrong with the JSON. A message about a wrong type repeats the value, which may be secret; then
/// only the place is told.
fn describe(error: &serde_json::Error) -> ParseError {
    let text = error.to_string();
    let repeats =
        ["invalid type", "invalid value", "invalid length"].iter().any(|start| text.starts_with(start));
    ParseError::Schema(if repeats {
        format!("a value of the wrong type at line {} column {}", error.line(), error.column())
    } else {
        text
    })
}
