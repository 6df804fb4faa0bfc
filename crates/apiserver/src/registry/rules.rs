//! What no schema can say about a kind: a handful of functions and flags per registry entry.

use jiff::Timestamp;
use serde_json::Value;

use super::Registry;
use crate::status::{Cause, Result};

/// What the functions of a kind may look at beside the object.
pub(crate) struct Env<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) now: Timestamp,
}

/// What may stand as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Lower-case words with dots: most kinds.
    Subdomain,
    /// One lower-case word of 63 characters: namespaces.
    Label,
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
    /// Refuses a deletion.
    pub(crate) before_delete: fn(&Value) -> Result<()>,
    /// Whether `metadata.generation` counts changes.
    pub(crate) generation: bool,
    /// Whether an update may leave out the resourceVersion.
    pub(crate) unconditional_update: bool,
    /// Whether an update of what is not there makes it.
    pub(crate) create_on_update: bool,
    /// Whether a client may create the object with a status.
    pub(crate) status_on_create: bool,
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
        before_delete: |_| Ok(()),
        generation: false,
        unconditional_update: true,
        create_on_update: false,
        status_on_create: false,
    };

    /// What holds for custom resources.
    pub(crate) const CUSTOM: Self = Self { generation: true, unconditional_update: false, ..Self::PLAIN };
}
