//! The tests of this crate are one program, because linking one for each file takes minutes. `simulation` is its own: a suite runs
//! it for hours.

#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]
#![allow(clippy::large_futures, reason = "a test has room on its stack")]

#[cfg(feature = "real")]
mod crash;
#[cfg(feature = "real")]
mod etcd;
#[cfg(feature = "real")]
mod flow;
mod hosts;
mod moved;
mod tokens;
mod world;
