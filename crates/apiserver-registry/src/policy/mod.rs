//! Admission policies and their bindings, compiled: validating and mutating ones. [`validation`] finds errors in one. They are
//! not evaluated here.

pub mod mutating;
pub mod validating;
pub(crate) mod validation;

use capstan_apiserver_schema::admission::{Environment, Expression, Returns, Uses};
use serde_json::Value;

use crate::{
    match_criteria::{Criteria, items},
    object,
    selector::LabelSelector,
    store::Stored,
};

/// What policies of one kind do, compiled.
pub trait Program: Sized {
    /// Plural of the policies.
    const POLICIES: &'static str;
    /// Plural of the bindings.
    const BINDINGS: &'static str;

    /// Compiles the spec of a policy.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn of(spec: &Value) -> Result<Self, String>;
}

/// What every policy has: its variables, and the conditions under which it is about a request.
pub struct Common {
    /// The variables, in the order in which they are declared.
    pub variables: Environment,
    /// The match conditions.
    pub conditions: Vec<Expression>,
}

/// One policy.
pub struct Policy<P> {
    /// Its name.
    pub name: String,
    uid: String,
    generation: i64,
    /// Which requests it is about.
    pub criteria: Criteria,
    /// Whether errors of the policy admit a request.
    pub ignored: bool,
    /// The kind of its parameters, if it has any.
    pub param_kind: Option<ParamKind>,
    /// The expressions, or why they cannot be used.
    pub program: Result<P, String>,
}

/// The kind of parameters.
pub struct ParamKind {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

/// One binding.
pub struct Binding {
    /// Its name.
    pub name: String,
    /// The name of the policy.
    pub policy: String,
    /// Narrows the criteria of the policy.
    pub criteria: Option<Criteria>,
    /// The parameters, if it names any.
    pub params: Option<ParamRef>,
    /// What follows from a validation that fails.
    pub actions: Vec<String>,
}

/// Which parameters a binding uses.
pub struct ParamRef {
    /// The name of an object; empty if it selects some.
    pub name: String,
    /// The namespace; empty for that of the request.
    pub namespace: String,
    /// Selects objects.
    pub selector: Option<LabelSelector>,
    /// Whether a request is denied if there are none.
    pub required: bool,
}

/// What an expression of a policy may refer to, and must return.
fn uses(spec: &Value, returns: Returns) -> Uses {
    let params = spec.get("paramKind").is_some_and(Value::is_object);
    // Not in messages, as upstream.
    Uses { params, authorizer: returns != Returns::Text, returns }
}

impl Common {
    fn of(spec: &Value) -> Result<Self, String> {
        let mut variables = Environment::default();
        for variable in items(spec, "variables") {
            let text = |field: &str| object::text(variable, &[field]);
            variables.declare(text("name"), text("expression"), uses(spec, Returns::Anything))?;
        }
        let conditions = items(spec, "matchConditions").iter();
        let conditions = conditions.map(|condition| {
            Expression::compile(object::text(condition, &["expression"]), uses(spec, Returns::Bool))
        });
        Ok(Self { conditions: conditions.collect::<Result<_, _>>()?, variables })
    }
}

impl<P: Program> Policy<P> {
    /// Reads a stored policy; nothing if its criteria cannot be read.
    pub fn of(stored: &Stored) -> Option<Self> {
        let value = stored.value.once();
        let spec = value.get("spec")?;
        let text = |path: &[&str]| object::text(spec, path).to_owned();
        let param_kind = spec.get("paramKind").filter(|kind| kind.is_object());
        Some(Self {
            name: stored.key.name.clone(),
            uid: object::uid(&value).to_owned(),
            generation: generation(&value),
            criteria: Criteria::of(spec.get("matchConstraints").unwrap_or(&Value::Null), "resourceRules")?,
            ignored: text(&["failurePolicy"]) == "Ignore",
            param_kind: param_kind.map(|_| ParamKind {
                api_version: text(&["paramKind", "apiVersion"]),
                kind: text(&["paramKind", "kind"]),
            }),
            program: P::of(spec),
        })
    }

    /// Whether this is a stored policy, compiled from the spec that it has now.
    pub fn is_of(&self, stored: &Value) -> bool {
        self.uid == object::uid(stored) && self.generation == generation(stored)
    }
}

fn generation(object: &Value) -> i64 {
    object::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0)
}

impl Binding {
    /// Reads a stored binding; nothing if its selectors cannot be read.
    pub fn of(stored: &Stored) -> Option<Self> {
        let value = stored.value.once();
        let spec = value.get("spec")?;
        let criteria = spec.get("matchResources").filter(|resources| resources.is_object());
        let actions = items(spec, "validationActions").iter().filter_map(Value::as_str);
        let params = spec.get("paramRef").filter(|params| params.is_object());
        let selector = |params: &Value| {
            let selector = params.get("selector").filter(|selector| selector.is_object());
            selector.map(|selector| LabelSelector::of(selector).ok_or(())).transpose()
        };
        Some(Self {
            name: stored.key.name.clone(),
            policy: object::text(spec, &["policyName"]).to_owned(),
            criteria: match criteria {
                Some(criteria) => Some(Criteria::of(criteria, "resourceRules")?),
                None => None,
            },
            params: match params {
                Some(params) => Some(ParamRef {
                    name: object::text(params, &["name"]).to_owned(),
                    namespace: object::text(params, &["namespace"]).to_owned(),
                    selector: selector(params).ok()?,
                    required: object::text(params, &["parameterNotFoundAction"]) == "Deny",
                }),
                None => None,
            },
            actions: actions.map(str::to_owned).collect(),
        })
    }
}
