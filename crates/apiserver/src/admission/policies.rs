//! Evaluates ValidatingAdmissionPolicies on a write: which policies and bindings are about it, with which parameters, and
//! what follows from their expressions.

use capstan_apiserver_schema::admission::{Budget, Evaluator, Failure, Objects, Outcome, Session};
use serde_json::{Value, json};

use super::{
    Attempt, access,
    conditions::{self, words},
    matching, params, seen,
};
use crate::{
    call::Call,
    policy::{
        Binding,
        validating::{Validation, Validations},
    },
    status::{ApiError, Result},
};

type Policy = crate::policy::Policy<Validations>;
type Bound = crate::policy_cache::Bound<Validations>;

/// The longest text of a `messageExpression`; as upstream.
const LONGEST_MESSAGE: usize = 5 << 10;
/// The longest value of an audit annotation; as upstream.
const LONGEST_ANNOTATION: usize = 10 << 10;
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Evaluates all policies; gives the warnings, or rejects the write.
pub(super) async fn validate(
    call: &Call,
    attempt: &Attempt<'_>,
    object: Option<&Value>,
) -> Result<Vec<String>> {
    let bound = call.plane.policies.current(&call.plane.store);
    let mut found = Found::default();
    for bound in bound.iter() {
        match matching::meets(call, attempt, &bound.policy.criteria, object) {
            Ok(None) => {}
            Ok(Some(version)) => {
                // Boxed, so that writes without policies stay small.
                Box::pin(evaluate(call, attempt, object, bound, &version, &mut found)).await?;
            }
            Err(error) => found.misconfigured(&bound.policy, None, &error.to_string()),
        }
    }
    found.conclude(call, attempt)
}

/// What a policy says about one set of parameters.
#[derive(Default)]
struct Judgement {
    /// Index of the validation, message, and reason.
    denied: Vec<(usize, String, String)>,
    annotations: Vec<(String, String)>,
    /// Annotations that could not be evaluated.
    broken: Vec<String>,
}

/// What all policies say.
#[derive(Default)]
struct Found {
    /// Message and reason of the first rejection.
    denied: Option<(String, String)>,
    warnings: Vec<String>,
    annotations: Vec<(String, String)>,
}

impl Found {
    fn deny(&mut self, policy: &Policy, binding: Option<&Binding>, message: &str, reason: &str) {
        let binding = binding.map(|binding| format!(" with binding '{}'", binding.name)).unwrap_or_default();
        let message =
            format!("ValidatingAdmissionPolicy '{}'{binding} denied request: {message}", policy.name);
        self.denied.get_or_insert((message, reason.to_owned()));
    }

    fn misconfigured(&mut self, policy: &Policy, binding: Option<&Binding>, why: &str) {
        if policy.ignored {
            tracing::warn!(policy = policy.name, %why, "a policy failed and is ignored");
            return;
        }
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.deny(policy, binding, &format!("failed to configure {what}: {why}"), "");
    }

    /// Takes note of a judgement, as the binding wants.
    fn take(&mut self, policy: &Policy, binding: &Binding, judgement: Judgement) {
        for (index, message, reason) in judgement.denied {
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => self.deny(policy, Some(binding), &message, &reason),
                    "Warn" => self.warnings.push(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                        policy.name, binding.name
                    )),
                    _ => {
                        let failure = json!([{
                            "message": message, "policy": policy.name, "binding": binding.name,
                            "expressionIndex": index, "validationActions": binding.actions,
                        }]);
                        self.annotations.push((FAILURES.to_owned(), failure.to_string()));
                    }
                }
            }
        }
        for why in judgement.broken {
            self.deny(policy, Some(binding), &why, "");
        }
    }

    fn conclude(self, call: &Call, attempt: &Attempt<'_>) -> Result<Vec<String>> {
        call.notes.annotate(self.annotations);
        match self.denied {
            None => Ok(self.warnings),
            Some((message, reason)) => {
                let name = &call.resource.name;
                Err(ApiError::denied_by_policy(name, attempt.name, &reason, &message).warned(self.warnings))
            }
        }
    }
}

