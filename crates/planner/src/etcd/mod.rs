//! The members of a cluster's etcd, and what they can bear.
//!
//! Who is a member is read from etcd itself, never from Nodes or labels.

pub mod quorum;

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
