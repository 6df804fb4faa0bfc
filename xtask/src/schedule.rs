//! Which suite starts next, and how long a run will take. Pure: states in, a decision out.

use std::time::Duration;

use crate::suite::{Load, Suite};

/// Where a suite is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Running,
    Passed,
    /// Failed or skipped.
    NotPassed,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Start(usize),
    /// It cannot run; the text says why.
    Skip(usize, String),
    /// Something must end first.
    Wait,
    Done,
}

/// Decides with at most `places` suites that share the machine. Suites start in their order; one that is not ready (what
/// it needs still runs) lets later ones pass.
pub(crate) fn next(suites: &[Suite], states: &[State], places: usize) -> Next {
    let running = |load| {
        let all = suites.iter().zip(states);
        all.filter(|(suite, state)| suite.load == load && **state == State::Running).count()
    };
    let (alone, shared, background) =
        (running(Load::Alone), running(Load::Shared), running(Load::Background));
    // A ready suite that needs the machine for itself is not overtaken: it would wait for ever.
    let mut closed = alone > 0;
    for (index, suite) in suites.iter().enumerate().filter(|(index, _)| states[*index] == State::Waiting) {
        match readiness(suite, suites, states) {
            Readiness::Never(why) => return Next::Skip(index, why),
            Readiness::NotYet => continue,
            Readiness::Now => {}
        }
        match suite.load {
            Load::Background if background == 0 => return Next::Start(index),
            Load::Alone if !closed && shared == 0 => return Next::Start(index),
            Load::Alone => closed = true,
            Load::Shared if !closed && shared < places => return Next::Start(index),
            Load::Background | Load::Shared => {}
        }
    }
    if alone + shared + background > 0 {
        return Next::Wait;
    }
    match states.iter().position(|state| *state == State::Waiting) {
        Some(index) => Next::Skip(index, "what it needs waits for it".to_owned()),
        None => Next::Done,
    }
}

enum Readiness {
    Now,
    NotYet,
    Never(String),
}

fn readiness(suite: &Suite, suites: &[Suite], states: &[State]) -> Readiness {
    let mut ready = Readiness::Now;
    for needed in &suite.needs {
        let state = suites.iter().position(|other| other.name == *needed).map(|index| states[index]);
        match state {
            Some(State::Passed) => {}
            Some(State::Waiting | State::Running) => ready = Readiness::NotYet,
            Some(State::NotPassed) | None => {
                return Readiness::Never(format!("needs `{needed}`, which did not pass"));
            }
        }
    }
    ready
}

/// How long the rest takes if each suite takes what it `takes` in all and every suite passes. `ran` is how long each
/// running suite has been running.
pub(crate) fn time_left(
    suites: &[Suite],
    states: &[State],
    takes: &[Duration],
    ran: &[Duration],
    places: usize,
) -> Duration {
    let mut states = states.to_vec();
    let mut rest: Vec<Duration> = takes.iter().zip(ran).map(|(all, ran)| all.saturating_sub(*ran)).collect();
    let mut total = Duration::ZERO;
    loop {
        match next(suites, &states, places) {
            Next::Start(index) => states[index] = State::Running,
            Next::Skip(index, _) => states[index] = State::NotPassed,
            Next::Done => return total,
            Next::Wait => {
                let running: Vec<usize> =
                    (0..suites.len()).filter(|index| states[*index] == State::Running).collect();
                let Some(first) = running.iter().copied().min_by_key(|index| rest[*index]) else {
                    return total;
                };
                let step = rest[first];
                total += step;
                for index in running {
                    rest[index] = rest[index].saturating_sub(step);
                }
                states[first] = State::Passed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Tests;

    fn suite(name: &'static str, load: Load, needs: &[&'static str]) -> Suite {
        Suite::new(name, "", |_| Ok(Tests::ONE)).load(load).needs(needs)
    }

    fn plan() -> Vec<Suite> {
        vec![
            suite("lints", Load::Alone, &[]),
            suite("tools", Load::Background, &[]),
            suite("machines", Load::Background, &[]),
            suite("a", Load::Shared, &["tools"]),
            suite("b", Load::Shared, &["tools"]),
            suite("c", Load::Shared, &[]),
            suite("alone", Load::Alone, &["tools"]),
            suite("d", Load::Shared, &[]),
        ]
    }

    use State::{NotPassed, Passed, Running, Waiting};

    #[test]
    fn builds_start_beside_a_suite_that_has_the_machine_for_itself() {
        let suites = plan();
        let mut states = [Waiting; 8];
        assert_eq!(next(&suites, &states, 2), Next::Start(0));
        states[0] = Running;
        assert_eq!(next(&suites, &states, 2), Next::Start(1));
        states[1] = Running;
        assert_eq!(next(&suites, &states, 2), Next::Wait);
    }

    #[test]
    fn suites_that_do_not_need_a_build_pass_those_that_do() {
        let suites = plan();
        let mut states = [Passed, Running, Waiting, Waiting, Waiting, Waiting, Waiting, Waiting];
        assert_eq!(next(&suites, &states, 2), Next::Start(5));
        states[5] = Running;
        assert_eq!(next(&suites, &states, 2), Next::Start(7));
        states[7] = Running;
        assert_eq!(next(&suites, &states, 2), Next::Wait);
    }

    #[test]
    fn a_ready_suite_that_wants_the_machine_for_itself_is_not_overtaken() {
        let suites = plan();
        let mut states = [Passed, Passed, Running, Passed, Running, Passed, Waiting, Waiting];
        assert_eq!(next(&suites, &states, 2), Next::Wait);
        states[4] = Passed;
        assert_eq!(next(&suites, &states, 2), Next::Start(6));
        states[6] = Passed;
        assert_eq!(next(&suites, &states, 2), Next::Start(7));
    }

    #[test]
    fn a_suite_is_skipped_if_what_it_needs_did_not_pass() {
        let suites = plan();
        let states = [Passed, NotPassed, Running, Waiting, Passed, Passed, Passed, Passed];
        let Next::Skip(3, why) = next(&suites, &states, 2) else { panic!("it starts") };
        assert_eq!(why, "needs `tools`, which did not pass");
        let lonely = [suite("a", Load::Shared, &["gone"])];
        assert!(matches!(next(&lonely, &[Waiting], 2), Next::Skip(0, _)));
    }

    #[test]
    fn needs_that_form_a_circle_end() {
        let circle = [suite("a", Load::Shared, &["b"]), suite("b", Load::Shared, &["a"])];
        assert!(matches!(next(&circle, &[Waiting, Waiting], 2), Next::Skip(0, _)));
        assert!(matches!(next(&circle, &[NotPassed, Waiting], 2), Next::Skip(1, _)));
        assert_eq!(next(&circle, &[NotPassed, NotPassed], 2), Next::Done);
    }

    #[test]
    fn every_suite_ends_once_and_the_time_is_that_of_the_schedule() {
        let suites = plan();
        let seconds = [10, 30, 100, 20, 20, 5, 10, 5].map(Duration::from_secs);
        let none = [Duration::ZERO; 8];
        // lints 0..10, c and d 10..15, tools until 30, a and b 30..50, alone 50..60, machines 30..130.
        let all = time_left(&suites, &[Waiting; 8], &seconds, &none, 2);
        assert_eq!(all, Duration::from_secs(130));
        let mut ran = none;
        ran[2] = Duration::from_secs(90);
        let states = [Passed, Passed, Running, Passed, Passed, Passed, Waiting, Passed];
        assert_eq!(time_left(&suites, &states, &seconds, &ran, 2), Duration::from_secs(10));
    }
}
