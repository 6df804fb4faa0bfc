//! What admission has to know of other objects: the caller reads it, because nothing in here does I/O.

use serde_json::Value;

/// Something that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact<T> {
    /// It could not be read, for this reason. Never the same as absent.
    Unknown(String),
    /// There is none.
    Absent,
    /// It is this.
    Known(T),
}

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Self::Unknown("it was not read".to_owned())
    }
}

impl<T> Fact<T> {
    /// The value, if it is known and there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) | Self::Absent => None,
        }
    }
}

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// An object of a provider, whose version only its CRD knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// Namespace and name.
    pub key: Key,
}

/// What has to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The ClusterClass of a Cluster.
    pub class: Option<Key>,
    /// The ClusterClass that a Cluster had before.
    pub old_class: Option<Key>,
    /// All Clusters with this ClusterClass.
    pub clusters_of: Option<Key>,
    /// The control plane of a Cluster.
    pub control_plane: Option<Reference>,
    /// The workers of the topology of this Cluster.
    pub workers_of: Option<Key>,
    /// The IPAddressClaim of an IPAddress.
    pub claim: Option<Key>,
}

/// The workers of a topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workers {
    /// MachineDeployments that the topology owns.
    pub deployments: Vec<Value>,
    /// MachinePools that the topology owns.
    pub pools: Vec<Value>,
    /// All Machines of the cluster.
    pub machines: Vec<Value>,
}

/// What was read, as objects of the API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The ClusterClass of a Cluster.
    pub class: Fact<Value>,
    /// The ClusterClass that a Cluster had before.
    pub old_class: Fact<Value>,
    /// All Clusters with a ClusterClass.
    pub clusters: Fact<Vec<Value>>,
    /// The control plane of a Cluster.
    pub control_plane: Fact<Value>,
    /// The workers of a topology.
    pub workers: Fact<Workers>,
    /// The IPAddressClaim of an IPAddress.
    pub claim: Fact<Value>,
}
