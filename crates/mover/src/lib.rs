//! Moves clusters from one management plane to another, or to a folder and back, by the rules of `clusterctl move`.
//!
//! What lives here: which objects belong to clusters (`kinds`, `graph`), in which order they can be made (`order`), why
//! a move must not begin (`check`), what an object becomes at the target and whether it has arrived (`copy`), how both
//! sides are kept still (`mark`): all pure. Around that the requests (`plane`, `discover`), what all ways share (`rest`,
//! `arrive`), and the ways to go (`transfer`, `folder`). What must not: printing, arguments, and anything a certain
//! provider knows, except by which fields objects name Secrets.
//!
//! Nothing is deleted before everything has been made and compared. Every write can be the last one: who runs the same
//! move again goes on with it, because what is on its way says so itself, in annotations.

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
