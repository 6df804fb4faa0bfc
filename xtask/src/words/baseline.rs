//! How many hits each file may still have: `COUNT PATH` for each, sorted by path.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

use super::phrases::Hit;

pub(super) type Allowed = BTreeMap<String, usize>;

pub(super) fn parse(text: &str) -> Result<Allowed> {
    let line = |line: &str| {
        let (count, path) = line.split_once(' ').with_context(|| format!("{line:?} is not `COUNT PATH`"))?;
        let count = count.parse().with_context(|| format!("{count:?} is not a number"))?;
        Ok((path.to_owned(), count))
    };
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(line).collect::<Result<_>>().with_context(|| format!("cannot read {}", super::BASELINE))
}

pub(super) fn render(allowed: &Allowed) -> String {
    let head = "# Words of xtask/src/words/phrases.rs that texts for users still have, by file. Only lower a number, never\n\
                # raise one: `cargo run --bin xtask -- words --lower` does that.\n";
    let lines = allowed.iter().map(|(path, count)| format!("{count} {path}\n"));
    format!("{head}{}", lines.collect::<String>())
}

/// What is wrong: too many hits, each with its line, or a number that is too high.
pub(super) fn compare(allowed: &Allowed, found: &BTreeMap<String, Vec<Hit>>) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, hits) in found {
        let allowed = allowed.get(path).copied().unwrap_or(0);
        if hits.len() > allowed {
            faults.push(format!("  {path}: {} hits, {allowed} are allowed:", hits.len()));
            faults.extend(hits.iter().map(|Hit { line, phrase, instead }| {
                format!("    {path}:{line}: \"{phrase}\": write {instead}")
            }));
        }
    }
    for (path, allowed) in allowed {
        let left = found.get(path).map_or(0, Vec::len);
        if left < *allowed {
            faults.push(format!(
                "  {path}: {left} hits left, {allowed} allowed: lower the baseline: `cargo run --bin xtask -- words --lower`"
            ));
        }
    }
    faults
}

/// The baseline with lower numbers, without files that need none.
pub(super) fn lower(allowed: &Allowed, found: &BTreeMap<String, Vec<Hit>>) -> Allowed {
    let lowered = allowed.iter().map(|(path, allowed)| {
        let left = found.get(path).map_or(0, Vec::len);
        (path.clone(), left.min(*allowed))
    });
    lowered.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::super::phrases;
    use super::*;

    fn found(files: &[(&str, usize)]) -> BTreeMap<String, Vec<Hit>> {
        let hits = |count| phrases::hits(&"nobody\n".repeat(count), 1);
        files.iter().map(|(path, count)| ((*path).to_owned(), hits(*count))).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let allowed = Allowed::from([("a b.md".to_owned(), 3), ("c.rs".to_owned(), 1)]);
        assert_eq!(parse(&render(&allowed)).expect("read"), allowed);
        assert!(parse("x a.md\n").is_err());
        assert!(parse("a.md\n").is_err());
    }

    #[test]
    fn more_hits_than_allowed_are_listed() {
        let allowed = Allowed::from([("a.md".to_owned(), 1)]);
        assert_eq!(compare(&allowed, &found(&[("a.md", 1)])), [""; 0]);
        let faults = compare(&allowed, &found(&[("a.md", 2), ("b.md", 1)]));
        assert_eq!(faults.len(), 5);
        assert!(faults[2].starts_with("    a.md:2: \"nobody\""), "{}", faults[2]);
    }

    #[test]
    fn a_number_that_is_too_high_is_a_fault_and_is_lowered() {
        let allowed =
            Allowed::from([("a.md".to_owned(), 3), ("gone.md".to_owned(), 1), ("b.md".to_owned(), 1)]);
        let found = found(&[("a.md", 2), ("b.md", 2)]);
        let faults = compare(&allowed, &found);
        assert!(
            faults.iter().any(|fault| fault.contains("a.md: 2 hits left, 3 allowed: lower the baseline"))
        );
        assert!(faults.iter().any(|fault| fault.contains("gone.md: 0 hits left")));
        let lowered = lower(&allowed, &found);
        assert_eq!(lowered, Allowed::from([("a.md".to_owned(), 2), ("b.md".to_owned(), 1)]));
    }
}
