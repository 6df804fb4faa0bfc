//! Lets MutatingAdmissionPolicies change what is written: which policies and bindings are about it, with which parameters,
//! and what their mutations make of the object.
//!
//! As upstream, criteria and parameters are looked up for the object as it comes; conditions and mutations see what those
//! before them have made of it.

use std::sync::Arc;

use capstan_apiserver_merge::{PatchError, Shape, json_patch, merge_configuration};
use capstan_apiserver_schema::admission::{Authorizer, Budget, Failure, Objects, Session};
use serde_json::Value;

use super::{
    Attempt, access,
    conditions::{self, words},
    matching, params,
    reinvocation::Reinvocation,
    seen,
};
use crate::{
    call::Call,
    object,
    policy::{
        Binding,
        mutating::{Mutation, Mutations, Patch},
    },
    registry::Side,
    status::{ApiError, Result},
    store::Stored,
    validation::{admit, scale},
};

type Policy = crate::policy::Policy<Mutations>;
type Bound = crate::policy_cache::Bound<Mutations>;

/// The largest object between two mutations, in bytes; as large as a request.
const LARGEST: usize = 3 << 20;

/// One policy with one binding and one set of parameters: their names.
type Key = (String, String, String);

/// The account of all policies for one write.
pub(super) type Account = Reinvocation<Key>;

/// Evaluates all policies; gives the object as they leave it and whether any mutation ran, or rejects the write.
pub(super) async fn mutate(
    call: &Call,
    attempt: &Attempt<'_>,
    object: Value,
    account: &mut Account,
) -> Result<(Value, bool)> {
    let bound = call.plane.mutating_policies.current(&call.plane.store);
    if bound.is_empty() {
        return Ok((object, false));
    }
    let mut mutating = Mutating { call, attempt, object, account, ran: false, denied: Vec::new() };
    let mut matched = Vec::new();
    for bound in bound.iter() {
        match matching::meets(call, attempt, &bound.policy.criteria, Some(&mutating.object)) {
            Ok(None) => {}
            // Boxed, so that writes without policies stay small.
            Ok(Some(version)) => matched.extend(Box::pin(mutating.bindings(bound, &version)).await),
            Err(error) => mutating.misconfigured(&bound.policy, None, &error.to_string()),
        }
    }
    for matched in &matched {
        Box::pin(mutating.run(matched)).await?;
    }
    if mutating.ran {
        // As upstream: what wants to see changes runs again, even after its own.
        mutating.account.changed();
    }
    mutating.account.end(Some(&mutating.object));
    if mutating.denied.is_empty() {
        return Ok((mutating.object, mutating.ran));
    }
    Err(ApiError::denied_by_mutation(&call.resource.name, attempt.name, &mutating.denied))
}

/// A binding that is about a write.
struct Matched<'a> {
    policy: &'a Policy,
    program: &'a Mutations,
    binding: &'a Binding,
    /// The version in which the policy sees the object.
    version: String,
    params: Vec<Option<Box<Value>>>,
}

/// A write while policies change it.
struct Mutating<'a> {
    call: &'a Call,
    attempt: &'a Attempt<'a>,
    /// In the version of the request.
    object: Value,
    account: &'a mut Account,
    ran: bool,
    /// Messages of failures that reject the write, with the reason of the status.
    denied: Vec<(String, &'static str)>,
}

/// Why a mutation has no effect.
enum Failed {
    /// The failure policy decides.
    Policy(String),
    /// The write is rejected with this status.
    Status(ApiError),
}

