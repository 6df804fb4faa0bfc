//! etcd: access, members, and the removal of machines. `capstan-planner` decides what is safe.
//!
//! Members are read from etcd itself, never derived from Nodes or labels.

mod act;
mod client;
mod grpc;
mod observe;
mod wire;

pub(crate) use act::{leave, release};
pub use client::EtcdClient;
pub(crate) use observe::{access, ask};
