//! Why a host could not be used, said so that a user can mend it: the field, what is wrong with it, the remedy.
//!
//! No secret ever gets in here: texts are made of names, addresses, fingerprints and what was redacted before.

use capstan_api::wait::{Cause, causes};
use capstan_infrastructure::DriverError;
use std::time::Duration;
use thiserror::Error;

/// Why a host cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SshError {
    /// The Secret with the credentials does not exist or cannot be read.
    #[error("spec.ssh.credentialsRef: {0}")]
    Credentials(String),

    /// A pinned host key cannot be parsed.
    #[error(
        "spec.ssh.hostKeys[{index}]: {why}; write it as OpenSSH does (`ssh-keyscan {address}` prints it)"
    )]
    PinnedKey {
        /// Which of them.
        index: usize,
        /// What is wrong.
        why: String,
        /// Where the host is.
        address: String,
    },

    /// The host key is not pinned. Nothing was sent to the host.
    #[error(
        "spec.ssh.hostKeys: the host at {address} shows the key {seen}, which is not pinned; expected {}. No \
         credential was sent. Either an attacker intercepts the connection, or the host was reinstalled: compare with \
         `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on its console, and if the new key is right, put it into \
         spec.ssh.hostKeys",
        list(expected)
    )]
    WrongHostKey {
        /// Where the host is.
        address: String,
        /// Fingerprint of the key it shows.
        seen: String,
        /// Fingerprints of those it may show.
        expected: Vec<String>,
    },

    /// The host has no key of a pinned type. Nothing was sent to the host.
    #[error(
        "spec.ssh.hostKeys: the host at {address} has no key of a pinned sort; expected {}, and it offers {}. No \
         credential was sent. Compare with `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on its console, and pin one \
         of its keys",
        list(expected),
        list(offered)
    )]
    NoPinnedKeyOffered {
        /// Where the host is.
        address: String,
        /// Fingerprints of those it may show.
        expected: Vec<String>,
        /// The sorts it has.
        offered: Vec<String>,
    },

    /// No host key is pinned, and trust on first use is not enabled.
    #[error(
        "spec.ssh.hostKeys: no key of the host is pinned: put its keys there (`ssh-keyscan {address}`), or set \
         spec.ssh.trustOnFirstUse"
    )]
    NothingPinned {
        /// Where the host is.
        address: String,
    },

    /// The first host key could not be pinned, so the host is not used.
    #[error("spec.ssh.hostKeys: the first key of the host cannot be pinned: {0}")]
    Pin(String),

    /// The host rejects the credential.
    #[error(
        "spec.ssh.credentialsRef: the host at {address} refuses {method} of user {user}{}. Put the right credential \
         into Secret {secret}, or let it in on the host (`~{user}/.ssh/authorized_keys`)",
        accepts(accepted)
    )]
    Refused {
        /// Where the host is.
        address: String,
        /// Who wanted in.
        user: String,
        /// With what.
        method: &'static str,
        /// What the host would take.
        accepted: Vec<String>,
        /// Where the credential is.
        secret: String,
    },

    /// The user is not root and sudo does not work.
    #[error("spec.ssh.sudo: {0}")]
    NotRoot(String),

    /// Nothing responds at the address.
    #[error(
        "spec.ssh.address: {address} cannot be reached: {why}. See that the host is up, that its SSH server runs, and \
         that address and port are right"
    )]
    Down {
        /// Where the host should be.
        address: String,
        /// What happened.
        why: String,
    },

    /// The SSH protocol failed.
    #[error("spec.ssh.address: {address} does not speak SSH as it should: {why}")]
    Protocol {
        /// Where the host is.
        address: String,
        /// What happened.
        why: String,
    },

    /// The connection was lost.
    #[error("the connection to {address} was lost while {doing}")]
    Lost {
        /// Where the host is.
        address: String,
        /// What was being done.
        doing: &'static str,
    },

    /// The operation timed out.
    #[error("{address} took more than {} s while {doing}", after.as_secs_f32())]
    Slow {
        /// Where the host is.
        address: String,
        /// What was being done.
        doing: &'static str,
        /// How long it was given.
        after: Duration,
    },

    /// A script failed.
    #[error("{doing} failed on the host{}", because(why))]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// What it printed, redacted.
        why: String,
    },
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

fn accepts(accepted: &[String]) -> String {
    if accepted.is_empty() { String::new() } else { format!(" (it accepts {})", accepted.join(", ")) }
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(": {why}") }
}

impl SshError {
    /// The cause of the wait, and what the user must do.
    pub const fn cause(&self) -> &'static Cause {
        match self {
            Self::Credentials(_) => &causes::CREDENTIALS_MISSING,
            Self::PinnedKey { .. } | Self::NothingPinned { .. } | Self::Pin(_) => {
                &causes::HOST_KEY_NOT_PINNED
            }
            Self::WrongHostKey { .. } | Self::NoPinnedKeyOffered { .. } => &causes::HOST_KEY_MISMATCH,
            Self::Refused { .. } => &causes::CREDENTIALS_REFUSED,
            Self::NotRoot(_) => &causes::NOT_ROOT,
            Self::Down { .. }
            | Self::Protocol { .. }
            | Self::Lost { .. }
            | Self::Slow { .. }
            | Self::Failed { .. } => &causes::UNREACHABLE,
        }
    }
}

impl From<SshError> for DriverError {
    fn from(error: SshError) -> Self {
        let (cause, message) = (error.cause(), error.to_string());
        match *cause == causes::UNREACHABLE {
            true => Self::Unreachable(message),
            false => Self::Misconfigured { cause, message },
        }
    }
}
