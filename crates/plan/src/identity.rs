//! Identities of machines, plans and managers.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::{Digest, MachineId, MachineName};

/// Error: the number is not a valid revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a revision must be a whole number from 1 to {}", i64::MAX)]
pub struct NumberError;

/// Number of a plan among the plans of one machine. The planner increases it with every plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Revision(u64);

impl Revision {
    /// The first revision.
    pub const FIRST: Self = Self(1);

    /// The revision with this number, which must fit into a signed 64-bit integer, as Kubernetes requires.
    ///
    /// # Errors
    /// If the number is 0 or too large.
    pub const fn new(number: u64) -> Result<Self, NumberError> {
        if number == 0 || number > i64::MAX as u64 { Err(NumberError) } else { Ok(Self(number)) }
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next revision; `None` after the last possible one.
    pub fn next(self) -> Option<Self> {
        Self::new(self.0 + 1).ok()
    }
}

impl TryFrom<u64> for Revision {
    type Error = NumberError;

    fn try_from(number: u64) -> Result<Self, NumberError> {
        Self::new(number)
    }
}

impl From<Revision> for u64 {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Epoch of the manager. It increases each time another management plane takes over, so that an agent that has accepted
/// a plan from the new plane rejects plans from the old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The machine of a plan, and the claim of its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineIdentity {
    /// Name of the Machine.
    pub name: MachineName,

    /// Machine ID from the bootstrap data; different for each claim of a host.
    #[serde(rename = "machineID")]
    pub machine_id: MachineId,
}

impl fmt::Display for MachineIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "machine {} ({})", self.name, self.machine_id)
    }
}

/// Identifies exactly one plan: its bytes and its revision.
///
/// It comes only from a plan that was sealed or verified, or from a record of such a plan. So every statement with a
/// PlanId, such as "applied", refers to bytes that existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlanId {
    pub(crate) digest: Digest,
    pub(crate) revision: Revision,
}

impl PlanId {
    /// SHA-256 of the plan's bytes.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The revision.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Whether the two fields of a report name this plan.
    pub fn is_named_by(&self, digest: &str, revision: i64) -> bool {
        u64::try_from(revision) == Ok(self.revision.0) && digest.parse() == Ok(self.digest)
    }
}

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {} ({})", self.revision, self.digest.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_fit_into_signed_numbers() {
        assert_eq!(Revision::new(0), Err(NumberError));
        assert_eq!(Revision::new(1), Ok(Revision::FIRST));
        let last = Revision::new(i64::MAX as u64).expect("the last one");
        assert_eq!(last.next(), None);
        assert_eq!(Revision::new(last.get() + 1), Err(NumberError));
        assert!(serde_json::from_str::<Revision>("0").is_err());
        assert!(serde_json::from_str::<Revision>("-1").is_err());
    }

    #[test]
    fn a_plan_is_named_by_both_of_its_fields() {
        let id = PlanId { digest: Digest::of(b"plan"), revision: Revision(7) };
        let digest = Digest::of(b"plan").to_string();
        assert!(id.is_named_by(&digest, 7));
        assert!(!id.is_named_by(&digest, 8));
        assert!(!id.is_named_by(&digest, -7));
        assert!(!id.is_named_by(&Digest::of(b"other").to_string(), 7));
        assert!(!id.is_named_by("", 7));
    }
}
