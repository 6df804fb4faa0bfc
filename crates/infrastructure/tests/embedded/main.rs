//! The controllers on the embedded API server, with hosts whose address, reachability and reset a test sets.

#![allow(clippy::unwrap_used)]

mod addresses;
mod domains;
mod release;
mod yard;
