//! Nonsense of every sort, made from what clients really send: the server answers, does not panic, does not grow, and works
//! afterwards. What once failed is kept in `tests/corpus`, one input to a line, and is tried first in every run.
//!
//! `CAPSTAN_FUZZ` says how many inputs are made up, of a seed that is told; `CAPSTAN_SEED` repeats a run.

#![cfg(test)]

mod mutate;
#[path = "../support/mod.rs"]
mod support;
mod targets;

use std::{
    io::Write as _,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use mutate::Dice;
use support::{CRDS, MAPS, TestPlane, WIDGETS, map, widget, widgets};
use targets::{Answer, Input, TARGETS, Target};

/// Among the unit tests, where every run is the same.
const ROUNDS: u64 = 1000;
/// What any answer may take on a busy machine.
const SOON: Duration = Duration::from_secs(120);
/// The largest answer there is a reason for, in bytes.
const LARGEST: usize = 32 << 20;
/// Megabytes by which the process may have grown in the end.
const GROWN: u64 = 1500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect(name))
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_survives_nonsense() {
    let asked = number("CAPSTAN_FUZZ");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let seed = number("CAPSTAN_SEED").unwrap_or(if asked.is_some() { now.into() } else { 1 });
    let rounds = asked.unwrap_or(ROUNDS);
    // Not captured: whatever ends the process leaves it to be seen.
    let settings = format!("CAPSTAN_SEED={seed} CAPSTAN_FUZZ={rounds}\n");
    std::io::stderr().write_all(settings.as_bytes()).unwrap();
    let plane = fresh().await;
    let before = memory();
    let corpora: Vec<Vec<Input>> = TARGETS.iter().map(Target::corpus).collect();
    for (target, corpus) in TARGETS.iter().zip(&corpora) {
        for input in corpus {
            attempt(&plane, target, input).await;
        }
        works(&plane).await;
    }
    let mut dice = Dice::new(seed);
    for round in 0..rounds {
        let place = dice.below(TARGETS.len());
        let input = mutate::mutated(&mut dice, &corpora[place]);
        attempt(&plane, &TARGETS[place], &input).await;
        if round % 200 == 199 {
            works(&plane).await;
        }
    }
    works(&plane).await;
    let grown = memory().saturating_sub(before);
    assert!(grown < GROWN, "grown by {grown} MB");
    plane.server.shutdown().await;
}

/// A server with a kind of its own and something to patch.
async fn fresh() -> TestPlane {
    let plane = TestPlane::start().await;
    plane.admin.make(CRDS, &widgets()).await;
    plane
        .admin
        .make(WIDGETS, &widget("w", serde_json::json!({"size": "S", "parts": [{"name": "a", "n": 1}]})))
        .await;
    plane.admin.make(MAPS, &map("m")).await;
    plane
}

/// Tries one input; a failure says how to keep it.
async fn attempt(plane: &TestPlane, target: &'static Target, input: &Input) {
    let line = serde_json::to_string(&input.text()).unwrap();
    let keep = format!("keep it as a line of tests/corpus/{}.txt: {line}", target.name);
    // For what ends the process before anything can be told.
    let last = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-last.txt");
    std::fs::write(last, &keep).unwrap();
    let (caller, input) = (plane.admin.clone(), input.clone());
    let tried = tokio::spawn(async move { (target.attempt)(caller, input).await });
    let tried = tokio::time::timeout(SOON, tried).await;
    let answer = tried
        .unwrap_or_else(|_| panic!("no answer; {keep}"))
        .unwrap_or_else(|error| panic!("{error}; {keep}"));
    if let Some(Answer { is_failure, code, size }) = answer {
        assert!(!is_failure, "{code}; {keep}");
        assert!(size < LARGEST, "an answer of {size} bytes; {keep}");
    }
}

/// Fails unless the server does what it is for; puts back what nonsense may have changed.
async fn works(plane: &TestPlane) {
    let admin = &plane.admin;
    admin.delete(MAPS, &serde_json::Value::Null).await;
    admin.delete(WIDGETS, &serde_json::Value::Null).await;
    for (collection, object) in [(MAPS, map("m")), (WIDGETS, widget("w", serde_json::json!({"size": "S"})))] {
        let name = object["metadata"]["name"].as_str().unwrap();
        // What was given a finalizer waits for somebody to take it away.
        let path = format!("{collection}/{name}");
        admin.merge(&path, &serde_json::json!({"metadata": {"finalizers": null}})).await;
        admin.gone(&path).await;
        admin.make(collection, &object).await;
        assert_eq!(admin.get(&path).await.0, 200);
    }
}
