//! The members of a workload cluster's etcd, for the controller that adds and removes control plane machines.
//!
//! A trait, because a simulated cluster has a simulated etcd. What is to be done about members is not decided here.

use futures::future::BoxFuture;

use crate::error::Result;

pub use capstan_planner::etcd::{Member, Members};

/// The etcd of a workload cluster, and how to reach it.
#[derive(Clone)]
pub struct Access {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster.
    pub cluster: String,
    /// Addresses of the control plane machines.
    pub addresses: Vec<String>,
    /// Operating systems of the control plane machines, as far as they are reported.
    pub os_images: Vec<String>,
    /// Certificate of the CA that signs members and clients, in PEM.
    pub ca: Vec<u8>,
    /// Private key of that CA, in PEM.
    pub ca_key: Vec<u8>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Access({}/{} at {:?})", self.namespace, self.cluster, self.addresses)
    }
}

/// Requests to the etcd of a workload cluster.
pub trait Etcd: Send + Sync + 'static {
    /// The members. An error means that they are unknown: etcd has no quorum or cannot be reached.
    fn members<'a>(&'a self, access: &'a Access) -> BoxFuture<'a, Result<Members>>;

    /// Has another member lead. Asked of the one that leads.
    fn move_leader<'a>(
        &'a self,
        access: &'a Access,
        from: &'a Member,
        to: &'a Member,
    ) -> BoxFuture<'a, Result<()>>;

    /// Removes a member. One that is gone already is no error.
    fn remove<'a>(&'a self, access: &'a Access, member: &'a Member) -> BoxFuture<'a, Result<()>>;
}
