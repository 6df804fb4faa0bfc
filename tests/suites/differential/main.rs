//! The same requests to the embedded plane and to a real one: what both answer must be the same, field by field. Requests are
//! generated from a seed; a sequence that differs is made shorter until every request in it is needed.
//!
//! Each run has a fresh seed and prints it, also beside what differs; `make test` always plays the same one. `CAPSTAN_SEED` plays a
//! seed again; `CAPSTAN_SEQUENCES` says how many sequences there are.

#![cfg(test)]

mod definitions;
mod generate;
mod kinds;
mod mutations;
mod play;
mod reading;
mod rules;
mod same;
mod users;

use capstan_testkit::RealPlane;
use capstan_tests::{Embedded, Place};
use proptest::strategy::{BoxedStrategy, Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use kinds::{KINDS, TrialKind};
use play::{Planes, Request};

/// Enough to meet every form of request several times.
const SEQUENCES: usize = 150;
/// A definition with its rules and objects takes as long as so many sequences.
const SEQUENCES_TO_A_DEFINITION: usize = 50;
/// How many differences are told at most.
const MOST_SHOWN: usize = 12;

/// Both planes, and what chooses.
struct Trial {
    planes: Planes,
    seed: u64,
    runner: TestRunner,
    sequences: usize,
    _running: (RealPlane, Embedded),
}

impl Trial {
    async fn start() -> Self {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
        let seed = match std::env::var("CAPSTAN_SEED").as_deref() {
            Err(_) => fresh_seed(),
            Ok(text) => text.parse().expect("CAPSTAN_SEED"),
        };
        let sequences =
            number("CAPSTAN_SEQUENCES").map_or(SEQUENCES, |number| usize::try_from(number).unwrap());
        eprintln!("CAPSTAN_SEED={seed} plays the same requests again");
        // One after the other: the first may be built before it starts, and nothing else moves meanwhile.
        let embedded = Embedded::start().await.unwrap();
        let real = RealPlane::start().await.unwrap();
        let admin =
            async |kubeconfig: &std::path::Path| Place::of(kubeconfig).unwrap().admin().await.unwrap();
        let planes = Planes::new(admin(real.kubeconfig()).await, admin(&embedded.kubeconfig()).await).await;
        Self { planes, seed, runner: runner(seed), sequences, _running: (real, embedded) }
    }

    /// Plays sequences of all kinds in turn, and returns the shortest form of each that differs.
    async fn play(
        &mut self,
        count: usize,
        sequences: impl Fn(&TrialKind) -> BoxedStrategy<Vec<Request>>,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        for number in 0..count {
            let kind = &KINDS[number % KINDS.len()];
            let sequence = sequences(kind).new_tree(&mut self.runner).unwrap().current();
            // Twice: a difference that is gone the second time comes from a controller of the real plane.
            if self.planes.first_difference(kind, &sequence).await.is_some()
                && self.planes.first_difference(kind, &sequence).await.is_some()
            {
                differences.push(shortest(&self.planes, kind, sequence).await);
                if differences.len() == MOST_SHOWN {
                    break;
                }
            }
        }
        differences
    }

    /// Fails if anything differs, and says how to see it again.
    fn conclude(&self, differences: &[String]) {
        let (count, told, seed) = (differences.len(), differences.join("\n"), self.seed);
        assert!(
            differences.is_empty(),
            "{count} differ; CAPSTAN_SEED={seed} plays the same requests again:\n{told}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_alike() {
    let mut trial = Trial::start().await;
    let differences = trial.play(trial.sequences, |kind| generate::sequence(kind).boxed()).await;
    trial.conclude(&differences);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_with_few_rights_are_answered_alike() {
    let mut trial = Trial::start().await;
    users::introduce(&trial.planes).await;
    let differences = trial.play(trial.sequences, |kind| users::sequence(kind).boxed()).await;
    trial.conclude(&differences);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_judged_alike() {
    let mut trial = Trial::start().await;
    let mut differences = Vec::new();
    for number in 0..trial.sequences.div_ceil(SEQUENCES_TO_A_DEFINITION) {
        differences.extend(rules::differences(&trial.planes, &mut trial.runner, number).await);
        if differences.len() >= MOST_SHOWN {
            break;
        }
    }
    trial.conclude(&differences);
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_judged_alike() {
    let trial = Trial::start().await;
    let differences = definitions::differences(&trial.planes).await;
    trial.conclude(&differences);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_mutated_alike() {
    let mut trial = Trial::start().await;
    let differences = mutations::differences(&trial.planes, &mut trial.runner).await;
    trial.conclude(&differences[..differences.len().min(MOST_SHOWN)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_shown_alike() {
    let mut trial = Trial::start().await;
    let differences = reading::differences(&trial.planes, &mut trial.runner).await;
    trial.conclude(&differences);
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    now.as_secs() ^ u64::from(now.subsec_nanos())
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// The sequence without the requests that do not matter, and what differs then.
async fn shortest(planes: &Planes, kind: &TrialKind, mut sequence: Vec<Request>) -> String {
    let mut at = 0;
    while at < sequence.len() {
        let mut shorter = sequence.clone();
        shorter.remove(at);
        match planes.first_difference(kind, &shorter).await {
            Some(_) => sequence = shorter,
            None => at += 1,
        }
    }
    let difference = planes.first_difference(kind, &sequence).await;
    let mut text = String::new();
    for request in &sequence {
        writeln!(text, "  {request}").unwrap();
    }
    let difference = difference.unwrap_or_else(|| "does not differ every time".to_owned());
    format!("{text}{difference}")
}
