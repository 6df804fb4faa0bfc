//! Clusters, machines and hosts as tables. Pure.

use capstan_ui::model::{ClusterRow, Count, Fleet, HostRow, Hosts, Tone, Waiting};
use jiff::Timestamp;

use super::page::{Body, Paint, PaintedText, Row, Shown, Table, TextLine, ago, matches};
use super::state::{Name, View};
use crate::ui::{MachineRow, Machines};

const CLUSTERS: &[&str] =
    &["NAMESPACE", "NAME", "VERSION", "HEALTH", "PHASE", "CONTROL PLANE", "WORKERS", "FOR", "WAITING FOR"];
const MACHINES: &[&str] =
    &["CLUSTER", "NAME", "ROLE", "PHASE", "VERSION", "NODE", "HOST", "FOR", "WAITING FOR", "WHO MUST ACT"];
const HOSTS: &[&str] = &["NAMESPACE", "NAME", "STATE", "FAILURE DOMAIN", "CLUSTER", "MACHINE", "PROBLEM"];

pub(super) fn clusters(fleet: &Fleet, filter: &str, now: Timestamp) -> Shown {
    let rows = fleet.clusters.iter().map(|row| cluster(row, now));
    let table = filtered(rows, CLUSTERS, filter, "No clusters.");
    Shown { summary: vec![counts(&fleet.totals)], body: Body::Table(table), notices: fleet.notices.clone() }
}

fn cluster(row: &ClusterRow, now: Timestamp) -> Row {
    let name = Name { namespace: row.namespace.clone(), name: row.name.clone() };
    let waits = row.waiting.as_ref();
    Row {
        cells: vec![
            PaintedText::new(&row.namespace, Paint::Dim),
            PaintedText::new(&row.name, Paint::Plain),
            PaintedText::new(&row.version, Paint::Plain),
            PaintedText::new(&row.health, Paint::Tone(row.tone)),
            PaintedText::new(&row.phase, Paint::Plain),
            PaintedText::new(&row.servers, Paint::Tone(share(&row.servers))),
            PaintedText::new(&row.workers, Paint::Tone(share(&row.workers))),
            PaintedText::new(&ago(waits.and_then(|waits| waits.since.as_ref()), now), Paint::Plain),
            PaintedText::new(&waits.map(reason).unwrap_or_default(), Paint::Tone(Tone::Waiting)),
        ],
        opens: View::Machines(Some(name.clone())),
        details: View::Cluster(name.clone()),
        name,
        note: waits.map(|waits| note(waits, now)).unwrap_or_default(),
    }
}

pub(super) fn machines(machines: &Machines, filter: &str, now: Timestamp) -> Shown {
    let rows = machines.machines.iter().map(|row| machine(row, now));
    let summary = machines.cluster.as_ref().map(|cluster| summary(cluster, now)).unwrap_or_default();
    let table = filtered(rows, MACHINES, filter, "No machines.");
    Shown { summary, body: Body::Table(table), notices: machines.notices.clone() }
}

/// The cluster whose machines are listed.
fn summary(cluster: &ClusterRow, now: Timestamp) -> Vec<TextLine> {
    let line = TextLine::at(1)
        .with(&format!("{}/{}", cluster.namespace, cluster.name), Paint::Title)
        .with(&cluster.health, Paint::Tone(cluster.tone))
        .with(&cluster.phase, Paint::Plain)
        .with(&cluster.version, Paint::Plain)
        .with(&labelled("control plane", &cluster.servers), Paint::Tone(share(&cluster.servers)))
        .with(&labelled("workers", &cluster.workers), Paint::Tone(share(&cluster.workers)));
    let waits = cluster.waiting.as_ref().map(|waits| {
        let since = ago(waits.since.as_ref(), now);
        let since = if since.is_empty() { since } else { format!("for {since}") };
        TextLine::at(1)
            .with("waits for", Paint::Dim)
            .with(&reason(waits), Paint::Tone(Tone::Waiting))
            .with(&since, Paint::Plain)
    });
    std::iter::once(line).chain(waits).collect()
}

fn labelled(label: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{label} {value}") }
}

fn machine(row: &MachineRow, now: Timestamp) -> Row {
    let name = Name { namespace: row.namespace.clone(), name: row.name.clone() };
    let waits = row.waiting.as_ref();
    let role = if row.is_server { "control-plane" } else { "worker" };
    Row {
        cells: vec![
            PaintedText::new(&row.cluster, Paint::Dim),
            PaintedText::new(&row.name, Paint::Plain),
            PaintedText::new(role, Paint::Plain),
            PaintedText::new(&row.phase, Paint::Tone(row.tone)),
            PaintedText::new(&row.version, Paint::Plain),
            PaintedText::new(&row.node, Paint::Plain),
            PaintedText::new(&row.host, Paint::Plain),
            PaintedText::new(&ago(waits.and_then(|waits| waits.since.as_ref()), now), Paint::Plain),
            PaintedText::new(&waits.map(reason).unwrap_or_default(), Paint::Tone(Tone::Waiting)),
            PaintedText::new(waits.map(|waits| waits.owner.as_str()).unwrap_or_default(), Paint::Plain),
        ],
        opens: View::Machine(name.clone()),
        details: View::Machine(name.clone()),
        name,
        note: waits.map(|waits| note(waits, now)).unwrap_or_default(),
    }
}

