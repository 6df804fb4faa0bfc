//! The protobuf form of Kubernetes objects: decoded to JSON, and encoded from JSON.
//!
//! Driven by facts about the messages ([`facts`]), not by code for each of them; writing is the inverse of reading.
//! Clients in Go send and prefer this form for the kinds that they know as types.
//!
//! This crate must not contain I/O, HTTP, or which kinds are served.

mod decode;
mod duration;
mod encode;
mod facts;
mod list;
mod wire;

#[cfg(test)]
mod round_trips;

pub use decode::{DecodeError, decode};
pub use encode::{EncodeError, Kind, encode, watch_frame};
pub use list::List;

/// What every object begins with.
const MAGIC: &[u8] = b"k8s\0";
/// CRDs nest their schemas; nothing nests deeper than this.
const DEEPEST: usize = 64;
