//! The controllers on the embedded API server, with hosts whose address, reachability and reset a test sets.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod addresses;
mod domains;
mod events;
mod release;
mod wakes;
mod yard;
