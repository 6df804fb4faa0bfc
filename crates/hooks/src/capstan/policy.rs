//! Whether a machine may be replaced where a change cannot be made in place. Pure.

use capstan_api::runtime::annotations::REPLACE_POLICY;
use std::collections::BTreeMap;

/// What happens to a change that cannot be made in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// It is refused: machines are kept.
    #[default]
    Never,
    /// The machine is replaced.
    WhenNeeded,
}

impl Policy {
    /// What the annotations of a MachineSet or a Machine say.
    ///
    /// # Errors
    /// If they say something else: a word that was misspelt must not cost machines.
    pub fn of(annotations: &BTreeMap<String, String>) -> Result<Self, String> {
        match annotations.get(REPLACE_POLICY).map(String::as_str) {
            None | Some("Never") => Ok(Self::Never),
            Some("WhenNeeded") => Ok(Self::WhenNeeded),
            Some(_) => Err(format!("annotation {REPLACE_POLICY}: must be Never or WhenNeeded")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_kept_unless_somebody_says_otherwise() {
        let policy =
            |value: &str| Policy::of(&BTreeMap::from([(REPLACE_POLICY.to_owned(), value.to_owned())]));
        assert_eq!(Policy::of(&BTreeMap::new()), Ok(Policy::Never));
        assert_eq!(policy("Never"), Ok(Policy::Never));
        assert_eq!(policy("WhenNeeded"), Ok(Policy::WhenNeeded));
        for misspelt in ["", "whenneeded", "Always"] {
            assert!(policy(misspelt).is_err_and(|error| error.contains(REPLACE_POLICY)), "{misspelt:?}");
        }
    }
}
