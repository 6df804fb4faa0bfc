//! ValidatingAdmissionPolicies and their bindings, compiled. [`validation`] says what is wrong with one; `crate::admission`
//! evaluates them.
//!
//! A write costs no look into the store as long as no policy and no binding changes: the compiled ones are kept, and the
//! store announces changes.

pub(crate) mod validation;

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use capstan_apiserver_schema::admission::{Environment, Expression, Returns, Uses};
use serde_json::Value;
use tokio::sync::watch;

use crate::{
    match_criteria::{Criteria, items},
    object,
    request::selector::LabelSelector,
    store::{GroupResource, Store, Stored},
    webhook::configuration::GROUP,
};

/// Plural of the policies.
pub(crate) const POLICIES: &str = "validatingadmissionpolicies";
/// Plural of the bindings.
pub(crate) const BINDINGS: &str = "validatingadmissionpolicybindings";

/// One policy.
pub(crate) struct Policy {
    pub(crate) name: String,
    uid: String,
    generation: i64,
    pub(crate) criteria: Criteria,
    /// Whether errors of the policy admit a request.
    pub(crate) ignored: bool,
    pub(crate) param_kind: Option<ParamKind>,
    /// The expressions, or why they cannot be used.
    pub(crate) program: Result<Program, String>,
}

/// The kind of parameters.
pub(crate) struct ParamKind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// The expressions of a policy.
pub(crate) struct Program {
    pub(crate) variables: Environment,
    pub(crate) conditions: Vec<Expression>,
    pub(crate) validations: Vec<Validation>,
    /// Key and value.
    pub(crate) annotations: Vec<(String, Expression)>,
}

pub(crate) struct Validation {
    pub(crate) expression: Expression,
    pub(crate) message: String,
    pub(crate) message_expression: Option<Expression>,
    pub(crate) reason: String,
}

/// One binding.
pub(crate) struct Binding {
    pub(crate) name: String,
    policy: String,
    /// Narrows the criteria of the policy.
    pub(crate) criteria: Option<Criteria>,
    pub(crate) params: Option<ParamRef>,
    pub(crate) actions: Vec<String>,
}

/// Which parameters a binding uses.
pub(crate) struct ParamRef {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) selector: Option<LabelSelector>,
    /// Whether a request is denied if there are none.
    pub(crate) required: bool,
}

/// A policy with its bindings; at least one.
pub(crate) struct Bound {
    pub(crate) policy: Arc<Policy>,
    pub(crate) bindings: Vec<Binding>,
}

/// What the expressions of a policy may refer to, and must return.
#[derive(Clone, Copy)]
struct Allowed {
    /// Conditions and validations.
    condition: Uses,
    variable: Uses,
    annotation: Uses,
    message: Uses,
}

impl Allowed {
    fn of(spec: &Value) -> Self {
        let params = spec.get("paramKind").is_some_and(Value::is_object);
        let uses = |returns| Uses { params, authorizer: true, returns };
        Self {
            condition: uses(Returns::Bool),
            variable: uses(Returns::Anything),
            annotation: uses(Returns::TextOrNull),
            // As upstream.
            message: Uses { authorizer: false, ..uses(Returns::Text) },
        }
    }
}

impl Policy {
    /// Reads a stored policy; nothing if its criteria cannot be read.
    fn of(stored: &Stored) -> Option<Self> {
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
            program: Program::of(spec),
        })
    }
}

fn generation(object: &Value) -> i64 {
    object::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0)
}

impl Program {
    fn of(spec: &Value) -> Result<Self, String> {
        let allowed = Allowed::of(spec);
        let mut variables = Environment::default();
        for variable in items(spec, "variables") {
            let text = |field: &str| object::text(variable, &[field]);
            variables.declare(text("name"), text("expression"), allowed.variable)?;
        }
        let conditions = items(spec, "matchConditions").iter();
        let conditions = conditions.map(|condition| {
            Expression::compile(object::text(condition, &["expression"]), allowed.condition)
        });
        let validations = items(spec, "validations").iter().map(|validation| {
            let text = |field: &str| object::text(validation, &[field]);
            let message = Some(text("messageExpression")).filter(|source| !source.is_empty());
            Ok(Validation {
                expression: variables.compile(text("expression"), allowed.condition)?,
                message: text("message").trim().to_owned(),
                message_expression: message
                    .map(|source| variables.compile(source, allowed.message))
                    .transpose()?,
                reason: text("reason").to_owned(),
            })
        });
        let validations = validations.collect::<Result<_, String>>()?;
        let annotations = items(spec, "auditAnnotations").iter().map(|annotation| {
            let text = |field: &str| object::text(annotation, &[field]);
            Ok((text("key").to_owned(), variables.compile(text("valueExpression"), allowed.annotation)?))
        });
        let annotations = annotations.collect::<Result<_, String>>()?;
        Ok(Self { conditions: conditions.collect::<Result<_, _>>()?, validations, annotations, variables })
    }
}

