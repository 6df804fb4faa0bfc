//! Admission of Cluster API's core objects: defaults that depend on the object before, and rules that the schemas of the
//! CRDs and their CEL rules cannot express. These are the defaults and rules of upstream's webhooks.
//!
//! | module | content |
//! |---|---|
//! | [`kind`] | the kinds, and which operations are seen |
//! | [`facts`] | what has to be read for a decision, and what was found; *unknown* is a value of its own |
//! | `replicas`, `selector`, `template` | parts that several kinds share |
//! | `machine`, `machine_set`, … | one module for each kind |
//!
//! Data in, data out. What must not live here: I/O, clocks, Kubernetes clients, the form of an AdmissionReview.
//!
//! [`default`] runs before the schema is checked, on JSON that may have any shape: what it does not understand stays, and
//! the schema rejects it. [`validate`] runs afterwards.

mod cluster;
mod cluster_class;
mod extension_config;
pub mod facts;
mod health_check;
mod ip_address;
pub mod kind;
mod machine;
mod machine_deployment;
mod machine_pool;
mod machine_set;
mod object;
mod replicas;
mod selector;
mod selectors;
mod template;

pub use capstan_topology::{ErrorKind, FieldError};
pub use cluster::is_reconciled;
pub use facts::{Fact, Facts, Key, Needs, Reference, Workers};
pub use kind::{Kind, Operation};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Where most kinds have their label selector.
const SELECTOR: &[&str] = &["spec", "selector"];

/// A write.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The kind of the object.
    pub kind: Kind,
    /// What is done.
    pub operation: Operation,
    /// The object before. `None` for a create.
    pub old: Option<&'a Value>,
    /// The object as it will be. `None` for a delete.
    pub new: Option<&'a Value>,
}

/// Why a write is rejected.
#[derive(Clone, Debug, PartialEq)]
pub enum Rejection {
    /// Fields are wrong. Never empty.
    Invalid(Vec<FieldError>),
    /// The operation is not allowed now.
    Forbidden(String),
    /// It is not known whether the operation is allowed.
    Unknown(String),
}

impl From<Vec<FieldError>> for Rejection {
    fn from(errors: Vec<FieldError>) -> Self {
        Self::Invalid(errors)
    }
}

/// Returns what [`default`] must know of other objects.
pub fn needs_of_default(write: &Write<'_>) -> Needs {
    match write.kind {
        Kind::Cluster => cluster::needs_of_default(write),
        _ => Needs::default(),
    }
}

/// Returns what [`validate`] must know of other objects.
pub fn needs_of_validate(write: &Write<'_>) -> Needs {
    match write.kind {
        _ if is_only_let_go(write) => Needs::default(),
        Kind::Cluster => cluster::needs_of_validate(write),
        Kind::ClusterClass => cluster_class::needs(write),
        Kind::IpAddress => ip_address::needs(write),
        _ => Needs::default(),
    }
}

/// The object of a write with its defaults, and warnings. Nothing if there is nothing to change.
///
/// # Errors
/// If the defaults cannot be determined from what the object says.
pub fn default(write: &Write<'_>, facts: &Facts) -> Result<(Option<Value>, Vec<String>), Rejection> {
    let Some(new) = write.new.filter(|new| object::at(new, &["spec"]).is_some_and(Value::is_object)) else {
        return Ok((None, Vec::new()));
    };
    if is_only_let_go(write) {
        return Ok((None, Vec::new()));
    }
    let mut changed = new.clone();
    let errors = match write.kind {
        Kind::Cluster => cluster::default(&mut changed, write.old, facts),
        Kind::Machine => machine::default(&mut changed),
        Kind::MachineSet => machine_set::default(&mut changed, write.old),
        Kind::MachineDeployment => machine_deployment::default(&mut changed, write.old),
        Kind::MachinePool => machine_pool::default(&mut changed, write.old),
        Kind::MachineHealthCheck => health_check::default(&mut changed),
        Kind::ExtensionConfig => extension_config::default(&mut changed),
        // The schema has the default of ClusterResourceSets; the others have none.
        Kind::ClusterClass
        | Kind::MachineDrainRule
        | Kind::ClusterResourceSet
        | Kind::ClusterResourceSetBinding
        | Kind::IpAddress => return Ok((None, Vec::new())),
    };
    match errors.is_empty() {
        true => Ok(((changed != *new).then_some(changed), Vec::new())),
        false => Err(errors.into()),
    }
}

/// Checks a write whose object has passed the schema. Returns warnings.
///
/// # Errors
/// If the write is rejected.
pub fn validate(write: &Write<'_>, facts: &Facts) -> Result<Vec<String>, Rejection> {
    if write.operation == Operation::Delete {
        return match (write.kind, write.old) {
            (Kind::ClusterClass, Some(old)) => cluster_class::delete(old, facts).map(|()| Vec::new()),
            _ => Ok(Vec::new()),
        };
    }
    let Some(new) = write.new.filter(|_| !is_only_let_go(write)) else { return Ok(Vec::new()) };
    let mut warnings = Vec::new();
    let errors = match write.kind {
        Kind::Cluster => cluster::validate(new, write.old, facts, &mut warnings)?,
        Kind::ClusterClass => cluster_class::validate(new, write.old, facts)?,
        Kind::Machine => machine::validate(&read(new)?),
        Kind::MachineSet => machine_set::validate(&read(new)?, &selector::read(new, SELECTOR)),
        Kind::MachineDeployment => machine_deployment::validate(&read(new)?, &selector::read(new, SELECTOR)),
        Kind::MachinePool => machine_pool::validate(&read(new)?),
        Kind::MachineHealthCheck => health_check::validate(&read(new)?, &selector::read(new, SELECTOR)),
        Kind::MachineDrainRule => selectors::drain_rule(new),
        Kind::ClusterResourceSet => selectors::resource_set(new),
        Kind::ExtensionConfig => extension_config::validate(new),
        Kind::IpAddress => ip_address::validate(new, facts),
        // The schema has every rule.
        Kind::ClusterResourceSetBinding => Vec::new(),
    };
    match errors.is_empty() {
        true => Ok(warnings),
        false => Err(errors.into()),
    }
}

/// Whether an object that is being deleted keeps its spec: its finalizers must come off, whatever is wrong with it.
fn is_only_let_go(write: &Write<'_>) -> bool {
    let (Some(old), Some(new)) = (write.old, write.new) else { return false };
    object::at(old, &["metadata", "deletionTimestamp"]).is_some() && old.get("spec") == new.get("spec")
}

/// An object as a type.
fn read<T: DeserializeOwned>(object: &Value) -> Result<T, Rejection> {
    T::deserialize(object).map_err(|error| {
        vec![capstan_topology::field::internal("<nil>", format!("the object cannot be read: {error}"))].into()
    })
}
