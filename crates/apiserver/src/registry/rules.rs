//! What no schema can say about a kind: a handful of functions and flags per registry entry.

use jiff::Timestamp;
use serde_json::Value;

use super::Registry;
use crate::{
    auth::User,
    status::{Cause, Result},
    verbs::Call,
};

/// What the functions of a kind may look at beside the object.
pub(crate) struct Env<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) now: Timestamp,
    /// Who asks.
    pub(crate) user: &'a User,
}

/// What may stand as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Lower-case words with dots: most kinds.
    Subdomain,
    /// One lower-case word of 63 characters: namespaces.
    Label,
    /// The same, beginning with a letter: versions and other words of CRDs.
    Word,
    /// Anything that fits into a path: RBAC.
    PathSegment,
}

/// The functions and flags of a kind.
pub(crate) struct Rules {
    pub(crate) name: NameRule,
    /// Fills in what upstream's typed defaults fill in; every write and idempotent.
    pub(crate) default: fn(&mut Value),
    /// Prepares a new object.
    pub(crate) on_create: fn(&mut Value, &Env<'_>),
    /// Prepares a change of the main resource; the second is the old object.
    pub(crate) on_update: fn(&mut Value, &Value, &Env<'_>),
    /// Prepares a change of the status; the second is the old object.
    pub(crate) on_status: fn(&mut Value, &Value, &Env<'_>),
    /// What is wrong with the object, given the old one.
    pub(crate) validate: fn(&Value, Option<&Value>) -> Vec<Cause>,
    /// What is wrong with a change of the status, given the old object.
    pub(crate) validate_status: fn(&Value, &Value) -> Vec<Cause>,
    /// Refuses what its sender may not write, although it may write objects of the kind: every create and
    /// change, through any door, before it is looked at whether the object is valid.
    pub(crate) admit: fn(&Call, &Value, Option<&Value>) -> Result<()>,
    /// Refuses a deletion.
    pub(crate) before_delete: fn(&Value) -> Result<()>,
    /// Whether `metadata.generation` counts changes.
    pub(crate) generation: bool,
    /// Whether an update may leave out the resourceVersion.
    pub(crate) unconditional_update: bool,
    /// Whether an update of what is not there makes it.
    pub(crate) create_on_update: bool,
    /// Whether whoever deletes an object gets it back, and not just word that it is gone.
    pub(crate) returned: bool,
    /// Whether a client may create the object with a status.
    pub(crate) status_on_create: bool,
    /// What upstream's typed objects have before anybody fills them in.
    pub(crate) blank: fn() -> Value,
    /// Fields that nobody comes to own by writing the object, where it is not just the status.
    pub(crate) reset: &'static [&'static str],
    /// The same for its status, where it is not just the spec.
    pub(crate) reset_status: &'static [&'static str],
}

/// A path below an object through which a part of it is changed, beside `status` and `scale`.
pub(crate) struct Door {
    /// The last word of the path.
    pub(crate) name: &'static str,
    /// What comes of the object that was sent and the old one: the door decides which parts count.
    pub(crate) merge: fn(&Value, &Value) -> Value,
    /// Prepares the result; the second is the old object.
    pub(crate) prepare: fn(&mut Value, &Value, &Env<'_>),
    /// What is wrong with the result, given the old object.
    pub(crate) validate: fn(&Value, &Value) -> Vec<Cause>,
    /// Fields that nobody comes to own through this door.
    pub(crate) reset: &'static [&'static str],
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
