//! Web view of a management plane: a read-only picture of clusters, machines, hosts and plans, updated live.
//!
//! Pages are rendered on the server from the structs in [`model`]; a [`Source`] fills them. This crate knows neither
//! Kubernetes nor the objects: it holds the pages, the live updates and who may see and do what.
//!
//! Everything that a page shows may come from a hostile machine. The template engine escapes every value, the content
//! security policy allows no inline script or style, and no value becomes part of a URL without being encoded.

mod access;
mod action;
#[cfg(test)]
mod hostile;
mod live;
pub mod model;
mod pages;
mod render;
mod server;
mod source;

pub use access::LoginLink;
pub use action::{Action, Target, UnknownAction};
pub use server::{Options, Server};
pub use source::{Filter, Problem, Source};
