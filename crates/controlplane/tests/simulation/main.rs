//! Many lives of control planes, each from a seed: users change their minds, machines are slow, fail and vanish, agents
//! die, and the manager dies at any write and is called more often than it should. Whatever happens: never two machines
//! that begin the cluster, never a majority lost by our doing, never more at once than allowed, never a machine replaced
//! that nobody asked to replace; and when it is quiet again, everything is as it should be.
//!
//! `CAPSTAN_SEED=7 cargo test -p capstan-controlplane --test simulation` replays one life and prints it turn by turn;
//! `CAPSTAN_SIMULATIONS=5000` tries so many. The seed decides everything: time, names, and who does what when.

#![cfg(test)]
#![allow(clippy::large_futures, reason = "a test has room on its stack")]
#![allow(clippy::disallowed_methods, reason = "a test plays users, who delete what they like")]

mod faults;
mod life;
mod peace;
mod plane;
mod seen;
mod ward;
#[path = "../world/mod.rs"]
mod world;

use std::sync::Arc;

use anyhow::Result;
use futures::StreamExt as _;
use life::Life;
use plane::SimulatedPlane;

/// How many lives, when nobody says.
const LIVES: u64 = 40;
/// How many at the same time.
const SIDE_BY_SIDE: usize = 4;
/// What lives leave behind stays on their plane; so it is replaced now and then.
const LIVES_OF_A_PLANE: usize = 100;

/// A life, and what it told of itself.
async fn live(plane: Arc<SimulatedPlane>, namespace: String, seed: u64) -> (Vec<String>, Result<()>) {
    match Box::pin(Life::begin(&plane, &namespace, seed)).await {
        Ok(mut life) => {
            let result = Box::pin(life.live()).await;
            (life.history, result)
        }
        Err(error) => (Vec::new(), Err(error)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_it_ends_well() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    if let Some(seed) = number("CAPSTAN_SEED") {
        let plane = Arc::new(Box::pin(SimulatedPlane::open()).await.unwrap());
        let (history, result) = Box::pin(live(plane, format!("life-{seed}"), seed)).await;
        assert!(result.is_ok(), "{}\nCAPSTAN_SEED={seed}: {:#}", history.join("\n"), result.unwrap_err());
        return;
    }
    let seeds = number("CAPSTAN_SIMULATIONS").unwrap_or(LIVES);
    let mut failed = Vec::new();
    for first in (0..seeds).step_by(LIVES_OF_A_PLANE) {
        failed.extend(live_all(first..seeds.min(first + LIVES_OF_A_PLANE as u64)).await);
        eprintln!("{} of {} lives failed", failed.len(), seeds.min(first + LIVES_OF_A_PLANE as u64));
    }
    assert!(failed.is_empty(), "{} of {seeds} lives:\n{}", failed.len(), failed.join("\n"));
}

/// Lives on one plane, some side by side; gives those that did not end well.
async fn live_all(seeds: std::ops::Range<u64>) -> Vec<String> {
    let plane = Arc::new(Box::pin(SimulatedPlane::open()).await.unwrap());
    futures::stream::iter(seeds)
        .map(|seed| {
            let life = tokio::spawn(Box::pin(live(Arc::clone(&plane), format!("life-{seed}"), seed)));
            async move {
                let (_, result) = life.await.unwrap();
                let failed = result.err().map(|error| format!("CAPSTAN_SEED={seed}: {error:#}"));
                failed.inspect(|failed| eprintln!("{failed}"))
            }
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .filter_map(std::future::ready)
        .collect()
        .await
}

/// Otherwise a seed would be worth nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_seed_is_a_life() {
    let plane = Arc::new(Box::pin(SimulatedPlane::open()).await.unwrap());
    for seed in [1, 2, 3] {
        let (once, again) = tokio::join!(
            Box::pin(live(Arc::clone(&plane), format!("once-{seed}"), seed)),
            Box::pin(live(Arc::clone(&plane), format!("again-{seed}"), seed))
        );
        assert!(once.0.len() > 20, "{:?}", once.1);
        for (a, b) in once.0.iter().zip(&again.0) {
            assert_eq!(a, b, "seed {seed}");
        }
        assert_eq!(once.0.len(), again.0.len());
    }
}
