//! The members of a workload cluster's etcd, as whoever adds and removes control plane machines sees them.
//!
//! A trait, because a simulated cluster has a simulated etcd. What is to be done about members is not decided here.

use futures::future::BoxFuture;

use crate::error::Result;

/// Which etcd, and how it is reached.
#[derive(Clone)]
pub struct Access {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster.
    pub cluster: String,
    /// Addresses of its control plane machines.
    pub addresses: Vec<String>,
    /// Their operating systems, as far as they have said them.
    pub os_images: Vec<String>,
    /// Certificate of the authority that signs members and clients, as PEM.
    pub ca: Vec<u8>,
    /// Its key, as PEM.
    pub ca_key: Vec<u8>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Access({}/{} at {:?})", self.namespace, self.cluster, self.addresses)
    }
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its identity.
    pub id: u64,
    /// Its name; empty until it has been started for the first time.
    pub name: String,
    /// Where other members reach it, as URLs.
    pub peer_urls: Vec<String>,
    /// Where clients reach it, as URLs; none until it has been started for the first time.
    pub client_urls: Vec<String>,
    /// Whether it has no vote yet.
    pub is_learner: bool,
    /// Whether it answers, knows a leader, and has no complaint.
    pub is_healthy: bool,
}

/// The members, at one moment, as a quorum of them says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// All of them.
    pub members: Vec<Member>,
    /// Who leads, if anybody does.
    pub leader: Option<u64>,
}

/// Asks and changes etcd.
pub trait Etcd: Send + Sync + 'static {
    /// The members. An error means that nobody knows: no quorum, or no way there.
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
