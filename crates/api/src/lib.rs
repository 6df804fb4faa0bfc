//! Every object Capstan reads or writes, as a Rust type.
//!
//! What lives here: the wire types of Cluster API (`cluster.x-k8s.io` and its sibling groups), of Capstan's
//! own providers, of the agent's report and of the runtime hooks; their names, labels and annotations; the
//! rules by which conditions are set and merged; and the CRDs, which are generated from the types.
//!
//! What must not live here: anything that does I/O, reads a clock or decides what a cluster should look
//! like. This crate knows `kube` for its derive only, never for a client, and no other crate of the
//! workspace.
//!
//! How a type is written:
//!
//! - A field that may be absent is an `Option` (or a `Vec` or map that is skipped when empty), because
//!   v1beta2 refuses zero values: an empty struct or an empty string is not the same as none.
//! - A doc comment is the description users read in `kubectl explain`; it says what the field means, in
//!   our words.
//! - Limits stand beside the field as schema attributes. What derive cannot say, [`crd`] corrects, once,
//!   for all kinds; what no schema can say is a CEL rule.

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
