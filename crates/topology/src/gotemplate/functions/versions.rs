//! Semantic versions, and constraints on them as the Go library of sprig understands them.
//!
//! A version with a prerelease matches a constraint only if the constraint has a prerelease, too. Build metadata does not
//! count.

use super::{Args, Function, Outcome, mapped, text};
use gotmpl::Value;
use semver::{BuildMetadata, Prerelease, Version};
use std::cmp::Ordering;

pub(super) const TABLE: &[(&str, Function)] = &[("semver", parsed), ("semverCompare", compare)];

fn parsed(args: Args<'_>) -> Outcome {
    let written = args.text(0)?;
    let version = read(written).ok_or_else(|| args.fail(format!("{written:?} is not a semantic version")))?;
    let entries = [
        ("Major", Value::Uint(version.major)),
        ("Minor", Value::Uint(version.minor)),
        ("Patch", Value::Uint(version.patch)),
        ("Prerelease", text(version.pre.as_str())),
        ("Metadata", text(version.build.as_str())),
        ("Original", text(written)),
    ];
    Ok(mapped(entries.into_iter().map(|(name, value)| (name.into(), value)).collect()))
}

fn compare(args: Args<'_>) -> Outcome {
    args.exactly(2)?;
    let (constraint, written) = (args.text(0)?, args.text(1)?);
    let version = read(written).ok_or_else(|| args.fail(format!("{written:?} is not a semantic version")))?;
    let holds = holds(constraint, &version);
    holds.map(Value::Bool).ok_or_else(|| args.fail(format!("{constraint:?} is not a constraint of versions")))
}

/// A version with an optional `v`, in which minor and patch may be absent.
fn read(written: &str) -> Option<Version> {
    let bound = Bound::read(written)?;
    (!bound.is_wild).then_some(bound.version)
}

/// Whether one of the alternatives of a constraint holds; `None` if it is not a constraint.
fn holds(constraint: &str, version: &Version) -> Option<bool> {
    let alternatives = constraint.split("||").map(|alternative| {
        let comparators = comparators(alternative)?;
        Some(comparators.iter().all(|(operator, bound)| operator.holds(bound, version)))
    });
    let alternatives: Vec<bool> = alternatives.collect::<Option<_>>()?;
    Some(alternatives.contains(&true))
}

/// Parts that must all hold, separated by spaces or commas. `1.2 - 1.4` is a range.
fn comparators(alternative: &str) -> Option<Vec<(Operator, Bound)>> {
    let words: Vec<&str> =
        alternative.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty()).collect();
    let mut found = Vec::new();
    let mut i = 0;
    while i < words.len() {
        if words.get(i + 1) == Some(&"-") {
            found.push((Operator::AtLeast, Bound::read(words[i])?));
            found.push((Operator::AtMost, Bound::read(words.get(i + 2)?)?));
            i += 3;
            continue;
        }
        let (operator, mut rest) = Operator::read(words[i]);
        if rest.is_empty() {
            i += 1;
            rest = words.get(i)?;
        }
        found.push((operator, Bound::read(rest)?));
        i += 1;
    }
    if found.is_empty() { None } else { Some(found) }
}

/// A version in a constraint, of which the end may be open.
#[derive(Debug)]
struct Bound {
    version: Version,
    /// How many numbers are written.
    numbers: usize,
    /// Whether it ends with `x`, `X` or `*`.
    is_wild: bool,
}

impl Bound {
    fn read(written: &str) -> Option<Bound> {
        let written = written.strip_prefix('v').unwrap_or(written);
        let (written, build) = written.split_once('+').unwrap_or((written, ""));
        let (numbers, pre) = written.split_once('-').unwrap_or((written, ""));
        let parts: Vec<&str> = numbers.split('.').collect();
        let is_wild_part = |part: &&str| matches!(*part, "x" | "X" | "*");
        let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        if !parts.iter().all(|part| is_wild_part(part) || is_number(part)) {
            return None;
        }
        let wild = parts.iter().position(is_wild_part);
        let is_wild = wild.is_some();
        let known = &parts[..wild.unwrap_or(parts.len())];
        if parts.len() > 3 || (known.is_empty() && !is_wild) {
            return None;
        }
        let mut values = [0; 3];
        for (value, part) in values.iter_mut().zip(known) {
            *value = part.parse().ok()?;
        }
        let version = Version {
            major: values[0],
            minor: values[1],
            patch: values[2],
            pre: Prerelease::new(pre).ok()?,
            build: BuildMetadata::new(build).ok()?,
        };
        Some(Bound { version, numbers: known.len(), is_wild })
    }

