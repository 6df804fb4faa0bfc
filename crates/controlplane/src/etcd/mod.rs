//! etcd: how it is reached. What it can bear is decided by `capstan-planner`.
//!
//! Who is a member is read from etcd itself, never from Nodes or labels.

mod client;
mod grpc;
mod wire;

pub use client::EtcdClient;
