//! Formats of dates, times and durations. This crate never reads the clock.

use crate::pattern;
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime};
use regex::Regex;
use std::sync::LazyLock;

static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern::compile("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
        .expect("a constant, compiled by every test run")
});

static SCALA: LazyLock<Regex> = LazyLock::new(|| {
    pattern::compile(r"(\d+)\s*([A-Za-zµ]+)").expect("a constant, compiled by every test run")
});

/// `2006-01-02`
pub(super) fn is_date(text: &str) -> bool {
    date(text).is_some()
}

fn date(text: &str) -> Option<NaiveDate> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() == 10
        && bytes
            .iter()
            .enumerate()
            .all(|(i, c)| if i == 4 || i == 7 { *c == b'-' } else { c.is_ascii_digit() });
    if !shaped {
        return None;
    }
    NaiveDate::from_ymd_opt(text[..4].parse().ok()?, text[5..7].parse().ok()?, text[8..].parse().ok()?)
}

/// RFC 3339, with any letter case and any offset.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((day, rest)) = lower.split_once('t') else { return false };
    let Some(time) = TIME.captures(rest.split('t').next().unwrap_or_default()) else { return false };
    is_date(day) && &time[1] <= "23" && &time[2] <= "59" && &time[3] <= "59"
}

/// The moment a field of format `date-time` or `date` means to a rule.
pub(crate) fn timestamp(format: &str, text: &str) -> Option<DateTime<FixedOffset>> {
    let utc = |naive: NaiveDateTime| naive.and_utc().fixed_offset();
    if format == "date" {
        return date(text)?.and_hms_opt(0, 0, 0).map(utc);
    }
    let local = || NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok().map(utc);
    DateTime::parse_from_rfc3339(text).ok().or_else(local)
}

/// Nanoseconds of a duration as Go writes it (`1h30m`) or as Scala does (`2 days`).
pub(crate) fn duration(text: &str) -> Option<i64> {
    go_duration(text).or_else(|| scala_duration(text))
}

fn go_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        total += nanos(number, unit_nanos(unit)?)?;
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `number` units, where the number may have a fraction.
fn nanos(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let parse = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i128>().ok() };
    // Eighteen digits of a fraction are more than nanoseconds can show.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = parse(fraction)? * unit / 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some(parse(whole)?.checked_mul(unit)? + part)
}

fn scala_duration(text: &str) -> Option<i64> {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    let mut total: Option<i64> = None;
    for found in SCALA.captures_iter(text) {
        let factor: i64 = found[1].parse().ok()?;
        let unit = found[2].to_lowercase();
        for (names, nanos) in UNITS {
            let long = names.last().is_some_and(|long| unit.starts_with(long));
            if long || names.contains(&unit.as_str()) {
                total = Some(total.unwrap_or(0).wrapping_add(factor.wrapping_mul(nanos)));
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_both_kinds() {
        assert_eq!(duration("1h30m"), Some(5_400_000_000_000));
        assert_eq!(duration("-1.5s"), Some(-1_500_000_000));
        assert_eq!(duration("2 days"), Some(172_800_000_000_000));
        assert_eq!(duration("22 ns"), Some(22));
        assert_eq!((duration("1"), duration(""), duration("s")), (None, None, None));
    }

    #[test]
    fn date_times_are_upstreams_idea_of_them() {
        assert!(is_date_time("2026-11-15T02:00:00Z"));
        assert!(is_date_time("2026-11-15t02:00:00.123+99:99"));
        assert!(!is_date_time("2026-11-15T24:00:00Z"));
        assert!(!is_date_time("2026-11-15T02:00:00"));
    }
}