impl Mutating<'_> {
    fn fail(&mut self, policy: &Policy, message: String, reason: &'static str) {
        if policy.ignored {
            tracing::warn!(policy = policy.name, why = %message, "a policy failed and is ignored");
        } else {
            self.denied.push((message, reason));
        }
    }

    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, why: &str) {
        let name = &policy.name;
        let message = match binding {
            None => format!("policy {name:?} denied request: failed to configure policy: {why}"),
            Some(binding) => {
                let binding = &binding.name;
                format!(
                    "policy '{name}' with binding '{binding}' denied request: failed to configure binding: {why}"
                )
            }
        };
        self.fail(policy, message, "Forbidden");
    }

    fn failed(&mut self, matched: &Matched<'_>, why: &str) {
        let (policy, binding) = (&matched.policy.name, &matched.binding.name);
        let message = format!("policy '{policy}' with binding '{binding}' denied request: {why}");
        self.fail(matched.policy, message, "Invalid");
    }

    /// The bindings of a policy that are about the write.
    async fn bindings<'b>(&mut self, bound: &'b Bound, version: &str) -> Vec<Matched<'b>> {
        let crate::policy_cache::Bound { policy, bindings } = bound;
        let (call, attempt) = (self.call, self.attempt);
        let kind = policy.param_kind.as_ref().map(|kind| params::resource(call, kind)).transpose();
        let (kind, program) = match (kind, &policy.program) {
            (Ok(kind), Ok(program)) => (kind, program),
            (Err(why), _) => {
                self.misconfigured(policy, None, &why);
                return Vec::new();
            }
            (_, Err(why)) => {
                self.misconfigured(policy, None, &format!("compilation error: {why}"));
                return Vec::new();
            }
        };
        let mut matched = Vec::new();
        for binding in bindings {
            let met = match &binding.criteria {
                None => Ok(true),
                Some(criteria) => {
                    matching::meets(call, attempt, criteria, Some(&self.object)).map(|met| met.is_some())
                }
            };
            let params = match met {
                Ok(false) => continue,
                Ok(true) => params::of(call, attempt, kind.as_ref(), binding.params.as_ref()).await,
                Err(error) => Err(error.to_string()),
            };
            match params {
                Ok(params) => {
                    let version = version.to_owned();
                    matched.push(Matched { policy, program, binding, version, params });
                }
                Err(why) => self.misconfigured(policy, Some(binding), &why),
            }
        }
        matched
    }

    /// Runs the mutations of a policy for each set of parameters.
    async fn run(&mut self, matched: &Matched<'_>) -> Result<()> {
        let program = matched.program;
        // As upstream, each mutation has a budget; here the sets of parameters share it.
        let mut budgets: Vec<Budget> = program.mutations.iter().map(|_| Budget::default()).collect();
        for params in &matched.params {
            let params = params.as_deref();
            let view = self.view(&matched.version).await?;
            match view.session(|session| conditions::meets(session, &program.common, params)) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    self.failed(matched, &why);
                    continue;
                }
            }
            let identity = |params: &Value| {
                format!("{}/{}", object::meta_str(params, "namespace"), object::name(params))
            };
            let names = (matched.policy.name.clone(), matched.binding.name.clone());
            let key: Key = (names.0, names.1, params.map(identity).unwrap_or_default());
            if self.account.skips(&key) {
                continue;
            }
            let before = self.object.clone();
            let mut view = Some(view);
            for (mutation, budget) in program.mutations.iter().zip(&mut budgets) {
                let view = match view.take() {
                    Some(view) => view,
                    None => self.view(&matched.version).await?,
                };
                let made = match view.patched(program, mutation, params, budget) {
                    Ok((patch, changed)) => self.converted_and_defaulted(&view, &patch, changed).await,
                    Err(why) => Err(Failed::Policy(why)),
                };
                match made {
                    Ok(object) => {
                        self.object = object;
                        self.ran = true;
                    }
                    Err(Failed::Policy(why)) => self.failed(matched, &why),
                    Err(Failed::Status(error)) => return Err(error),
                }
            }
            if self.object != before {
                self.account.changed();
            }
            if program.reinvoked {
                self.account.ran(key);
            }
        }
        Ok(())
    }

    /// What the expressions of a policy see now.
    async fn view(&self, version: &str) -> Result<View> {
        let call = self.call;
        let old = match self.attempt.old {
            Some(old) => Some(seen(call, version, old).await?),
            None => None,
        };
        let namespace = Some(&call.namespace).filter(|namespace| !namespace.is_empty());
        let namespace = namespace.and_then(|namespace| call.plane.namespace(namespace));
        let shape = match call.side {
            Side::Scale => Shape::new(None),
            _ => call.resource.version(version).unwrap_or(&call.version).schema.owner_shape().clone(),
        };
        Ok(View {
            object: seen(call, version, &self.object).await?,
            old,
            request: matching::request(call, self.attempt, version),
            namespace,
            authorizer: access::authorizer(call),
            shape,
        })
    }

    /// An object after a mutation, in the version of the request, with defaults.
    async fn converted_and_defaulted(
        &self,
        view: &View,
        patch: &Patch,
        changed: Value,
    ) -> Result<Value, Failed> {
        let call = self.call;
        if let Side::Scale = call.side {
            return scale::set(call, &self.object, &changed).map_err(Failed::Status);
        }
        for field in ["apiVersion", "kind"] {
            if changed.get(field) != view.object.get(field) {
                let why = format!("the patch of a policy makes another {field} of the object");
                return Err(Failed::Status(ApiError::internal(&why)));
            }
        }
        let changed = call.in_version(&changed, &call.version.name).await.map_err(Failed::Status)?;
        match patch {
            Patch::Json(_) => admit::mutated(call, changed, true, ApiError::internal).map_err(Failed::Status),
            Patch::Configuration(_) => {
                let kind = admit::gvk(&call.api_version(), &call.resource.kind);
                let unreadable = |detail: &str| {
                    ApiError::unexplained(format!(
                        "unable to convert unstructured object to {kind}: {detail}"
                    ))
                };
                let mutated = admit::mutated(call, changed, false, unreadable);
                mutated.map_err(|error| Failed::Policy(error.to_string()))
            }
        }
    }
}

