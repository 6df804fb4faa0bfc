//! The rules of conditions, as tables by topic, and as laws that hold for arbitrary input.
mod access;
mod aggregate;
mod external;
mod fixtures;
mod laws;
mod merge_laws;
mod message;
mod mirror;
mod patch;
mod set;
mod summary;
