//! The time of decisions about a thousand machines.

#![allow(clippy::print_stdout, reason = "who measures prints")]

use capstan_controlplane::bench::Fleet;
use criterion::{Criterion, criterion_group, criterion_main};
use std::time::{Duration, Instant};

/// What the issue allows.
const LIMIT: Duration = Duration::from_millis(50);
/// How often it is measured for the line at the end.
const ROUNDS: usize = 21;

fn planner(criterion: &mut Criterion) {
    let kept = Fleet::new(3, 997).expect("a fleet");
    assert_eq!(kept.decide().expect("plans"), 0, "nothing has changed");
    let changed = Fleet::new(3, 997).expect("a fleet").outdated();
    for (what, fleet) in [("nothing has changed", &kept), ("everything has changed", &changed)] {
        criterion.bench_function(&format!("planner/1000 machines, {what}"), |bench| {
            bench.iter(|| std::hint::black_box(fleet).decide());
        });
        let mut times: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let started = Instant::now();
                std::hint::black_box(fleet.decide().expect("plans"));
                started.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("planner: 1,000 machines, {what}: {:.1?} (limit {LIMIT:?})", times[ROUNDS / 2]);
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).without_plots();
    targets = planner
}
criterion_main!(benches);
