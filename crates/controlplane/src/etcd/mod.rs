//! etcd: how it is reached, and what it can bear.
//!
//! Who is a member is read from etcd itself, never from Nodes or labels.

mod client;
mod grpc;
pub(crate) mod quorum;
mod wire;

pub use client::EtcdClient;
