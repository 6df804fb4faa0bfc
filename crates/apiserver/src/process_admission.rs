//! Admission by the process that the server runs in, for kinds that the process knows and this server does not.

use futures::future::BoxFuture;
use serde_json::Value;

use crate::status::Result;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is updated, patched or applied.
    Update,
    /// An object is deleted.
    Delete,
}

impl Operation {
    /// As reviews of webhooks write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A write of a custom resource.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionRequest<'a> {
    /// What is done.
    pub operation: Operation,
    /// The API group.
    pub group: &'a str,
    /// The version of the request, in which the objects are.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The namespace, or an empty text.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
    /// The object as it will be. `None` for a delete.
    pub object: Option<&'a Value>,
    /// The object before. `None` for a create.
    pub old: Option<&'a Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}

/// An object that mutation has passed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutated {
    /// The object, if it was changed.
    pub object: Option<Value>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Admission of custom resources by the process.
pub trait Admission: Send + Sync {
    /// Whether [`Admission::mutate`] is called for a kind.
    fn mutates(&self, group: &str, kind: &str, operation: Operation) -> bool;

    /// Whether [`Admission::validate`] is called for a kind.
    fn validates(&self, group: &str, kind: &str, operation: Operation) -> bool;

    /// Changes an object before the schema is checked, or rejects the write.
    fn mutate<'a>(&'a self, request: AdmissionRequest<'a>) -> BoxFuture<'a, Result<Mutated>>;

    /// Checks a write after the schema and policies. Returns warnings.
    fn validate<'a>(&'a self, request: AdmissionRequest<'a>) -> BoxFuture<'a, Result<Vec<String>>>;
}
