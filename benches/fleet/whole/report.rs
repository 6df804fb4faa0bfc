//! The results of all of Capstan, with their limits.

use capstan_benches::fleet::figures::{Bar, Figure};

use super::{Figures, Shape};
use crate::show::{requests, writes};
use crate::traffic::Traffic;

/// Writes for each Machine, by controllers and agents, without heartbeats.
const MOST_WRITES: f64 = 40.0;
/// Percent of a core at rest, up to so many clusters.
const MOST_IDLE: (f64, usize) = (2.0, 100);
/// How much more a cluster may cost in a larger fleet.
const FLAT: f64 = 1.2;

/// The figures of each shape, each measured several times. The first shape is the smallest.
pub(crate) fn report(measured: &[(Shape, Vec<Figures>)]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (shape, runs) in measured {
        figures.extend(of_shape(*shape, runs));
    }
    let fleets: Vec<_> =
        measured.iter().filter(|(shape, _)| shape.workers == measured[0].0.workers).collect();
    if let Some(((small, few), larger)) = fleets.split_first() {
        for (large, many) in larger {
            let name = |what: &str| {
                format!("{what} for each cluster, {} clusters beside {}", large.clusters, small.clusters)
            };
            let each = |shape: &Shape, runs: &[Figures], of: &dyn Fn(&Figures) -> f64| -> Vec<f64> {
                runs.iter().map(|run| of(run) / shape.clusters as f64).collect()
            };
            let mut flat = |what: &str, unit, of: &dyn Fn(&Figures) -> f64, bar| {
                let (a, b) = (each(large, many, of), each(small, few, of));
                figures.push(Figure::beside(name(what), unit, a, b, bar));
            };
            flat("CPU", " s", &|run| run.processor, Bar::AtMost(FLAT));
            let sent = |run: &Figures| run.traffic.sum(|tally| tally.requests) as f64;
            flat("requests", "", &sent, Bar::AtMost(FLAT));
            flat("wall time", " s", &|run| run.wall, Bar::None);
        }
    }
    figures
}

fn of_shape(shape: Shape, runs: &[Figures]) -> Vec<Figure> {
    let fleet = match shape.clusters {
        1 => format!("1 cluster, {} machines", shape.machines()),
        clusters => format!("{clusters} clusters"),
    };
    let machines = shape.machines() as f64;
    let alone = |what: &str, unit, of: &dyn Fn(&Figures) -> f64, bar| {
        Figure::alone(format!("{fleet}: {what}"), unit, runs.iter().map(of).collect(), bar)
    };
    let written = |run: &Figures| run.traffic.sum(|tally| tally.writes) as f64 / machines;
    let most_idle = if shape.clusters <= MOST_IDLE.1 { Bar::AtMost(MOST_IDLE.0) } else { Bar::None };
    let a_minute = |run: &Figures, count: u64| count as f64 * 60.0 / run.idle_seconds;
    vec![
        alone("until every machine is ready", " s", &|run| run.wall, Bar::None),
        alone("CPU until settled", " s", &|run| run.processor, Bar::None),
        alone("peak resident memory", " MB", &|run| run.peak, Bar::None),
        alone("writes for each machine", "", &written, Bar::AtMost(MOST_WRITES)),
        alone(
            "of these by agents",
            "",
            &|run| run.traffic.machines.total().writes as f64 / machines,
            Bar::None,
        ),
        alone("changes in the store for each machine", "", &|run| run.stored / machines, Bar::None),
        alone(
            "requests of controllers for each machine",
            "",
            &|run| run.traffic.controllers.total().requests as f64 / machines,
            Bar::None,
        ),
        alone(
            "conflicts for each machine",
            "",
            &|run| run.traffic.sum(|tally| tally.conflicts) as f64 / machines,
            Bar::None,
        ),
        alone("CPU at rest, of one core", " %", &|run| run.idle_processor, most_idle),
        alone("resident memory at rest", " MB", &|run| run.idle_memory, Bar::None),
        alone(
            "requests of controllers in a minute at rest",
            "",
            &|run| a_minute(run, run.idle.controllers.total().requests),
            Bar::None,
        ),
        alone(
            "writes of controllers in a minute at rest",
            "",
            &|run| a_minute(run, run.idle.controllers.total().writes),
            Bar::None,
        ),
        alone(
            "requests of agents in a minute at rest",
            "",
            &|run| a_minute(run, run.idle.machines.total().requests),
            Bar::None,
        ),
        one_more(&fleet, runs, "CPU", " s", |one| one.processor),
        one_more(&fleet, runs, "wall time", " s", |one| one.wall),
        one_more(&fleet, runs, "writes", "", |one| one.writes),
        one_more(&fleet, runs, "requests of controllers", "", |one| one.requests),
        alone(
            "writes of controllers after a restart",
            "",
            &|run| run.restart.controllers.total().writes as f64,
            Bar::AtMost(0.0),
        ),
        alone("changes in the store after a restart", "", &|run| run.restart_stored, Bar::None),
        alone(
            "writes of agents after a restart",
            "",
            &|run| run.restart.machines.total().writes as f64,
            Bar::None,
        ),
        alone(
            "requests of controllers after a restart, for each machine",
            "",
            &|run| run.restart.controllers.total().requests as f64 / machines,
            Bar::None,
        ),
        alone("restart until ready", " s", &|run| run.restart_ready, Bar::None),
        alone("restart until the last request", " s", &|run| run.restart_settled, Bar::None),
        alone("CPU of a restart until settled", " s", &|run| run.restart_processor, Bar::None),
        alone("phases without rest", "", &|run| run.not_idle as f64, Bar::AtMost(0.0)),
    ]
}

fn one_more(
    fleet: &str,
    runs: &[Figures],
    what: &str,
    unit: &'static str,
    of: fn(&super::OneMore) -> f64,
) -> Figure {
    let [empty, full] = [0, 1].map(|place| runs.iter().map(|run| of(&run.one_more[place])).collect());
    let name = format!("{fleet}: {what} of one more machine, beside an empty plane");
    Figure::beside(name, unit, full, empty, Bar::None)
}

/// Where the requests of the last run of a shape went.
pub(crate) fn destinations(shape: Shape, run: &Figures) -> String {
    let machines = shape.machines() as f64;
    let part = |what: &str, traffic: &Traffic, of: f64| {
        let mut text = requests(&format!("{what}: requests of controllers"), &traffic.controllers, of);
        text += &writes(&format!("{what}: writes of controllers"), &traffic.controllers, of);
        text + &requests(&format!("{what}: requests of agents"), &traffic.machines, of)
    };
    let fleet = format!("{} clusters, {machines} machines", shape.clusters);
    let mut text = part(&format!("{fleet}, created (for each machine)"), &run.traffic, machines);
    text += &part(&format!("{fleet}, at rest ({:.0} s in all)", run.idle_seconds), &run.idle, 1.0);
    text + &part(&format!("{fleet}, restarted (in all)"), &run.restart, 1.0)
}
