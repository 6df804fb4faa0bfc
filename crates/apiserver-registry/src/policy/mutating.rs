//! What MutatingAdmissionPolicies do.

use capstan_apiserver_schema::admission::{Evaluator, Expression, Failure, Returns};
use serde_json::Value;

use super::{Common, Program, uses};
use crate::{match_criteria::items, object};

/// Plural of the policies.
pub const POLICIES: &str = "mutatingadmissionpolicies";
/// Plural of the bindings.
pub const BINDINGS: &str = "mutatingadmissionpolicybindings";

/// The expressions of a policy.
pub struct Mutations {
    /// Variables and conditions.
    pub common: Common,
    /// The mutations, in the order in which they are made.
    pub mutations: Vec<Mutation>,
    /// Whether the policy wants to see what others make of its changes.
    pub reinvoked: bool,
}

/// One mutation.
pub struct Mutation {
    /// What the expression returns is the change.
    pub expression: Expression,
    patch_type: PatchType,
}

/// How a mutation changes an object: the values of `patchType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchType {
    ApplyConfiguration,
    JsonPatch,
}

/// What a mutation wants to change.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// To be merged into the object.
    Configuration(Value),
    /// A JSON patch.
    Json(Value),
}

impl PatchType {
    pub(super) const ALL: [Self; 2] = [Self::ApplyConfiguration, Self::JsonPatch];

    /// The name in a policy.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ApplyConfiguration => "ApplyConfiguration",
            Self::JsonPatch => "JSONPatch",
        }
    }

    /// The field with the expression.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::ApplyConfiguration => "applyConfiguration",
            Self::JsonPatch => "jsonPatch",
        }
    }

    /// What the expression must return.
    pub(super) fn returns(self) -> Returns {
        match self {
            Self::ApplyConfiguration => Returns::Configuration,
            Self::JsonPatch => Returns::JsonPatch,
        }
    }

    /// That of a mutation, if it names one that there is.
    pub(super) fn of(mutation: &Value) -> Option<Self> {
        let name = object::text(mutation, &["patchType"]);
        Self::ALL.into_iter().find(|patch_type| patch_type.name() == name)
    }
}

impl Mutation {
    /// Evaluates the expression.
    ///
    /// # Errors
    /// Why it has no result.
    pub fn patch(&self, evaluator: &mut Evaluator<'_>) -> Result<Patch, Failure> {
        match self.patch_type {
            PatchType::ApplyConfiguration => {
                evaluator.configuration(&self.expression).map(Patch::Configuration)
            }
            PatchType::JsonPatch => evaluator.json_patch(&self.expression).map(Patch::Json),
        }
    }
}

impl Program for Mutations {
    const POLICIES: &'static str = POLICIES;
    const BINDINGS: &'static str = BINDINGS;

    fn of(spec: &Value) -> Result<Self, String> {
        let common = Common::of(spec)?;
        let mutations = items(spec, "mutations").iter().map(|mutation| {
            let patch_type = PatchType::of(mutation).ok_or("unknown patchType")?;
            let source = object::text(mutation, &[patch_type.field(), "expression"]);
            let expression = common.variables.compile(source, uses(spec, patch_type.returns()))?;
            Ok(Mutation { expression, patch_type })
        });
        let mutations = mutations.collect::<Result<_, String>>()?;
        let reinvoked = object::text(spec, &["reinvocationPolicy"]) == "IfNeeded";
        Ok(Self { mutations, reinvoked, common })
    }
}
