//! `capstan host check`: reports what would prevent hosts from working. It only reads; it changes nothing on a host.

use anyhow::{Context, Result};
use capstan_api::infrastructure::Host;
use capstan_infrastructure::HostKind;
use capstan_ssh::check::{Level, Report};
use capstan_ssh::{RegisteredDriver, SshDriver};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::ListParams;
use std::fmt::Write as _;
use std::time::Duration;

use super::args::CheckArgs;
use super::{Exit, UNUSABLE, read};
use crate::client::Place;
use crate::terminal::{Color, Look, Progress, harmless};

/// Hosts that are looked at, at the same time.
const AT_ONCE: usize = 16;
/// How often `--watch` looks at them.
const PAUSE: Duration = Duration::from_secs(5);

pub(super) async fn run(args: &CheckArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let drivers = Drivers {
        ssh: SshDriver::new(place.client.clone()),
        registered: RegisteredDriver::new(place.client.clone()),
    };
    let find = async || check(args, &place, &drivers).await;
    let text = |reports: &Vec<Report>, look: Look| {
        look.fit(&reports.iter().map(|report| render(report, look)).collect::<String>())
    };
    let reports = args.show.show(PAUSE, find, text).await?;
    if reports.iter().all(|report| report.usable) { Ok(()) } else { Err(Exit(UNUSABLE).into()) }
}

struct Drivers {
    ssh: SshDriver,
    registered: RegisteredDriver,
}

async fn check(args: &CheckArgs, place: &Place, drivers: &Drivers) -> Result<Vec<Report>> {
    let mut hosts = Vec::new();
    if args.all {
        let list = place.hosts().list(&ListParams::default()).await;
        hosts = list.with_context(|| format!("cannot list Hosts in {}", place.namespace))?.items;
    }
    for name in &args.names {
        hosts.push(read(place, name).await?);
    }
    let progress = Progress::new();
    let show = |done: usize| progress.show(&format!("checked {done} of {}", hosts.len()));
    show(0);
    let mut looking = futures::stream::iter(&hosts).map(|host| look(drivers, host)).buffer_unordered(AT_ONCE);
    let mut reports: Vec<Report> = Vec::new();
    while let Some(report) = looking.next().await {
        reports.push(report);
        show(reports.len());
    }
    reports.sort_by(|a, b| a.host.cmp(&b.host));
    Ok(reports)
}

async fn look(drivers: &Drivers, host: &Host) -> Report {
    match HostKind::of(host) {
        HostKind::Ssh => drivers.ssh.check(host).await,
        HostKind::Registered => drivers.registered.check(host).await,
        // No machine stands behind it.
        HostKind::Simulated => Report { host: host.name_any(), usable: true, findings: Vec::new() },
    }
}

fn render(report: &Report, look: Look) -> String {
    let verdict = match report.usable {
        true => look.paint(Color::Green, "can be used"),
        false => look.paint(Color::Red, "cannot be used"),
    };
    let mut text = format!("{}: {verdict}\n", report.host);
    for finding in &report.findings {
        let (level, color) = match finding.level {
            Level::Problem => ("problem", Color::Red),
            Level::Warning => ("warning", Color::Yellow),
            Level::Note => ("note", Color::Gray),
        };
        let level = look.paint(color, &format!("{level:<8}"));
        // Writing to a String cannot fail.
        _ = writeln!(text, "  {level} {}: {}", finding.subject, harmless(&finding.message));
        if let Some(remedy) = &finding.remedy {
            _ = writeln!(text, "  {:<8} → {remedy}", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_ssh::check::Finding;

    #[test]
    fn a_problem_stands_with_its_remedy() {
        let finding = Finding {
            level: Level::Problem,
            subject: "ports",
            message: "port 6443 is in use".to_owned(),
            remedy: Some("stop who listens there".to_owned()),
        };
        let report = Report { host: "rack-1".to_owned(), usable: false, findings: vec![finding] };
        assert_eq!(
            render(&report, Look::default()),
            "rack-1: cannot be used\n  problem  ports: port 6443 is in use\n           → stop who listens there\n"
        );
    }
}
