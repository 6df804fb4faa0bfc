//! Why an object may be deleted.

use crate::knowledge::Knowledge;

/// Why an object may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "grounds are for a deletion"]
pub struct Grounds(String);

impl Grounds {
    /// The user has requested the deletion, or nothing can depend on the object: `why`, for the log.
    pub fn asked(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// Grounds from an observation.
    ///
    /// # Errors
    /// If nothing is known, or the observation does not justify the deletion: why, for users.
    pub fn observed<T>(
        seen: &Knowledge<T>,
        judge: impl FnOnce(&T) -> Result<String, String>,
    ) -> Result<Self, String> {
        match seen {
            Knowledge::Unknown(why) => Err(why.clone()),
            Knowledge::Known(seen) => judge(seen).map(Self),
        }
    }
}

impl std::fmt::Display for Grounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_is_no_grounds() {
        let judge = |members: &usize| match members {
            3 => Ok("etcd has three members".to_owned()),
            _ => Err("etcd cannot bear it".to_owned()),
        };
        let unknown: Knowledge<usize> = Knowledge::unknown("etcd does not answer");
        assert_eq!(Grounds::observed(&unknown, judge), Err("etcd does not answer".to_owned()));
        assert_eq!(Grounds::observed(&Knowledge::Known(2), judge), Err("etcd cannot bear it".to_owned()));
        assert_eq!(
            Grounds::observed(&Knowledge::Known(3), judge).map(|grounds| grounds.to_string()),
            Ok("etcd has three members".to_owned())
        );
    }
}
