//! A fleet: many clusters on one management plane. It measures all of Capstan at several sizes, and compares Capstan's
//! core manager with upstream's.
//!
//! `CAPSTAN_BINARY` is the path of the released `capstan`; `make bench` builds it. With `SMALL` the benchmark takes
//! minutes and only shows that it works; the variables `FLEET_*` set how much is measured (`settings.rs`). It ends with
//! an error if a limit is exceeded.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod core_managers;
mod files;
mod follow;
mod meter;
mod objects;
mod show;
mod traffic;
mod whole;

use std::process::ExitCode;

use anyhow::{Result, ensure};
use capstan_benches::fleet::figures::{Figure, table};
use capstan_benches::fleet::settings::{Part, Settings};

use core_managers::Contender;
use whole::Shape;

/// Workers of each cluster of a fleet.
const WORKERS: usize = 3;

// One thread, because the other core is for what is measured.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // On one line, without a backtrace: a missed bar is a result.
            eprintln!("fleet: {}", error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": "));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<()> {
    capstan_testkit::install_crypto_provider();
    ensure!(
        std::env::var_os("CAPSTAN_BINARY").is_some(),
        "CAPSTAN_BINARY must name a release build of capstan"
    );
    files::allow_many();
    let settings = Settings::from(|name| std::env::var(name).ok())?;
    let (mut figures, mut destinations) = (Vec::new(), String::new());
    for part in &settings.parts {
        let (found, where_to) = match part {
            Part::Whole => Box::pin(whole(&settings)).await?,
            Part::Core => Box::pin(cores(&settings)).await?,
        };
        print(&found);
        figures.extend(found);
        destinations += &where_to;
    }
    println!("{destinations}");
    let missed: Vec<_> =
        figures.iter().filter(|figure| !figure.is_met()).map(|figure| figure.name.as_str()).collect();
    ensure!(missed.is_empty(), "{} bars are missed: {}", missed.len(), missed.join("; "));
    Ok(())
}

async fn whole(settings: &Settings) -> Result<(Vec<Figure>, String)> {
    let mut shapes: Vec<Shape> =
        settings.clusters.iter().map(|clusters| Shape { clusters: *clusters, workers: WORKERS }).collect();
    if settings.machines > 1 {
        shapes.push(Shape { clusters: 1, workers: settings.machines - 1 });
    }
    let mut measured: Vec<_> = shapes.into_iter().map(|shape| (shape, Vec::new())).collect();
    for run in 1..=settings.runs {
        eprintln!("run {run} of {}", settings.runs);
        for (shape, runs) in &mut measured {
            runs.push(Box::pin(whole::measure(*shape, settings.idle)).await?);
        }
    }
    let last = measured.iter().filter_map(|(shape, runs)| Some(whole::destinations(*shape, runs.last()?)));
    Ok((whole::report(&measured), last.collect()))
}

async fn cores(settings: &Settings) -> Result<(Vec<Figure>, String)> {
    let (mut ours, mut upstream) = (Vec::new(), Vec::new());
    for run in 1..=settings.runs {
        eprintln!("run {run} of {}", settings.runs);
        let mut order = [Contender::Upstream, Contender::Ours];
        if run % 2 == 0 {
            order.reverse();
        }
        for contender in order {
            let figures =
                Box::pin(core_managers::measure(contender, settings.core_clusters, settings.idle)).await?;
            match contender {
                Contender::Upstream => upstream.push(figures),
                Contender::Ours => ours.push(figures),
            }
        }
    }
    let last = [("our", ours.last()), ("upstream's", upstream.last())];
    let last = last.into_iter().filter_map(|(whose, run)| Some(core_managers::destinations(whose, run?)));
    let last = last.collect();
    Ok((core_managers::report(settings.core_clusters, &ours, &upstream), last))
}

fn print(figures: &[Figure]) {
    let rows: Vec<Vec<String>> = figures.iter().map(|figure| figure.row().to_vec()).collect();
    println!("{}", table(&["", "Capstan", "beside", "ratio", "spread", "bar"], &rows));
}
