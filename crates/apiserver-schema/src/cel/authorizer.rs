//! The variable `authorizer`: questions about access that an expression puts together step by step, and the decision.
//! The answers come from the caller ([`Authorizer`]).

use super::budget;
use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, Value as Cel};
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;

/// The variable.
pub(super) const NAME: &str = "authorizer";
/// The functions of the variable and of what they return.
pub(super) const FUNCTIONS: [&str; 14] = [
    "allowed",
    "check",
    "error",
    "errored",
    "fieldSelector",
    "group",
    "labelSelector",
    "name",
    "namespace",
    "path",
    "reason",
    "resource",
    "serviceAccount",
    "subresource",
];
/// What one check costs; as upstream.
const CHECK: u64 = 350_000;

/// Decides whether a user has access.
pub trait Authorizer: Debug + Send + Sync {
    /// Answers a question.
    fn decide(&self, question: &Question) -> Decision;
}

/// A question about access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// Namespace and name of a service account; without it, the user of the request.
    pub service_account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// A path that is not a resource.
    pub path: Option<String>,
    /// The group of the resource.
    pub group: String,
    /// The resource, in plural.
    pub resource: String,
    /// The subresource; may be empty.
    pub subresource: String,
    /// The namespace; may be empty.
    pub namespace: String,
    /// The name; may be empty.
    pub name: String,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the user has access.
    pub allowed: bool,
    /// Why; may be empty.
    pub reason: String,
}

/// Which functions a question has next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
}

#[derive(Clone, Debug)]
struct Asking {
    authorizer: Arc<dyn Authorizer>,
    question: Question,
    stage: Stage,
}

impl PartialEq for Asking {
    fn eq(&self, other: &Asking) -> bool {
        self.question == other.question && self.stage == other.stage
    }
}

impl Eq for Asking {}

impl Opaque for Asking {
    fn runtime_type_name(&self) -> &str {
        match self.stage {
            Stage::Authorizer => "kubernetes.authorization.Authorizer",
            Stage::Path => "kubernetes.authorization.PathCheck",
            Stage::Group => "kubernetes.authorization.GroupCheck",
            Stage::Resource => "kubernetes.authorization.ResourceCheck",
        }
    }
}

impl Opaque for Decision {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.authorization.Decision"
    }
}

/// The value of `authorizer`.
pub(super) fn root(authorizer: &Arc<dyn Authorizer>) -> Cel {
    let authorizer = Arc::clone(authorizer);
    Cel::Opaque(Arc::new(Asking { authorizer, question: Question::default(), stage: Stage::Authorizer }))
}

/// The value of `authorizer.requestResource`.
pub(super) fn request_resource(authorizer: &Arc<dyn Authorizer>, request: &Value) -> Cel {
    let text =
        |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string();
    let question = Question {
        group: text("/requestResource/group"),
        resource: text("/requestResource/resource"),
        subresource: text("/requestSubResource"),
        namespace: text("/namespace"),
        name: text("/name"),
        ..Question::default()
    };
    Cel::Opaque(Arc::new(Asking { authorizer: Arc::clone(authorizer), question, stage: Stage::Resource }))
}

fn asking(value: &Cel, stages: &[Stage]) -> Result<Asking, ExecutionError> {
    let Cel::Opaque(value) = value else { return Err(ExecutionError::NoSuchOverload) };
    let found = value.downcast_ref::<Asking>().filter(|asking| stages.contains(&asking.stage));
    found.cloned().ok_or(ExecutionError::NoSuchOverload)
}

fn decision(value: &Cel) -> Result<Decision, ExecutionError> {
    let Cel::Opaque(value) = value else { return Err(ExecutionError::NoSuchOverload) };
    value.downcast_ref::<Decision>().cloned().ok_or(ExecutionError::NoSuchOverload)
}

/// A step from one stage to the next that takes a text.
fn step(context: &mut Context<'_>, name: &str, from: Stage, to: Stage, set: fn(&mut Question, String)) {
    context.add_function(name, move |This(this): This<Cel>, text: Arc<String>| {
        let mut next = asking(&this, &[from])?;
        set(&mut next.question, text.to_string());
        next.stage = to;
        Ok::<Cel, ExecutionError>(Cel::Opaque(Arc::new(next)))
    });
}

pub(super) fn register(context: &mut Context<'_>) {
    use Stage::{Authorizer, Group, Path, Resource};
    step(context, "path", Authorizer, Path, |question, text| question.path = Some(text));
    step(context, "group", Authorizer, Group, |question, text| question.group = text);
    step(context, "resource", Group, Resource, |question, text| question.resource = text);
    step(context, "subresource", Resource, Resource, |question, text| question.subresource = text);
    step(context, "namespace", Resource, Resource, |question, text| question.namespace = text);
    step(context, "name", Resource, Resource, |question, text| question.name = text);
    // RBAC does not look at selectors.
    step(context, "fieldSelector", Resource, Resource, |_, _| {});
    step(context, "labelSelector", Resource, Resource, |_, _| {});
    context.add_function(
        "serviceAccount",
        |This(this): This<Cel>, namespace: Arc<String>, name: Arc<String>| {
            let mut next = asking(&this, &[Authorizer])?;
            next.question.service_account = Some((namespace.to_string(), name.to_string()));
            Ok::<Cel, ExecutionError>(Cel::Opaque(Arc::new(next)))
        },
    );
    context.add_function("check", |This(this): This<Cel>, verb: Arc<String>| {
        let asked = asking(&this, &[Path, Resource])?;
        budget::spend(CHECK)?;
        let question = Question { verb: verb.to_string(), ..asked.question };
        Ok::<Cel, ExecutionError>(Cel::Opaque(Arc::new(asked.authorizer.decide(&question))))
    });
    context.add_function("allowed", |This(this): This<Cel>| decision(&this).map(|it| it.allowed));
    context.add_function("reason", |This(this): This<Cel>| decision(&this).map(|it| Arc::new(it.reason)));
    // RBAC reports what it cannot resolve as a reason.
    context.add_function("errored", |This(this): This<Cel>| decision(&this).map(|_| false));
    context.add_function("error", |This(this): This<Cel>| decision(&this).map(|_| Arc::new(String::new())));
}
