//! Ages as kubectl prints them: at most two units, fewer the older something is.

use jiff::Timestamp;

/// How long ago a time was; `<unknown>` if it is none.
pub fn human(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => duration(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A time span in seconds.
pub fn duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        let (large, rest) = (seconds / big, seconds % big / small);
        if rest == 0 { format!("{large}{big_unit}") } else { format!("{large}{big_unit}{rest}{small_unit}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn as_kubectl_prints_them() {
        let cases = [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (600, "10m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(super::duration(seconds), expected, "{seconds}");
        }
    }
}