    /// The first version after all versions that start with so many numbers of the bound.
    fn after(&self, numbers: usize) -> Option<Version> {
        let Version { major, minor, patch, .. } = self.version;
        match numbers {
            0 => None,
            1 => Some(Version::new(major.saturating_add(1), 0, 0)),
            2 => Some(Version::new(major, minor.saturating_add(1), 0)),
            _ => Some(Version::new(major, minor, patch.saturating_add(1))),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Above,
    AtLeast,
    Below,
    AtMost,
    Tilde,
    Caret,
}

impl Operator {
    /// The operator, and what follows it.
    fn read(word: &str) -> (Operator, &str) {
        for (written, operator) in [
            ("!=", Operator::NotEqual),
            (">=", Operator::AtLeast),
            ("=>", Operator::AtLeast),
            ("<=", Operator::AtMost),
            ("=<", Operator::AtMost),
            ("~>", Operator::Tilde),
            ("~", Operator::Tilde),
            ("^", Operator::Caret),
            (">", Operator::Above),
            ("<", Operator::Below),
            ("=", Operator::Equal),
        ] {
            if let Some(rest) = word.strip_prefix(written) {
                return (operator, rest);
            }
        }
        (Operator::Equal, word)
    }

    fn holds(self, bound: &Bound, version: &Version) -> bool {
        if !version.pre.is_empty() && bound.version.pre.is_empty() {
            return false;
        }
        let order = order(version, &bound.version);
        let is_partial = bound.is_wild || bound.numbers < 3;
        let is_before = |end: Option<Version>| end.is_none_or(|end| self::order(version, &end).is_lt());
        let is_within = |numbers: usize| order.is_ge() && is_before(bound.after(numbers));
        match self {
            Operator::Equal if is_partial => is_within(bound.numbers),
            Operator::Equal => order.is_eq(),
            Operator::NotEqual if is_partial => !is_within(bound.numbers),
            Operator::NotEqual => order.is_ne(),
            Operator::Above if is_partial => bound.numbers > 0 && !is_before(bound.after(bound.numbers)),
            Operator::Above => order.is_gt(),
            Operator::AtLeast => order.is_ge(),
            Operator::Below => order.is_lt(),
            Operator::AtMost if is_partial => is_before(bound.after(bound.numbers)),
            Operator::AtMost => order.is_le(),
            Operator::Tilde => is_within(bound.numbers.min(2)),
            Operator::Caret => {
                let Version { major, minor, .. } = bound.version;
                let fixed = match (major, minor) {
                    (0, 0) if bound.numbers == 3 => 3,
                    (0, _) if bound.numbers >= 2 => 2,
                    _ => 1,
                };
                is_within(fixed.min(bound.numbers))
            }
        }
    }
}

/// Precedence of semantic versions: build metadata does not count.
fn order(a: &Version, b: &Version) -> Ordering {
    a.cmp_precedence(b)
}

#[cfg(test)]
mod tests {
    use super::{holds, read};

    #[test]
    fn constraints_hold_as_in_the_go_library() {
        for (constraint, version, expected) in [
            (">= 1.30", "v1.30.0+k3s1", Some(true)),
            (">=1.30.0", "1.30.0-rc.1", Some(false)),
            (">=1.30.0-0", "1.30.0-rc.1", Some(true)),
            ("1.30", "1.30.7", Some(true)),
            ("1.30.x", "1.31.0", Some(false)),
            ("!=1.30", "1.30.7", Some(false)),
            (">1.30", "1.30.7", Some(false)),
            (">1.30", "1.31.0", Some(true)),
            ("<=1.30", "1.30.9", Some(true)),
            ("<1.30", "1.29.9", Some(true)),
            ("~1.30.2", "1.30.9", Some(true)),
            ("~1.30.2", "1.31.0", Some(false)),
            ("~1", "1.31.0", Some(true)),
            ("^1.30", "1.99.0", Some(true)),
            ("^1.30", "2.0.0", Some(false)),
            ("^0.2.3", "0.2.9", Some(true)),
            ("^0.2.3", "0.3.0", Some(false)),
            ("^0.0.3", "0.0.4", Some(false)),
            (">=1.28, <1.30 || >=1.31", "1.30.1", Some(false)),
            (">=1.28, <1.30 || >=1.31", "1.31.1", Some(true)),
            ("1.28 - 1.30", "1.30.5", Some(true)),
            ("1.28 - 1.30", "1.31.0", Some(false)),
            ("*", "1.31.0", Some(true)),
            ("?", "1.31.0", None),
            ("", "1.31.0", None),
        ] {
            let version = read(version).expect("a version");
            assert_eq!(holds(constraint, &version), expected, "{constraint} {version}");
        }
        assert!(read("v1.30").is_some() && read("1.x").is_none() && read("latest").is_none());
    }
}
