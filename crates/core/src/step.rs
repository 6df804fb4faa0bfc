//! How one step of a reconcile ended.

use capstan_controller::error::chain;
use capstan_controller::{Error, Next, Result};

/// What the steps of a reconcile add up to: a problem does not keep later steps from running, nor status from being
/// written, but it is what the reconcile ends with.
#[derive(Debug)]
pub(crate) struct Steps {
    next: Next,
    problem: Option<Error>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { next: Next::Changed, problem: None }
    }

    /// Counts one more step.
    pub(crate) fn add(&mut self, result: Result<Next>) {
        match result {
            Ok(next) => self.next = self.next.or(next),
            Err(problem) if self.problem.is_none() => self.problem = Some(problem),
            // Only one can be handed on: the first is the likeliest cause of the others.
            Err(problem) => tracing::warn!(error = %chain(&problem), "failed as well"),
        }
    }

    /// Counts a step that never waits.
    pub(crate) fn check(&mut self, result: Result<()>) {
        self.add(result.map(|()| Next::Changed));
    }

    /// Counts a step, and gives what it was for, if it succeeded.
    pub(crate) fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(problem) => {
                self.check(Err(problem));
                None
            }
        }
    }

    pub(crate) fn succeeded(&self) -> bool {
        self.problem.is_none()
    }

    pub(crate) fn end(self) -> Result<Next> {
        match self.problem {
            Some(problem) => Err(problem),
            None => Ok(self.next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_first_problem_and_the_soonest_look_count() {
        let mut steps = Steps::new();
        steps.add(Ok(Next::After(Duration::from_secs(9))));
        steps.add(Ok(Next::After(Duration::from_secs(3))));
        assert!(steps.succeeded());
        assert_eq!(
            Steps { next: steps.next, problem: None }.end().ok(),
            Some(Next::After(Duration::from_secs(3)))
        );
        steps.check(Err(Error::user("a", "b")));
        steps.check(Err(Error::user("c", "d")));
        assert_eq!(steps.end().expect_err("a problem").to_string(), "a: b");
    }
}
