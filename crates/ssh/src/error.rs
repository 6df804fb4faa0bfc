//! Why a host cannot be used, with the field, the problem and the remedy, so that a user can fix it.
//!
//! Errors never contain a secret: they consist of names, addresses, fingerprints and redacted output.

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
        /// Index of the key.
        index: usize,
        /// The problem.
        why: String,
        /// Address of the host.
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
        /// Address of the host.
        address: String,
        /// Fingerprint of the key that the host presents.
        seen: String,
        /// Fingerprints of the pinned keys.
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
        /// Address of the host.
        address: String,
        /// Fingerprints of the pinned keys.
        expected: Vec<String>,
        /// Types of the keys that the host has.
        offered: Vec<String>,
    },

    /// No host key is pinned, and trust on first use is not enabled.
    #[error(
        "spec.ssh.hostKeys: no key of the host is pinned: put its keys there (`ssh-keyscan {address}`), or set \
         spec.ssh.trustOnFirstUse"
    )]
    NothingPinned {
        /// Address of the host.
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
        /// Address of the host.
        address: String,
        /// Login user.
        user: String,
        /// Authentication method.
        method: &'static str,
        /// Authentication methods that the host accepts.
        accepted: Vec<String>,
        /// Secret of the credential.
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
        /// Address of the host.
        address: String,
        /// The error.
        why: String,
    },

    /// The SSH protocol failed.
    #[error("spec.ssh.address: {address} does not speak SSH as it should: {why}")]
    Protocol {
        /// Address of the host.
        address: String,
        /// The error.
        why: String,
    },

    /// The connection was lost.
    #[error("the connection to {address} was lost while {doing}")]
    Lost {
        /// Address of the host.
        address: String,
        /// The operation.
        doing: &'static str,
    },

    /// The operation timed out.
    #[error("{address} took more than {} s while {doing}", after.as_secs_f32())]
    Slow {
        /// Address of the host.
        address: String,
        /// The operation.
        doing: &'static str,
        /// The timeout.
        after: Duration,
    },

    /// The machine of a host that dials out is not known here.
    #[error("spec.registration: {0}")]
    Registration(String),

    /// A machine that dials out does not answer.
    #[error(
        "spec.registration: the machine of HostRegistration {registration} did not answer while {doing}. See that it is \
         up, that it reaches the management plane, and that its service capstan-host runs"
    )]
    Silent {
        /// Name of the registration.
        registration: String,
        /// The operation.
        doing: &'static str,
    },

    /// A script failed.
    #[error("{doing} failed on the host{}", because(why))]
    Failed {
        /// The operation.
        doing: &'static str,
        /// Its output, redacted.
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
            Self::Registration(_) => &causes::REGISTRATION_MISSING,
            Self::Down { .. }
            | Self::Protocol { .. }
            | Self::Lost { .. }
            | Self::Slow { .. }
            | Self::Silent { .. }
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
