//! Moves clusters from one management plane to another, or to a folder and back, by the rules of `clusterctl move`.
//!
//! The pure parts: which objects belong to clusters (`kinds`, `graph`), in which order they can be created (`order`),
//! what blocks a move (`check`), how an object changes at the target and whether it has arrived (`copy`), and how both
//! sides are paused (`mark`). The other parts: requests (`plane`, `discover`), steps that all kinds of moves share
//! (`rest`, `arrive`), and the moves (`transfer`, `folder`). This crate must not print, parse arguments, or depend on a
//! provider, except for the fields in which objects name Secrets.
//!
//! Nothing is deleted before everything was created and compared. The process may stop after any write: the same
//! command continues the move, because annotations of the objects record it.

mod arrive;
mod check;
mod copy;
mod discover;
mod error;
mod folder;
mod graph;
mod kinds;
mod mark;
mod order;
mod plane;
mod progress;
mod rest;
mod transfer;

pub use error::Error;
pub use mark::{MOVE, ORIGIN};
pub use plane::MoveEndpoint;
pub use progress::MoveProgress;
pub use transfer::{Transfer, Waits};

pub use folder::{from_folder, to_folder};
