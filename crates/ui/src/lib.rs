//! Web view of a management plane: clusters, machines, hosts and plans, read-only by default and updated live.
//!
//! Pages are rendered on the server from the structs in [`model`]; a [`Source`] provides them. This crate knows neither
//! Kubernetes nor its objects: it contains the pages, the live updates and the access control.
//!
//! Every text on a page may come from a hostile machine. The template engine escapes every value, the content security
//! policy forbids inline scripts and styles, and every value in a URL is encoded.

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
