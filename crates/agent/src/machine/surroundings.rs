//! What a program or a request has around it, beyond what Capstan's own plans need.

use capstan_plan::MachinePath;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Surroundings of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Its working folder; `/` if there is none.
    pub folder: Option<PathBuf>,
    /// Number of bytes that are kept of each end of its output. `None` is the default.
    pub output: Option<usize>,
    /// Whether standard error is written to standard output, in the order of the writes.
    pub is_merged: bool,
}

/// A GET request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGet {
    /// An `http://` or `https://` URL.
    pub url: String,
    /// Whether any certificate of the server is accepted.
    pub is_insecure: bool,
    /// Files of the client certificate and its key, in PEM.
    pub identity: Option<(MachinePath, MachinePath)>,
    /// File with CAs, in PEM, that are trusted besides those of the operating system.
    pub ca: Option<MachinePath>,
}
