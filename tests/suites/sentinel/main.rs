//! The contract of rancher/system-agent, written from its specification: the same cases run against `capstan-agent sentinel` and
//! against rancher/system-agent itself, on the embedded plane and on a real API server.
//!
//! `make test` runs them for our program on the embedded plane. With `CAPSTAN_SYSTEM_AGENT`, the path of upstream's program, all
//! four combinations run. Cases that upstream does not pass are in [`MISTAKES`], and run for our program only.

#![cfg(test)]

mod heart;
mod local;
mod mistakes;
mod remote;
mod stage;
mod states;

use std::collections::VecDeque;
use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use capstan_testkit::RealPlane;
use capstan_tests::{Embedded, Place, agent_binary};
use stage::Stage;

/// How many cases run at the same time: each waits most of the time.
const AT_ONCE: usize = 6;

/// A behaviour.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    name: &'static str,
    run: Run,
}

type Run = for<'a> fn(&'a Stage) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The cases that are these functions.
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        &[$(crate::Case { name: stringify!($name), run: |stage| Box::pin($name(stage)) }),+]
    };
}
pub(crate) use cases;

/// Cases that rancher/system-agent 0.15 does not pass, and what it does instead.
const MISTAKES: &[(&str, &str)] = &[
    ("standard_error_is_saved", "the output of one-time instructions has no standard error"),
    ("long_lines_do_not_block", "a line of more than 64 KiB is not read, and the command never ends"),
    ("a_service_does_not_delay_the_plan", "a child that keeps the output open delays the plan until it ends"),
    ("a_conflict_does_not_end_the_agent", "a conflict with another plan in the Secret ends the process"),
    ("a_failure_stays_reported", "the next look at the Secret erases the failure and acknowledges the plan"),
    ("a_plan_that_was_not_run_is_not_acknowledged", "a changed plan in a terminal state is acknowledged"),
    ("a_blanked_report_is_written_again", "with a state, a report that was blanked stays blank"),
    (
        "an_orphaned_command_is_not_run_twice",
        "a new process runs the plan again, beside the command that runs",
    ),
    ("a_failing_periodic_instruction_starves_no_other", "those after it do not run"),
    ("a_failed_local_plan_is_tried_again", "the checksum of a failed local plan is recorded as applied"),
];

fn all_cases() -> Vec<Case> {
    [remote::CASES, states::CASES, local::CASES, mistakes::CASES].concat()
}

/// A program that applies plans.
#[derive(Clone)]
pub(crate) struct Program {
    path: PathBuf,
    is_ours: bool,
}

impl Program {
    fn ours() -> Self {
        Self { path: agent_binary().unwrap(), is_ours: true }
    }

    /// rancher/system-agent, if it is to be tested.
    fn theirs() -> Option<Self> {
        let path = std::env::var_os("CAPSTAN_SYSTEM_AGENT")?;
        let user = std::fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(user, 0, "rancher/system-agent runs as root only: run this suite as root");
        Some(Self { path: path.into(), is_ours: false })
    }
}

/// Runs every case, each in a thread and a namespace of its own.
fn all_pass(place: &Place, program: &Program) {
    let is_skipped = |case: &Case| !program.is_ours && MISTAKES.iter().any(|(name, _)| *name == case.name);
    let cases: VecDeque<Case> = all_cases().into_iter().filter(|case| !is_skipped(case)).collect();
    let cases = Arc::new(Mutex::new(cases));
    let workers: Vec<_> = (0..AT_ONCE)
        .map(|_| {
            let (cases, place, program) = (Arc::clone(&cases), place.clone(), program.clone());
            std::thread::spawn(move || {
                let mut failed = Vec::new();
                while let Some(case) = next(&cases) {
                    let (place, program) = (place.clone(), program.clone());
                    // A thread of its own: the others go on if it panics.
                    let ran = std::thread::spawn(move || run(case, &place, program));
                    if ran.join().is_err() {
                        failed.push(case.name);
                    }
                }
                failed
            })
        })
        .collect();
    let failed: Vec<&str> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    assert!(failed.is_empty(), "{} does not pass: {failed:?}", program.path.display());
}

fn next(cases: &Mutex<VecDeque<Case>>) -> Option<Case> {
    cases.lock().unwrap().pop_front()
}

fn run(case: Case, place: &Place, program: Program) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::new(place, program, case.name).await;
        (case.run)(&stage).await;
    });
}

async fn on_the_embedded_plane(program: Program) {
    let plane = Embedded::start().await.unwrap();
    let place = Place::of(&plane.kubeconfig()).unwrap();
    tokio::task::spawn_blocking(move || all_pass(&place, &program)).await.unwrap();
}

async fn on_a_real_plane(program: Program) {
    let plane = RealPlane::start().await.unwrap();
    let place = Place::of(plane.kubeconfig()).unwrap();
    tokio::task::spawn_blocking(move || all_pass(&place, &program)).await.unwrap();
}

#[test]
fn every_mistake_is_that_of_a_case() {
    let names: Vec<&str> = all_cases().iter().map(|case| case.name).collect();
    for (name, _) in MISTAKES {
        assert!(names.contains(name), "{name}");
    }
    let ours: Vec<&str> = mistakes::CASES.iter().map(|case| case.name).collect();
    let listed: Vec<&str> = MISTAKES.iter().map(|(name, _)| *name).collect();
    assert_eq!(ours, listed);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_agent_on_the_embedded_plane() {
    on_the_embedded_plane(Program::ours()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_agent_on_a_real_plane() {
    if Program::theirs().is_some() {
        on_a_real_plane(Program::ours()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_agent_on_the_embedded_plane() {
    if let Some(program) = Program::theirs() {
        on_the_embedded_plane(program).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_agent_on_a_real_plane() {
    if let Some(program) = Program::theirs() {
        on_a_real_plane(program).await;
    }
}
