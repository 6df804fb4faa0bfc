//! Small pieces of condition messages.

use jiff::Timestamp;

/// The first `most` names, and the number of the others.
pub fn listed(names: &[String], most: usize) -> String {
    match names.split_at_checked(most) {
        Some((first, more)) if !more.is_empty() => {
            format!("{}, ... ({} more)", first.join(", "), more.len())
        }
        _ => names.join(", "),
    }
}

/// A time in whole seconds, as in conditions.
pub fn rfc3339(time: Timestamp) -> String {
    // Fails only at the edge of what can be represented.
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
        assert_eq!(listed(&names, 3), "a, b, c");
        assert_eq!(listed(&names, 2), "a, b, ... (1 more)");
        assert_eq!(listed(&[], 2), "");
    }

    #[test]
    fn times_have_no_fraction() {
        let time: Timestamp = "2025-02-03T04:05:06.789Z".parse().expect("a time");
        assert_eq!(rfc3339(time), "2025-02-03T04:05:06Z");
    }
}
