//! Durations as Go writes and reads them.

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// As Go prints it.
pub(crate) fn written(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let total = nanoseconds.unsigned_abs();
    let fraction = |value: u64, unit: u64, name: &str| {
        let digits = format!("{:0width$}", value % unit, width = unit.ilog10() as usize);
        let digits = digits.trim_end_matches('0');
        let whole = value / unit;
        if digits.is_empty() { format!("{whole}{name}") } else { format!("{whole}.{digits}{name}") }
    };
    let text = match total {
        0 => return "0s".to_owned(),
        1..1_000 => format!("{total}ns"),
        1_000..1_000_000 => fraction(total, 1_000, "µs"),
        1_000_000..1_000_000_000 => fraction(total, 1_000_000, "ms"),
        _ => {
            let (minutes, rest) = (total / 60_000_000_000, total % 60_000_000_000);
            let seconds = fraction(rest, 1_000_000_000, "s");
            match (minutes / 60, minutes % 60) {
                (0, 0) => seconds,
                (0, minutes) => format!("{minutes}m{seconds}"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{text}")
}

/// The nanoseconds of a duration, such as `1h30m`; nothing if it is none.
pub(crate) fn read(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut total = 0_i128;
    match rest {
        "" => return None,
        // The only number that needs no unit, and only if it stands alone.
        "0" => return Some(0),
        _ => {}
    }
    while !rest.is_empty() {
        let (part, after) = part(rest)?;
        total = total.checked_add(part)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// The first number with its unit, in nanoseconds, and what follows.
fn part(text: &str) -> Option<(i128, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, rest) = text.split_at(end);
    let end = rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let (_, unit) = UNITS.into_iter().find(|(unit, _)| *unit == name)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut sum = whole.checked_mul(unit)?;
    // Digits beyond the nanosecond are dropped.
    let mut place = unit;
    for digit in fraction.bytes() {
        place /= 10;
        sum += i128::from(digit - b'0') * place;
    }
    Some((sum, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        let cases: [(i64, &str); 9] = [
            (0, "0s"),
            (1, "1ns"),
            (1_500, "1.5µs"),
            (2_000_000, "2ms"),
            (1_000_000_000, "1s"),
            (90_500_000_000, "1m30.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (-60_000_000_000, "-1m0s"),
            (1_000_000_001, "1.000000001s"),
        ];
        for (nanoseconds, expected) in cases {
            assert_eq!(written(nanoseconds), expected);
            assert_eq!(read(expected), Some(nanoseconds), "{expected}");
        }
    }

    #[test]
    fn other_spellings_are_read() {
        for (text, expected) in [
            ("90m", Some(5_400_000_000_000)),
            ("+1.5h", Some(5_400_000_000_000)),
            (".5s", Some(500_000_000)),
            ("1us", Some(1_000)),
            ("0", Some(0)),
            ("-0", Some(0)),
            ("1h0", None),
            ("1h0s", Some(3_600_000_000_000)),
            ("", None),
            ("-", None),
            ("1", None),
            ("s", None),
            (".s", None),
            ("1d", None),
            ("1.2.3s", None),
            ("9999999h", None),
            ("99999999999999999999999999999999999999999h", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
