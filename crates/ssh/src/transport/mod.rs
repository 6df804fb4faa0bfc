//! Runs scripts on a host and returns their output. Only this module uses the SSH library.
//!
//! A script is sent to the standard input of `sh`. So no part of it is an argument that other users of the host could
//! read, and one round trip is enough.

mod connection;
mod guard;
mod pool;
mod root;

pub use pool::Pool;

use futures::future::BoxFuture;

use crate::error::SshError;

/// Output and exit code of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Exit code; none if a signal ended the script.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Runs scripts as root on one host.
pub trait Shell: Send + Sync {
    /// Runs a script until it ends. `doing` names the operation in errors.
    fn run<'a>(&'a self, doing: &'static str, script: &'a str) -> BoxFuture<'a, Result<Output, SshError>>;
}
