//! Managed topologies: what a ClusterClass, its templates and `spec.topology` of a Cluster say about the objects of the
//! cluster.
//!
//! | module | content |
//! |---|---|
//! | [`variables`] | schemas of variables; defaults, validation and `builtin` |
//! | [`patches`] | patches of a class: selection, values, order, what they cannot change |
//! | [`blueprint`], [`state`] | what a cluster is made from; the objects that exist and that should |
//! | [`desired`] | the objects of a cluster |
//! | [`upgrade`] | upgrade plans, and the version of each object now |
//! | [`rotation`], [`intent`] | what changes: comparison by content, new templates |
//! | [`validation`] | what is wrong with a class or a topology, and whether a cluster can change its class |
//! | [`names`], [`metadata`], [`contract`] | names, labels, annotations, the contract of control plane providers |
//! | `gotemplate` | Go templates with limits |
//!
//! Data in, data out: nothing here does I/O, reads a clock or makes random numbers, and objects are JSON or types of
//! `capstan-api`. What must not live here: Kubernetes libraries, requests to runtime extensions, conditions. The
//! controllers of core use it.

pub mod blueprint;
pub mod contract;
pub mod desired;
pub mod field;
#[cfg(test)]
mod fixtures;
mod gotemplate;
pub mod intent;
pub mod metadata;
pub mod names;
mod object;
pub mod patches;
pub mod rotation;
pub mod state;
pub mod upgrade;
pub mod validation;
pub mod variables;

pub use capstan_apiserver_schema::{ErrorKind, FieldError};
pub use gotemplate::TemplateError;
