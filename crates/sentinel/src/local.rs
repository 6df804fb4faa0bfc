//! Plans in a folder, and their position files.

use capstan_plan::Digest;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use crate::decide::{Decision, cooled_down};
use crate::output::{self, Bytes};
use crate::probe::Statuses;
use crate::report::Outcome;
use crate::time;

/// End of the name of a plan.
const PLAN: &str = ".plan";

/// End of the name of its position file.
const POSITION: &str = ".pos";

/// End of the name of a file that turns a plan off.
const SKIP: &str = ".skip";

/// Failures after which the pause does not grow.
const LONGEST_PAUSE: i32 = 6;

/// Largest size of one recorded output.
const OUTPUT: usize = 1024 * 1024;

/// How far a plan has come. Upstream knows the first four fields, and ignores the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Position {
    /// Checksum of the applied plan.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub applied_checksum: String,
    /// Saved output, compressed.
    #[serde(skip_serializing_if = "is_empty")]
    pub output: Bytes,
    /// Results of probes.
    #[serde(skip_serializing_if = "Statuses::is_empty")]
    pub probe_status: Statuses,
    /// Results of periodic instructions, compressed.
    #[serde(skip_serializing_if = "is_empty")]
    pub periodic_output: Bytes,
    /// Checksum of the plan that failed last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub failed_checksum: String,
    /// Its consecutive failures.
    #[serde(skip_serializing_if = "is_zero")]
    pub failure_count: u32,
    /// When a run last began.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_apply_time: String,
    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

fn is_empty(bytes: &Bytes) -> bool {
    bytes.0.is_empty()
}

const fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Position {
    /// Reads a position file. One that cannot be read is that of a plan that was never applied.
    pub fn parse(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// What to do about the plan with this checksum.
    pub fn decide(&self, checksum: &Digest, now: Timestamp) -> Decision {
        let checksum = checksum.to_string();
        let failures = if self.failed_checksum == checksum { self.failure_count } else { 0 };
        if failures == 0 {
            return match self.applied_checksum == checksum {
                true => Decision::Rest { until: None },
                false => Decision::Apply { attempt: 0, begins: false },
            };
        }
        let times = i32::try_from(failures).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        match cooled_down(&self.last_apply_time, SignedDuration::from_secs(30) * times, now) {
            Some(until) => Decision::Rest { until: Some(until) },
            None => Decision::Apply { attempt: failures.into(), begins: false },
        }
    }

    /// Records how a run ended.
    pub fn end(&mut self, checksum: &Digest, outcome: &Outcome) {
        let checksum = checksum.to_string();
        self.output = Bytes(output::pack_saved(&outcome.saved, OUTPUT));
        self.last_apply_time = time::format(outcome.began);
        self.message.clone_from(&outcome.message);
        if outcome.succeeded {
            self.applied_checksum = checksum;
            (self.failed_checksum, self.failure_count) = (String::new(), 0);
        } else {
            let before = if self.failed_checksum == checksum { self.failure_count } else { 0 };
            self.failure_count = before.saturating_add(1);
            if self.applied_checksum == checksum {
                self.applied_checksum.clear();
            }
            self.failed_checksum = checksum;
        }
    }

    /// Records results of periodic instructions.
    pub fn set_periodics(&mut self, periodics: &output::Periodics) {
        if output::unpack::<output::Periodics>(&self.periodic_output.0) != *periodics {
            self.periodic_output = Bytes(output::pack_periodics(periodics, OUTPUT));
        }
    }
}

/// The plans among the paths of files, in lexical order, each with its position file. A plan beside a file with the same
/// name and `.skip` is left out, and so is one whose name begins with a dot.
pub fn plans(paths: &BTreeSet<String>) -> Vec<(String, String)> {
    let is_plan = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.ends_with(PLAN) && !name.starts_with('.') && !paths.contains(&format!("{path}{SKIP}"))
    };
    let position = |path: &String| format!("{}{POSITION}", path.strip_suffix(PLAN).unwrap_or(path));
    paths.iter().filter(is_plan).map(|path| (path.clone(), position(path))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Saved;

    fn now() -> Timestamp {
        "2026-11-19T12:00:00Z".parse().expect("a time")
    }

    fn later(seconds: i64) -> Timestamp {
        now().checked_add(SignedDuration::from_secs(seconds)).expect("a time")
    }

    fn outcome(succeeded: bool, began: Timestamp) -> Outcome {
        let saved = Saved::from([("i".to_owned(), Bytes(b"x".to_vec()))]);
        Outcome { succeeded, saved, message: String::new(), began }
    }

    #[test]
    fn plans_are_found_in_order() {
        let paths = [
            "/p/b.plan",
            "/p/a/z.plan",
            "/p/.c.plan",
            "/p/d.plan",
            "/p/d.plan.skip",
            "/p/a/d.plan",
            "/p/x.txt",
        ];
        let paths = paths.map(str::to_owned).into();
        let expected =
            [("/p/a/d.plan", "/p/a/d.pos"), ("/p/a/z.plan", "/p/a/z.pos"), ("/p/b.plan", "/p/b.pos")];
        assert_eq!(plans(&paths), expected.map(|(plan, position)| (plan.to_owned(), position.to_owned())));
    }

    #[test]
    fn a_failed_plan_is_tried_again_after_growing_pauses() {
        let (this, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let mut position = Position::default();
        let apply = |attempt| Decision::Apply { attempt, begins: false };
        assert_eq!(position.decide(&this, now()), apply(0));
        for (failures, pause) in [(1, 30), (2, 60), (3, 90), (4, 120), (5, 150), (6, 180), (7, 180)] {
            position.end(&this, &outcome(false, now()));
            assert_eq!(
                position.decide(&this, later(pause - 1)),
                Decision::Rest { until: Some(later(pause)) }
            );
            assert_eq!(position.decide(&this, later(pause)), apply(failures));
            assert_eq!(position.decide(&other, now()), apply(0));
        }
        assert_eq!(position.applied_checksum, "");
        position.end(&this, &outcome(true, now()));
        assert_eq!(position.decide(&this, now()), Decision::Rest { until: None });
        assert_eq!((position.failure_count, position.failed_checksum.as_str()), (0, ""));
    }

    #[test]
    fn a_position_file_of_upstream_is_read() {
        let sum = Digest::of(b"a").to_string();
        let text = format!(
            r#"{{"appliedChecksum":"{sum}","output":"H4sI","probeStatus":{{"x":{{"healthy":true}}}}}}"#
        );
        let position = Position::parse(text.as_bytes());
        assert_eq!(position.decide(&Digest::of(b"a"), now()), Decision::Rest { until: None });
        assert!(position.probe_status["x"].healthy);
        assert_eq!(serde_json::to_string(&position).expect("JSON"), text);
        assert_eq!(Position::parse(b"damaged"), Position::default());
    }
}
