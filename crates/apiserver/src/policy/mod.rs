//! Admission policies and their bindings, compiled: validating and mutating ones. [`validation`] finds errors in one;
//! `crate::admission` evaluates them.
//!
//! A write costs no look into the store as long as no policy and no binding changes: the compiled ones are kept, and the
//! store announces changes.

pub(crate) mod mutating;
pub(crate) mod validating;
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

/// What policies of one kind do, compiled.
pub(crate) trait Program: Sized {
    /// Plural of the policies.
    const POLICIES: &'static str;
    /// Plural of the bindings.
    const BINDINGS: &'static str;

    /// Compiles the spec of a policy, or says why it cannot be used.
    fn of(spec: &Value) -> Result<Self, String>;
}

/// What every policy has: its variables, and the conditions under which it is about a request.
pub(crate) struct Common {
    pub(crate) variables: Environment,
    pub(crate) conditions: Vec<Expression>,
}

/// One policy.
pub(crate) struct Policy<P> {
    pub(crate) name: String,
    uid: String,
    generation: i64,
    pub(crate) criteria: Criteria,
    /// Whether errors of the policy admit a request.
    pub(crate) ignored: bool,
    pub(crate) param_kind: Option<ParamKind>,
    /// The expressions, or why they cannot be used.
    pub(crate) program: Result<P, String>,
}

/// The kind of parameters.
pub(crate) struct ParamKind {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// One binding.
pub(crate) struct Binding {
    pub(crate) name: String,
    policy: String,
    /// Narrows the criteria of the policy.
    pub(crate) criteria: Option<Criteria>,
    pub(crate) params: Option<ParamRef>,
    /// What follows from a validation that fails.
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
pub(crate) struct Bound<P> {
    pub(crate) policy: Arc<Policy<P>>,
    pub(crate) bindings: Vec<Binding>,
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
            program: P::of(spec),
        })
    }
}

fn generation(object: &Value) -> i64 {
    object::at(object, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0)
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
pub(crate) struct Policies<P> {
    changes: [watch::Receiver<u64>; 2],
    current: RwLock<Current<P>>,
}

struct Current<P> {
    /// The revisions of the last changes; nothing before the first look.
    seen: Option<[u64; 2]>,
    bound: Arc<Vec<Bound<P>>>,
}

impl<P: Program> Policies<P> {
    pub(crate) fn new(store: &Store) -> Self {
        let changes =
            [P::POLICIES, P::BINDINGS].map(|name| store.subscribe(Some(&GroupResource::new(GROUP, name))));
        Self { changes, current: RwLock::new(Current { seen: None, bound: Arc::new(Vec::new()) }) }
    }

    /// The policies as they are now.
    pub(crate) fn current(&self, store: &Store) -> Arc<Vec<Bound<P>>> {
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
fn bound<P: Program>(store: &Store, before: &[Bound<P>]) -> Vec<Bound<P>> {
    let mut bindings: HashMap<String, Vec<Binding>> = HashMap::new();
    for stored in &store.list(&GroupResource::new(GROUP, P::BINDINGS), None).items {
        // What cannot be read was rejected when it was written.
        if let Some(binding) = Binding::of(stored) {
            bindings.entry(binding.policy.clone()).or_default().push(binding);
        }
    }
    let policies = store.list(&GroupResource::new(GROUP, P::POLICIES), None);
    let mut read = |stored: &Arc<Stored>| {
        let bindings = bindings.remove(&stored.key.name)?;
        let head = stored.value.head();
        let is_same =
            |policy: &Policy<P>| policy.uid == object::uid(&head) && policy.generation == generation(&head);
        let known = before.iter().map(|bound| &bound.policy).find(|policy| is_same(policy));
        let policy = known.cloned().or_else(|| Policy::of(stored).map(Arc::new))?;
        Some(Bound { policy, bindings })
    };
    policies.items.iter().filter_map(&mut read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        validating::{BINDINGS, POLICIES, Validations},
        *,
    };
    use crate::store::{Action, Expect, Key, Storage, Write};

    async fn put(store: &Store, resource: &str, name: &str, value: Value) {
        let key = Key::new(GroupResource::new(GROUP, resource), "", name);
        let expect = store.get(&key).map_or(Expect::Absent, |stored| Expect::Revision(stored.revision));
        store.write(Write { key, expect, action: Action::Put(value), guards: Vec::new() }).await.unwrap();
    }

    #[tokio::test]
    async fn policies_are_compiled_once_and_read_when_they_change() {
        let store = Store::open(&Storage::Memory, 100).unwrap().start(Box::new(|_| {})).unwrap();
        let policies = Policies::<Validations>::new(&store);
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
