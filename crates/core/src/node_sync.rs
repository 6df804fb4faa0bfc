//! Further labels and annotations that are copied from a Machine to its Node, as flags of the process set them.

use regex::Regex;
use std::str::FromStr;

/// A regular expression for keys of labels or annotations. As upstream's, it is not anchored.
#[derive(Clone, Debug)]
pub struct KeyPattern(Regex);

impl FromStr for KeyPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.is_empty() {
            true => Err("an empty expression would match every key: write .* if that is meant".to_owned()),
            false => Regex::new(text).map(Self).map_err(|error| {
                // The last line has the reason; those before are a picture of the expression.
                let message = error.to_string();
                let why = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("is not a regular expression: {why}")
            }),
        }
    }
}

/// Labels and annotations that are copied to Nodes besides those that Cluster API always copies. None by default.
#[derive(Clone, Debug, Default)]
pub struct NodeSync {
    /// Labels whose key matches one of these.
    pub labels: Vec<KeyPattern>,
    /// Annotations whose key matches one of these.
    pub annotations: Vec<KeyPattern>,
}

/// Whether one of the patterns matches.
pub(crate) fn matches(patterns: &[KeyPattern], key: &str) -> bool {
    patterns.iter().any(|pattern| pattern.0.is_match(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_anywhere_and_nonsense_is_refused() {
        let pattern = |text: &str| text.parse::<KeyPattern>();
        let some = [pattern("^team/").expect("a pattern"), pattern("zone").expect("a pattern")];
        assert!(matches(&some, "team/a") && matches(&some, "x.zone/y"));
        assert!(!matches(&some, "a/team/") && !matches(&[], "team/a"));
        assert!(pattern("(").is_err_and(|error| error.contains("regular expression")));
        assert!(pattern("").is_err_and(|error| error.contains(".*")));
    }
}
