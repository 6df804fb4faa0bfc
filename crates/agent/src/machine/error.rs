//! What can go wrong on a machine, and whether it may pass.

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
        /// Where.
        path: MachinePath,
        /// What there is.
        found: &'static str,
        /// What there should be.
        wanted: &'static str,
    },
    /// A folder is not empty.
    #[error("{0} is not empty")]
    NotEmpty(MachinePath),
    /// A file is too large to be read.
    #[error("{path} has {size} bytes, and {most} is the most")]
    TooLarge {
        /// Where.
        path: MachinePath,
        /// How large it is.
        size: u64,
        /// How large it may be.
        most: u64,
    },
    /// No source provides the artifact.
    #[error("cannot fetch it: {reasons}")]
    NotFetched {
        /// What each source said.
        reasons: String,
        /// Whether one of them may yet give it.
        transient: bool,
        /// Whether the disk of the machine has no room for it.
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
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

/// What to do about it, where a person can do something.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => "; make room on that disk, it is tried again",
        io::ErrorKind::QuotaExceeded => "; raise the quota or make room, it is tried again",
        io::ErrorKind::ReadOnlyFilesystem => "; make it writable (mount -o remount,rw)",
        _ => "",
    }
}

/// Whether a disk has no room, or a quota no more.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl MachineError {
    /// An error of the operating system.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Whether a disk has no room. Then there is nothing wrong with the step, and it is tried until there is room.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => is_full(source),
            Self::NotFetched { is_full, .. } => *is_full,
            _ => false,
        }
    }

    /// Whether a retry may succeed: after a full disk it may, with a missing program it does not.
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
