//! Scripts carried to a host and what they print carried back: the only place that knows the SSH library.
//!
//! A script goes to `sh` through its standard input. So nothing of it is ever an argument that others on the host
//! could read, and one round trip is enough.

mod connection;
mod guard;
mod pool;
mod root;

pub use pool::Pool;

use futures::future::BoxFuture;

use crate::error::SshError;

/// What a script printed, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// How it ended; nothing if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained of.
    pub stderr: Vec<u8>,
}

/// Runs scripts as root on one host.
pub trait Shell: Send + Sync {
    /// Runs a script to its end. `doing` is for errors.
    fn run<'a>(&'a self, doing: &'static str, script: &'a str) -> BoxFuture<'a, Result<Output, SshError>>;
}
