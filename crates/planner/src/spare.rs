//! Whether a machine that is replaced gets another host.
//!
//! Where hosts are kept there may be none left: then a machine that is deleted to be replaced is only lost.

use crate::knowledge::Knowledge;

/// Where the replacement of a machine comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// The infrastructure provider creates machines on demand.
    OnDemand,
    /// This number of hosts is clean and not claimed.
    Hosts(usize),
}

impl Knowledge<Spare> {
    /// Checks that there is a replacement.
    ///
    /// # Errors
    /// If there is no host for it, or that is unknown: why, for users.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Known(Spare::Hosts(0)) => {
                Err("there is no clean host for another machine: add one, or release one".to_owned())
            }
            Self::Known(Spare::OnDemand | Spare::Hosts(_)) => Ok(()),
            Self::Unknown(why) => Err(format!("it is not known whether a clean host is free: {why}")),
        }
    }
}
