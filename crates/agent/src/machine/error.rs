//! Errors of operations on the machine, and whether a retry may succeed.

use capstan_plan::MachinePath;
use std::io;

/// Why an operation on the machine failed.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A symbolic link in the path. It is not followed, because its owner could redirect the write.
    #[error("{0} is a symbolic link, and links are not followed: name the path it leads to")]
    Link(MachinePath),
    /// The path is of another type than expected.
    #[error("{path} is {found}, not {wanted}")]
    WrongKind {
        /// The path.
        path: MachinePath,
        /// The type that was found.
        found: &'static str,
        /// The type that was expected.
        wanted: &'static str,
    },
    /// A folder is not empty.
    #[error("{0} is not empty")]
    NotEmpty(MachinePath),
    /// A file is too large to be read.
    #[error("{path} has {size} bytes, and {most} is the most")]
    TooLarge {
        /// The path.
        path: MachinePath,
        /// Its size.
        size: u64,
        /// The largest allowed size.
        most: u64,
    },
    /// No source provides the artifact.
    #[error("cannot fetch it: {reasons}")]
    NotFetched {
        /// The error of each source.
        reasons: String,
        /// Whether a retry may succeed for one of them.
        transient: bool,
        /// Whether the disk of the machine was full.
        is_full: bool,
    },
    /// An archive is rejected.
    #[error("the archive is not unpacked: {0}")]
    Archive(String),
    /// A command was interrupted before its result was recorded, and no longer runs.
    #[error("the command was interrupted, and whether it had its effect is not known")]
    Lost,
    /// The operating system returns an error.
    #[error("cannot {what}: {source}{}", remedy(source))]
    Io {
        /// The operation.
        what: String,
        /// The error.
        source: io::Error,
    },
}

/// The remedy, if a person can do something.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; make room on that disk, it is tried again",
        io::ErrorKind::QuotaExceeded => "; raise the quota or make room, it is tried again",
        io::ErrorKind::ReadOnlyFilesystem => "; make it writable (mount -o remount,rw)",
        _ => "",
    }
}

/// Whether the error is a full disk or an exhausted quota.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl MachineError {
    /// An error of the operating system.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Whether a disk is full. Then the step has not failed, and is retried until there is room.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_full(source),
            Self::NotFetched { is_full, .. } => *is_full,
            _ => false,
        }
    }

    /// Whether a retry may succeed: yes after a full disk, no if a program is missing.
    pub fn is_transient(&self) -> bool {
        use io::ErrorKind as K;
        match self {
            Self::Io { source, .. } => !matches!(
                source.kind(),
                K::NotFound
                    | K::PermissionDenied
                    | K::NotADirectory
                    | K::IsADirectory
                    | K::ReadOnlyFilesystem
                    | K::InvalidFilename
                    | K::InvalidInput
                    | K::ArgumentListTooLong
                    | K::Unsupported
            ),
            Self::NotFetched { transient, .. } => *transient,
            Self::Lost => true,
            Self::Link(_)
            | Self::WrongKind { .. }
            | Self::NotEmpty(_)
            | Self::TooLarge { .. }
            | Self::Archive(_) => false,
        }
    }
}