/// What the expressions of a policy see.
struct View {
    object: Value,
    old: Option<Value>,
    request: Value,
    namespace: Option<Arc<Stored>>,
    authorizer: Arc<dyn Authorizer>,
    shape: Shape,
}

impl View {
    fn session<T>(&self, with: impl FnOnce(&Session<'_>) -> T) -> T {
        let objects = Objects {
            object: Some(&self.object),
            old: self.old.as_ref(),
            request: Some(&self.request),
            namespace: self.namespace.as_ref().map(|namespace| &*namespace.value),
            authorizer: Some(Arc::clone(&self.authorizer)),
        };
        Session::run(&objects, with)
    }

    /// The patch that a mutation makes, and the object with it.
    fn patched(
        &self,
        program: &Mutations,
        mutation: &Mutation,
        params: Option<&Value>,
        budget: &mut Budget,
    ) -> Result<(Patch, Value), String> {
        let size = size(&self.object);
        // Expressions see the whole object each time.
        if !budget.take(params::COST + size as u64 / 10) {
            return Err(Failure::Budget.to_string());
        }
        let patch = self.session(|session| {
            session.evaluate(&program.common.variables, params, budget, |evaluator| mutation.patch(evaluator))
        });
        let patch = patch.map_err(|failure| words(&mutation.expression, &failure))?;
        let changed = apply(&self.shape, &self.object, &patch)?;
        if self::size(&changed) > LARGEST {
            return Err(format!("the object would be larger than {LARGEST} bytes"));
        }
        Ok((patch, changed))
    }
}

/// The object with a patch, in upstream's words if there is none.
fn apply(shape: &Shape, object: &Value, patch: &Patch) -> Result<Value, String> {
    match patch {
        Patch::Configuration(configuration) => {
            let mut configuration = configuration.clone();
            for field in ["apiVersion", "kind"] {
                configuration[field] = object.get(field).cloned().unwrap_or_default();
            }
            merge_configuration(shape, object, &configuration)
                .map_err(|error| format!("error applying patch: {error}"))
        }
        Patch::Json(patch) => {
            let mut changed = object.clone();
            match json_patch(&mut changed, patch) {
                // A test that fails is a condition that does not hold.
                Ok(()) | Err(PatchError::TestFailed(_)) => Ok(changed),
                Err(error) => Err(format!("JSON Patch: {error}")),
            }
        }
    }
}

/// About as many bytes as the text of a value has.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_are_applied_or_say_why_not() {
        let list = json!({"type": "array", "items": {"type": "string"}});
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "integer"}, "m": {"type": "integer"}, "list": list,
        }}}});
        let shape = Shape::new(Some(&schema));
        let object = json!({"apiVersion": "v1", "kind": "K", "spec": {"n": 1}});
        let applied = |patch: &Patch| apply(&shape, &object, patch).map(|mut object| object["spec"].take());
        let step = |op: &str, path: &str, value: i64| json!({"op": op, "path": path, "value": value});
        let cases = [
            (Patch::Configuration(json!({"spec": {"m": 2}})), Ok(json!({"n": 1, "m": 2}))),
            // Version and kind are those of the object, whatever the configuration says.
            (Patch::Configuration(json!({"kind": "X", "spec": {"n": 2}})), Ok(json!({"n": 2}))),
            (
                Patch::Configuration(json!({"spec": {"list": ["a"]}})),
                Err(
                    "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
                     .spec.list",
                ),
            ),
            (Patch::Json(json!([step("add", "/spec/m", 2)])), Ok(json!({"n": 1, "m": 2}))),
            // All or nothing.
            (
                Patch::Json(json!([step("add", "/spec/m", 2), step("test", "/spec/n", 5)])),
                Ok(json!({"n": 1})),
            ),
            (
                Patch::Json(json!([step("add", "/spec/x/y", 2)])),
                Err(
                    "JSON Patch: add operation does not apply: doc is missing path: \"/spec/x/y\": missing value",
                ),
            ),
            (
                Patch::Json(json!([step("test", "/spec/x/y", 2)])),
                Err("JSON Patch: test operation does not apply: is missing path: /spec/x/y: missing value"),
            ),
        ];
        for (patch, expected) in cases {
            assert_eq!(applied(&patch), expected.map_err(str::to_owned), "{patch:?}");
        }
    }

    #[test]
    fn sizes_grow_with_values() {
        let text = "x".repeat(100);
        let value = json!({"a": [text, 1, null], "b": {"c": text}});
        let (about, exact) = (size(&value), value.to_string().len());
        assert!(about.abs_diff(exact) < 20, "{about} {exact}");
    }
}