impl Binding {
    fn of(stored: &Stored) -> Option<Self> {
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

/// All policies that are bound, by name, kept compiled.
pub(crate) struct Policies {
    changes: [watch::Receiver<u64>; 2],
    current: RwLock<Current>,
}

struct Current {
    /// The revisions of the last changes; nothing before the first look.
    seen: Option<[u64; 2]>,
    bound: Arc<Vec<Bound>>,
}

impl Policies {
    pub(crate) fn new(store: &Store) -> Self {
        let changes =
            [POLICIES, BINDINGS].map(|name| store.subscribe(Some(&GroupResource::new(GROUP, name))));
        Self { changes, current: RwLock::new(Current { seen: None, bound: Arc::default() }) }
    }

    /// The policies as they are now.
    pub(crate) fn current(&self, store: &Store) -> Arc<Vec<Bound>> {
        // Before the store is read: a change meanwhile is looked at again the next time.
        let seen = Some([*self.changes[0].borrow(), *self.changes[1].borrow()]);
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.seen == seen {
                return Arc::clone(&current.bound);
            }
        }
        // One request compiles; others that come meanwhile wait for it.
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.seen != seen {
            current.bound = Arc::new(bound(store, &current.bound));
            current.seen = seen;
        }
        Arc::clone(&current.bound)
    }
}

/// Reads all policies that are bound. One that has not changed is not compiled again.
fn bound(store: &Store, before: &[Bound]) -> Vec<Bound> {
    let mut bindings: HashMap<String, Vec<Binding>> = HashMap::new();
    for stored in &store.list(&GroupResource::new(GROUP, BINDINGS), None).items {
        // What cannot be read was rejected when it was written.
        if let Some(binding) = Binding::of(stored) {
            bindings.entry(binding.policy.clone()).or_default().push(binding);
        }
    }
    let policies = store.list(&GroupResource::new(GROUP, POLICIES), None);
    let mut read = |stored: &Arc<Stored>| {
        let bindings = bindings.remove(&stored.key.name)?;
        let head = stored.value.head();
        let is_same =
            |policy: &Policy| policy.uid == object::uid(&head) && policy.generation == generation(&head);
        let known = before.iter().map(|bound| &bound.policy).find(|policy| is_same(policy));
        let policy = known.cloned().or_else(|| Policy::of(stored).map(Arc::new))?;
        Some(Bound { policy, bindings })
    };
    policies.items.iter().filter_map(&mut read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Action, Expect, Key, Storage, Write};

    async fn put(store: &Store, resource: &str, name: &str, value: Value) {
        let key = Key::new(GroupResource::new(GROUP, resource), "", name);
        let expect = store.get(&key).map_or(Expect::Absent, |stored| Expect::Revision(stored.revision));
        store.write(Write { key, expect, action: Action::Put(value), guards: Vec::new() }).await.unwrap();
    }

    #[tokio::test]
    async fn policies_are_compiled_once_and_read_when_they_change() {
        let store = Store::open(&Storage::Memory, 100).unwrap().start(Box::new(|_| {})).unwrap();
        let policies = Policies::new(&store);
        let policy = |generation: i64, expression: &str| {
            json!({
                "metadata": {"name": "p", "uid": "u", "generation": generation},
                "spec": {"matchConstraints": {}, "validations": [{"expression": expression}]},
                "status": {"observedGeneration": generation},
            })
        };
        put(&store, POLICIES, "p", policy(1, "true")).await;
        assert!(policies.current(&store).is_empty(), "it is not bound");
        put(&store, BINDINGS, "b", json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}})).await;
        let first = policies.current(&store);
        assert_eq!(first[0].bindings[0].name, "b");
        put(&store, "others", "o", json!({"metadata": {"name": "o"}})).await;
        assert!(Arc::ptr_eq(&first, &policies.current(&store)), "nothing that matters has changed");
        put(&store, POLICIES, "p", policy(1, "true")).await;
        let second = policies.current(&store);
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&first[0].policy, &second[0].policy));
        put(&store, POLICIES, "p", policy(2, "false && nope")).await;
        let third = policies.current(&store);
        assert!(third[0].policy.program.as_ref().is_err_and(|why| why.contains("nope")));
    }
}
