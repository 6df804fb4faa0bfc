//! The same requests to the embedded plane and to a real one: what both answer must be the same, field by field. Requests are
//! generated from a seed; a sequence that differs is made shorter until every request in it is needed.
//!
//! `CAPSTAN_SEED` plays the same sequences again; `CAPSTAN_SEQUENCES` says how many there are.

#![allow(clippy::unwrap_used)]

mod generate;
mod kinds;
mod play;
mod same;

use capstan_testkit::RealPlane;
use capstan_tests::{Embedded, Place};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::fmt::Write as _;

use kinds::KINDS;
use play::{Planes, Request};

/// Enough to meet every form of request several times.
const SEQUENCES: usize = 150;
/// How many differences are told at most.
const TOLD: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn both_planes_answer_alike() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("CAPSTAN_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let sequences = number("CAPSTAN_SEQUENCES").map_or(SEQUENCES, |number| usize::try_from(number).unwrap());
    eprintln!("CAPSTAN_SEED={seed} plays the same sequences again");
    let (real, embedded) = tokio::join!(RealPlane::start(), Embedded::start());
    let (real, embedded) = (real.unwrap(), embedded.unwrap());
    let admin = async |kubeconfig: &std::path::Path| Place::of(kubeconfig).unwrap().admin().await.unwrap();
    let planes = Planes::new(admin(real.kubeconfig()).await, admin(&embedded.kubeconfig()).await).await;
    let mut runner = runner(seed);
    let mut differences = Vec::new();
    for number in 0..sequences {
        let kind = &KINDS[number % KINDS.len()];
        let sequence: Vec<Request> = generate::sequence(kind).new_tree(&mut runner).unwrap().current();
        if planes.first_difference(&sequence).await.is_some() {
            differences.push(shortest(&planes, sequence).await);
            if differences.len() == TOLD {
                break;
            }
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// The sequence without the requests that do not matter, and what differs then.
async fn shortest(planes: &Planes, mut sequence: Vec<Request>) -> String {
    let mut at = 0;
    while at < sequence.len() {
        let mut shorter = sequence.clone();
        shorter.remove(at);
        match planes.first_difference(&shorter).await {
            Some(_) => sequence = shorter,
            None => at += 1,
        }
    }
    let difference = planes.first_difference(&sequence).await;
    let mut text = String::new();
    for request in &sequence {
        writeln!(text, "  {request}").unwrap();
    }
    let difference = difference.unwrap_or_else(|| "does not differ every time".to_owned());
    format!("{text}{difference}")
}
