//! Checks what would prevent a host from working, before it is claimed.
//!
//! A script collects data on the host; [`judge`] decides and is pure.

mod judge;
#[cfg(test)]
mod tests;

pub use judge::judge;

use capstan_api::infrastructure::Host;
use capstan_infrastructure::Reached;
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

use crate::error::SshError;
use crate::facts::{self, plain};
use crate::job::WATCHED;
use crate::script::{Answer, Script};
use crate::work::Work;

const SCRIPT: &str = include_str!("../sh/check.sh");
/// More lines of one sort than a host has a use for.
const MOST: usize = 4096;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// The host does not work.
    Problem,
    /// The host may not work, or not well.
    Warning,
    /// For information.
    Note,
}

/// A finding of a host check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its severity.
    pub level: Level,
    /// Its subject, in one or two words.
    pub subject: &'static str,
    /// What was found.
    pub message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The result of a host check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Name of the Host.
    pub host: String,
    /// Whether the host can be used.
    pub usable: bool,
    /// The findings, the most severe first.
    pub findings: Vec<Finding>,
}

/// What was collected on a host for the check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// Facts and addresses.
    pub reached: Reached,
    /// Whether the scripts run as root.
    pub is_root: bool,
    /// The login user.
    pub user: String,
    /// Clock skew in seconds, positive or negative.
    pub skew: i64,
    /// Whether systemd is the init system.
    pub has_systemd: bool,
    /// Free bytes, by folder.
    pub free: BTreeMap<String, u64>,
    /// TCP ports in use.
    pub listening: BTreeSet<u16>,
    /// Leftovers of an earlier cluster.
    pub left: Vec<String>,
    /// Claims that were not reset.
    pub claims: Vec<String>,
    /// Version of cgroups.
    pub cgroup: Option<u32>,
    /// cgroup controllers.
    pub controllers: BTreeSet<String>,
    /// Swap devices.
    pub swap: Vec<String>,
    /// Programs that exist, of those that are required.
    pub programs: BTreeSet<String>,
    /// Kernel modules that are loaded or can be loaded, of those that are required.
    pub modules: BTreeSet<String>,
}

/// Asks a host for all of it, in one round trip.
pub(crate) async fn collect(work: &Work<'_>) -> Result<Collected, SshError> {
    let script =
        Script::new(&work.settings.root).set("watched", &WATCHED.join(" ")).run(facts::SCRIPT).run(SCRIPT);
    let asked = Timestamp::now();
    let answer = work.ask("looking at the host", &script).await?;
    let mut collected = read(&answer, asked, Timestamp::now());
    collected.user = work.user.to_owned();
    // A tree of its own needs no rights.
    collected.is_root |= !work.settings.needs_root();
    Ok(collected)
}

/// Everything that was found, or why nothing could be.
pub(crate) fn report(collected: Result<&Collected, &SshError>, host: &Host) -> Report {
    let mut findings = match collected {
        Ok(collected) => judge(collected, host),
        Err(error) => vec![Finding {
            level: Level::Problem,
            subject: judge::subject(error),
            message: error.to_string(),
            remedy: None,
        }],
    };
    findings.sort_by_key(|finding| finding.level);
    let usable = findings.iter().all(|finding| finding.level != Level::Problem);
    Report { host: host.name_any(), usable, findings }
}

/// What would stop a machine from working on the host, each with its remedy. That somebody has put it into quarantine is
/// said elsewhere.
pub(crate) fn problems(collected: &Collected, host: &Host) -> Vec<String> {
    let mut host = host.clone();
    host.spec.quarantine = None;
    let found = judge(collected, &host).into_iter().filter(|finding| finding.level == Level::Problem);
    let words = |Finding { subject, message, remedy, .. }: Finding| match remedy {
        Some(remedy) => format!("{subject}: {message}; {remedy}"),
        None => format!("{subject}: {message}"),
    };
    found.map(words).collect()
}

fn read(answer: &Answer, asked: Timestamp, answered: Timestamp) -> Collected {
    let words = |key: &'static str| {
        answer.all(key).take(MOST).map(|word| plain(word, 256)).filter(|word| !word.is_empty())
    };
    let port = |hex: String| u16::from_str_radix(&hex, 16).ok();
    let disk = |line: String| {
        let (folder, kib) = line.split_once(' ')?;
        Some((folder.to_owned(), kib.trim().parse::<u64>().ok()?.saturating_mul(1024)))
    };
    let mut cgroup = answer.get("cgroup").unwrap_or_default().split_whitespace();
    Collected {
        reached: facts::read(answer),
        is_root: answer.get("uid") == Some("0"),
        user: String::new(),
        skew: answer.get("now").and_then(|now| now.parse().ok()).map_or(0, |now| skew(now, asked, answered)),
        has_systemd: answer.get("systemd").is_some(),
        free: words("disk").filter_map(disk).collect(),
        listening: words("listening").filter_map(port).collect(),
        left: words("left").collect(),
        claims: words("claim").collect(),
        cgroup: cgroup.next().and_then(|version| version.parse().ok()),
        controllers: cgroup.flat_map(|name| name.split(',')).map(str::to_owned).collect(),
        swap: words("swap").collect(),
        programs: words("program").collect(),
        modules: words("module").collect(),
    }
}

/// How far a clock is off that showed `theirs` at some moment between two of ours.
fn skew(theirs: i64, asked: Timestamp, answered: Timestamp) -> i64 {
    if theirs < asked.as_second() {
        theirs - asked.as_second()
    } else if theirs > answered.as_second() {
        theirs - answered.as_second()
    } else {
        0
    }
}
