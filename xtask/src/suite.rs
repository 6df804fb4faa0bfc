//! A suite, how it is run, and what came of it.

use anyhow::Result;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::table;

/// Something that can pass or fail, under a name.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What must have passed before; when it did not, this suite is skipped.
    pub(crate) needs: Option<&'static str>,
    pub(crate) run: Box<dyn Fn() -> Result<Tests>>,
}

/// How many tests a suite ran. A suite that is a single check counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
}

impl Tests {
    pub(crate) const ONE: Self = Self { passed: 1, failed: 0 };
}

pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) result: Ran,
    pub(crate) took: Duration,
}

pub(crate) enum Ran {
    Passed(Tests),
    Failed(String),
    Skipped(String),
}

/// Runs the suites in order, prints the table, and says whether all is well. A failure does not stop the
/// suites after it: one run should show everything that is wrong.
pub(crate) fn run_all(suites: &[Suite]) -> ExitCode {
    let strict = std::env::var("STRICT").is_ok_and(|value| !matches!(value.as_str(), "" | "0"));
    let mut outcomes: Vec<Outcome> = Vec::new();
    for suite in suites {
        announce(suite.name);
        let started = Instant::now();
        let result = match blocked(suite, &outcomes) {
            Some(why) => Ran::Skipped(why),
            None => verdict((suite.run)()),
        };
        if let Ran::Failed(why) | Ran::Skipped(why) = &result {
            eprintln!("{}: {why}", suite.name);
        }
        outcomes.push(Outcome { name: suite.name, result, took: started.elapsed() });
    }
    // A reader of the log may be gone; the exit code still tells.
    _ = std::io::stdout().write_all(table::render(&outcomes, strict).as_bytes());
    if is_green(&outcomes, strict) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn announce(name: &str) {
    eprintln!("\n=== {name}");
}

fn blocked(suite: &Suite, before: &[Outcome]) -> Option<String> {
    let needed = suite.needs?;
    let passed = before.iter().any(|o| o.name == needed && matches!(o.result, Ran::Passed(_)));
    (!passed).then(|| format!("needs `{needed}`, which did not pass"))
}

fn verdict(result: Result<Tests>) -> Ran {
    match result {
        Ok(tests) if tests.failed > 0 => Ran::Failed(format!("{} tests failed", tests.failed)),
        Ok(Tests { passed: 0, .. }) => Ran::Failed("not a single test was run".to_owned()),
        Ok(tests) => Ran::Passed(tests),
        Err(error) => Ran::Failed(format!("{error:#}")),
    }
}

fn is_green(outcomes: &[Outcome], strict: bool) -> bool {
    outcomes.iter().all(|outcome| match outcome.result {
        Ran::Passed(_) => true,
        Ran::Failed(_) => false,
        Ran::Skipped(_) => !strict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &'static str, result: Ran) -> Outcome {
        Outcome { name, result, took: Duration::ZERO }
    }

    #[test]
    fn a_skip_is_a_failure_only_when_strict() {
        let outcomes = [outcome("a", Ran::Passed(Tests::ONE)), outcome("b", Ran::Skipped("why".to_owned()))];
        assert!(is_green(&outcomes, false));
        assert!(!is_green(&outcomes, true));
    }

    #[test]
    fn a_failure_is_a_failure() {
        assert!(!is_green(&[outcome("a", Ran::Failed("why".to_owned()))], false));
    }

    #[test]
    fn a_suite_without_tests_fails() {
        assert!(matches!(verdict(Ok(Tests::default())), Ran::Failed(_)));
        assert!(matches!(verdict(Ok(Tests { passed: 2, failed: 1 })), Ran::Failed(_)));
        assert!(matches!(verdict(Ok(Tests::ONE)), Ran::Passed(Tests::ONE)));
    }

    #[test]
    fn a_suite_waits_for_what_it_needs() {
        let suite = Suite { name: "b", needs: Some("a"), run: Box::new(|| Ok(Tests::ONE)) };
        assert!(blocked(&suite, &[]).is_some());
        assert!(blocked(&suite, &[outcome("a", Ran::Failed(String::new()))]).is_some());
        assert!(blocked(&suite, &[outcome("a", Ran::Passed(Tests::ONE))]).is_none());
    }
}
