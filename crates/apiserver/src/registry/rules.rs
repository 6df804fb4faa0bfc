//! Behaviour of a kind that its schema cannot express: functions and flags of a registry entry.

use jiff::Timestamp;
use serde_json::Value;

use super::Registry;
use crate::{
    auth::User,
    names::NameRule,
    status::{Cause, Result},
    store::{GroupResource, Store},
};

/// Inputs of the functions of a kind besides the object.
pub(crate) struct Env<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) now: Timestamp,
    /// The user of the request.
    pub(crate) user: &'a User,
}

/// The user of a write and its target, for checks of rights beyond the verb on the resource.
pub(crate) struct Writer<'a> {
    pub(crate) store: &'a Store,
    pub(crate) registry: &'a Registry,
    pub(crate) user: &'a User,
    pub(crate) resource: &'a GroupResource,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) side: Side,
}

/// The functions and flags of a kind.
pub(crate) struct Rules {
    pub(crate) name: NameRule,
    /// Sets upstream's typed defaults. Runs at every write and is idempotent.
    pub(crate) default: fn(&mut Value),
    /// Prepares a new object.
    pub(crate) on_create: fn(&mut Value, &Env<'_>),
    /// Prepares a change of the main resource; the second is the old object.
    pub(crate) on_update: fn(&mut Value, &Value, &Env<'_>),
    /// Prepares a change of the status; the second is the old object.
    pub(crate) on_status: fn(&mut Value, &Value, &Env<'_>),
    /// Validates the object; the second is the old one.
    pub(crate) validate: fn(&Value, Option<&Value>) -> Vec<Cause>,
    /// Validates a change of the status; the second is the old object.
    pub(crate) validate_status: fn(&Value, &Value) -> Vec<Cause>,
    /// Rejects a write for which the user lacks a right beyond the verb on the resource. Runs at every create and update, also
    /// of subresources, before validation.
    pub(crate) admit: fn(&Writer<'_>, &Value, Option<&Value>) -> Result<()>,
    /// The same for the object as it was sent, without the metadata that the server fills in. Runs before the revision is compared.
    pub(crate) admit_sent: fn(&Writer<'_>, &Value, Option<&Value>) -> Result<()>,
    /// Rejects a deletion.
    pub(crate) before_delete: fn(&Value) -> Result<()>,
    /// Whether `metadata.generation` counts changes.
    pub(crate) generation: bool,
    /// Whether an update may omit the resourceVersion.
    pub(crate) unconditional_update: bool,
    /// Whether an update creates an object that does not exist.
    pub(crate) create_on_update: bool,
    /// Whether a delete responds with the object and not with a `Status`.
    pub(crate) returned: bool,
    /// Whether a client may create the object with a status.
    pub(crate) status_on_create: bool,
    /// Fields that upstream's typed objects always have.
    pub(crate) blank: fn() -> Value,
    /// Fields that are not owned by writing the main resource, if that is not only the status.
    pub(crate) reset: &'static [&'static str],
    /// Fields that are not owned by writing the status, if that is not only the spec.
    pub(crate) reset_status: &'static [&'static str],
}

/// A subresource that changes a part of an object, besides `status` and `scale`.
pub(crate) struct Subresource {
    /// The last segment of the path.
    pub(crate) name: &'static str,
    /// Merges the parts of the sent object that the subresource may change into the old one.
    pub(crate) merge: fn(&Value, &Value) -> Value,
    /// Prepares the result; the second is the old object.
    pub(crate) prepare: fn(&mut Value, &Value, &Env<'_>),
    /// Validates the result; the second is the old object.
    pub(crate) validate: fn(&Value, &Value) -> Vec<Cause>,
    /// Fields that are not owned by writing this subresource.
    pub(crate) reset: &'static [&'static str],
}

/// Which side of an object a request is about.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Main,
    Status,
    Scale,
    /// A subresource that only some kinds have.
    Subresource(&'static Subresource),
}

impl Side {
    /// As managed fields call it.
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Subresource(subresource) => subresource.name,
        }
    }

    pub(crate) fn is_main(self) -> bool {
        matches!(self, Self::Main)
    }
}

impl Rules {
    /// What holds for a plain built-in kind.
    pub(crate) const PLAIN: Self = Self {
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
    pub(crate) const CUSTOM: Self = Self { generation: true, unconditional_update: false, ..Self::PLAIN };
}

/// A virtual resource, which stores nothing. [`crate::virtual_resources`] computes the response to a post, or the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Virtual {
    TokenRequest,
    TokenReview,
    SelfSubjectReview,
    SubjectAccessReview,
    LocalSubjectAccessReview,
    SelfSubjectAccessReview,
    SelfSubjectRulesReview,
    /// Can only be read.
    ComponentStatus,
}
