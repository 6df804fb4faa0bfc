//! `capstan host check`: what would stop hosts from working. Only asks; nothing on a host is changed.

use anyhow::{Context, Result};
use capstan_api::infrastructure::Host;
use capstan_ssh::SshDriver;
use capstan_ssh::check::{Level, Report};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::ListParams;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use super::args::CheckArgs;
use super::{Exit, UNUSABLE, read};

/// Hosts that are looked at, at the same time.
const AT_ONCE: usize = 16;

pub(super) async fn run(args: &CheckArgs) -> Result<()> {
    let place = args.place.connect().await?;
    let namespace = &place.namespace;
    let mut hosts = Vec::new();
    if args.all {
        let list = place.hosts().list(&ListParams::default()).await;
        hosts = list.with_context(|| format!("cannot list Hosts in {namespace}"))?.items;
    }
    for name in &args.names {
        hosts.push(read(&place, name).await?);
    }
    let driver = SshDriver::new(place.client.clone());
    let total = hosts.len();
    let progress = std::io::stderr().is_terminal() && total > 1;
    let mut looking = futures::stream::iter(&hosts).map(|host| look(&driver, host)).buffer_unordered(AT_ONCE);
    let mut reports: Vec<Report> = Vec::new();
    while let Some(report) = looking.next().await {
        reports.push(report);
        if progress {
            // A line that is drawn over; nothing is lost if it cannot be.
            _ = write!(std::io::stderr(), "\rchecked {} of {total}\x1b[K", reports.len());
        }
    }
    if progress {
        _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    reports.sort_by(|a, b| a.host.cmp(&b.host));
    let text = match args.output {
        Some(output) => output.print(&reports)?,
        None => reports.iter().map(render).collect(),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    if reports.iter().all(|report| report.usable) { Ok(()) } else { Err(Exit(UNUSABLE).into()) }
}

async fn look(driver: &SshDriver, host: &Host) -> Report {
    match &host.spec.ssh {
        Some(_) => driver.check(host).await,
        // No machine stands behind it.
        None => Report { host: host.name_any(), usable: true, findings: Vec::new() },
    }
}

fn render(report: &Report) -> String {
    let mut text = match report.usable {
        true => format!("{}: can be used\n", report.host),
        false => format!("{}: cannot be used\n", report.host),
    };
    for finding in &report.findings {
        let level = match finding.level {
            Level::Problem => "problem",
            Level::Warning => "warning",
            Level::Note => "note",
        };
        // Writing to a String cannot fail.
        _ = writeln!(text, "  {level:<8} {}: {}", finding.subject, finding.message);
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
            render(&report),
            "rack-1: cannot be used\n  problem  ports: port 6443 is in use\n           → stop who listens there\n"
        );
    }
}
