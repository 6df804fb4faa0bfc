//! The results of both core managers, with their limits.

use capstan_benches::fleet::figures::{Bar, Figure};

use super::Figures;
use crate::show::{requests, writes};

/// Percent of a core at rest.
const MOST_IDLE: f64 = 2.0;

/// The figures, run by run: ours and upstream's of the same round.
pub(crate) fn report(clusters: usize, ours: &[Figures], upstream: &[Figures]) -> Vec<Figure> {
    let values = |runs: &[Figures], of: &dyn Fn(&Figures) -> f64| runs.iter().map(of).collect::<Vec<_>>();
    let beside = |what: &str, unit, of: &dyn Fn(&Figures) -> f64, bar| {
        Figure::beside(
            format!("{clusters} clusters: {what}"),
            unit,
            values(ours, of),
            values(upstream, of),
            bar,
        )
    };
    let each = |of: fn(&Figures) -> u64| move |run: &Figures| of(run) as f64 / run.machines;
    let a_minute = |run: &Figures| run.idle.controllers.total().requests as f64 * 60.0 / run.idle_seconds;
    let mut figures = Vec::new();
    for place in 0..ours.first().map_or(0, |run| run.phases.len()) {
        let what = format!("until all are {}", ours[0].phases[place].0);
        figures.push(beside(&what, " s", &|run| run.phases[place].1, Bar::None));
    }
    let wall = |run: &Figures| run.phases.iter().map(|(_, seconds)| seconds).sum();
    let idle = Figure::alone(
        format!("{clusters} clusters: our CPU at rest, of one core"),
        " %",
        values(ours, &|run| run.idle_processor),
        Bar::AtMost(MOST_IDLE),
    );
    figures.extend([
        beside("all phases", " s", &wall, Bar::AtMostWithinSpread(1.0)),
        beside("CPU", " s", &|run| run.processor, Bar::AtMost(0.5)),
        beside("peak resident memory", " MB", &|run| run.peak, Bar::AtMost(1.0 / 3.0)),
        beside("resident memory at the start", " MB", &|run| run.started_memory, Bar::None),
        beside(
            "requests for each machine",
            "",
            &each(|run| run.traffic.controllers.total().requests),
            Bar::AtMost(0.5),
        ),
        beside("writes for each machine", "", &each(|run| run.traffic.controllers.total().writes), Bar::None),
        beside("conflicts", "", &|run| run.traffic.controllers.total().conflicts as f64, Bar::AtMost(1.0)),
        beside("requests of all clients for each machine", "", &|run| run.answered / run.machines, Bar::None),
        beside("machines there have been", "", &|run| run.machines, Bar::None),
        beside("requests in a minute at rest", "", &a_minute, Bar::AtMost(1.0)),
        beside("CPU at rest, of one core", " %", &|run| run.idle_processor, Bar::None),
        idle,
        beside("phases without rest", "", &|run| run.not_idle as f64, Bar::None),
    ]);
    figures
}

/// Where the requests of one run went.
pub(crate) fn destinations(whose: &str, run: &Figures) -> String {
    let counts = &run.traffic.controllers;
    let mut text = requests(&format!("{whose} core: requests for each machine"), counts, run.machines);
    text += &writes(&format!("{whose} core: writes for each machine"), counts, run.machines);
    let title = format!("{whose} core: requests in {:.0} s at rest", run.idle_seconds);
    text + &requests(&title, &run.idle.controllers, 1.0)
}
