//! How far a move is, for whoever watches.

use std::fmt;

/// One step that has been taken, or one wait that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// What there is to be moved.
    Found {
        /// Clusters among them.
        clusters: usize,
        /// All objects.
        objects: usize,
    },
    /// An earlier run began it.
    Resumed,
    /// Nobody touches the objects at the source any more.
    Paused,
    /// These must say first that they can be moved.
    Blocked(Vec<String>),
    /// These have not said that they are paused, and are not waited for any longer.
    Unsettled(usize),
    /// So many objects of so many are at the target.
    Made(usize, usize),
    /// So many objects at the target are what they are at the source.
    Verified(usize),
    /// So many objects of so many are gone from the source.
    Deleted(usize, usize),
    /// These are looked after again.
    Released(Vec<String>),
    /// So many objects were there already and were left as they are.
    Left(usize),
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { clusters, objects } => {
                write!(f, "found {objects} objects, {clusters} of them Clusters")
            }
            Self::Resumed => f.write_str("going on with a move that was begun before"),
            Self::Paused => f.write_str("paused"),
            Self::Blocked(objects) => write!(f, "waiting until these can be moved: {}", objects.join(", ")),
            Self::Unsettled(objects) => {
                write!(f, "{objects} objects do not say that they are paused (no manager there?): going on")
            }
            Self::Made(done, all) => write!(f, "made {done} of {all} objects"),
            Self::Verified(objects) => write!(f, "compared {objects} objects: all are there, and equal"),
            Self::Deleted(done, all) => write!(f, "deleted {done} of {all} objects at the source"),
            Self::Released(objects) => write!(f, "resumed {}", objects.join(", ")),
            Self::Left(objects) => write!(f, "{objects} objects were there already and are left as they are"),
        }
    }
}
