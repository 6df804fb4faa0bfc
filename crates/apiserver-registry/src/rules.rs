//! Behaviour of a kind that its schema cannot express: functions and flags of a registry entry.

use jiff::Timestamp;
use serde_json::Value;

use super::Registry;
use crate::{
    names::NameRule,
    rbac::{Access, Rule},
    status::{Cause, Result},
    store::{GroupResource, Store},
    user::User,
};

/// Inputs of the functions of a kind besides the object.
pub struct Env<'a> {
    /// All resources.
    pub registry: &'a Registry,
    /// The present time.
    pub now: Timestamp,
    /// The user of the request.
    pub user: &'a User,
}

/// Answers about the rights of the user of a write.
pub trait Authorizer {
    /// Whether the user may do this.
    fn allows(&self, access: &Access<'_>) -> bool;

    /// The rules that hold for the user in a namespace, or everywhere if it is empty.
    fn rules(&self, namespace: &str) -> Vec<Rule>;
}

/// The user of a write and its target, for checks of rights beyond the verb on the resource.
pub struct Writer<'a> {
    /// The rights of the user.
    pub authorizer: &'a dyn Authorizer,
    /// Objects that the written one refers to.
    pub store: &'a Store,
    /// All resources.
    pub registry: &'a Registry,
    /// The user of the request.
    pub user: &'a User,
    /// The resource that is written.
    pub resource: &'a GroupResource,
    /// The namespace of the object; empty if it is in none.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// The side of the object that is written.
    pub side: Side,
}

/// The functions and flags of a kind.
pub struct Rules {
    /// The syntax of names.
    pub name: NameRule,
    /// Sets upstream's typed defaults. Runs at every write and is idempotent.
    pub default: fn(&mut Value),
    /// Prepares a new object.
    pub on_create: fn(&mut Value, &Env<'_>),
    /// Prepares a change of the main resource; the second is the old object.
    pub on_update: fn(&mut Value, &Value, &Env<'_>),
    /// Prepares a change of the status; the second is the old object.
    pub on_status: fn(&mut Value, &Value, &Env<'_>),
    /// Validates the object; the second is the old one.
    pub validate: fn(&Value, Option<&Value>) -> Vec<Cause>,
    /// Validates a change of the status; the second is the old object.
    pub validate_status: fn(&Value, &Value) -> Vec<Cause>,
    /// Rejects a write for which the user lacks a right beyond the verb on the resource. Runs at every create and update, also
    /// of subresources, before validation.
    pub admit: fn(&Writer<'_>, &Value, Option<&Value>) -> Result<()>,
    /// The same for the object as it was sent, without the metadata that the server fills in. Runs before the revision is compared.
    pub admit_sent: fn(&Writer<'_>, &Value, Option<&Value>) -> Result<()>,
    /// Rejects a deletion.
    pub before_delete: fn(&Value) -> Result<()>,
    /// Whether `metadata.generation` counts changes.
    pub generation: bool,
    /// Whether an update may omit the resourceVersion.
    pub unconditional_update: bool,
    /// Whether an update creates an object that does not exist.
    pub create_on_update: bool,
    /// Whether a delete responds with the object and not with a `Status`.
    pub returned: bool,
    /// Whether a client may create the object with a status.
    pub status_on_create: bool,
    /// Fields that upstream's typed objects always have.
    pub blank: fn() -> Value,
    /// Fields that are not owned by writing the main resource, if that is not only the status.
    pub reset: &'static [&'static str],
    /// Fields that are not owned by writing the status, if that is not only the spec.
    pub reset_status: &'static [&'static str],
}

/// A subresource that changes a part of an object, besides `status` and `scale`.
pub struct Subresource {
    /// The last segment of the path.
    pub name: &'static str,
    /// Merges the parts of the sent object that the subresource may change into the old one.
    pub merge: fn(&Value, &Value) -> Value,
    /// Prepares the result; the second is the old object.
    pub prepare: fn(&mut Value, &Value, &Env<'_>),
    /// Validates the result; the second is the old object.
    pub validate: fn(&Value, &Value) -> Vec<Cause>,
    /// Fields that are not owned by writing this subresource.
    pub reset: &'static [&'static str],
}

/// Which side of an object a request is about.
#[derive(Clone, Copy)]
pub enum Side {
    /// The object itself.
    Main,
    /// Its status.
    Status,
    /// Its scale.
    Scale,
    /// A subresource that only some kinds have.
    Subresource(&'static Subresource),
}

impl Side {
    /// As managed fields call it.
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Subresource(subresource) => subresource.name,
        }
    }

    /// Whether it is the object itself.
    pub fn is_main(self) -> bool {
        matches!(self, Self::Main)
    }
}

impl Rules {
    /// What holds for a plain built-in kind.
    pub const PLAIN: Self = Self {
        name: NameRule::Subdomain,
        default: |_| {},
        on_create: |_, _| {},
        on_update: |_, _, _| {},
        on_status: |_, _, _| {},
        validate: |_, _| Vec::new(),
        validate_status: |_, _| Vec::new(),
        admit: |_, _, _| Ok(()),
        admit_sent: |_, _, _| Ok(()),
        before_delete: |_| Ok(()),
        generation: false,
        unconditional_update: true,
        create_on_update: false,
        returned: false,
        blank: || Value::Null,
        status_on_create: false,
        reset: &[],
        reset_status: &[],
    };

    /// What holds for custom resources.
    pub const CUSTOM: Self = Self { generation: true, unconditional_update: false, ..Self::PLAIN };
}

/// A virtual resource, which stores nothing: the server computes the response to a post, or the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Virtual {
    /// Issues a token for a ServiceAccount.
    TokenRequest,
    /// Says which user a token is for.
    TokenReview,
    /// Says which user the client is.
    SelfSubjectReview,
    /// Says whether a user may do something.
    SubjectAccessReview,
    /// The same, in one namespace.
    LocalSubjectAccessReview,
    /// Says whether the client may do something.
    SelfSubjectAccessReview,
    /// Lists what the client may do in a namespace.
    SelfSubjectRulesReview,
    /// Can only be read.
    ComponentStatus,
}
