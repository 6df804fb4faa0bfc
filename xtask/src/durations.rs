//! How long each suite took when it last passed: one line for each, `NAME SECONDS`, below the target folder. A file that is
//! missing or cannot be read means that nothing is known.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) struct Durations {
    path: PathBuf,
    seconds: BTreeMap<String, f64>,
}

impl Durations {
    pub(crate) fn read(folder: &Path) -> Self {
        let path = folder.join("durations.txt");
        let seconds = parse(&fs::read_to_string(&path).unwrap_or_default());
        Self { path, seconds }
    }

    pub(crate) fn of(&self, suite: &str) -> Option<Duration> {
        self.seconds.get(suite).and_then(|seconds| Duration::try_from_secs_f64(*seconds).ok())
    }

    /// Written at once: a run that is interrupted has measured something, too.
    pub(crate) fn record(&mut self, suite: &str, took: Duration) {
        self.seconds.insert(suite.to_owned(), took.as_secs_f64());
        // An estimate that is lost costs nothing.
        _ = fs::write(&self.path, render(&self.seconds));
    }
}

fn parse(text: &str) -> BTreeMap<String, f64> {
    let line = |line: &str| {
        let (name, seconds) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn render(seconds: &BTreeMap<String, f64>) -> String {
    seconds.iter().map(|(name, seconds)| format!("{name} {seconds:.1}\n")).collect()
}

/// `0.4 s`, `12 s`, `3 min 05 s`, `1 h 02 min`.
pub(crate) fn words(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds @ 120..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nonsense_is_left_out() {
        let text = "e2e_small 91.5\nunit 12.0\n";
        assert_eq!(render(&parse(text)), text);
        assert_eq!(render(&parse("\nunit\nunit x\nlifecycle 1\n")), "lifecycle 1.0\n");
    }

    #[test]
    fn a_suite_is_remembered() {
        let folder = std::env::temp_dir().join(format!("xtask-durations-test-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("created");
        let mut durations = Durations::read(&folder);
        assert_eq!(durations.of("unit"), None);
        durations.record("unit", Duration::from_millis(1500));
        assert_eq!(Durations::read(&folder).of("unit"), Some(Duration::from_millis(1500)));
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(words(Duration::from_millis(440)), "0.4 s");
        assert_eq!(words(Duration::from_secs(42)), "42 s");
        assert_eq!(words(Duration::from_secs(185)), "3 min 05 s");
        assert_eq!(words(Duration::from_secs(3725)), "1 h 02 min");
    }
}
