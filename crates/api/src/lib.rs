//! All objects that Capstan reads or writes, as Rust types.
//!
//! Contents: the wire types of Cluster API (`cluster.x-k8s.io` and its sibling groups), of Capstan's own providers, of
//! the agent's report and of the runtime hooks; their names, labels and annotations; the rules by which conditions are
//! set and merged; and the CRDs, which are generated from the types.
//!
//! Not allowed here: I/O, reading a clock, and decisions about the desired state of a cluster. This crate uses `kube`
//! only for its derive macro, never for a client, and depends on no other crate of the workspace.
//!
//! Conventions for types:
//!
//! - A field that may be absent is an `Option` (or a `Vec` or map that is skipped when empty), because v1beta2 rejects
//!   zero values: an empty struct or an empty string is not the same as an absent one.
//! - A doc comment is the description that users read in `kubectl explain`. It says what the field is, its unit or
//!   format, its default and which program sets it.
//! - Limits are schema attributes of the field. What the derive macro cannot express, [`crd`] corrects once for all
//!   kinds; what a schema cannot express is a CEL rule.

#![allow(clippy::duplicated_attributes, reason = "printer columns share types and priorities")]

pub mod access;
pub mod addons;
pub mod agent;
pub mod bootstrap;
pub mod clusterctl;
pub mod conditions;
pub mod controlplane;
pub mod core;
pub mod crd;
pub mod declared;
pub mod infrastructure;
pub mod ipam;
pub mod keep;
pub mod meta;
pub mod runtime;
mod schema;
pub mod wait;