pub(super) fn hosts(hosts: &Hosts, filter: &str) -> Shown {
    let table = filtered(hosts.hosts.iter().map(host), HOSTS, filter, "No hosts.");
    Shown { summary: vec![counts(&hosts.states)], body: Body::Table(table), notices: hosts.notices.clone() }
}

fn host(row: &HostRow) -> Row {
    let name = Name { namespace: row.namespace.clone(), name: row.name.clone() };
    let note = match row.reason.is_empty() {
        true => Vec::new(),
        false => vec![(row.reason.clone(), Paint::Tone(row.tone)), (row.problem.clone(), Paint::Plain)],
    };
    Row {
        cells: vec![
            PaintedText::new(&row.namespace, Paint::Dim),
            PaintedText::new(&row.name, Paint::Plain),
            PaintedText::new(&row.state, Paint::Tone(row.tone)),
            PaintedText::new(&row.domain, Paint::Plain),
            PaintedText::new(&row.cluster, Paint::Plain),
            PaintedText::new(&row.machine, Paint::Plain),
            PaintedText::new(&row.reason, Paint::Tone(row.tone)),
        ],
        opens: View::Host(name.clone()),
        details: View::Host(name.clone()),
        name,
        note,
    }
}

/// Reason and object.
fn reason(waits: &Waiting) -> String {
    let reason = if waits.reason.is_empty() { "no reason given" } else { &waits.reason };
    if waits.object.is_empty() { reason.to_owned() } else { format!("{reason} ({})", waits.object) }
}

/// What is said of a wait when its row is selected.
fn note(waits: &Waiting, now: Timestamp) -> Vec<(String, Paint)> {
    let since = ago(waits.since.as_ref(), now);
    let since = if since.is_empty() { since } else { format!(", for {since}") };
    let mut note = vec![(format!("{}{since}", reason(waits)), Paint::Tone(Tone::Waiting))];
    if !waits.owner.is_empty() {
        note.push((format!("Who must act: {}", waits.owner), Paint::Plain));
    }
    note.push((waits.message.clone(), Paint::Plain));
    note
}

/// Ready machines of those that are wanted.
fn share(text: &str) -> Tone {
    match text.split_once('/') {
        Some((ready, wanted)) if ready == wanted => Tone::Good,
        Some(_) => Tone::Waiting,
        None => Tone::Neutral,
    }
}

pub(super) fn counts(counts: &[Count]) -> TextLine {
    counts.iter().enumerate().fold(TextLine::at(1), |line, (index, count)| {
        let line = if index > 0 { line.with("·", Paint::Dim) } else { line };
        line.with(&format!("{} {}", count.count, count.label), Paint::Tone(count.tone))
    })
}

/// Rows whose cells match. What objects wait for is known of rows on the screen only, so it is not searched.
fn filtered(
    rows: impl Iterator<Item = Row>,
    titles: &'static [&'static str],
    filter: &str,
    empty: &'static str,
) -> Table {
    let searched = titles.iter().position(|title| *title == "FOR").unwrap_or(titles.len());
    let is_wanted = |row: &Row| {
        row.cells.iter().take(searched).any(|cell| matches(cell.text.as_str(), filter)) || filter.is_empty()
    };
    let rows: Vec<Row> = rows.collect();
    let total = rows.len();
    let rows = rows.into_iter().filter(is_wanted).collect();
    Table {
        titles,
        rows,
        total,
        empty: if filter.is_empty() { empty } else { "Nothing matches the filter." },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Fleet {
        let row = |name: &str, health: &str| ClusterRow {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            health: health.to_owned(),
            servers: "1/3".to_owned(),
            waiting: Some(Waiting {
                object: "HostMachine/a".to_owned(),
                reason: "NoHostAvailable".to_owned(),
                ..Waiting::default()
            }),
            ..ClusterRow::default()
        };
        Fleet { clusters: vec![row("shop", "available"), row("bank", "not available")], ..Fleet::default() }
    }

    #[test]
    fn a_filter_searches_all_cells_but_not_the_wait() {
        let found = |filter: &str| {
            let shown = clusters(&fleet(), filter, Timestamp::UNIX_EPOCH);
            shown.rows().iter().map(|row| row.name.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(found(""), ["shop", "bank"]);
        assert_eq!(found("SHO"), ["shop"]);
        assert_eq!(found("not av"), ["bank"]);
        assert_eq!(found("default"), ["shop", "bank"]);
        assert!(found("nohost").is_empty(), "it is known of some rows only");
    }

    #[test]
    fn every_row_has_a_cell_for_every_title() {
        assert_eq!(cluster(&ClusterRow::default(), Timestamp::UNIX_EPOCH).cells.len(), CLUSTERS.len());
        assert_eq!(machine(&MachineRow::default(), Timestamp::UNIX_EPOCH).cells.len(), MACHINES.len());
        assert_eq!(host(&HostRow::default()).cells.len(), HOSTS.len());
    }

    #[test]
    fn the_filter_shows_how_many_rows_it_hides() {
        let Body::Table(table) = clusters(&fleet(), "shop", Timestamp::UNIX_EPOCH).body else {
            unreachable!()
        };
        assert_eq!((table.rows.len(), table.total), (1, 2));
    }
}
