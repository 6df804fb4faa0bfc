//! What was observed, or why nothing was: *unknown* is a value of its own, never the same as *none*. Pure.
//!
//! A Node list that has not synced, an etcd that did not answer and a report that is old are not an empty list, an absent
//! member and a dead machine. Whatever deletes, drains, resets or replaces takes a [`Knowledge::Known`]; there is no
//! conversion that fills in a default, so the unknown case is always written down where the decision is made.

/// A value that was observed, or the reason why it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unknown value must be handled, not dropped"]
pub enum Knowledge<T> {
    /// Nothing is known, and why, for users: conditions show it.
    Unknown(String),
    /// This was observed.
    Known(T),
}

/// A value that was not observed is unknown.
impl<T> Default for Knowledge<T> {
    fn default() -> Self {
        Self::Unknown("it was not looked at".to_owned())
    }
}

impl<T> Knowledge<T> {
    /// Nothing is known, for this reason.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    /// The same by reference.
    pub fn as_ref(&self) -> Knowledge<&T> {
        match self {
            Self::Unknown(why) => Knowledge::Unknown(why.clone()),
            Self::Known(value) => Knowledge::Known(value),
        }
    }

    /// Applies `f` to the value, if it is known.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Knowledge<U> {
        match self {
            Self::Unknown(why) => Knowledge::Unknown(why),
            Self::Known(value) => Knowledge::Known(f(value)),
        }
    }

    /// The value, or an error from the reason why it is unknown.
    ///
    /// # Errors
    /// If the value is unknown.
    pub fn known_or<E>(self, error: impl FnOnce(String) -> E) -> Result<T, E> {
        match self {
            Self::Unknown(why) => Err(error(why)),
            Self::Known(value) => Ok(value),
        }
    }

    /// Whether the value is known and fulfils the predicate. An unknown value does not.
    pub fn is_known_and(&self, predicate: impl FnOnce(&T) -> bool) -> bool {
        matches!(self, Self::Known(value) if predicate(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fulfils_nothing() {
        let unknown: Knowledge<Vec<u8>> = Knowledge::unknown("the list has not synced");
        assert!(!unknown.is_known_and(Vec::is_empty));
        assert!(!unknown.is_known_and(|list| !list.is_empty()));
        assert_eq!(unknown.clone().map(|list| list.len()), Knowledge::unknown("the list has not synced"));
        assert_eq!(unknown.known_or(|why| why), Err("the list has not synced".to_owned()));
        let known = Knowledge::Known(vec![1_u8]);
        assert!(known.as_ref().is_known_and(|list| list.len() == 1));
        assert_eq!(known.known_or(|why| why), Ok(vec![1]));
    }
}
