//! A suite: its name, what it needs, how much of the machine it takes, and its result.

use anyhow::Result;
use std::time::Duration;

use crate::log::Log;

/// Something that can pass or fail, under a name.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What it covers, as a noun phrase: `docs/contributing/testing.md` has the same words.
    pub(crate) about: &'static str,
    /// The suites that must have passed before; if one did not, this suite is skipped.
    pub(crate) needs: Vec<&'static str>,
    pub(crate) load: Load,
    pub(crate) run: Run,
}

type Run = Box<dyn Fn(&Log) -> Result<Tests> + Send + Sync>;

/// How much of the machine a suite takes while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// A build at low priority, which only later suites need: runs beside everything but another such build.
    Background,
    /// Waits most of the time, for programs to start and for conditions: runs beside others of its sort.
    Shared,
    /// Keeps every core busy: nothing but a build in the background runs beside it.
    Alone,
}

impl Suite {
    pub(crate) fn new(
        name: &'static str,
        about: &'static str,
        run: impl Fn(&Log) -> Result<Tests> + Send + Sync + 'static,
    ) -> Self {
        Self { name, about, needs: Vec::new(), load: Load::Shared, run: Box::new(run) }
    }

    pub(crate) fn needs(self, needs: &[&'static str]) -> Self {
        Self { needs: needs.to_vec(), ..self }
    }

    pub(crate) fn load(self, load: Load) -> Self {
        Self { load, ..self }
    }

    pub(crate) fn alone(self) -> Self {
        self.load(Load::Alone)
    }

    pub(crate) fn background(self) -> Self {
        self.load(Load::Background)
    }
}

/// How many tests a suite ran. A suite that is a single check counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
}

impl Tests {
    pub(crate) const ONE: Self = Self { passed: 1, failed: 0 };

    /// `1 test`, `12 tests`: those that passed.
    pub(crate) fn words(self) -> String {
        format!("{} {}", self.passed, if self.passed == 1 { "test" } else { "tests" })
    }
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

/// What a suite's return value means.
pub(crate) fn verdict(result: Result<Tests>) -> Ran {
    match result {
        Ok(tests) if tests.failed > 0 => Ran::Failed(format!("{} tests failed", tests.failed)),
        Ok(Tests { passed: 0, .. }) => Ran::Failed("not a single test was run".to_owned()),
        Ok(tests) => Ran::Passed(tests),
        Err(error) => Ran::Failed(format!("{error:#}")),
    }
}

/// Whether a run succeeds. A skip is a failure only if `strict`.
pub(crate) fn is_green(outcomes: &[Outcome], strict: bool) -> bool {
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
}
