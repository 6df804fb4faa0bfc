//! What a machine is in its cluster.

/// The role of a machine in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server that initializes the cluster. There is one in the life of a cluster. When other servers serve the
    /// cluster, its plan configures it to join them.
    Init,
    /// A server that joins.
    Server,
    /// A worker.
    Worker,
}

impl Role {
    /// Whether it is part of the control plane.
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Init | Self::Server)
    }
}
