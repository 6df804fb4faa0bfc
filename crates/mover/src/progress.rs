//! The progress of a move, for users.

use std::fmt;

/// Progress of a move: a step that was taken, or a wait that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveProgress {
    /// The objects to move.
    Found {
        /// Clusters among them.
        clusters: usize,
        /// All objects.
        objects: usize,
    },
    /// An earlier run is continued.
    Resumed,
    /// The objects at the source are paused.
    Paused,
    /// These objects block the move until their provider removes an annotation.
    Blocked(Vec<String>),
    /// This number of objects does not have the condition `Paused`, and is no longer waited for.
    NotPaused(usize),
    /// Number of objects that exist at the target, of all.
    Made(usize, usize),
    /// Number of objects that are equal at source and target.
    Verified(usize),
    /// Number of objects that are deleted at the source, of all.
    Deleted(usize, usize),
    /// The pause of these objects has ended.
    Released(Vec<String>),
    /// Number of objects that existed and were left unchanged.
    Left(usize),
}

impl fmt::Display for MoveProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { clusters, objects } => {
                write!(f, "found {objects} objects, {clusters} of them Clusters")
            }
            Self::Resumed => f.write_str("going on with a move that was begun before"),
            Self::Paused => f.write_str("paused"),
            Self::Blocked(objects) => write!(f, "waiting until these can be moved: {}", objects.join(", ")),
            Self::NotPaused(objects) => {
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