/// Evaluates one policy that is about a write.
async fn evaluate(
    call: &Call,
    attempt: &Attempt<'_>,
    object: Option<&Value>,
    bound: &Bound,
    version: &str,
    found: &mut Found,
) -> Result<()> {
    let Bound { policy, bindings } = bound;
    let kind = match policy.param_kind.as_ref().map(|kind| params::resource(call, kind)).transpose() {
        Ok(kind) => kind,
        Err(why) => {
            found.misconfigured(policy, None, &why);
            return Ok(());
        }
    };
    let mut matched = Vec::new();
    for binding in bindings {
        let criteria = binding.criteria.as_ref();
        let met = criteria.map_or(Ok(Some(String::new())), |it| matching::meets(call, attempt, it, object));
        let params = match met {
            Ok(None) => continue,
            Ok(Some(_)) => params::of(call, attempt, kind.as_ref(), binding.params.as_ref()).await,
            Err(error) => Err(error.to_string()),
        };
        match params {
            Ok(params) => matched.push((binding, params)),
            Err(why) => found.misconfigured(policy, Some(binding), &why),
        }
    }
    if matched.iter().all(|(_, params)| params.is_empty()) {
        return Ok(());
    }
    let program = match &policy.program {
        Ok(program) => program,
        Err(why) => {
            found.misconfigured(policy, None, &format!("compilation error: {why}"));
            return Ok(());
        }
    };
    let mut shown = [None, None];
    for (shown, object) in shown.iter_mut().zip([object, attempt.old]) {
        if let Some(object) = object {
            *shown = Some(seen(call, version, object).await?);
        }
    }
    let [object, old] = &shown;
    let request = matching::request(call, attempt, version);
    let namespace = Some(&call.namespace).filter(|namespace| !namespace.is_empty());
    let namespace = namespace.and_then(|namespace| call.plane.namespace(namespace));
    let objects = Objects {
        object: object.as_ref(),
        old: old.as_ref(),
        request: Some(&request),
        namespace: namespace.as_ref().map(|namespace| &*namespace.value),
        authorizer: Some(access::authorizer(call)),
    };
    let mut annotations: Vec<(String, String)> = Vec::new();
    Session::run(&objects, |session| {
        for (binding, params) in matched {
            let mut budget = Budget::default();
            for params in params {
                let mut judgement = if budget.take(params::COST) {
                    judge(session, policy, program, params.as_deref(), &mut budget)
                } else {
                    failed(policy, 0, Failure::Budget.to_string())
                };
                annotations.append(&mut judgement.annotations);
                found.take(policy, binding, judgement);
            }
        }
    });
    found.annotations.extend(combined(&policy.name, &annotations));
    Ok(())
}

/// The annotations of a policy: different values of one key become a list.
fn combined(policy: &str, annotations: &[(String, String)]) -> Vec<(String, String)> {
    let mut combined: Vec<(String, Vec<&str>)> = Vec::new();
    for (key, value) in annotations {
        let key = format!("{policy}/{key}");
        match combined.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) if values.contains(&value.as_str()) => {}
            Some((_, values)) => values.push(value),
            None => combined.push((key, vec![value])),
        }
    }
    combined.into_iter().map(|(key, values)| (key, values.join(", "))).collect()
}

/// What follows if an expression of a policy fails.
fn failed(policy: &Policy, index: usize, why: String) -> Judgement {
    let denied = if policy.ignored { Vec::new() } else { vec![(index, why, String::new())] };
    Judgement { denied, ..Judgement::default() }
}

/// Evaluates the expressions of a policy for one set of parameters.
fn judge(
    session: &Session<'_>,
    policy: &Policy,
    program: &Validations,
    params: Option<&Value>,
    budget: &mut Budget,
) -> Judgement {
    match conditions::meets(session, &program.common, params) {
        Ok(true) => {}
        Ok(false) => return Judgement::default(),
        Err(why) => return failed(policy, 0, why),
    }
    session.evaluate(&program.common.variables, params, budget, |it| {
        let mut judgement = Judgement::default();
        for (index, validation) in program.validations.iter().enumerate() {
            match it.value(&validation.expression) {
                Ok(Outcome::Bool(true)) => {}
                Ok(_) => match message(it, validation) {
                    Ok(message) => judgement.denied.push((index, message, validation.reason.clone())),
                    Err(why) => judgement.denied.append(&mut failed(policy, index, why).denied),
                },
                Err(Failure::Budget) => return failed(policy, 0, Failure::Budget.to_string()),
                Err(failure) => {
                    let why = words(&validation.expression, &failure);
                    judgement.denied.append(&mut failed(policy, index, why).denied);
                }
            }
        }
        for (key, expression) in &program.annotations {
            let value = it.value(expression);
            let why = match &value {
                Ok(Outcome::Text(text)) => {
                    let text = text.trim();
                    if !text.is_empty() {
                        judgement.annotations.push((key.clone(), cut(text, LONGEST_ANNOTATION).to_owned()));
                    }
                    continue;
                }
                Ok(Outcome::Null) => continue,
                Ok(_) => {
                    let source = expression.source();
                    judgement.broken.push(format!(
                        "valueExpression '{source}' resulted in unsupported return type. Return type must be either \
                         string or null."
                    ));
                    continue;
                }
                Err(failure) => words(expression, failure),
            };
            if !policy.ignored {
                judgement.broken.push(why);
            }
        }
        judgement
    })
}

/// Why a validation rejects a request; an error if there is no budget left to say it.
fn message(evaluator: &mut Evaluator<'_>, validation: &Validation) -> Result<String, String> {
    let expressed = validation.message_expression.as_ref().map(|expression| evaluator.value(expression));
    let expressed = match expressed {
        Some(Err(Failure::Budget)) => return Err(format!("failed messageExpression: {}", Failure::Budget)),
        Some(Ok(Outcome::Text(text))) => text,
        _ => String::new(),
    };
    let expressed = expressed.trim();
    let is_fit = !expressed.is_empty() && expressed.len() <= LONGEST_MESSAGE && !expressed.contains('\n');
    Ok(if is_fit {
        expressed.to_owned()
    } else if validation.message.is_empty() {
        format!("failed expression: {}", validation.expression.source().trim())
    } else {
        validation.message.clone()
    })
}

/// The start of a text that has at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = text.char_indices().map(|(at, letter)| at + letter.len_utf8()).take_while(|end| *end <= most);
    &text[..end.last().unwrap_or(0)]
}
