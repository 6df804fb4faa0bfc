//! Times as the contract has them: `Mon Jan _2 15:04:05 MST 2006`, always written in UTC.

use jiff::Timestamp;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time as text, in whole seconds.
pub fn format(time: Timestamp) -> String {
    let at = time.to_zoned(TimeZone::UTC);
    let weekday = match at.weekday() {
        Weekday::Monday => "Mon",
        Weekday::Tuesday => "Tue",
        Weekday::Wednesday => "Wed",
        Weekday::Thursday => "Thu",
        Weekday::Friday => "Fri",
        Weekday::Saturday => "Sat",
        Weekday::Sunday => "Sun",
    };
    let month = MONTHS[usize::from(at.month().unsigned_abs()).clamp(1, 12) - 1];
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    format!("{weekday} {month} {:>2} {hour:02}:{minute:02}:{second:02} UTC {}", at.day(), at.year())
}

/// Reads such a text. The abbreviation of the time zone is taken for UTC, as Go does with one that it does not know.
pub fn parse(text: &str) -> Option<Timestamp> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, clock, _, year] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let date = Date::new(year.parse().ok()?, i8::try_from(month).ok()?, day.parse().ok()?).ok()?;
    let mut numbers = clock.split(':').map(|number| number.parse::<i8>().ok());
    let time = Time::new(numbers.next()??, numbers.next()??, numbers.next()??, 0).ok()?;
    if numbers.next().is_some() {
        return None;
    }
    date.to_datetime(time).to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp())
}

/// The name of an execution folder: `YYYYMMDD-HHMMSS`.
pub fn folder_name(time: Timestamp) -> String {
    let at = time.to_zoned(TimeZone::UTC);
    let (year, month, day) = (at.year(), at.month(), at.day());
    format!("{year:04}{month:02}{day:02}-{:02}{:02}{:02}", at.hour(), at.minute(), at.second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        let time: Timestamp = "2026-11-05T04:06:15Z".parse().expect("a time");
        assert_eq!(format(time), "Thu Nov  5 04:06:15 UTC 2026");
        assert_eq!(parse(&format(time)), Some(time));
        assert_eq!(parse("Thu Nov  5 04:06:15 CET 2026"), Some(time));
        assert_eq!(folder_name(time), "20261105-040615");
        for bad in [
            "",
            "now",
            "Thu Nov 5 04:06 UTC 2026",
            "Thu Nov 31 04:06:15 UTC 2026",
            "Thu Foo 1 04:06:15 UTC 2026",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
