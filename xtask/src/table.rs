//! The table at the end of a run: suites, their results, their duration.

use std::fmt::Write;

use crate::suite::{Outcome, Ran};

pub(crate) fn render(outcomes: &[Outcome], strict: bool) -> String {
    let width = outcomes.iter().map(|outcome| outcome.name.len()).max().unwrap_or(0);
    let mut text = String::from("\n");
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for Outcome { name, result, took } in outcomes {
        let (word, note) = match result {
            Ran::Passed(tests) => {
                passed += 1;
                ("passed", tests.words())
            }
            Ran::Failed(why) => {
                failed += 1;
                ("FAILED", first_line(why))
            }
            Ran::Skipped(why) => {
                skipped += 1;
                (if strict { "SKIPPED" } else { "skipped" }, first_line(why))
            }
        };
        // Writing to a String cannot fail.
        _ = writeln!(text, "  {name:<width$}  {word:<7}  {:>7.1} s  {note}", took.as_secs_f64());
    }
    _ = writeln!(text, "\nsuites: {passed} passed, {failed} failed, {skipped} skipped");
    text
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Tests;
    use std::time::Duration;

    #[test]
    fn every_suite_has_a_line_and_the_last_line_counts() {
        let outcomes = [
            Outcome {
                name: "unit",
                result: Ran::Passed(Tests { passed: 12, failed: 0 }),
                took: Duration::from_millis(1500),
            },
            Outcome { name: "tools", result: Ran::Failed("no Go\nat all".to_owned()), took: Duration::ZERO },
            Outcome {
                name: "real-plane",
                result: Ran::Skipped("needs tools".to_owned()),
                took: Duration::ZERO,
            },
        ];
        let table = render(&outcomes, true);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[1], "  unit        passed       1.5 s  12 tests");
        assert_eq!(lines[2], "  tools       FAILED       0.0 s  no Go");
        assert_eq!(lines[3], "  real-plane  SKIPPED      0.0 s  needs tools");
        assert_eq!(lines[5], "suites: 1 passed, 1 failed, 1 skipped");
    }
}
