//! etcd: how it is reached, who its members are, and how a machine leaves it. What it can bear is decided by
//! `capstan-planner`.
//!
//! Who is a member is read from etcd itself, never from Nodes or labels.

mod act;
mod client;
mod grpc;
mod observe;
mod wire;

pub(crate) use act::{leave, release};
pub use client::EtcdClient;
pub(crate) use observe::{access, ask};
