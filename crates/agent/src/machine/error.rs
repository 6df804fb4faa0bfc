//! What can go wrong on a machine, and whether it may pass.

use capstan_plan::MachinePath;
use std::io;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A symbolic link on the way. Following it would let whoever made it choose where we write.
    #[error("{0} is a symbolic link, and links are not followed: name the path it leads to")]
    Link(MachinePath),
    /// There is something else than expected.
    #[error("{path} is {found}, not {wanted}")]
    WrongKind {
        /// Where.
        path: MachinePath,
        /// What there is.
        found: &'static str,
        /// What there should be.
        wanted: &'static str,
    },
    /// A folder that others use.
    #[error("{0} is not empty")]
    NotEmpty(MachinePath),
    /// A file that is too large to be read.
    #[error("{path} has {size} bytes, and {most} is the most")]
    TooLarge {
        /// Where.
        path: MachinePath,
        /// How large it is.
        size: u64,
        /// How large it may be.
        most: u64,
    },
    /// No source of an artifact has given it.
    #[error("cannot fetch it: {reasons}")]
    NotFetched {
        /// What each source said.
        reasons: String,
        /// Whether one of them may yet give it.
        transient: bool,
    },
    /// An archive that is not to be unpacked.
    #[error("the archive is not unpacked: {0}")]
    Archive(String),
    /// A command was interrupted before its result was recorded, and nothing of it runs any more.
    #[error("the command was interrupted, and whether it had its effect is not known")]
    Lost,
    /// The operating system said no.
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

impl MachineError {
    /// The operating system said no to this.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Whether it may pass by itself: a full disk may, a missing program does not.
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
