//! Where a build says what it does. Plain lines, so that a log file reads like a terminal.

use std::time::Duration;

/// Takes one line at a time, without its end.
pub type Progress<'a> = &'a dyn Fn(&str);

/// Progress for people: each line on standard error.
pub fn to_stderr(line: &str) {
    eprintln!("{line}");
}

/// `0.4 s`, `12 s`, `3 min 05 s`.
pub(crate) fn took(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!(took(Duration::from_millis(440)), "0.4 s");
        assert_eq!(took(Duration::from_secs(42)), "42 s");
        assert_eq!(took(Duration::from_secs(185)), "3 min 05 s");
    }
}
